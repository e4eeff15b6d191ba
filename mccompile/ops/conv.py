"""Convolution over any number of spatial axes (ONNX operator Conv)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.affine import combine, loop
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Value
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import F16, F32, F64, I32, I64, TensorType
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.pool import Pool
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.window import Window, read_window, window_words

SUMMED = (F16, F32, F64, I32, I64)
"""What products can be added up in. Sums of integers must not overflow: who makes them so narrow proves it."""


@dataclass(frozen=True)
class Conv(Op):
    """Operands x[N, C, spatial...] and w[M, C/groups, kernel...]; result [N, M, spatial...].

    ``pads`` holds all begins, then all ends. A bias is an epilogue.
    """

    name = "conv"
    kind = Kind.COMPLEX
    layouts = Layouts.ANY
    wants_channels_last = True

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int = 1

    def at_bounds(self) -> Conv:
        return replace(self, pads=tuple(map(bound, self.pads))) if varies(self.pads) else self

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0, 1)

    def in_groups(self, count: int) -> Conv:
        return replace(self, groups=count)

    def with_pads(self, axis: int, before: int, after: int) -> Conv:
        pads = list(self.pads)
        pads[axis], pads[len(self.strides) + axis] = before, after
        return replace(self, pads=tuple(pads))

    def added_up(self, types: Sequence[TensorType | None]) -> tuple[Op, ...] | None:
        """Windows of the sum of all channels, or of each channel that has one filter."""
        x, w = types
        assert x is not None
        assert w is not None
        if self.groups > 1 and not self.groups == x.shape[1] == w.shape[0]:
            return None
        window = Pool("sum", w.shape[2:], self.strides, self.pads, self.dilations)
        alone = max(*window.kernel, *window.strides) == 1 and not any(self.pads)
        channels = () if self.groups > 1 else (Reduce("sum", (1,)),)
        return channels if alone and channels else (*channels, window)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: batch, group, channel within it, places; then operand channel within the group, taps."""
        x, w = types
        assert x is not None
        assert w is not None
        (y,) = self.infer(x, w)
        rank, g = x.rank - 2, self.groups
        loops = (y.shape[0], g, y.shape[1] // g, *y.shape[2:], *w.shape[1:])
        n, c = len(loops), 3 + rank
        batch, channel = loop(0, n), combine(n, {1: y.shape[1] // g, 2: 1})
        places = [
            combine(n, {3 + i: self.strides[i], c + 1 + i: self.dilations[i]}, -self.pads[i]) for i in range(rank)
        ]
        return (
            Nest(
                loops,
                (batch, channel, *axis_loops(rank, n, 3)),
                (
                    (batch, combine(n, {1: w.shape[1], c: 1}), *places),
                    (channel, *axis_loops(1 + rank, n, c)),
                ),
            ),
        )

    def binds(self, types: Sequence[TensorType | None]) -> bool:
        """A depthwise convolution reads each channel where it writes it; else operands are only broadcast."""
        w = types[1]
        return self.groups > 1 and w is not None and w.shape[1] == 1

    def window(self, kernel: Sequence[int]) -> Window:
        return Window(tuple(kernel), self.strides, self.dilations, self.pads)

    def describe(self) -> str:
        return self.name + window_words(self.strides, self.pads, self.dilations, self.groups)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, w = types
        assert x is not None
        assert w is not None
        if x.rank < 3 or x.rank != w.rank or x.dtype != w.dtype or x.dtype not in SUMMED:
            raise TypeRuleError(f"{x} convolved with {w}: equal ranks of at least 3 and f32 or i32 are needed")
        if self.groups < 1 or x.shape[1] != w.shape[1] * self.groups or w.shape[0] % self.groups:
            raise TypeRuleError(f"weights {w} do not fit {x.shape[1]} channels in {self.groups} groups")
        spatial = self.window(w.shape[2:]).output(x.shape[2:])
        return (TensorType(x.dtype, (x.shape[0], w.shape[0], *spatial)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, w = (np.asarray(a) for a in arrays)
        rank = x.ndim - 2
        pads = [(0, 0), (0, 0), *zip(self.pads[:rank], self.pads[rank:], strict=True)]
        spatial, dtype = x.shape[2:], x.dtype
        x = np.pad(x.astype(np.promote_types(x.dtype, np.float32)), pads)
        out = self.window(w.shape[2:]).output(spatial)
        n, g = x.shape[0], self.groups
        y = np.zeros((n, g, w.shape[0] // g, *out), dtype=x.dtype)
        wg = w.reshape(g, w.shape[0] // g, *w.shape[1:]).astype(x.dtype)
        for tap in np.ndindex(*w.shape[2:]):
            part = tuple(
                slice(t * d, t * d + (o - 1) * s + 1, s)
                for t, d, s, o in zip(tap, self.dilations, self.strides, out, strict=True)
            )
            xg = x[(slice(None), slice(None), *part)].reshape(n, g, w.shape[1], math.prod(out))
            y += np.einsum("gmc,ngcp->ngmp", wg[(slice(None),) * 3 + tap], xg).reshape(y.shape)
        return (y.reshape(n, w.shape[0], *out).astype(dtype),)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        w = types[1]
        assert w is not None
        return results[0].count * math.prod(w.shape[1:])


def emit_with_bias(n: Import, op: Op, operands: list[Value], bias: Value | None, rank: int) -> None:
    """Emit ``op`` with a per-channel bias (axis 1 of a result of ``rank`` axes) as its epilogue."""
    n.emit(op, operands, **bias_epilogue(n, bias, rank))


def bias_epilogue(n: Import, bias: Value | None, rank: int) -> dict[str, Any]:
    """What adds a per-channel bias to a result of ``rank`` axes, nothing without one: arguments of `Import.emit`."""
    if bias is None:
        return {}
    channels = n.reshape(bias, (bias.type.count,) + (1,) * (rank - 2), "bias")
    body = ex.apply("add", ex.acc(bias.dtype), ex.var(0, bias.dtype))
    return {"extras": [channels], "post": {0: body}}


def _sample(d: Draw) -> Case:
    rank, groups = d.choice([1, 2, 2, 2, 3]), d.choice([1, 1, 2, 3])
    kernel = d.shape(rank, 1, 3)
    depthwise = d.int(0, 3) == 0
    cin = 1 if depthwise else d.int(1, 5)
    cout = d.int(1, 9) * groups
    x = (d.int(1, 2), cin * groups, *d.shape(rank, 5, 9))
    strides, dilations = d.shape(rank, 1, 2), d.shape(rank, 1, 2)
    attrs: dict[str, object] = {"group": groups, "strides": strides, "dilations": dilations}
    auto = d.choice(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if auto == "NOTSET":
        attrs["pads"] = d.shape(2 * rank, 0, 2)
    else:
        attrs["auto_pad"] = auto
        attrs["dilations"] = (1,) * rank  # onnxruntime pads dilated kernels of auto_pad in ways of its own
    bias = d.array((cout,)) if d.bool() else None
    constant = frozenset({1, 2}) if d.bool() else frozenset()
    return Case([d.array(x), d.array((cout, cin, *kernel)), bias], attrs, constant)


@onnx_op("Conv", sample=_sample, tolerance={"f32": 3e-6, "f16": 4e-3}, folding=WINDOW)
def import_conv(n: Import) -> None:
    emit_with_bias(n, convolution(n), [n.input(0), n.input(1)], n.optional(2), len(n.input(0).shape))


def convolution(n: Import) -> Conv:
    """The convolution of a node whose weights are input 1."""
    w = n.input(1)
    kernel = n.attr("kernel_shape", w.shape[2:])
    if kernel != w.shape[2:]:
        raise n.error(f"kernel_shape {list(kernel)} differs from the weights' {list(w.shape[2:])}")
    window = read_window(n, kernel)
    return Conv(window.strides, window.pads, window.dilations, n.attr("group", 1))
