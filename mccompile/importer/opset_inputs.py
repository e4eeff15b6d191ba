"""Old forms in which something is an attribute that is an input now."""

from __future__ import annotations

import dataclasses

import numpy as np

from mccompile.importer.rewriting import (
    EVERY_VERSION,
    Rewrite,
    Scope,
    float_attr,
    int_attr,
    ints_attr,
    required_ints,
    with_attrs,
    with_inputs,
)
from mccompile.onnxio import OnnxNode

_REDUCTIONS = {
    "ReduceL1": 18,
    "ReduceL2": 18,
    "ReduceLogSum": 18,
    "ReduceLogSumExp": 18,
    "ReduceMax": 18,
    "ReduceMean": 18,
    "ReduceMin": 18,
    "ReduceProd": 18,
    "ReduceSum": 13,
    "ReduceSumSquare": 18,
}


def _axes(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Squeeze, Unsqueeze, Reduce*: attribute `axes` is the second input now.

    An absent or empty list meant all axes (the newest forms' meaning of no axes too, noop_with_empty_axes
    being 0), but for Unsqueeze, where it is required.
    """
    axes = required_ints(node, "axes") if node.op_type == "Unsqueeze" else ints_attr(node, "axes")
    bare = with_attrs(node, drop=("axes",))
    stays = axes or node.op_type == "Unsqueeze"
    return [with_inputs(bare, node.inputs[0], scope.ints(node, "axes", axes or ())) if stays else bare]


def _clip(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Clip-6: attributes `min` and `max`, absent = no bound."""
    bounds: list[str] = []
    casts: list[OnnxNode] = []
    for role in ("min", "max"):
        name = ""
        if role in node.attrs:
            name, new = scope.scalar_like(node, role, float_attr(node, role, 0.0), node.inputs[0])
            casts += new
        bounds.append(name)
    return [*casts, with_inputs(with_attrs(node, drop=("min", "max")), node.inputs[0], *bounds)]


def _pad(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Pad-2: attributes `pads` and `value`."""
    pads = scope.ints(node, "pads", required_ints(node, "pads"))
    value = float_attr(node, "value", 0.0)
    name, casts = scope.scalar_like(node, "value", value, node.inputs[0]) if value else ("", [])
    return [*casts, with_inputs(with_attrs(node, drop=("pads", "value")), node.inputs[0], pads, name)]


def _slice(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Slice-1: attributes `starts`, `ends`, `axes`; steps are 1."""
    starts = scope.ints(node, "starts", required_ints(node, "starts"))
    ends = scope.ints(node, "ends", required_ints(node, "ends"))
    axes = ints_attr(node, "axes")
    axes_name = scope.ints(node, "axes", axes) if axes else ""
    bare = with_attrs(node, drop=("starts", "ends", "axes"))
    return [with_inputs(bare, node.inputs[0], starts, ends, axes_name)]


def _split(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Split-2 and -11: attribute `split`. In every form: equal parts are stated by `num_outputs`."""
    lengths = ints_attr(node, "split")
    bare = with_attrs(node, drop=("split",))
    if lengths:
        return [with_inputs(bare, node.inputs[0], scope.ints(node, "split", lengths))]
    if len(node.inputs) > 1 and node.inputs[1]:
        return [bare]
    return [with_attrs(with_inputs(bare, node.inputs[0]), num_outputs=len(node.outputs))]


def _topk(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """TopK-1: attribute `k`."""
    k = scope.ints(node, "k", (int_attr(node, "k", 0),))
    return [with_inputs(with_attrs(node, drop=("k",)), node.inputs[0], k)]


def _dft(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """DFT-17: attribute `axis`, by default 1 (the newest form's default is -2)."""
    axis = scope.add_constant(node, "axis", np.array(int_attr(node, "axis", 1), dtype=np.int64))
    length = node.inputs[1] if len(node.inputs) > 1 else ""
    bare = with_attrs(node, drop=("axis",))
    return [dataclasses.replace(bare, inputs=(node.inputs[0], length, axis))]


REWRITES = (
    Rewrite("Squeeze", 13, _axes),
    Rewrite("Unsqueeze", 13, _axes),
    *(Rewrite(op, below, _axes) for op, below in _REDUCTIONS.items()),
    Rewrite("Clip", 11, _clip),
    Rewrite("Pad", 11, _pad),
    Rewrite("Slice", 10, _slice),
    Rewrite("Split", EVERY_VERSION, _split),
    Rewrite("TopK", 10, _topk),
    Rewrite("DFT", 20, _dft),
)
