"""Operators of com.microsoft, and early ones in ONNX's own domain, that say what operators of ONNX say as well.

ExpandDims(x, axis)  is  Unsqueeze(x, axis)
"""

from __future__ import annotations

import dataclasses

import numpy as np

from mccompile.ops.expansion import CONTRIB, Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd, compositions
from mccompile.ops.sampling import Case, Draw


def _same(n: Import) -> None:
    """Operators that ONNX has by the same name, inputs and attributes."""
    e = Expansion(n)
    for name in n.node.attrs:
        n.attr(name)
    e.nodes.append(dataclasses.replace(n.node, domain=""))
    e.finish()


def _range(n: Import) -> None:
    """Range of com.microsoft, whose step is 1 where it has none."""
    e = Expansion(n)
    step = e.name(2) or e.constant(np.array(1, n.input(0).dtype.numpy), "step")
    e.last("Range", [e.name(0), e.name(1), step], n.node.outputs[0], "")
    e.finish()


def _gather_nd(n: Import) -> None:
    """GatherND of com.microsoft, whose places may be of int32."""
    e = Expansion(n)
    places = e.name(1) if n.input(1).dtype.name == "i64" else e.cast(e.name(1), "i64", "places")
    e.last("GatherND", [e.name(0), places], n.node.outputs[0], "")
    e.finish()


def _grid_sample(n: Import) -> None:
    """GridSample with the names of modes that ONNX had first."""
    e, mode = Expansion(n), n.attr("mode", "bilinear")
    attrs = e.given("align_corners", "padding_mode")
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    e.last("GridSample", [e.name(0), e.name(1)], n.node.outputs[0], "", mode=mode, **attrs)
    e.finish()


def _expand_dims(n: Import) -> None:
    e = Expansion(n)
    axis = n.one(1, "axis")
    e.last("Unsqueeze", [e.name(0), e.ints([axis], "axis")], n.node.outputs[0])
    e.finish()


def _unfold(n: Import) -> None:
    """Windows of ``size`` along ``dim``, ``step`` apart, as a new last axis: a Gather, and a Transpose."""
    e, shape = Expansion(n), n.input(0).shape
    dim, size, step = n.axis(n.attr("dim", -1), len(shape)), n.required("size", int), n.attr("step", 1)
    count = (shape[dim] - size) // step + 1
    if size < 1 or step < 1 or count < 1:
        raise n.error(f"windows of {size}, {step} apart, do not fit an axis of {shape[dim]}")
    firsts = e.add("Mul", [e.counted(0, count, "windows.count"), e.number(step, "step")], "firsts")
    first = e.add("Unsqueeze", [firsts, e.ints([1], "firsts.axis")], "first")
    places = e.add("Add", [first, e.counted(0, size, "within")], "places")
    found = e.add("Gather", [e.name(0), places], "windows", axis=dim)
    rank = len(shape) + 1
    e.last("Transpose", [found], n.node.outputs[0], perm=(*(a for a in range(rank) if a != dim + 1), dim + 1))
    e.finish()


def _embedding(n: Import) -> None:
    """TorchEmbedding: rows of a table."""
    e = Expansion(n)
    e.last("Gather", [e.name(0), e.name(1)], n.node.outputs[0], axis=0)
    e.finish()


def _pad(n: Import) -> None:
    """Pad of com.microsoft: its pads may be [1, 2 * rank]."""
    e = Expansion(n)
    inputs = [e.name(0), e.ints(n.ints(1, "pads"), "pads")]
    if n.optional(2) is not None:
        inputs.append(e.reshaped(e.name(2), [], "value"))
    e.last("Pad", inputs, n.node.outputs[0], mode=n.attr("mode", "constant"))
    e.finish()


def _distances(n: Import) -> None:
    """CDist: distances, or their squares, between the rows of two matrices."""
    e, metric = Expansion(n), n.attr("metric", "sqeuclidean")
    if metric not in ("euclidean", "sqeuclidean"):
        raise n.error(f"metric {metric!r} is not supported", "'euclidean' and 'sqeuclidean' are")
    (a, k), (b, _) = n.input(0).shape, n.input(1).shape
    rows, others = e.reshaped(e.name(0), [a, 1, k], "rows"), e.reshaped(e.name(1), [1, b, k], "others")
    apart = e.add("Sub", [rows, others], "apart")
    op = "ReduceL2" if metric == "euclidean" else "ReduceSumSquare"
    e.last(op, [apart, e.ints([2], "axis")], n.node.outputs[0], keepdims=0)
    e.finish()


# -- in ONNX's own domain, before there were others ------------------------------------------------------------------
def _affine(n: Import) -> None:
    """alpha * x + beta; ScaledTanh is alpha * tanh(beta * x), ParametricSoftplus alpha * log(1 + exp(beta * x))."""
    e, dtype = Expansion(n), n.input(0).dtype.compute.numpy
    # Their defaults differ, and onnxruntime has none.
    alpha, beta = (e.constant(np.array(n.required(name, float), dtype), name) for name in ("alpha", "beta"))
    if n.op_type == "Affine":
        e.last_stored("Add", [e.add("Mul", [e.wide(0), alpha], "scaled"), beta], "moved")
    else:
        inner = {"ScaledTanh": "Tanh", "ParametricSoftplus": "Softplus"}[n.op_type]
        curve = e.add(inner, [e.add("Mul", [e.wide(0), beta], "scaled")], "curve")
        e.last_stored("Mul", [curve, alpha], "risen")
    e.finish()


def _image_scaler(n: Import) -> None:
    """scale * x + a bias for each channel of [N, C, H, W]."""
    e, dtype = Expansion(n), n.input(0).dtype.compute.numpy
    bias = np.array(n.required("bias", tuple, float), dtype).reshape(-1, 1, 1)
    scaled = e.add("Mul", [e.wide(0), e.constant(np.array(n.attr("scale", 1.0), dtype), "scale")], "scaled")
    e.last_stored("Add", [scaled, e.constant(bias, "bias")], "moved")
    e.finish()


def _crop(n: Import) -> None:
    """[N, C, H, W] without borders (left, top, right, bottom), or from left and top ``scale`` (height, width)."""
    e, shape = Expansion(n), n.input(0).shape
    border, scale = n.required("border", tuple, int), n.attr("scale", (), int)
    if len(shape) != 4 or len(border) != 4 or len(scale) not in (0, 2):
        raise n.error(f"border {border} or scale {scale} does not fit {n.input(0).type}")
    left, top, right, bottom = border
    ends = (shape[2] - bottom, shape[3] - right) if not scale else (top + scale[0], left + scale[1])
    if not (0 <= top < ends[0] <= shape[2] and 0 <= left < ends[1] <= shape[3]):
        raise n.error(f"border {border} and scale {scale} leave no part of {n.input(0).type}")
    lines = e.sliced(e.name(0), 2, top, ends[0], "lines")
    e.bind(0, e.sliced(lines, 3, left, ends[1], "pixels"))
    e.finish()


# -- samples ---------------------------------------------------------------------------------------------------------
def _image(d: Draw) -> np.ndarray:
    return d.array((d.int(1, 2), 3, *d.shape(2, 4, 7)))


def _sample_curve(d: Draw) -> Case:
    attrs = {"alpha": d.choice([1.0, 0.5]), "beta": d.choice([1.0, 2.0])}
    return Case([d.array(d.shape(d.int(1, 3)))], attrs, opset=9)


def _sample_crop(d: Draw) -> Case:
    attrs: dict[str, object] = {"border": [d.int(0, 1), d.int(0, 1), d.int(0, 1), d.int(0, 1)]}
    return Case([_image(d)], attrs | ({"scale": [2, 3]} if d.bool() else {}), opset=9)


def _sample_scaler(d: Draw) -> Case:
    return Case([_image(d)], {"bias": [0.5, -0.25, 1.0], "scale": d.choice([1.0, 0.5])}, opset=9)


def _sample_unfold(d: Draw) -> Case:
    shape = d.shape(d.int(1, 3), 4, 7)
    return Case([d.array(shape)], {"dim": d.int(0, len(shape) - 1), "size": d.int(1, 4), "step": d.int(1, 3)})


def _sample_distances(d: Draw) -> Case:
    a, b, k = d.shape(3, 1, 6)
    return Case([d.array((a, k)), d.array((b, k))], {"metric": d.choice(["euclidean", "sqeuclidean"])})


def _sample_dims(d: Draw) -> Case:
    return Case([d.array(d.shape(2)), np.array(d.int(-3, 2), np.int32)], {}, frozenset({1}))


def _sample_grid(d: Draw) -> Case:
    x, modes = d.array((1, 3, 4, 5)), ["bilinear", "nearest", "bicubic"]
    attrs = {"mode": d.choice(modes), "padding_mode": d.choice(["zeros", "border", "reflection"])}
    return Case([x, d.array((1, 3, 2, 2), "f32", -1.4, 1.4)], {**attrs, "align_corners": d.int(0, 1)})


def _sample_gather(d: Draw) -> Case:
    places = d.array((3, d.int(1, 2)), "i64", 0, 3)
    return Case([d.array((4, 5)), places], {}, d.choice([frozenset(), frozenset({1})]))


def _sample_pad(d: Draw) -> Case:
    pads, value = d.array((1, 4), "i64", 0, 2), np.array([1.5], np.float32)
    return Case([d.array(d.shape(2, 3, 5)), pads, value], {"mode": "constant"}, frozenset({1, 2}))


def _sample_trilu(d: Draw) -> Case:
    return Case([d.array(d.shape(2, 2, 5)), np.array(d.int(-2, 2), np.int64)], {"upper": d.int(0, 1)}, frozenset({1}))


_ROUNDED = {"f32": 4e-6, "f16": 4e-3}
FRONT_ENDS = compositions(
    FrontEnd("GridSample", _grid_sample, _sample_grid, {"f32": 8e-6, "f16": 4e-3}, CONTRIB),
    FrontEnd("ExpandDims", _expand_dims, _sample_dims, {}, CONTRIB),
    FrontEnd("UnfoldTensor", _unfold, _sample_unfold, {}, CONTRIB),
    FrontEnd("TorchEmbedding", _embedding, None, {}, CONTRIB, ("padding_idx", "scale_grad_by_freq")),
    FrontEnd("GatherND", _gather_nd, _sample_gather, {}, CONTRIB),
    FrontEnd("Trilu", _same, _sample_trilu, {}, CONTRIB),
    FrontEnd("Range", _range, None, {}, CONTRIB),
    FrontEnd("Pad", _pad, _sample_pad, {}, CONTRIB),
    FrontEnd("CDist", _distances, _sample_distances, {"f32": 1e-5, "f16": 4e-3}, CONTRIB),
    FrontEnd("Affine", _affine, _sample_curve, _ROUNDED),
    FrontEnd("ScaledTanh", _affine, _sample_curve, _ROUNDED),
    FrontEnd("ParametricSoftplus", _affine, _sample_curve, _ROUNDED),
    FrontEnd("ImageScaler", _image_scaler, _sample_scaler, _ROUNDED),
    FrontEnd("Crop", _crop, _sample_crop, {}),
)
