"""Transposed convolution over any number of spatial axes (ONNX operator ConvTranspose)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import combine, loop
from mccompile.ir.dims import Dim, bound, maximum, span, varies
from mccompile.ir.limits import MOST_INDEX
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.conv import SUMMED, emit_with_bias
from mccompile.ops.folding import Arrays, Attributes, Folding, integers, present
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.window import window_words


@dataclass(frozen=True)
class ConvTranspose(Op):
    """Operands x[N, C, spatial...] and w[C, M/groups, kernel...]; result [N, M, spatial...].

    Element i of an axis and tap k add to result element i * stride + k * dilation - begin pad. ``pads`` holds
    all begins, then all ends; ``output_padding`` is what is added to the extents. A bias is an epilogue.
    """

    name = "conv_transpose"
    kind = Kind.COMPLEX
    layouts = Layouts.ANY
    wants_channels_last = True

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    output_padding: tuple[int, ...]
    groups: int = 1

    def at_bounds(self) -> ConvTranspose:
        return replace(self, pads=tuple(map(bound, self.pads))) if varies(self.pads) else self

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0, 1)

    def in_groups(self, count: int) -> ConvTranspose:
        return replace(self, groups=count)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Loops: batch, group, channel within it; operand channel within the group, places of the operand, taps."""
        x, w = types
        assert x is not None
        assert w is not None
        rank, g = x.rank - 2, self.groups
        loops = (x.shape[0], g, w.shape[1], x.shape[1] // g, *x.shape[2:], *w.shape[2:])
        n, t = len(loops), 4 + rank
        batch, inner = loop(0, n), combine(n, {1: x.shape[1] // g, 3: 1})
        places = [
            combine(n, {4 + i: self.strides[i], t + i: self.dilations[i]}, -self.pads[i]) for i in range(rank)
        ]
        return (
            Nest(
                loops,
                (batch, combine(n, {1: w.shape[1], 2: 1}), *places),
                ((batch, inner, *axis_loops(rank, n, 4)), (inner, loop(2, n), *axis_loops(rank, n, t))),
            ),
        )

    def natural(self, spatial: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """The spatial extents of the result where nothing is padded away."""
        return natural_extents(spatial, kernel, self.strides, self.dilations, self.output_padding)

    def output(self, spatial: Sequence[int], kernel: Sequence[int]) -> tuple[int, ...]:
        """The spatial extents of the result."""
        n, whole = len(self.strides), self.natural(spatial, kernel)
        return tuple(e - self.pads[i] - self.pads[n + i] for i, e in enumerate(whole))

    def describe(self) -> str:
        return self.name + window_words(self.strides, self.pads, self.dilations, self.groups)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, w = types
        assert x is not None
        assert w is not None
        if x.rank < 3 or x.rank != w.rank or x.dtype != w.dtype or x.dtype not in SUMMED:
            raise TypeRuleError(f"convolution of {x} by {w}: equal ranks of at least 3 and f32 or i32 are needed")
        if self.groups < 1 or x.shape[1] != w.shape[0] or x.shape[1] % self.groups:
            raise TypeRuleError(f"weights {w} do not fit {x.shape[1]} channels in {self.groups} groups")
        whole = self.natural(x.shape[2:], w.shape[2:])
        spatial = self.output(x.shape[2:], w.shape[2:])
        # A result that is too large itself is refused as any tensor is.
        if max(map(bound, spatial)) <= MOST_INDEX < max(map(bound, (*whole, *self.strides, *self.dilations))):
            raise TypeRuleError(f"strides, dilations and the result before padding are at most {MOST_INDEX:,}")
        if any(span(e)[0] < (0 if isinstance(e, Dim) else 1) for e in spatial):  # a count may be 0
            raise TypeRuleError(f"pads {list(self.pads)} leave nothing of the result")
        return (TensorType(x.dtype, (x.shape[0], w.shape[1] * self.groups, *spatial)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, w = (np.asarray(a) for a in arrays)
        dtype = x.dtype
        wide = np.promote_types(dtype, np.float32)
        rank, n, g = x.ndim - 2, x.shape[0], self.groups
        out = self.output(x.shape[2:], w.shape[2:])
        reach = [
            max((i - 1) * s + (k - 1) * d + 1, begin + o)
            for i, s, k, d, begin, o in zip(
                x.shape[2:], self.strides, w.shape[2:], self.dilations, self.pads[:rank], out, strict=True
            )
        ]
        y = np.zeros((n, g, w.shape[1], *reach), dtype=wide)
        xg = x.reshape(n, g, x.shape[1] // g, math.prod(x.shape[2:])).astype(wide)
        wg = w.reshape(g, x.shape[1] // g, *w.shape[1:]).astype(wide)
        for tap in np.ndindex(*w.shape[2:]):
            part = tuple(
                slice(t * d, t * d + (i - 1) * s + 1, s)
                for t, d, s, i in zip(tap, self.dilations, self.strides, x.shape[2:], strict=True)
            )
            product = np.einsum("gcm,ngcp->ngmp", wg[(slice(None),) * 3 + tap], xg)
            y[(slice(None),) * 3 + part] += product.reshape(n, g, w.shape[1], *x.shape[2:])
        inside = tuple(slice(begin, begin + o) for begin, o in zip(self.pads[:rank], out, strict=True))
        y = y[(slice(None),) * 3 + inside]
        return (y.reshape(n, g * w.shape[1], *out).astype(dtype),)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        x, w = types
        assert x is not None
        assert w is not None
        return x.count * math.prod(w.shape[1:])


def natural_extents(
    spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int],
    output_padding: Sequence[int],
) -> tuple[int, ...]:  # fmt: skip
    """The extents of the result where nothing is padded away."""
    axes = zip(spatial, kernel, strides, dilations, output_padding, strict=True)
    return tuple((i - 1) * s + (k - 1) * d + 1 + more for i, k, s, d, more in axes)


def _sample(d: Draw) -> Case:
    rank, groups = d.choice([1, 2, 2, 2, 3]), d.choice([1, 1, 2, 3])
    kernel, strides, dilations = d.shape(rank, 1, 4), d.shape(rank, 1, 3), d.shape(rank, 1, 2)
    cin, cout = d.int(1, 4) * groups, d.int(1, 4)
    spatial = d.shape(rank, 2, 5)
    attrs: dict[str, object] = {"group": groups, "strides": strides, "dilations": dilations}
    more = tuple(d.int(0, s - 1) for s in strides)
    whole = natural_extents(spatial, kernel, strides, dilations, more)
    mode = d.choice(["pads", "pads", "shape", "SAME_UPPER", "SAME_LOWER", "VALID"])
    if d.bool():
        attrs["output_padding"] = more
    else:
        whole = natural_extents(spatial, kernel, strides, dilations, (0,) * rank)
    if mode == "pads":
        begin = tuple(d.int(0, min(2, e - 1)) for e in whole)
        attrs["pads"] = begin + tuple(d.int(0, min(2, e - 1 - b)) for e, b in zip(whole, begin, strict=True))
    elif mode == "shape":
        attrs["output_shape"] = tuple(max(e - d.int(0, 2), 1) for e in whole)
    else:
        attrs["auto_pad"] = mode
    bias = d.array((cout * groups,)) if d.bool() else None
    constant = frozenset({1, 2}) if d.bool() else frozenset()
    x = d.array((d.int(1, 2), cin, *spatial))
    return Case([x, d.array((cin, cout, *kernel)), bias], attrs, constant)


def _transposed_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Each element meets each weight, and the strides lay them apart; attributes may ask for any extent."""
    x, w, *_ = present(arrays)
    strides, dilations, more, wanted, pads = (
        integers(attrs, name) for name in ("strides", "dilations", "output_padding", "output_shape", "pads")
    )
    reach = sum(map(abs, (*more, *pads, *wanted)))
    spread = math.prod(map(abs, strides))
    extents = [
        e * max([1, *strides]) + k * max([1, *dilations]) + reach
        for e, k in zip(x.shape[2:], w.shape[2:], strict=False)
    ]
    results: int = math.prod((*x.shape[:2], *w.shape[1:2], *extents))
    met: int = x.size * w.size * spread
    return 8 * max(met, results)


@onnx_op("ConvTranspose", sample=_sample, tolerance={"f32": 3e-6, "f16": 4e-3}, folding=Folding(_transposed_bytes))
def import_conv_transpose(n: Import) -> None:
    x, w = n.input(0), n.input(1)
    kernel = w.shape[2:]
    if n.attr("kernel_shape", kernel) != kernel:
        raise n.error(f"kernel_shape {list(n.attr('kernel_shape'))} differs from the weights' {list(kernel)}")
    rank = len(kernel)
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    more, pads = n.attr("output_padding", zeros), n.attr("pads", zeros * 2)
    if len(x.shape) != rank + 2 or not len(strides) == len(dilations) == len(more) == rank:
        raise n.error(f"input, strides, dilations and output_padding do not match a kernel of {rank} axes")
    if len(pads) != 2 * rank or min((*strides, *dilations)) < 1 or min((*pads, *more)) < 0:
        raise n.error("strides and dilations must be positive, pads and output_padding not negative")
    whole = natural_extents(x.shape[2:], kernel, strides, dilations, more)
    pads, more = _resolve_pads(n, whole, strides, pads, more)
    if varies((*pads, *more)) or w.type.varies:
        raise n.error(
            "pads, output_padding and weights have to be known when the network is compiled",
            "leave output_shape out, or give each dim that it depends on one number: --dim NAME=N",
        )
    op = ConvTranspose(strides, pads, dilations, more, n.attr("group", 1))
    emit_with_bias(n, op, [x, w], n.optional(2), rank + 2)


def _resolve_pads(
    n: Import, whole: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...], more: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Pads and output_padding after `output_shape` and `auto_pad` (operator text; onnxruntime's rounding)."""
    auto = n.attr("auto_pad", "NOTSET")
    rank = len(whole)
    if auto not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise n.error(f"auto_pad {auto!r} is unknown")
    wanted = n.attr("output_shape", ())
    if not wanted and auto not in ("SAME_UPPER", "SAME_LOWER"):
        return ((0,) * (2 * rank) if auto == "VALID" else pads), more
    spatial = n.input(0).shape[2:]
    target = wanted[-rank:] if wanted else tuple(e * s for e, s in zip(spatial, strides, strict=True))
    if len(target) != rank:
        raise n.error(f"output_shape {list(wanted)} does not match a kernel of {rank} axes")
    cut = [maximum(e - t, 0) for e, t in zip(whole, target, strict=True)]
    large, small = tuple(c - c // 2 for c in cut), tuple(c // 2 for c in cut)
    if wanted:
        more = tuple(m + maximum(t - e, 0) for m, e, t in zip(more, whole, target, strict=True))
    return (small + large if auto == "SAME_UPPER" else large + small), more
