"""Pooling over sliding windows (ONNX operators AveragePool; MaxPool in `arg_pool`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import combine
from mccompile.ir.dims import bound, span, varies
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.ranges import Range, anything, averaged, summed
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.window import Window, read_window, window_words


@dataclass(frozen=True)
class Pool(Op):
    """Operand x[N, C, spatial...]; result [N, C, windows...]; ``mode`` is "max", "average" or "sum".

    ``count_pad`` lets an average count the padding (not what lies beyond it, which ``ceil`` may reach). The mean of
    nothing is 0.
    """

    name = "pool"
    kind = Kind.REDUCTION
    layouts = Layouts.ALIKE
    wants_channels_last = True
    words = (("mode", ("max", "average", "sum")),)

    mode: str
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    ceil: bool = False
    count_pad: bool = False

    def at_bounds(self) -> Pool:
        return replace(self, pads=tuple(map(bound, self.pads))) if varies(self.pads) else self

    @property
    def multilinear(self) -> tuple[int, ...]:
        return () if self.mode == "max" else (0,)

    @property
    def selects(self) -> bool:
        return self.mode == "max"

    @property
    def picks(self) -> str:
        return "largest" if self.mode == "max" else ""

    @property
    def is_identity(self) -> bool:
        return set(self.kernel) == set(self.strides) == {1} and not any(self.pads)

    def as_sum(self, types: Sequence[TensorType | None]) -> tuple[Op, Array] | None:
        """An average is a sum times one over the number of elements that it counts, which differs at borders."""
        (x,) = types
        if self.mode == "max" or x is None:
            return None
        if self.mode == "sum":
            return self, np.ones((), np.float32)
        summing = replace(self, mode="sum", count_pad=False)
        factors = np.ones((1, 1))
        for axis, extent in enumerate(x.shape[2:]):  # each by itself: there may be many taps of all together
            ones = np.ones((1, 1, extent))
            (mean,), (total,) = (pool._along(axis).evaluate(ones) for pool in (self, summing))
            factors = np.multiply.outer(factors, (mean / np.maximum(total, 1)).reshape(-1))
        factors = factors.astype(np.float32)
        return summing, factors.reshape(-1)[:1].reshape(()) if uniform(factors) else factors

    def _along(self, axis: int) -> Pool:
        """The same along one spatial axis alone."""
        own, rank = slice(axis, axis + 1), len(self.kernel)
        pads = (self.pads[axis], self.pads[rank + axis])
        return replace(
            self, kernel=self.kernel[own], strides=self.strides[own], dilations=self.dilations[own], pads=pads
        )

    def down(self, axis: int) -> Pool:
        """The same along one spatial axis alone, as the first of two."""
        own = self._along(axis)
        kernel, strides, dilations = ((n[0], 1) for n in (own.kernel, own.strides, own.dilations))
        pads = (own.pads[0], 0, own.pads[1], 0)
        return replace(own, kernel=kernel, strides=strides, dilations=dilations, pads=pads)

    def alone(self, axis: int) -> Pool:
        """The same along one spatial axis, of all that there are: along the others nothing is done."""

        def only(own: tuple[int, ...], other: int) -> tuple[int, ...]:
            return tuple(n if a % len(self.kernel) == axis else other for a, n in enumerate(own))

        return replace(
            self, kernel=only(self.kernel, 1), strides=only(self.strides, 1), dilations=only(self.dilations, 1),
            pads=only(self.pads, 0),
        )  # fmt: skip

    def may_count_none(self, extents: tuple[int, ...]) -> bool:
        """Whether a window may have nothing but padding that an average does not count: its mean is 0."""
        return self.mode == "average" and not self.count_pad and self._may_miss(extents)

    def may_pick_none(self, types: Sequence[TensorType | None]) -> bool:
        (x,) = types
        return self.mode == "max" and x is not None and self._may_miss(x.shape[2:])

    def _may_miss(self, extents: tuple[int, ...]) -> bool:
        """Whether a window may lie altogether outside of the operand."""
        out = self.window.output(extents, self.ceil)
        return any(self._misses(a, o, e) for a, (o, e) in enumerate(zip(out, extents, strict=True)))

    def _misses(self, axis: int, out: int, extent: int) -> bool:
        """Whether one of ``out`` windows may lie altogether outside of an axis of ``extent``."""
        stride, dilation, pad = self.strides[axis], self.dilations[axis], self.pads[axis]
        if varies((out, extent)):
            reach = span((self.kernel[axis] - 1) * dilation + 1)[0]
            padding = max(span(p)[1] for p in (pad, self.pads[len(self.strides) + axis]))
            gap = span(dilation)[1]  # between taps, in which all of a short axis may lie
            return self.ceil or (padding > 0 and (padding >= reach or span(extent)[0] < gap))
        if (out - 1) * stride - pad >= extent:
            return True
        before = range(pad, max(pad - out * stride, 0), -stride)  # how far in front of the axis windows begin
        first = [(left, -(-left // dilation)) for left in before]
        return any(tap >= self.kernel[axis] or tap * dilation - left >= extent for left, tap in first)

    def with_pads(self, axis: int, before: int, after: int) -> Pool | None:
        if self.ceil and self.count_pad:  # the last windows do not count what lies beyond the padding
            return None
        pads = list(self.pads)
        pads[axis], pads[len(self.strides) + axis] = before, after
        return replace(self, pads=tuple(pads))

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: batch, channel, places; then taps."""
        (y,) = self.infer(*types)
        rank = len(self.kernel)
        loops = (*y.shape, *self.kernel)
        n = len(loops)
        places = [
            combine(n, {2 + i: self.strides[i], 2 + rank + i: self.dilations[i]}, -self.pads[i]) for i in range(rank)
        ]
        return (Nest(loops, axis_loops(2 + rank, n), ((*axis_loops(2, n), *places),)),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,), ((y,), taps), of = ranges, (self.infer(*types), math.prod(self.kernel)), types[0]
        assert x is not None
        assert of is not None
        missed = self._may_miss(of.shape[2:])
        if self.mode == "max":
            return (Range(np.minimum(x.low, anything(y.dtype).low), x.high) if missed else x,)
        if missed or ((any(self.pads) or self.ceil) and (self.mode == "sum" or self.count_pad)):
            x = x.with_zero()
        return (summed(x, taps, y.dtype) if self.mode == "sum" else averaged(x, taps, y.dtype),)

    @property
    def window(self) -> Window:
        return Window(self.kernel, self.strides, self.dilations, self.pads)

    def describe(self) -> str:
        kernel = "x".join(map(str, self.kernel))
        return f"{self.name} {self.mode} {kernel}{window_words(self.strides, self.pads, self.dilations)}"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.rank != len(self.kernel) + 2:
            raise TypeRuleError(f"a window of {len(self.kernel)} axes does not fit {x}")
        if self.mode == "average" and not x.dtype.is_float:
            raise TypeRuleError(f"an average of {x.dtype} is not defined")
        return (TensorType(x.dtype, (*x.shape[:2], *self.window.output(x.shape[2:], self.ceil))),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        rank = x.ndim - 2
        out = self.window.output(x.shape[2:], self.ceil, of_run=True)
        if 0 in out:
            return (np.zeros((*x.shape[:2], *out), x.dtype),)
        pads = [(0, 0), (0, 0)]
        for i, (o, k, s, d) in enumerate(zip(out, self.kernel, self.strides, self.dilations, strict=True)):
            reach = (o - 1) * s + d * (k - 1) + 1
            pads.append((self.pads[i], max(self.pads[rank + i], reach - x.shape[2 + i] - self.pads[i])))
        lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
        wide = x.astype(np.promote_types(x.dtype, np.float32)) if x.dtype.kind == "f" else x
        filled = np.pad(wide, pads, constant_values=lowest if self.mode == "max" else 0)
        taps = [self._tap(filled, tap, out) for tap in np.ndindex(*self.kernel)]
        if self.mode == "max":
            return (np.maximum.reduce(taps).astype(x.dtype),)
        if self.mode == "sum":
            return (np.add.reduce(taps).astype(x.dtype),)
        counted = np.pad(np.ones(x.shape[2:]), [(0, 0)] * rank)
        border = [(self.pads[i], self.pads[rank + i]) for i in range(rank)]
        counted = np.pad(counted, border, constant_values=1 if self.count_pad else 0)
        beyond = [(0, max(f - c, 0)) for f, c in zip(filled.shape[2:], counted.shape, strict=True)]
        counted = np.pad(counted, beyond)
        weights = np.add.reduce([self._tap(counted[None, None], tap, out) for tap in np.ndindex(*self.kernel)])
        return ((np.add.reduce(taps) / np.maximum(weights, 1)).astype(x.dtype),)

    def _tap(self, x: Array, tap: tuple[int, ...], out: tuple[int, ...]) -> Array:
        part = tuple(
            slice(t * d, t * d + (o - 1) * s + 1, s)
            for t, d, s, o in zip(tap, self.dilations, self.strides, out, strict=True)
        )
        return x[(slice(None), slice(None), *part)]


def sample_pool(d: Draw) -> Case:
    rank = d.choice([1, 2, 2, 3])
    kernel = d.shape(rank, 1, 3)
    attrs: dict[str, object] = {
        "kernel_shape": kernel, "strides": d.shape(rank, 1, 3), "ceil_mode": d.int(0, 1),
        "pads": tuple(d.int(0, k - 1) for k in kernel * 2),
    }  # fmt: skip
    spatial = d.shape(rank, 4, 8)
    if attrs["ceil_mode"] and d.int(0, 3) == 0:  # smaller than a window
        attrs |= {"strides": kernel, "pads": (0,) * (2 * rank)}
        spatial = d.shape(rank, 1, 2)
    return Case([d.array((d.int(1, 2), d.int(1, 3), *spatial))], attrs)


def _sample_average(d: Draw) -> Case:
    case = sample_pool(d)
    return Case(case.inputs, {**case.attrs, "count_include_pad": d.int(0, 1)})


def read_pool(n: Import, mode: str, include_pad: bool = False) -> Pool:
    """The pool that an ONNX node is."""
    w = read_window(n, n.required("kernel_shape", tuple))
    return Pool(mode, w.kernel, w.strides, w.pads, w.dilations, n.flag("ceil_mode"), include_pad)


@onnx_op("AveragePool", sample=_sample_average, tolerance={"f32": 1e-6, "f16": 2e-3}, folding=WINDOW)
def import_average_pool(n: Import) -> None:
    n.emit(read_pool(n, "average", n.flag("count_include_pad")), [n.input(0)])
