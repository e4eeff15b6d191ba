"""Pad: an operand surrounded by a constant, its edge, its reflection, or itself (ONNX operator Pad)."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, box
from mccompile.ir.dims import Dim, UndecidedError, bound, maximum, ranges, span, varies
from mccompile.ir.graph import Value
from mccompile.ir.op import Layouts, TypeRuleError
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice

MODES = ("constant", "edge", "reflect", "wrap")
MOST_STRETCHES = 3**6
"""Boxes in which a result is moved: each is a loop. Six axes with pads on both sides have as many."""
_FEW_TURNS = 4
"""Around an axis, which are moved; more are looked up."""


@dataclass(frozen=True)
class Pad(Movement):
    """``pads`` holds all begins, then all ends, none negative; ``value`` is for mode constant."""

    name = "pad"
    layouts = Layouts.ALIKE
    words = (("mode", MODES),)

    pads: tuple[int, ...]
    mode: str = "constant"
    value: float = 0

    @property
    def background(self) -> float | None:
        return self.value if self.mode == "constant" else None

    def with_background(self, value: float) -> Pad:
        return replace(self, value=value)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        begin, end = self.pads[: x.rank], self.pads[x.rank :]
        if len(self.pads) != 2 * x.rank or any(span(p)[0] < 0 for p in self.pads):
            raise TypeRuleError(f"pads {list(self.pads)} do not fit {x}")
        axes = list(zip(begin, end, x.shape, strict=True))
        wide = [span(p - d)[1] >= 0 for *around, d in axes for p in around if p]  # each by itself, in all runs
        if self.mode == "reflect" and any(wide):
            raise TypeRuleError(f"reflection by {list(self.pads)} is wider than {x}")
        if self.mode in ("edge", "wrap") and any(span(d)[0] < 1 for b, e, d in axes if b or e):
            raise TypeRuleError(f"{x} may have no element to be repeated around it")
        if self.mode == "wrap" and any(isinstance(d, Dim) and (b or e) for b, e, d in axes):
            raise TypeRuleError("an extent that is known at run time only cannot be wrapped around")
        if self.stretches(x.shape) > MOST_STRETCHES:
            raise TypeRuleError(f"pads {list(self.pads)} repeat {x} in more than {MOST_STRETCHES} stretches")
        return (TensorType(x.dtype, tuple(b + d + e for b, d, e in zip(begin, x.shape, end, strict=True))),)

    def stretches(self, extents: Sequence[int]) -> int:
        """In how many boxes the result is moved, at most."""
        rank, count = len(extents), 1
        for begin, end, extent in zip(self.pads[:rank], self.pads[rank:], extents, strict=True):
            if self.mode == "wrap":
                inner = max(bound(extent), 1)
                count *= 1 - (-bound(begin) // inner) - (-bound(end) // inner)
            elif self.mode != "constant":
                count *= 1 + bool(bound(begin)) + bool(bound(end))
        return count

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        rank = types[0].rank
        axes = [self._segments(e, self.pads[a], self.pads[rank + a]) for a, e in enumerate(types[0].shape)]
        moves = []
        for parts in product(*axes):
            extents = tuple(p[0] for p in parts)
            moves.append(box(extents, tuple((p[1], p[2]) for p in parts), tuple((p[3], 1) for p in parts)))
        return tuple(moves)

    def _segments(self, extent: int, begin: int, end: int) -> list[tuple[int, int, int, int]]:
        """(length, source start, source step, destination start) of each stretch of an axis."""
        inner = (extent, 0, 1, begin)
        if self.mode == "constant":
            return [inner]
        if self.mode == "edge":
            around = [(begin, 0, 0, 0), inner, (end, extent - 1, 0, begin + extent)]
        elif self.mode == "reflect":
            around = [(begin, begin, -1, 0), inner, (end, extent - 2, -1, begin + extent)]
        else:  # wrap: whole and partial copies on both sides
            at, around = 0, []
            while at < begin + extent + end:
                source = (at - begin) % extent
                length = min(extent - source, begin + extent + end - at)
                around.append((length, source, 1, at))
                at += length
        return [s for s in around if s[0]]


def _sample(d: Draw) -> Case:
    rank = d.int(1, 4)
    shape = d.shape(rank, 3, 5)
    mode = d.choice(["constant", "edge", "reflect", "wrap"])
    low = -1 if mode == "constant" and d.bool() else 0
    pads = np.array([d.int(low, 2) for _ in range(2 * rank)], dtype=np.int64)
    value = d.array((), "f32") if mode == "constant" and d.bool() else None
    return Case([d.array(shape), pads, value], {"mode": mode}, frozenset({1, 2}))


def _padded_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Pads that crop count for nothing, as do those of axes that there are not: the front end refuses them."""
    pads = arrays[1]
    shape: list[int] = list(present(arrays)[0].shape)
    axes = arrays[3] if len(arrays) > 3 else None
    around = np.zeros((2, 0), np.int64) if pads is None or pads.size % 2 else pads.reshape(2, -1)
    chosen = range(len(shape)) if axes is None else [int(a) for a in axes.reshape(-1)]
    for axis, (begin, end) in zip(chosen, around.T.tolist(), strict=False):
        if -len(shape) <= axis < len(shape):
            shape[axis] += max(begin, 0) + max(end, 0)
    return 8 * math.prod(shape)


@onnx_op("Pad", sample=_sample, tolerance={}, folding=Folding(_padded_bytes, sized=True))
def import_pad(n: Import) -> None:
    x = n.input(0)
    rank = len(x.shape)
    given = n.ints(1, "pads")
    axes = tuple(range(rank))
    if n.optional(3) is not None:
        axes = n.axes(n.ints(3, "axes"), rank)
    if len(given) != 2 * len(axes):
        raise n.error(f"{len(given)} pads for {len(axes)} axes")
    begin, end = [0] * rank, [0] * rank
    for i, a in enumerate(axes):
        begin[a], end[a] = given[i], given[len(axes) + i]
    mode = n.attr("mode", "constant")
    if mode not in MODES:
        raise n.error(f"mode {mode!r} is unknown")
    if any(span(p)[0] < 0 for p in begin + end):  # a negative pad crops, before anything is added
        starts = tuple(maximum(-b, 0) for b in begin)
        extents = tuple(e - s - maximum(-t, 0) for e, s, t in zip(x.shape, starts, end, strict=True))
        if any(e < 0 for e in extents):  # or UndecidedError
            raise n.error(f"pads {list(given)} take more than there is")
        x = n.inner(Slice(starts, (1,) * rank, extents), [x], "cropped")
    pads = tuple(maximum(p, 0) for p in begin + end)
    _require_decided(x, pads, mode)
    if mode == "wrap":
        x, pads = _many_turns(n, x, pads)
    value = n.one(2, "value").item() if n.optional(2) is not None else 0
    whole = Pad(pads, mode, value)
    if whole.stretches(x.shape) > MOST_STRETCHES:  # axis by axis it is the same
        for a in range(rank):
            own = tuple(p if i % rank == a else 0 for i, p in enumerate(pads))
            x = n.inner(Pad(own, mode), [x], f"axis{a}") if any(own) else x
        n.bind(0, x)
    elif any(pads):
        n.emit(whole, [x])
    else:
        n.bind(0, x)


def _require_decided(x: Value, pads: Sequence[int], mode: str) -> None:
    """UndecidedError where it depends on the run whether there are the elements that are repeated around others."""
    rank = len(x.shape)
    for a, extent in enumerate(x.shape):
        around = [p for p in (pads[a], pads[rank + a]) if p]
        least, most = span(extent)
        if not around or mode == "constant":
            continue
        if mode == "wrap" and isinstance(extent, Dim):
            raise UndecidedError(f"how often {extent} elements are wrapped around depends on the run")
        if mode != "reflect" and least < 1 <= most:
            raise UndecidedError(f"whether there are elements of {extent} depends on {ranges(extent)}", bool, extent)
        for p in around if mode == "reflect" else ():
            low, high = span(p - extent)
            if low < 0 <= high:
                raise UndecidedError(f"whether {p} < {extent} depends on {ranges(p, extent)}", operator.lt, p, extent)


def _many_turns(n: Import, x: Value, pads: tuple[int, ...]) -> tuple[Value, tuple[int, ...]]:
    """An operand with those axes wrapped that pads go around many times, and the pads that are left.

    Example: [1, 2] with 5 before and 4 behind it is looked up at 1 0 1 0 1  0 1  0 1 0 1.
    """
    rank, left = len(x.shape), list(pads)
    for a, extent in enumerate(x.shape):
        begin, end = left[a], left[rank + a]
        if varies((begin, end, extent)) or not extent or begin + end <= _FEW_TURNS * extent:
            continue
        n.require_foldable(4 * (begin + extent + end), "places")
        places = n.constant(f"places{a}", (np.arange(-begin, extent + end) % extent).astype(np.int32))
        x = n.inner(Gather(a, inside=True), [x, places], f"wrapped{a}")
        left[a] = left[rank + a] = 0
    return x, tuple(left)
