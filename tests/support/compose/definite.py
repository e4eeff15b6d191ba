"""Networks that have one answer: `Refused` where onnxruntime gives one of several, or one that nobody relies on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.support.compose.network import Step

Array = np.ndarray[Any, np.dtype[Any]]
Arrays = Mapping[str, Array]

MAX_COUNT = 20_000
"""Elements of a value."""
MAX_FLOAT = 1e5
MAX_HALF = 2e3
"""Larger results are refused: what overflows in one order of operations need not in another."""


class Refused(Exception):  # noqa: N818 -- what happens often is no error
    """What was drawn is no network that can be judged."""


def require_comparable(array: Array) -> None:
    if array.size > MAX_COUNT or array.size == 0:
        raise Refused(f"{array.size} elements")
    if array.dtype.kind != "f":
        return
    if np.isnan(array).any():
        raise Refused("NaN")
    finite = np.abs(array[np.isfinite(array)]).max(initial=0.0)
    if finite > (MAX_HALF if array.dtype == np.float16 else 1e10):
        raise Refused("too large")


def require_fit(array: Array, dtype: np.dtype[Any]) -> None:
    """What a cast makes of infinities, and of numbers that a type of whole ones does not have, is not defined."""
    if array.dtype.kind == "f" and dtype.kind in "iu":
        info = np.iinfo(dtype)
        whole = np.trunc(array.astype(np.float64))
        if not ((whole >= float(info.min)) & (whole < float(info.max) + 1)).all():
            raise Refused(f"some do not fit {dtype}")


SUMS = ("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd", "ReduceLogSum", "Einsum")
WHOLE = 2.0**53
"""Up to here each whole number is a double."""


def require_small(step: Step, values: Arrays) -> None:
    """onnxruntime adds whole numbers as doubles, and saturates where ours wrap: more than either has is refused."""
    if step.op_type not in SUMS or values[step.inputs[0]].dtype.kind not in "iu":
        return
    info = np.iinfo(values[step.inputs[0]].dtype)
    terms = [np.abs(values[n].astype(np.float64)) for n in step.inputs[: None if step.op_type == "Einsum" else 1]]
    if step.op_type in ("ReduceSumSquare", "ReduceL2"):
        terms = [a * a for a in terms]
    sums = [np.maximum(a, 1).prod() if step.op_type == "ReduceProd" else a.sum() for a in terms]
    if np.prod(sums) > min(WHOLE, float(info.max)):
        raise Refused("onnxruntime adds whole numbers as doubles")


def require_one_answer(step: Step, values: Arrays) -> None:
    """Refused where a step's operands leave open what its result is."""
    require_scales(step, values)
    require_powers(step, values)
    require_regular(step, values)
    require_scores(step, values)
    require_inside(step, values)
    require_bins(step, values)
    require_spread(step, values)
    require_windows(step, values)
    require_padding(step, values)
    require_no_ties(step, values)


FEW = 64
"""Of so many equal numbers, the mean is within the last place of each."""


def require_spread(step: Step, values: Arrays) -> None:
    """The variance of many equal numbers is what onnxruntime's mean of them is off by, squared; this is divided by
    its root."""
    groups = _normalised(step, values)
    if groups is None or groups.shape[1] <= FEW or groups.dtype.kind != "f":
        return
    wide = groups.astype(np.float64)
    if (wide.std(axis=1) < 1e-5 * np.abs(wide.mean(axis=1))).any():
        raise Refused("a variance of equal numbers")


def _normalised(step: Step, values: Arrays) -> Array | None:
    """What a step takes means and variances of, a row each; None of other steps."""
    kinds = ("MeanVarianceNormalization", "InstanceNormalization", "GroupNormalization", "LayerNormalization")
    if step.op_type not in kinds or not values[step.inputs[0]].size:
        return None
    x = values[step.inputs[0]]
    if step.op_type == "GroupNormalization":
        return x.reshape(len(x) * step.attrs["num_groups"], -1)
    first = {"InstanceNormalization": 2, "LayerNormalization": step.attrs.get("axis", -1) % x.ndim}
    axes = step.attrs.get("axes", (0, 2, 3)) if step.op_type not in first else range(first[step.op_type], x.ndim)
    inner = [a % x.ndim for a in axes]
    rows = [a for a in range(x.ndim) if a not in inner]
    count = math.prod(x.shape[a] for a in inner)
    return x.transpose(*rows, *inner).reshape(-1, count)


def require_bins(step: Step, values: Arrays) -> None:
    """Of a real signal's spectrum with too few bins, or too many, onnxruntime mirrors others than numpy does where
    the length is even."""
    if step.op_type == "DFT" and step.attrs.get("inverse") and step.attrs.get("onesided"):
        x, *others = (values[n] if n else None for n in step.inputs)
        assert x is not None
        length, axis = [*others, None, None][:2]
        along = x.shape[-2 if axis is None else int(axis)]
        if length is not None and along != int(length) // 2 + 1:
            raise Refused("bins that are not given")


def require_inside(step: Step, values: Arrays) -> None:
    """A condition that is longer than its axis is to be false there: onnxruntime alone takes it."""
    if step.op_type == "Compress":
        data, condition = (values[n] for n in step.inputs)
        extent = data.shape[step.attrs["axis"]] if "axis" in step.attrs else data.size
        if condition[extent:].any():
            raise Refused("a condition is true behind its axis")


def require_scores(step: Step, values: Arrays) -> None:
    """Next to -10000 scores of f16 are 8 apart, those of f32 2^-10: of keys that are masked altogether little is
    left, and of the first one where it alone may be asked. MultiHeadAttention of f32 is run with such scores."""
    places = {"Attention": 3, "MultiHeadAttention": 4, "QAttention": 5}
    place = places.get(step.op_type, 0) if step.domain == "com.microsoft" else 0
    mask = values[step.inputs[place]] if 0 < place < len(step.inputs) and step.inputs[place] else None
    if mask is None:
        return
    first_alone = bool(step.attrs.get("unidirectional")) and mask.ndim > 1
    half = values[step.inputs[0]].dtype == np.float16
    shown = mask[..., :1] if first_alone else mask
    if (half or first_alone or step.op_type == "QAttention") and not shown.any(-1).all():
        raise Refused("all keys are masked")


def require_scales(step: Step, values: Arrays) -> None:
    """Refused where a number over a scale of 0, which is infinite or none, becomes a whole one, or an infinite number
    over an infinite scale, which is none; no scale is less."""
    if step.op_type == "QuantizeLinear" or step.op_type.startswith("QLinear"):
        scales = [values[n] for n in (step.inputs[1:2] if step.op_type == "QuantizeLinear" else step.inputs) if n]
        if any(a.dtype.kind == "f" and not ((a > 0) & np.isfinite(a)).all() for a in scales):
            raise Refused("a scale is 0 or less, or infinite")
    if step.op_type == "QLinearSoftmax" and values[step.inputs[3]] != np.float32(1 / 256):
        raise Refused("onnxruntime has results of 256 steps only")


def require_powers(step: Step, values: Arrays) -> None:
    """A power that is no whole number, as the root of -2, or beyond its type, becomes one that is not defined."""
    if step.op_type != "Pow":
        return
    base, exponent = (values[n] for n in step.inputs)
    if base.dtype.kind in "iu":
        with np.errstate(all="ignore"):
            require_fit(np.power(base.astype(np.float64), exponent.astype(np.float64)), base.dtype)


def require_regular(step: Step, values: Arrays) -> None:
    """What has no inverse, or hardly one, has that of its rounding errors."""
    if step.op_type != "Inverse" or not values[step.inputs[0]].size:
        return
    if (np.linalg.cond(values[step.inputs[0]].astype(np.float64)) > 1e4).any():
        raise Refused("a matrix is next to one without an inverse")


TIE = 3e-5
"""So near to a tie, the order of operations in f32 says to which side a number of 8 bits is rounded."""


def require_no_ties(step: Step, values: Arrays) -> None:
    """Of sums and products of bytes, the text does not say whether the zero point is added before they are rounded,
    nor whether scales are divided by each other first."""
    if step.op_type not in ("QLinearAdd", "QLinearMul"):
        return
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = (
        values[n].astype(np.float64) if n else 0.0 for n in (*step.inputs, "")[:8]
    )
    left, right = (a - a_zero) * a_scale, (b - b_zero) * b_scale
    steps = (left + right if step.op_type == "QLinearAdd" else left * right) / scale
    info = np.iinfo(values[step.inputs[0]].dtype)
    inside = (steps + zero > info.min - 1) & (steps + zero < info.max + 1)
    if (np.abs(np.abs(steps - np.trunc(steps)) - 0.5) < TIE)[inside].any():
        raise Refused("a tie")


WEIGHTS = {"Conv": 1, "FusedConv": 1, "NhwcConv": 1, "NhwcFusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}
"""Where the weights of convolutions stand, [M,C,kernel..] in each layout of the image."""


def require_padding(step: Step, values: Arrays) -> None:
    """Of windows that leave gaps, SAME_* is no padding: onnxruntime takes off what is too much."""
    if not step.attrs.get("auto_pad", "").startswith("SAME") or step.op_type == "ConvTranspose":
        return
    weights = WEIGHTS.get(step.op_type)
    kernel = step.attrs["kernel_shape"] if weights is None else values[step.inputs[weights]].shape[2:]
    rank = len(kernel)
    strides, dilations = step.attrs.get("strides", (1,) * rank), step.attrs.get("dilations", (1,) * rank)
    last = step.attrs.get("channels_last") or step.op_type.startswith("Nhwc")
    shape = values[step.inputs[0]].shape
    spatial = shape[1:-1] if last else shape[2:]
    for k, s, d, extent in zip(kernel, strides, dilations, spatial, strict=True):
        if (-(-extent // s) - 1) * s + d * (k - 1) + 1 < extent:
            raise Refused("padding of less than nothing")


def require_windows(step: Step, values: Arrays) -> None:
    """Where no window fits there is no row: onnxruntime makes one, if less than a stride is missing."""
    if step.op_type == "NhwcMaxPool":
        kernel = step.attrs["kernel_shape"]
        rank = len(kernel)
        pads, dilations = step.attrs.get("pads", (0,) * 2 * rank), step.attrs.get("dilations", (1,) * rank)
        spatial = values[step.inputs[0]].shape[1:-1]
        for k, d, extent, before, after in zip(kernel, dilations, spatial, pads[:rank], pads[rank:], strict=True):
            if extent + before + after < d * (k - 1) + 1:
                raise Refused("a window is larger than its image")
