"""Old or training forms of layers: normalization, Softmax, Dropout, recurrent cells; and small renamings."""

from __future__ import annotations

import dataclasses

import numpy as np

from mccompile.importer.rewriting import (
    EVERY_VERSION,
    Rewrite,
    Scope,
    derived,
    int_attr,
    str_attr,
    with_attrs,
    with_inputs,
)
from mccompile.ir.errors import CompileError
from mccompile.onnxio import AttrValue, OnnxGraph, OnnxNode, OnnxValue, dtype_number, node_label

_TRAINING_HINT = "export the model for inference (in PyTorch: model.eval() before the export)"


def _batch_norm(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Every BatchNormalization: with one output, unless it trains and its new statistics are asked for; older forms
    that make these are refused. Before there was `training_mode` (14), outputs that are named said that it trains,
    whether something reads them or not.

    What only normalises by the statistics of its own operand stays: PyTorch exports standardised weights like that.
    """
    if not int_attr(node, "spatial", 1) and not _one_per_channel(node, scope):
        raise CompileError(
            "BatchNormalization per activation (spatial=0) is not supported", where=node_label(node)
        )
    statistics = [name for name in node.outputs[1:] if name in scope.uses]
    older = scope.version < 14
    trains = any(node.outputs[1:]) if older else bool(int_attr(node, "training_mode", 0))
    if statistics and (older or not trains):
        raise CompileError("BatchNormalization in training mode", where=node_label(node), hint=_TRAINING_HINT)
    if statistics:
        return [node]
    bare = with_attrs(node, drop=("spatial", "training_mode"))
    bare = with_attrs(bare, training_mode=1) if trains else bare
    return [dataclasses.replace(bare, outputs=node.outputs[:1])]


def _one_per_channel(node: OnnxNode, scope: Scope) -> bool:
    """Whether there is nothing but channels behind the batch, so that each activation is one."""
    x, scale = (scope.type_of(name).shape for name in node.inputs[:2])
    return x is not None and len(x) == 2 and scale is not None and len(scale) == 1


def _dropout(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Every Dropout: Identity. A mask that is used is all true from version 12 on; before, ONNX does not say
    what it is at inference, and onnxruntime gives all false. Training that drops nothing (ratio 0) is no other.
    """
    ratio, training = (*node.inputs[1:3], "", "")[:2]
    flag = scope.constant(training) if training else np.array(False)
    dropped = scope.constant(ratio) if ratio else None
    if (flag is None or flag.any()) and (dropped is None or dropped.any()):
        raise CompileError("Dropout in training mode", where=node_label(node), hint=_TRAINING_HINT)
    nodes = [OnnxNode("Identity", node.inputs[:1], node.outputs[:1], "", node.name, {}, node.index)]
    if len(node.outputs) > 1 and node.outputs[1] in scope.uses:
        nodes += _dropout_mask(node, scope)
    return nodes


def _dropout_mask(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    mask = node.outputs[1]
    shape = derived(node, "Shape", node.inputs[:1], scope.fresh(f"{mask}/shape"))
    value: dict[str, AttrValue] = {"value": np.array([scope.version >= 12])}
    if scope.version >= 10:
        return [shape, derived(node, "ConstantOfShape", shape.outputs, mask, value)]
    # Version 7 has the mask in the type of the data.
    flags = derived(node, "ConstantOfShape", shape.outputs, scope.fresh(f"{mask}/bool"), value)
    return [shape, flags, derived(node, "CastLike", (flags.outputs[0], node.inputs[0]), mask)]


def _softmax(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Softmax, LogSoftmax, Hardmax below 13: over the rows of Flatten(axis), by default axis 1."""
    axis = int_attr(node, "axis", 1)
    known = scope.type_of(node.inputs[0]).shape
    if axis == -1 or (known is not None and axis == len(known) - 1):
        return [with_attrs(node, axis=-1)]
    if known and all(dim == 1 for dim in known[axis % len(known) + 1 :]):
        return [with_attrs(node, axis=axis)]
    output = node.outputs[0]
    flat = derived(node, "Flatten", node.inputs, scope.fresh(f"{output}/flat"), {"axis": axis})
    shape = derived(node, "Shape", node.inputs, scope.fresh(f"{output}/shape"))
    inner = scope.fresh(f"{output}/rows")
    core = dataclasses.replace(with_attrs(node, axis=-1), inputs=flat.outputs, outputs=(inner,))
    # An extent 0 of the operand is no "as it is": there are other axes in the rows.
    return [flat, shape, core, derived(node, "Reshape", (inner, shape.outputs[0]), output, {"allowzero": 1})]


def _group_norm(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """GroupNormalization-18: scale and bias per group; now per channel."""
    groups = int_attr(node, "num_groups", 0)
    base = node.outputs[0]
    data, scale, bias = node.inputs
    channels = derived(node, "Shape", (data,), scope.fresh(f"{base}/channels"), {"start": 1, "end": 2})
    count = scope.ints(node, "groups", (groups,))
    column = scope.ints(node, "column", (groups, 1))
    flat = scope.ints(node, "flat", (-1,))
    each = derived(node, "Div", (channels.outputs[0], count), scope.fresh(f"{base}/group_size"))
    shape = derived(node, "Concat", (count, each.outputs[0]), scope.fresh(f"{base}/grouped"), {"axis": 0})
    nodes = [channels, each, shape]
    spread: list[str] = []
    for role, name in (("scale", scale), ("bias", bias)):
        as_column = derived(node, "Reshape", (name, column), scope.fresh(f"{base}/{role}_column"))
        wide = derived(
            node, "Expand", (as_column.outputs[0], shape.outputs[0]), scope.fresh(f"{base}/{role}_wide")
        )
        done = derived(node, "Reshape", (wide.outputs[0], flat), scope.fresh(f"{base}/{role}"))
        nodes += [as_column, wide, done]
        spread.append(done.outputs[0])
    # The newest form rounds to stash_type, f32 by default, which version 18 did not do.
    double = scope.type_of(data).dtype == "f64"
    return [
        *nodes,
        with_inputs(with_attrs(node, stash_type=dtype_number("f64" if double else "f32")), data, *spread),
    ]


def _recurrent(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """LSTM, GRU, RNN of any version: batch-first (`layout` = 1) becomes time-first by transposes."""
    bare = with_attrs(node, drop=("layout",))
    if not int_attr(node, "layout", 0):
        return [bare]
    before: list[OnnxNode] = []
    after: list[OnnxNode] = []
    inputs, outputs = list(node.inputs), list(node.outputs)
    for position in (0, 5, 6):  # X, initial_h, initial_c
        if position < len(inputs) and inputs[position]:
            name = scope.fresh(f"{inputs[position]}/time_first")
            before.append(derived(node, "Transpose", (inputs[position],), name, {"perm": (1, 0, 2)}))
            inputs[position] = name
    for position, perm in ((0, (2, 0, 1, 3)), (1, (1, 0, 2)), (2, (1, 0, 2))):  # Y, Y_h, Y_c
        if position < len(outputs) and outputs[position]:
            name = scope.fresh(f"{outputs[position]}/time_first")
            after.append(derived(node, "Transpose", (name,), outputs[position], {"perm": perm}))
            outputs[position] = name
    return [*before, dataclasses.replace(bare, inputs=tuple(inputs), outputs=tuple(outputs)), *after]


def _grid_sample(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """GridSample-16 calls the modes linear and cubic by their 2-D names."""
    mode = str_attr(node, "mode", "bilinear")
    return [with_attrs(node, mode={"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode))]


def _roi_align(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """RoiAlign-10 does not shift by half a pixel."""
    return [with_attrs(node, coordinate_transformation_mode="output_half_pixel")]


def _scatter(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Scatter was renamed."""
    return [dataclasses.replace(node, op_type="ScatterElements")]


def _divided_in_f32(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """QuantizeLinear before ``precision``: onnxruntime divides floats of 32 bits, not numbers of the scale's type."""
    return [with_attrs(node, precision=dtype_number("f32"))]


def _scan_8(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Scan-8 loops over a batch around the scan: a scan along the batch, each turn of which is a scan along axis 0.

    All inputs are scanned along the batch, and all results are the rows that its turns give."""
    lengths, *given = node.inputs
    if lengths:
        raise CompileError("Scan of opset 8 with sequence_lens is not supported", where=node_label(node),
                           hint="export the model with opset 9 or newer")  # fmt: skip
    items = [scope.fresh(f"{node.name}/item/{name}") for name in given]
    rows = [scope.fresh(f"{node.name}/row/{name}") for name in node.outputs]  # a body has all of them
    turns = with_attrs(node, drop=("directions",))
    if "directions" in node.attrs:
        turns = with_attrs(turns, scan_input_directions=node.attrs["directions"])
    turns = dataclasses.replace(turns, inputs=tuple(items), outputs=tuple(rows), name=f"{node.name}/turns")
    body = OnnxGraph(
        f"{node.name}/batch",
        [OnnxValue(name, scope.type_of(source).dtype) for name, source in zip(items, given, strict=True)],
        [OnnxValue(name, "unknown") for name in rows],
        [turns],
    )
    attrs: dict[str, AttrValue] = {"num_scan_inputs": len(items), "body": body}
    return [dataclasses.replace(node, inputs=tuple(given), attrs=attrs)]


REWRITES = (
    Rewrite("BatchNormalization", EVERY_VERSION, _batch_norm),
    Rewrite("Dropout", EVERY_VERSION, _dropout),
    Rewrite("Softmax", 13, _softmax),
    Rewrite("LogSoftmax", 13, _softmax),
    Rewrite("Hardmax", 13, _softmax),
    Rewrite("GroupNormalization", 21, _group_norm),
    Rewrite("LSTM", EVERY_VERSION, _recurrent),
    Rewrite("GRU", EVERY_VERSION, _recurrent),
    Rewrite("RNN", EVERY_VERSION, _recurrent),
    Rewrite("GridSample", 20, _grid_sample),
    Rewrite("RoiAlign", 16, _roi_align),
    Rewrite("Scatter", EVERY_VERSION, _scatter),
    Rewrite("Scan", 9, _scan_8),
    Rewrite("QuantizeLinear", 23, _divided_in_f32),
)
