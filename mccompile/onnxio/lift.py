"""A model file as other tools want it: of a newer opset, its weights inside and constant."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ir.names import Names
from mccompile.onnxio.model import KEPT
from mccompile.onnxio.nested import value_names
from mccompile.onnxio.proto import normal_domain
from mccompile.onnxio.raise_opset import raised
from mccompile.onnxio.read import inline_functions, parse, read_bytes
from mccompile.onnxio.write import embed_external, serialize


def lifted(path: str | Path, opset: int) -> tuple[bytes, int]:
    """The bytes of a model of at least ``opset``, and the opset of the file.

    External data is put inside; initializers are no inputs any more; functions of the model's own are inlined, but
    for those whose nodes are others in its opset.

    Raises:
        CompileError: the file is no readable model, or `onnx` cannot convert it.
    """
    path = Path(path)
    proto = parse(read_bytes(path), path)
    embed_external(proto.graph, path)
    opsets = {normal_domain(o.domain): int(o.version) for o in proto.opset_import}
    found = opsets.setdefault("", opset)
    plain = inline_functions(proto, opsets, path)
    if not any(o.domain.startswith(KEPT) for o in plain.opset_import):
        proto = plain
    return serialize(raised(proto, opsets, opset, path)), found


def released(path: Path, held: Collection[str], results: Collection[str]) -> list[str]:
    """Take outputs back that only ``held`` nodes as they are, for no optimiser fuses across an output. The names of
    the nodes that compute ``results``: they have some then."""
    proto = parse(read_bytes(path), path)
    labels = Names(node.name for node in proto.graph.node)
    kept = []
    for i, node in enumerate(proto.graph.node):
        if any(name in results for name in node.output):
            node.name = node.name or labels.fresh(f"{node.op_type}.{i}")
            kept.append(node.name)
    outputs = [v for v in proto.graph.output if v.name not in held]
    del proto.graph.output[:]
    proto.graph.output.extend(outputs)
    path.write_bytes(serialize(proto))
    return kept


def quantisable(path: Path) -> list[str]:
    """Rewrite a model file around what onnxruntime (1.32) quantises wrongly; the names of the nodes it must not take.

    y = x @ w + 2 * b                      y = x @ w + b', b' = 2 * b: it forgets ``beta``
    b : f32[1,5], or f32[1]                b' : f32[5]: it takes the wrong axis for the scales, or finds none
    t = conv(x), relu(t), t an output      t' = conv(x), relu(t'), t = t': it takes the range of the Relu for t's
    clip(t, 1, 6)                          is not to be taken: it leaves it out, and ranges reach to 0
    """
    proto = parse(read_bytes(path), path)
    constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    names = Names(value_names(proto.graph))
    for node in proto.graph.node:
        if node.op_type == "Gemm" and not node.domain and len(node.input) > 2 and node.input[2] in constants:
            _row_bias(proto.graph, node, constants, names)
    _part_outputs(proto.graph, names)
    kept, labels = [], Names(node.name for node in proto.graph.node)
    for i, node in enumerate(proto.graph.node):
        if node.op_type == "Clip" and not node.domain:
            low, high = (constants.get(name) for name in (*node.input[1:3], "", "")[:2])
            if (low is not None and low > 0) or (high is not None and high < 0):
                node.name = node.name or labels.fresh(f"clip.{i}")
                kept.append(node.name)
    path.write_bytes(serialize(proto))
    return kept


def _row_bias(
    graph: onnx.GraphProto, node: onnx.NodeProto, constants: Mapping[str, np.ndarray], names: Names
) -> None:  # fmt: skip
    """Give a Gemm a bias of its own, of one axis where it is the same for all rows, and ``beta`` 1."""
    beta = next((a.f for a in node.attribute if a.name == "beta"), 1.0)
    bias, weights = constants[node.input[2]], constants.get(node.input[1])
    shape = bias.shape
    if bias.ndim < 2 or shape[0] == 1:
        across = any(a.name == "transB" and a.i for a in node.attribute)
        shape = shape[-1:] if weights is None else (weights.shape[0 if across else 1],)
    if beta == 1 and shape == bias.shape:
        return
    own = np.broadcast_to(bias.reshape(-1) if bias.shape != shape else bias, shape)
    own = (own * np.float32(beta) if beta else np.zeros(shape)).astype(bias.dtype)
    name = names.fresh(f"{node.input[2]}.of.{node.output[0]}")
    graph.initializer.append(numpy_helper.from_array(own, name))
    node.input[2] = name
    for attribute in node.attribute:
        if attribute.name == "beta":
            attribute.f = 1.0


def _part_outputs(graph: onnx.GraphProto, names: Names) -> None:
    """Make an output that only a Relu or a Clip reads a copy of what that reads."""
    outputs = {v.name for v in graph.output}
    readers: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            readers.setdefault(name, []).append(node)
    made = []
    for node in graph.node:
        made.append(node)
        for i, name in enumerate(node.output):
            reader = readers.get(name, [])
            first = len(reader) == 1 and reader[0].input[0] == name  # a Clip may read it as a limit
            if name in outputs and first and reader[0].op_type in ("Clip", "Relu"):
                node.output[i] = reader[0].input[0] = inner = names.fresh(f"{name}.inner")
                made.append(helper.make_node("Identity", [inner], [name]))
    if len(made) > len(graph.node):
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in made]
        del graph.node[:]
        graph.node.extend(kept)
