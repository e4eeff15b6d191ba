"""Where each coordinate of a resized axis reads its input, and with which weights, as onnxruntime computes them."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array

MODES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric")
CROP = "tf_crop_and_resize"
NEAREST_MODES = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")

_F = np.float32
_HALF = _F(0.5)
TIE = 1e-6
"""So close to a half, a coordinate counts as one: the rounding of a scale must not decide (onnxruntime)."""


@dataclass(frozen=True)
class Sampling:
    """The attributes of Resize that concern one axis; ``start`` and ``end`` are the region of interest."""

    mode: str
    transform: str
    nearest: str
    cubic: float
    exclude_outside: bool
    antialias: bool
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class AxisTable:
    """Per result coordinate: indices i32[extent, taps] and weights f32[extent, taps].

    A negative first index marks a coordinate outside of the region that is extrapolated.
    """

    index: Array
    weight: Array

    def is_identity(self, extent: int) -> bool:
        """True if every coordinate reads itself and nothing else."""
        if len(self.index) != extent:
            return False
        own = self.index == np.arange(extent, dtype=np.int32)[:, None]
        return bool(((self.weight == 0) | own).all() and (self.index[:, 0] >= 0).all() and
                    (np.where(own, self.weight, 0).sum(1) == 1).all())  # fmt: skip


def table_bytes(s: Sampling, out: int, scale: float) -> int:
    """What `axis_table` takes about: an index of 4 bytes and a weight for each tap."""
    taps = {"nearest": 1, "linear": 2, "cubic": 4}[s.mode]
    widened = s.antialias and s.mode != "nearest" and scale < 1
    return 8 * out * (math.ceil(taps / scale) + 1 if widened else taps)


@np.errstate(over="ignore", invalid="ignore")  # huge numbers in a file have tables of infinities, as they ask for
def axis_table(s: Sampling, extent: int, out: int, scale: float) -> AxisTable:
    """The table of an axis of ``extent`` that becomes ``out`` with ``scale``."""
    at = _coordinates(s, extent, out, _F(scale))
    if s.antialias and s.mode != "nearest" and extent == out:
        at = np.arange(out, dtype=_F)  # onnxruntime and Pillow leave such an axis as it is, whatever the scale
    if s.antialias and s.mode != "nearest" and scale < 1 and extent != out:
        index, weight = _antialias(s, at, extent, _F(scale))
    elif s.mode == "nearest":
        index = np.clip(_nearest(at, s.nearest), 0, extent - 1).astype(np.int32)[:, None]
        weight = np.ones(index.shape, dtype=_F)
    elif s.mode == "linear":
        index, weight = _linear(at, extent)
    else:
        index, weight = _cubic(at, extent, _F(s.cubic), s.exclude_outside)
    if s.transform == CROP:
        outside = (at < 0) | (at > _F(extent - 1))
        index = np.where(outside[:, None], np.int32(-1), index)
        weight = np.where(outside[:, None], _F(0), weight)
    return AxisTable(np.ascontiguousarray(index.astype(np.int32)), np.ascontiguousarray(weight.astype(_F)))


def _coordinates(s: Sampling, extent: int, out: int, scale: np.float32) -> Array:
    """The input coordinate (f32) of each result coordinate (operator text, coordinate_transformation_mode)."""
    at = np.arange(out, dtype=_F)
    if not out:
        return at
    last = _F(extent - 1)
    match s.transform:
        case "asymmetric":
            return at / scale
        case "align_corners":
            return at * _F(0) if out == 1 else at * last / _F(out - 1)
        case "pytorch_half_pixel" if out == 1:
            return at * _F(0)
        case "tf_crop_and_resize" if out == 1:
            return at * _F(0) + _HALF * (_F(s.start) + _F(s.end)) * last
        case "tf_crop_and_resize":
            return _F(s.start) * last + at * (_F(s.end) - _F(s.start)) * last / _F(out - 1)
    if s.transform != "half_pixel_symmetric":
        return (at + _HALF) / scale - _HALF
    adjustment = _F(out) / (scale * _F(extent))
    offset = _F(extent) / _F(2) * (_F(1) - adjustment)
    wide = float(offset) + (at.astype(np.float64) + 0.5) / float(scale) - 0.5  # onnxruntime has doubles here
    return wide.astype(_F)


def _nearest(at: Array, mode: str) -> Array:
    at = at.astype(np.float64)
    match mode:
        case "floor":
            return np.floor(at)
        case "ceil":
            return np.ceil(at)
        case "round_prefer_floor":
            return np.ceil(at - 0.5 - TIE)
    return np.floor(at + 0.5 + TIE)


def _linear(at: Array, extent: int) -> tuple[Array, Array]:
    inside = np.clip(at, _F(0), _F(extent - 1))
    low = np.minimum(inside.astype(np.int32), extent - 1)
    high = np.minimum(low + 1, extent - 1)
    weight = np.stack([np.abs(inside - high.astype(_F)), np.abs(inside - low.astype(_F))], axis=1)
    weight[low == high] = _HALF
    return np.stack([low, high], axis=1), weight


def _cubic(at: Array, extent: int, a: np.float32, exclude: bool) -> tuple[Array, Array]:
    """Four taps from one before the coordinate (R. Keys, Cubic Convolution Interpolation, 1981)."""
    base = np.floor(at)
    s = (at - base).astype(_F)
    one, two = _F(1), _F(2)
    r = one - s
    weight = np.stack(
        [
            ((a * (s + one) - _F(5) * a) * (s + one) + _F(8) * a) * (s + one) - _F(4) * a,
            ((a + two) * s - (a + _F(3))) * s * s + one,
            ((a + two) * r - (a + _F(3))) * r * r + one,
            ((a * (two - s) - _F(5) * a) * (two - s) + _F(8) * a) * (two - s) - _F(4) * a,
        ],
        axis=1,
    )
    index = base.astype(np.int32)[:, None] + np.arange(-1, 3, dtype=np.int32)
    if exclude:
        weight = np.where((index >= 0) & (index < extent), weight, _F(0))
        weight = weight / weight.sum(axis=1, keepdims=True, dtype=_F)  # NaN far outside of a region: no tap is left
    return np.clip(index, 0, extent - 1), weight


def _antialias(s: Sampling, at: Array, extent: int, scale: np.float32) -> tuple[Array, Array]:
    """The filter widened by 1 / scale and normalised; what lies outside repeats the border or is left out."""
    support = (1 if s.mode == "linear" else 2) / float(scale)
    center = at.astype(np.float64) + 0.5
    first = np.floor(center - support + 0.5).astype(np.int32)
    end = np.floor(center + support + 0.5).astype(np.int32)
    index = first[:, None] + np.arange(int((end - first).max()), dtype=np.int32)
    distance = np.abs(index + 0.5 - center[:, None]) * float(scale)
    weight = np.maximum(1 - distance, 0) if s.mode == "linear" else keys(distance, s.cubic)
    weight = np.where(index < end[:, None], weight, 0)
    if s.exclude_outside:
        weight = np.where((index >= 0) & (index < extent), weight, 0)
    weight = weight / weight.sum(axis=1, keepdims=True)
    return np.clip(index, 0, extent - 1), weight.astype(_F)


def keys(x: Array, a: float) -> Array:
    """The weight of an element ``x`` away (R. Keys, Cubic Convolution Interpolation, 1981)."""
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))
