"""Upsample and the old forms of Resize."""

from __future__ import annotations

import dataclasses

import numpy as np

from mccompile.importer.rewriting import (
    EVERY_VERSION,
    Rewrite,
    Scope,
    derived,
    str_attr,
    with_attrs,
    with_inputs,
)
from mccompile.ir.errors import CompileError
from mccompile.onnxio import AttrValue, OnnxNode, node_label

_LINEAR = ("linear", "bilinear", "trilinear")


def _upsample(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Upsample: Resize without coordinate shift, nearest = floor. Scales are an attribute in version 7."""
    if scope.version < 9:
        scales = node.attrs.get("scales")
        if not isinstance(scales, tuple):
            raise CompileError("attribute 'scales' is missing", where=node_label(node))
        name = scope.add_constant(node, "scales", np.array(scales, dtype=np.float32))
    else:
        name = node.inputs[1]
    return [_resize(node, node.inputs[0], name, node.outputs[0], "floor")]


def _resize_any(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    return _resize_10(node, scope) if scope.version < 11 else _resize_11(node, scope)


def _resize_10(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Resize-10: no coordinate shift; nearest = floor where an axis grows, ceil where it shrinks.

    The text of opset 10 leaves the rounding open; its published test data (resize_downsample_nearest) and
    onnxruntime agree on this one. Nearest is separable, so mixed or unknown scales become a growing and a
    shrinking Resize.
    """
    data, scales = node.inputs[:2]
    output = node.outputs[0]
    if str_attr(node, "mode", "nearest") in _LINEAR:
        return [_resize(node, data, scales, output, "")]
    value = scope.constant(scales)
    if value is not None and (value >= 1).all():
        return [_resize(node, data, scales, output, "floor")]
    if value is not None and (value <= 1).all():
        return [_resize(node, data, scales, output, "ceil")]
    one = scope.add_constant(node, "one", np.array([1], dtype=np.float32))
    grow = derived(node, "Max", (scales, one), scope.fresh(f"{output}/grow"))
    shrink = derived(node, "Min", (scales, one), scope.fresh(f"{output}/shrink"))
    middle = scope.fresh(f"{output}/grown")
    first = _resize(node, data, grow.outputs[0], middle, "floor")
    second = _resize(node, middle, shrink.outputs[0], output, "ceil")
    return [grow, shrink, dataclasses.replace(first, name=middle), second]


def _resize(node: OnnxNode, data: str, scales: str, output: str, nearest: str) -> OnnxNode:
    mode = str_attr(node, "mode", "nearest")
    attrs: dict[str, AttrValue] = {
        "mode": "linear" if mode in _LINEAR else mode,
        "coordinate_transformation_mode": "asymmetric",
    }
    if mode not in _LINEAR:
        attrs["nearest_mode"] = nearest
    return OnnxNode("Resize", (data, "", scales), (output,), "", node.name, attrs, node.index)


def _resize_11(node: OnnxNode, scope: Scope) -> list[OnnxNode]:
    """Resize from 11 on: inputs that are there but empty are left out, roi wherever it has no meaning.

    tf_half_pixel_for_nn (dropped in 13) with floor is half_pixel with round_prefer_ceil:
    floor((x + 0.5) / scale) = floor(((x + 0.5) / scale - 0.5) + 0.5).
    """
    inputs = list(node.inputs) + [""] * (4 - len(node.inputs))
    coordinates = str_attr(node, "coordinate_transformation_mode", "half_pixel")
    for position in (1, 2, 3):
        value = scope.constant(inputs[position])
        if value is not None and value.size == 0:
            inputs[position] = ""
    if coordinates != "tf_crop_and_resize":
        inputs[1] = ""
    result = with_inputs(node, *inputs)
    if coordinates != "tf_half_pixel_for_nn":
        return [result]
    nearest = str_attr(node, "nearest_mode", "round_prefer_floor")
    if str_attr(node, "mode", "nearest") != "nearest" or nearest != "floor":
        raise CompileError(
            "Resize with tf_half_pixel_for_nn is supported only for mode nearest with floor",
            where=node_label(node),
        )
    return [with_attrs(result, coordinate_transformation_mode="half_pixel", nearest_mode="round_prefer_ceil")]


REWRITES = (
    Rewrite("Upsample", EVERY_VERSION, _upsample),
    Rewrite("Resize", EVERY_VERSION, _resize_any),
)
