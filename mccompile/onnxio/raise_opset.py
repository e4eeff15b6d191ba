"""Models of an older opset as ones of a newer, by ONNX's own converter.

    Add(axis=1, broadcast=1) of opset 6     is      Unsqueeze of the second operand, Add of opset 7
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

import onnx
from onnx import helper

from mccompile.ir.errors import CompileError
from mccompile.ir.names import Names
from mccompile.onnxio.model import OnnxModel, OnnxNode, node_label
from mccompile.onnxio.nested import all_graphs, all_nodes, inner_graphs, inner_nodes, value_names
from mccompile.onnxio.proto import GraphReader, normal_domain
from mccompile.onnxio.untyped import converted, inferred
from mccompile.onnxio.wellformed import require_wellformed

_OLDEST_IR = 4
"""Older ones demand that every initializer is a graph input, which makes no weight of them."""


def raised(proto: onnx.ModelProto, opsets: Mapping[str, int], opset: int, path: Path) -> onnx.ModelProto:
    """A model of ``opsets`` as one of ``opset``; initializers are no inputs any more.

    Raises CompileError where `onnx` cannot convert it, or nodes have not the form that it takes for granted.
    """
    proto, found, where = _weights_alone(proto), opsets[""], path.name
    if found >= opset:
        return proto
    require_wellformed(OnnxModel(GraphReader(path.parent, where).graph(proto.graph), dict(opsets)))
    if found < 6:
        _state_defaults(proto.graph)
    if found < _RESTATED_OPSET:
        _drop_statistics(proto.graph)
    try:
        if found < _RESTATED_OPSET:
            proto = converted(_restated(_aligned(proto, where), where), _RESTATED_OPSET, _RESTATED)
        return proto if opset <= _RESTATED_OPSET else converted(proto, opset)
    except CompileError:
        raise
    except Exception as e:  # it is C++, and raises what it likes
        rule, label = _reason(str(e).strip() or type(e).__name__, proto.graph)
        hint = f"export it with opset {opset} or a newer one"
        where = f"{where}: {label}" if label else where
        raise CompileError(f"opset {found} cannot be converted to {opset}: {rule}", where=where, hint=hint) from e


_NO_ADAPTER = re.compile(r"No Adapter (?:From Version \S+ )?[Ff]or (\w+)")
_ADAPTER = re.compile(r"adapt_([a-z]+)_\d+_\d+: ")
_ATTRIBUTE = re.compile(r"required undefined attribute '(\w+)'")
_ASSERTION = re.compile(r"^\S+:\d+: .*?: Assertion `.*?` failed: ")


def _reason(said: str, graph: onnx.GraphProto) -> tuple[str, str]:
    """What ONNX's converter said, without the place in its source that asserts it, and the first node of which it may
    speak: "" if none is told."""
    text = said.splitlines()[0]
    missing = _ATTRIBUTE.search(text)
    if missing:
        return f"attribute {missing[1]!r} is missing", _label(graph, "", missing[1])
    lost = _NO_ADAPTER.search(text)
    if lost:
        return f"ONNX's converter does not convert {lost[1]}", _label(graph, lost[1])
    adapter = _ADAPTER.search(text)
    return _ASSERTION.sub("", text), _label(graph, adapter[1]) if adapter else ""


def _label(graph: onnx.GraphProto, op: str, without: str = "") -> str:
    """The first node of that operator, in nested graphs too, or of any that may state an attribute and does not."""
    for place, outer in enumerate(graph.node):
        for depth, node in enumerate(inner_nodes([outer])):
            if normal_domain(node.domain):
                continue
            if node.op_type.lower() == op.lower() if op else _lacks(node, without):
                return node_label(OnnxNode(node.op_type, (), (), "", node.name, {}, -1 if depth else place))
    return ""


def _lacks(node: onnx.NodeProto, attribute: str) -> bool:
    """Whether the node's operator has such an attribute in some opset, and the node has it not."""
    versions = [s for s in onnx.defs.get_all_schemas_with_history() if s.name == node.op_type and s.domain == ""]
    return any(attribute in s.attributes for s in versions) and attribute not in {a.name for a in node.attribute}


def _weights_alone(proto: onnx.ModelProto) -> onnx.ModelProto:
    """The model in a form of the IR whose initializers are no inputs."""
    weights = {t.name for t in proto.graph.initializer}
    inputs = [v for v in proto.graph.input if v.name not in weights]
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    proto.ir_version = max(proto.ir_version, _OLDEST_IR)
    return proto


_SELU_1 = {"alpha": 1.6732, "gamma": 1.0507}
"""What Selu takes below opset 6 where it states nothing; from then on they have more digits."""


def _state_defaults(graph: onnx.GraphProto) -> None:
    """Write out, in nested graphs too, what a node leaves to defaults that another opset changes: the converter
    leaves it to those of the newer one."""
    for node in all_nodes(graph):
        if node.op_type == "Selu" and not normal_domain(node.domain):
            missing = _SELU_1.keys() - {a.name for a in node.attribute}
            node.attribute.extend(helper.make_attribute(name, _SELU_1[name]) for name in sorted(missing))


def _drop_statistics(graph: onnx.GraphProto) -> None:
    """Leave BatchNormalization with `is_test` its first result, in nested graphs too: without that attribute, which
    opset 7 has not, other outputs say that it trains."""
    for node in all_nodes(graph):
        if node.op_type == "BatchNormalization" and any(a.name == "is_test" and a.i for a in node.attribute):
            del node.output[1:]


_BROADCAST = ("Add", "Sub", "Mul", "Div", "And", "Or", "Xor", "Equal", "Greater", "Less", "Pow")
_RESTATED_OPSET = 7
_RESTATED: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys((*_BROADCAST, "Gemm"), ("broadcast", "consumed_inputs")),
    **dict.fromkeys(("LSTM", "GRU", "RNN"), ("output_sequence",)),
    "Upsample": ("width_scale", "height_scale"),
}
"""Operators that have the meaning of opset 7 without these attributes (Upsample with its scales in one). Some of them
ONNX's converter does not know; of others it asks for shapes, which nothing tells behind what inference does not know.
"""


def _restated(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Without the attributes of `_RESTATED`, in nested graphs too. Operands are aligned already; an axis that is not
    stays, and is refused as what the newer form does not have."""
    for node in all_nodes(proto.graph):
        if not normal_domain(node.domain):
            if node.op_type == "Upsample":
                _join_scales(node, proto.graph, where)
            _leave_out(node, _RESTATED.get(node.op_type, ()))
    return proto


def _join_scales(node: onnx.NodeProto, graph: onnx.GraphProto, where: str) -> None:
    """The scales of an image as those of all its axes; CompileError without one of the two."""
    given = {a.name: a.f for a in node.attribute if a.name in _RESTATED["Upsample"]}
    for name in _RESTATED["Upsample"] if given else ():
        if name not in given:
            raise CompileError(f"attribute {name!r} is missing", where=f"{where}: {_label(graph, '', name)}")
    if given:
        scales = [1.0, 1.0, given["height_scale"], given["width_scale"]]
        node.attribute.append(helper.make_attribute("scales", scales))


def _leave_out(node: onnx.NodeProto, names: Collection[str]) -> None:
    """Leave a node without attributes of those names."""
    kept = [a for a in node.attribute if a.name not in names]
    if len(kept) < len(node.attribute):
        del node.attribute[:]
        node.attribute.extend(kept)


_Shape = tuple[int, ...]
"""The extents of a value, 0 for what is not known."""
_ALIKE = ("Concat", "Max", "Mean", "Min", "Sum")
"""What has as many axes as each operand."""
_OF_ONE_RANK = frozenset(
    "Abs Affine AveragePool BatchNormalization Cast Ceil Clip Conv ConvTranspose Crop DepthToSpace Dropout Elu Exp "
    "Floor GlobalAveragePool GlobalLpPool GlobalMaxPool HardSigmoid Hardmax Identity ImageScaler "
    "InstanceNormalization LRN LeakyRelu Log LogSoftmax LpNormalization LpPool MaxPool Neg Not PRelu Pad "
    "ParametricSoftplus Reciprocal Relu ScaledTanh Selu Sigmoid Slice Softmax Softplus Softsign SpaceToDepth Split "
    "Sqrt Tanh ThresholdedRelu Tile Transpose Upsample".split()
).union(_BROADCAST, _ALIKE)
"""What has as many axes as its first operand below opset 7, where inference knows little of some, and nothing of what
reads these."""
_MATRICES = ("Flatten", "Gemm")
"""What has two axes."""


def _aligned(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    """Below opset 7 the axes of a second operand begin at ``axis`` of the first, from then on they end with its axes.

    A slope [C] of PRelu, whose axis is 1, becomes [C, 1, 1] for an operand of rank 4. The converter leaves that as it
    is, and takes some of the others wrong. CompileError where that takes a rank that nothing tells.
    """
    if any(node.op_type in ("PRelu", "Gemm", *_BROADCAST) for node in all_nodes(proto.graph)):
        for graph in all_graphs(proto.graph):
            for value in (*graph.output, *graph.value_info):
                if not value.type.tensor_type.shape.dim:  # old exporters have it where extents are not known
                    value.type.tensor_type.ClearField("shape")
        _align(proto.graph, inferred(proto).graph, where, Names(value_names(proto.graph)))
    return proto


def _align(
    graph: onnx.GraphProto,
    typed: onnx.GraphProto,
    where: str,
    names: Names,
    outer: Mapping[str, _Shape] | None = None,
) -> None:
    """Align operands in a graph and those inside of it; ``typed`` is the same one with what is inferred, ``outer``
    has what is known of values around a nested one, ``names`` those of all values."""
    shapes = {**(outer or {}), **_shapes(typed)}
    nodes = []
    for place, (node, same) in enumerate(zip(graph.node, typed.node, strict=True)):
        _tell_rank(node, shapes)
        for own, known in zip(inner_graphs(node), inner_graphs(same), strict=True):
            _align(own, known, where, names, shapes)
        axis = _first_axis(node)
        if axis is not None and len(node.input) == 2:
            behind = _axes_behind(node, axis, shapes)
            if behind is None:
                index = place if outer is None else -1
                raise CompileError(
                    f"operand 1 begins at axis {axis} of operand 0, and nothing tells how many axes they have",
                    where=f"{where}: {node_label(OnnxNode(node.op_type, (), (), '', node.name, {}, index))}",
                    hint="export it with opset 7 or a newer one, or state their shapes",
                )
            if behind:
                wide = names.fresh(f"{node.output[0]}/second")
                nodes.append(helper.make_node("Unsqueeze", [node.input[1]], [wide], axes=behind))
                node.input[1] = wide
        _leave_out(node, ("axis",) if axis is not None or _ends_together(node) else ())
        nodes.append(onnx.NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(nodes)


def _tell_rank(node: onnx.NodeProto, shapes: dict[str, _Shape]) -> None:
    """Add what follows from an operator's name, or from the shape that a Reshape has for an attribute."""
    if normal_domain(node.domain) or not node.input or not node.output:
        return
    stated = {a.name: a for a in node.attribute}
    if node.op_type in _MATRICES:
        shapes.setdefault(node.output[0], (0, 0))
    elif node.op_type == "Reshape" and "shape" in stated:
        shapes.setdefault(node.output[0], (0,) * len(stated["shape"].ints))
    elif node.op_type in _OF_ONE_RANK or (node.op_type.startswith("Reduce") and _keeps_axes(stated)):
        ends = [*node.input[: None if node.op_type in _ALIKE else 1], *node.output[: _alike_outputs(node)]]
        known = next((shapes[name] for name in ends if name in shapes), None)
        for name in ends if known is not None else ():
            shapes.setdefault(name, (0,) * len(known or ()))


def _keeps_axes(stated: Mapping[str, onnx.AttributeProto]) -> bool:
    return "keepdims" not in stated or stated["keepdims"].i != 0


def _alike_outputs(node: onnx.NodeProto) -> int:
    """How many outputs have as many axes as the first."""
    return len(node.output) if node.op_type == "Split" else 1


def _axes_behind(node: onnx.NodeProto, axis: int, shapes: Mapping[str, _Shape]) -> list[int] | None:
    """The axes of extent 1 that the second operand gets behind its own, so that these begin at ``axis`` of the first.
    None where it is not known which these are."""
    first, second = (shapes.get(name) for name in node.input)
    if (second is not None and all(e == 1 for e in second)) or (first is not None and len(first) - axis <= 1):
        return []
    if first is None or second is None:
        return None
    return list(range(len(second), len(first) - axis))


def _first_axis(node: onnx.NodeProto) -> int | None:
    """The axis of its first operand at which those of the second begin, if the node states one."""
    if normal_domain(node.domain):
        return None
    if node.op_type == "PRelu":
        return 1
    stated = {a.name: a.i for a in node.attribute}
    axis = stated.get("axis")
    return axis if node.op_type in _BROADCAST and stated.get("broadcast") and axis is not None and axis >= 0 else None


def _ends_together(node: onnx.NodeProto) -> bool:
    """Whether a node says that its operands end with the same axis, as they do without that: by -1, as in Caffe2."""
    ends = any(a.name == "axis" and a.i == -1 for a in node.attribute)
    return ends and node.op_type in _BROADCAST and not normal_domain(node.domain)


def _shapes(graph: onnx.GraphProto) -> dict[str, _Shape]:
    """The shapes of values of which it is known how many axes there are."""
    shapes = {t.name: tuple(t.dims) for t in graph.initializer}
    for v in (*graph.input, *graph.value_info, *graph.output):
        if v.type.tensor_type.HasField("shape"):
            shapes[v.name] = tuple(d.dim_value for d in v.type.tensor_type.shape.dim)
    return shapes
