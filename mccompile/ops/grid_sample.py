"""Sampling of a tensor at places that are computed (ONNX operator GridSample).

Worked example: x = [10, 20, 40] along one axis, linear. Of the coordinates -1 .. 1 that GridSample has, 0.5 with
``align`` "corners" is the place (0.5 + 1) / 2 * 2 = 1.5, half way between 20 and 40: 30. With "edges", where -1 and 1
are the outer edges of the first and the last element, it is ((0.5 + 1) * 3 - 1) / 2 = 1.75: 35.

>>> x, at = np.array([[[10.0, 20, 40]]]), np.array([[[0.5]]])
>>> GridSample("linear", "zeros", "corners").evaluate(x, at)[0].tolist()
[[[30.0]]]
>>> GridSample("linear", "zeros", "edges").evaluate(x, at)[0].tolist()
[[[35.0]]]
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import may_be_none, ranges, require_same, varies
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.ranges import Range, zero_or_free
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Coordinates, Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.resize_tables import keys
from mccompile.ops.sampling import Case, Draw

TAPS = {"nearest": 1, "linear": 2, "cubic": 4}
"""Elements along each axis that a result is made of."""
PADDINGS = ("zeros", "border", "reflection")
ALIGNS = ("corners", "edges", "pixels")
CUBIC = -0.75
"""The coefficient of cubic convolution (Keys, 1981) that GridSample has."""


@dataclass(frozen=True)
class GridSample(Op):
    """Operands x[N, C, spatial...] and coordinates[N, out..., S]; result [N, C, out...].

    The S coordinates of a place begin with that of the last axis. ``align`` says what they are: -1 and 1 are the
    centres of the first and the last element ("corners"), their outer edges ("edges"), or they count elements
    ("pixels"). What lies outside is zero, the nearest element ("border"), or what a mirror shows ("reflection") in
    the first and last centre, or, but for "corners", in the outer edges.
    """

    name = "grid_sample"
    kind = Kind.COMPLEX
    layouts = Layouts.ANY
    wants_channels_last = True

    mode: str
    padding: str
    align: str

    @property
    def decides(self) -> bool:
        return self.mode == "nearest"

    @property
    def smooth(self) -> tuple[int, ...]:
        return (0,)

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,)

    @property
    def taps(self) -> int:
        """Elements along each axis that a result is made of."""
        return TAPS[self.mode]

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Any elements of a channel, at the coordinates of a place."""
        x, grid = types
        assert x is not None
        assert grid is not None
        (y,) = self.infer(*types)
        loops = (*y.shape, grid.shape[-1])
        own = axis_loops(len(loops), len(loops))
        read: Coordinates = (*own[:2], *(None for _ in x.shape[2:]))
        return (Nest(loops, own[:-1], (read, (own[0], *own[2:]))),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        x = ranges[0]
        assert x is not None
        return (x.with_zero() if self.mode == "nearest" else zero_or_free(x),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, grid = types
        assert x is not None
        assert grid is not None
        if self.mode not in TAPS or self.padding not in PADDINGS or self.align not in ALIGNS:
            raise TypeRuleError(f"{self} is not known")
        fits = x.rank >= 3 and grid.rank == x.rank and grid.shape[-1] == x.rank - 2
        if not fits or not require_same(grid.shape[:1], x.shape[:1]):
            raise TypeRuleError(f"coordinates {grid} do not fit {x}")
        if not x.dtype.is_float or grid.dtype.compute != x.dtype.compute:
            raise TypeRuleError(f"{x} and {grid} are not computed in one type of floats")
        if may_be_none(x.shape[2:]):
            where = f" where {ranges(*x.shape[2:])}: begin the range higher" if varies(x.shape[2:]) else ""
            raise TypeRuleError(f"{x} has no elements to sample{where}")
        return (TensorType(x.dtype, (*x.shape[:2], *grid.shape[1:-1])),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, grid = (np.asarray(a) for a in arrays)
        wide = np.promote_types(x.dtype, np.float32)
        at = grid.astype(np.promote_types(grid.dtype, np.float32))
        spatial = x.ndim - 2
        axes = [self._axis(at[..., spatial - 1 - a], x.shape[2 + a]) for a in range(spatial)]
        batch = np.arange(x.shape[0]).reshape(-1, *(1,) * spatial)
        total = np.zeros((x.shape[0], *grid.shape[1:-1], x.shape[1]), wide)
        for taps in itertools.product(range(self.taps), repeat=spatial):
            places = [axes[a][0][..., t] for a, t in enumerate(taps)]
            inside = np.logical_and.reduce([p >= 0 for p in places])
            found = np.moveaxis(x.astype(wide), 1, -1)[(batch, *(np.maximum(p, 0) for p in places))]
            weight = math.prod(axes[a][1][..., t] for a, t in enumerate(taps))
            total += np.where(inside[..., None], found * np.asarray(weight)[..., None], 0)
        return (np.moveaxis(total, -1, 1).astype(x.dtype),)

    def _axis(self, at: Array, extent: int) -> tuple[Array, Array]:
        """Places [.., taps], -1 for what is outside, and weights of the taps along an axis."""
        last, type_ = extent - 1, at.dtype.type
        if self.align == "corners":
            at = (at + 1) / 2 * last
        elif self.align == "edges":
            at = ((at + 1) * extent - 1) / 2
        if self.mode == "nearest":
            at = np.rint(at)
        with np.errstate(invalid="ignore"):
            if self.padding == "zeros":
                at = np.where((at > -3) & (at < extent + 2), at, type_(-3))
            elif self.padding == "border":
                # A curve through elements that repeat goes on a little, beyond the border.
                least, most = (-3, extent + 2) if self.taps == 4 else (0, last)
                at = np.where(at > least, np.minimum(at, most), type_(least))
            else:
                edge = 0.0 if self.align == "corners" else 0.5
                at = _mirrored(at, -edge, last + edge)
        low = np.floor(at)
        rest = at - low
        first = low.astype(np.int64) - (self.taps == 4)
        places = first[..., None] + np.arange(self.taps)
        return self._padded(places, extent), np.stack(_weights(self.mode, rest), -1)

    def _padded(self, places: Array, extent: int) -> Array:
        if self.padding == "zeros":
            return np.where((places < 0) | (places >= extent), -1, places)
        if self.padding == "border":
            return np.clip(places, 0, extent - 1)
        corners = self.align == "corners"
        period = max(2 * (extent - 1) if corners else 2 * extent, 1)
        places = places % period
        return np.where(places >= extent, period - (0 if corners else 1) - places, places)


def _mirrored(at: Array, low: float, high: float) -> Array:
    """``at`` between two mirrors; what is no number lies at the first."""
    span = high - low
    if span <= 0:
        return np.full_like(at, low)
    with np.errstate(invalid="ignore"):
        rest = np.fmod(np.abs(at - at.dtype.type(low)), at.dtype.type(2 * span))
    rest = np.where(rest > span, 2 * span - rest, rest)
    return np.where(rest == rest, low + rest, low).astype(at.dtype)


def _weights(mode: str, t: Array) -> list[Array]:
    """The weights of taps by how far behind the first (of the middle ones, for cubic) a place is."""
    if mode == "nearest":
        return [np.ones_like(t)]
    if mode == "linear":
        return [1 - t, t]
    return [keys(np.abs(t - tap), CUBIC) for tap in (-1, 0, 1, 2)]


def _sample(d: Draw) -> Case:
    spatial = d.choice([2, 2, 3])
    mode = d.choice(["linear", "nearest", "cubic"] if spatial == 2 else ["linear", "nearest"])
    batch = d.int(1, 2)
    x = d.array((batch, d.choice([1, 3, 8, 19]), *d.shape(spatial, 1, 6)))
    grid = d.array((batch, *d.shape(spatial, 1, 5), spatial), "f32", -1.4, 1.4)
    attrs = {"mode": mode, "padding_mode": d.choice(PADDINGS), "align_corners": d.int(0, 1)}
    return Case([x, grid], attrs)


@onnx_op("GridSample", sample=_sample, tolerance={"f32": 8e-6, "f16": 4e-3})
def import_grid_sample(n: Import) -> None:
    mode, padding = n.attr("mode", "linear"), n.attr("padding_mode", "zeros")
    if mode not in TAPS or padding not in PADDINGS:
        raise n.error(f"GridSample with mode {mode!r} and padding_mode {padding!r} is not supported")
    if mode == "cubic" and len(n.input(0).shape) > 4:
        raise n.error("GridSample with mode 'cubic' is defined on planes only")
    emit_grid_sample(n, mode, padding, "corners" if n.flag("align_corners") else "edges")


def emit_grid_sample(n: Import, mode: str, padding: str, align: str) -> None:
    """Let output 0 be input 0 sampled at the places of input 1."""
    x, grid = n.input(0), n.input(1)
    n.emit(GridSample(mode, padding, align), [x, grid])
