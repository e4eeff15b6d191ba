"""Layers of bytes: convolutions and matrix products as the passes for quantised networks leave them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES, I32, Layout, TensorType, channels_last
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.ops.relayout import Relayout
from mccompile.ops.sampling import Case
from mccompile.targets.target import Target, resolve
from tests.support.opcases import Built

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Layer:
    """A convolution of ``x`` [N, C, space...] by ``w`` [M, C / groups, kernel...], or a product of ``x`` [..., K] by
    ``w`` [K, N].

    Attributes:
        weights: from where to where they are drawn.
        bias: an extra operand begins the sums.
        residual: another operand of the result's shape is added.
        stored: all values between kernels are channels-last.
        out: the type of results, where it is another one than the operand's.
    """

    x: tuple[int, ...]
    w: tuple[int, ...]
    strides: tuple[int, ...] = ()
    pads: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    groups: int = 1
    dtype: str = "i8"
    zero: int = 0
    weights: tuple[int, int] = (-127, 127)
    bias: bool = True
    residual: bool = False
    stored: bool = True
    form: str = "fixed"
    trans_b: bool = False
    out: str = ""

    @property
    def is_conv(self) -> bool:
        return bool(self.strides)

    @property
    def name(self) -> str:
        words = [f"{'conv' if self.is_conv else 'matmul'}{list(self.x)}{list(self.w)}s{self.strides}p{self.pads}"]
        rest = (self.dilations, self.groups, self.dtype, self.out, self.zero, self.weights, self.form)
        return " ".join([*words, *map(str, rest), "stored" * self.stored, "residual" * self.residual])


def conv(x: Sequence[int], w: Sequence[int], stride: int = 1, pad: int = 0, dilation: int = 1, **rest: Any) -> Layer:
    """A convolution with equal strides, pads and dilations along all axes."""
    n = len(w) - 2
    return Layer(tuple(x), tuple(w), (stride,) * n, (pad,) * (2 * n), (dilation,) * n, **rest)


def graph_of(layer: Layer, seed: int) -> Graph:
    """The layer between identities that are stored as the layer likes it."""
    rng = np.random.default_rng(seed)
    g = Graph("layer")
    dtype = DTYPES[layer.dtype]
    layout = channels_last(len(layer.x)) if layer.stored and len(layer.x) > 2 and layer.is_conv else None
    x = g.value("x", TensorType(dtype, layer.x))
    g.inputs.append(x)
    w = rng.integers(layer.weights[0], layer.weights[1] + 1, layer.w).astype(np.int8)
    w.reshape(-1)[:: max(w.size // 5, 1)] = layer.weights[0]
    terms = int(np.prod(layer.w[1:])) if layer.is_conv else layer.w[1 if layer.trans_b else 0]
    channels = layer.w[0] if layer.is_conv or layer.trans_b else layer.w[1]
    weights = g.constant("w", w)
    operand = _stored(g, x, layout)
    axes = (channels, *(1,) * (len(layer.x) - 2)) if layer.is_conv else (channels,)
    extras: list[Value] = []
    begun: ex.Expr = ex.acc(I32)
    if layer.bias:
        extras.append(g.constant("b", rng.integers(-9000, 9000, axes).astype(np.int32)))
        begun = ex.apply("add", begun, ex.var(0, I32))
    pre = {0: ex.convert(ex.acc(dtype), I32), 1: ex.convert(ex.acc(DTYPES["i8"]), I32)}
    if layer.zero:
        pre[0] = ex.apply("sub", pre[0], ex.num(layer.zero, I32))
    window = (layer.strides, layer.pads, layer.dilations, layer.groups)
    op = Conv(*window) if layer.is_conv else MatMul(False, layer.trans_b)
    post = begun
    if layer.form == "fixed":
        extras.append(g.constant("m", rng.integers(2**28, 2**30, axes).astype(np.int32) // terms))
        post = ex.apply("mulhi", begun, ex.var(len(extras) - 1, I32))
        post = ex.apply("add", post, ex.num(5, I32))
        if layer.residual:
            shape = op.infer(*(TensorType(I32, s) for s in (layer.x, layer.w)))[0].shape
            other = g.value("other", TensorType(dtype, shape))
            g.inputs.append(other)
            extras.append(_stored(g, other, layout))
            post = ex.apply("add", post, ex.convert(ex.var(len(extras) - 1, dtype), I32))
        post = ex.apply(f"sat_{layer.out or layer.dtype}", ex.apply("asr", post, ex.num(2, I32)))
    if layer.form == "float":
        scaled = ex.apply("mul", ex.convert(begun, DTYPES["f32"]), ex.num(0.001))
        post = ex.convert(ex.apply("rne", scaled), dtype)
    (y,) = g.emit(op, [operand, weights], ["y"], extras=extras, pre=pre, post={0: post})
    if layout is not None:
        y.type = replace(y.type, layout=layout)
    g.outputs.append(_stored(g, y, None, "out") if layout is not None else y)
    return g


def _stored(g: Graph, v: Value, layout: Layout | None, name: str = "stored") -> Value:
    if layout is None and v.type.layout is None:
        return v
    (copy,) = g.emit(Relayout(), [v], [f"{v.name}.{name}"])
    copy.type = replace(v.type, layout=layout)
    return copy


def host(arithmetic: str) -> Target:
    """A target whose C runs here and whose integer products are computed by an arithmetic: "narrow" and "wide" are
    that of cores with few registers and with many."""
    machine = resolve("generic").machine
    kinds = {"narrow": replace(machine, integers=8), "wide": replace(machine, integers=28)}
    integer = "mla" if arithmetic in kinds else arithmetic
    return replace(resolve("generic"), machine=kinds.get(arithmetic, machine), integer=integer)


def compilation(layer: Layer, seed: int, name: str, target: Target, force: dict[str, str]) -> Compilation:
    """The layer as it is, before any stage."""
    graph = graph_of(layer, seed)
    graph.name = name
    options = Options(target=target.name, kernels=force, passes=())
    return Compilation(name, "0" * 64, options, target, graph, [])


def built(layer: Layer, seed: int, name: str, target: Target, force: dict[str, str]) -> Built:
    c = compilation(layer, seed, name, target, force)
    return Built(seed, Case([]), [], c, compile_program(c))


def inputs_of(graph: Graph, seed: int) -> dict[str, Array]:
    """Bytes of all values, the ends of their range among them."""
    rng = np.random.default_rng(seed)
    found = {}
    for v in graph.inputs:
        info = np.iinfo(v.dtype.numpy.name)
        a = rng.integers(info.min, info.max + 1, v.shape).astype(v.dtype.numpy)
        a.reshape(-1)[::7] = info.min
        a.reshape(-1)[::5] = info.max
        found[v.name] = a
    return found


def depthwise(x: Sequence[int], kernel: Sequence[int], **rest: Any) -> Layer:
    """One filter for each channel of ``x`` [N, C, space...]."""
    n = len(kernel)
    window: dict[str, Any] = {"strides": (1,) * n, "pads": (0,) * (2 * n), "dilations": (1,) * n}
    return Layer(tuple(x), (x[1], 1, *kernel), groups=x[1], **(window | rest))


def product(x: Sequence[int], w: Sequence[int], **rest: Any) -> Layer:
    return Layer(tuple(x), tuple(w), **rest)


STAGED = [
    *(conv((1, 3, 5, 4), (m, 3, 3, 3), 1, 1, zero=127 if m % 2 else -128) for m in range(1, 10)),
    *(conv((1, 4, 1, pixels), (4, 4, 1, 1)) for pixels in range(1, 6)),
    *(conv(x, (8, 3, 2, 2), pad=1, zero=9, stored=s) for x in ((3, 3, 1, 5), (2, 3, 4, 1)) for s in (True, False)),
    *(
        conv((1, c, 7, 5), (6, c, 3, 2), 2, 1, zero=3, dtype="u8" if c % 2 else "i8")
        for c in (1, 2, 3, 4, 5, 7, 8, 16)
    ),
    *(conv((1, 8, 9, 9), (5, 8, 3, 3), 1, 2, 2, zero=-3, stored=s) for s in (True, False)),
    *(conv((2, 8, 9, 9), (5, 8, 3, 3), 2, zero=-3, stored=s, residual=True) for s in (True, False)),
    *(conv((2, 6, 9), (5, 6, 4), 1, 2, zero=-3, stored=s, residual=True, bias=False) for s in (True, False)),
    *(conv((2, 16, 9), (16, 16, 1), zero=-3, stored=s, weights=(-128, 127)) for s in (True, False)),
    *(conv((1, 16, 4, 4), (16, 16, 1, 1), stride, form=form) for stride in (1, 2) for form in ("sums", "float")),
    conv((1, 1, 49, 10), (4, 1, 10, 4), 2, 4, zero=83),
    conv((1, 64, 30, 5), (64, 64, 1, 1), zero=-128),
    conv((1, 16, 40, 9), (16, 16, 3, 3), 1, 1, zero=-128),
]
"""Around the tile of 3 pixels by 2 channels by 4 terms, with windows of all kinds of runs, inside and at borders."""
PLANES = [
    *(depthwise((1, c, 7, 6), (3, 3), pads=(1, 1, 1, 1), zero=-128 if c % 2 else 127) for c in range(1, 6)),
    *(depthwise(x, (3, 3), pads=(1, 1, 1, 1), zero=9) for x in ((2, 3, 1, 5), (2, 3, 4, 1))),
    *(
        depthwise((1, 4, 11, 9), (kh, kw), pads=(kh // 2, kw // 2) * 2, zero=3, stored=s)
        for s in (True, False)
        for kh, kw in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 5), (1, 5), (5, 1), (7, 7))
    ),
    *(
        layer
        for s in (True, False)
        for layer in (
            depthwise((1, 3, 40, 50), (3, 3), pads=(1, 1, 1, 1), stored=s, zero=-7, residual=True),
            depthwise((1, 3, 41, 49), (3, 3), pads=(0, 0, 1, 1), strides=(2, 2), stored=s, zero=-7),
            depthwise((1, 3, 21, 19), (4, 3), pads=(1, 1, 1, 1), strides=(2, 1), stored=s, zero=7, dtype="u8"),
            depthwise((1, 3, 21, 19), (3, 3), pads=(1, 2, 1, 2), dilations=(1, 2), stored=s, bias=False),
            depthwise((2, 6, 30), (5,), stored=s, zero=5),
            depthwise((2, 6, 31), (10,), pads=(3, 2), stored=s, zero=5),
            depthwise((2, 6, 31), (4,), pads=(3, 2), strides=(2,), stored=s, zero=5),
            depthwise((1, 8, 30, 1), (5, 1), stored=s, zero=9, weights=(-128, 127)),
            depthwise((1, 8, 15, 1), (15, 1), stored=s, zero=9, form="float"),
            depthwise((1, 8, 15, 1), (15, 1), stored=s, zero=9, form="sums"),
            depthwise((1, 4, 9, 9), (2, 2), strides=(4, 3), stored=s, zero=9),
            depthwise((1, 4, 2, 9), (3, 3), pads=(2, 2, 2, 2), strides=(1, 3), stored=s, zero=9),
        )
    ),
    *(
        depthwise((1, 2, h, 5), (k, 3), pads=(above, 1, below, 1), strides=(s, 1), zero=-9)
        for h, k, s in itertools.product((2, 3, 4), (2, 3, 4), (1, 2))
        for above, below in ((0, 1), (1, 1), (1, 2))
        if h + above + below >= k
    ),
    # Strips that lie in the padding, and planes of which strides leave out the operand.
    depthwise((1, 8, 1, 4), (1, 1), strides=(4, 1), pads=(5, 0, 8, 0), zero=3),
    # Columns of many lines, which are staged in a loop: planes, and strips of them.
    *(
        depthwise((2, 3, h, w), (k, 3), pads=(k // 2, 1, (k - 1) // 2, 1), zero=9, stored=s, dtype=d)
        for s, d in ((True, "i8"), (False, "u8"))
        for h, w, k in ((16, 5, 3), (17, 5, 2), (25, 5, 3), (26, 3, 5), (31, 1, 4), (111, 3, 3), (130, 2, 4))
    ),
    depthwise((1, 3, 60, 2), (3, 3), pads=(1, 1, 1, 1), strides=(2, 1), zero=5),
    # Strips of three turns, of which the last has two.
    depthwise((1, 4, 40, 5), (3, 3), pads=(1, 1, 1, 1), zero=3),
]
"""Around strips, their borders, and the two lines of a turn."""
LINES = [
    *(
        depthwise((1, c, 7, 6), (3, 3), pads=(1, 1, 1, 1), zero=-128 if c % 2 else 127, weights=w)
        for c, w in ((1, (-128, 127)), (2, (-127, 127)), (3, (-9, 9)), (4, (-40, 40)), (8, (-127, 127)))
    ),
    *(depthwise((1, c, 5, 4), (3, 3), pads=(1, 1, 1, 1), zero=c, out="u8") for c in (15, 16, 17, 33)),
    *(depthwise(x, (3, 3), pads=(1, 1, 1, 1), zero=9) for x in ((2, 16, 1, 5), (2, 16, 4, 1))),
    *(
        depthwise((1, c, 11, 9), (kh, kw), pads=(kh // 2, kw // 2) * 2, zero=3)
        for c, kh, kw in ((4, 1, 1), (20, 2, 2), (16, 3, 2), (5, 4, 3), (16, 5, 5), (8, 1, 5), (20, 5, 1))
    ),
    depthwise((1, 18, 21, 19), (3, 3), pads=(0, 0, 1, 1), strides=(2, 2), zero=-7),
    depthwise((1, 8, 21, 19), (4, 3), pads=(1, 1, 1, 1), strides=(2, 1), zero=7),
    depthwise((1, 3, 21, 19), (3, 3), pads=(1, 2, 1, 2), dilations=(1, 2), bias=False),
    depthwise((1, 16, 21, 19), (3, 3), pads=(2, 1, 2, 1), dilations=(2, 1), bias=False, weights=(-128, 127)),
    depthwise((2, 6, 30), (5,), zero=5),
    depthwise((2, 16, 31), (10,), pads=(3, 2), zero=5),
    depthwise((2, 17, 31), (4,), pads=(3, 2), strides=(2,), zero=5),
    depthwise((1, 8, 30, 1), (5, 1), zero=9, weights=(-128, 127)),
    depthwise((1, 4, 9, 9), (2, 2), strides=(4, 3), zero=9),
    depthwise((1, 4, 2, 9), (3, 3), pads=(2, 2, 2, 2), strides=(1, 3), zero=9),
    depthwise((2, 2, 2, 2), (2, 2), pads=(1, 1, 1, 1), zero=9),
    *(depthwise((n, 3, 1, w), (1, 1), zero=9) for n in (1, 2) for w in (1, 4)),
    depthwise((2, 32, 7, 6), (3, 3), pads=(1, 1, 1, 1), zero=-5),
    depthwise((1, 48, 9, 5), (3, 3), pads=(2, 1, 2, 1), dilations=(2, 1), zero=5),
    depthwise((2, 32, 9, 8), (3, 3), pads=(1, 1, 1, 1), strides=(2, 2), zero=9),
    depthwise((1, 16, 9, 9), (2, 3), pads=(0, 2, 0, 2), strides=(1, 2), dilations=(1, 2), zero=-9),
    depthwise((2, 32, 31), (10,), zero=5),
    depthwise((1, 16, 4, 9), (1, 3), pads=(0, 1, 0, 1), strides=(1, 2), zero=-9),
    # Windows that leave the operand at one end alone.
    *(
        depthwise((2, c, 8, 10), (3, 3), pads=pads, strides=(s, s), zero=-7)
        for c in (4, 16, 20, 32)
        for s, pads in ((1, (0, 0, 2, 0)), (1, (0, 0, 0, 1)), (2, (0, 0, 1, 1)), (1, (1, 0, 0, 0)), (2, (0, 1, 0, 0)))
    ),
]
"""Around vectors of sixteen channels, of one pixel or several, and around the ring; without it; of blocks."""
PRODUCTS = [
    *(product((n, 13), (13, 10 - n), zero=-128 if n % 2 else 127) for n in range(1, 10)),
    product((1, 64), (64, 12), zero=-128),
    product((1, 640), (640, 128), zero=5, weights=(-128, 127)),
    product((2, 3, 16), (16, 9)),
    product((2, 3, 2, 7), (5, 7), trans_b=True, bias=False, residual=True, dtype="u8", zero=128),
    *(product((1, 8), (8, 5), form=form) for form in ("sums", "float")),
    *(product((1, k), (k, n), zero=-128 if k % 2 else 3) for k, n in ((1, 1), (3, 2), (4, 3), (7, 4), (9, 8))),
    product((1, 130), (9, 130), trans_b=True, residual=True, zero=-1),
    product((1, 256), (256, 6), dtype="u8", zero=200),
]
ROWS = [
    *(product((n, 13), (13, 10 - n), zero=-128 if n % 2 else 127, weights=(-128, 127)) for n in (1, 2)),
    *(product((1, k), (k, n), zero=k % 5) for k, n in ((1, 1), (3, 2), (4, 3), (7, 4), (8, 5), (9, 8))),
    *(product((2, k), (k, 6), residual=True, zero=-4) for k in (15, 14, 13, 12)),
    product((1, 640), (640, 128), zero=5),
    product((1, 130), (9, 130), trans_b=True, residual=True, zero=-1),
    product((1, 256), (256, 6), dtype="u8", zero=200),
    *(product((1, 8), (8, 5), form=form) for form in ("sums", "float")),
]
PIXELS = [
    conv((1, 32, 1, 1), (6, 32, 1, 1), zero=3),
    conv((1, 9, 2, 1), (6, 9, 1, 1), zero=3, residual=True, stored=False),
    conv((1, 9, 1, 2), (6, 9, 1, 1), zero=3, residual=True),
    conv((1, 40, 1), (5, 40, 1), zero=3, weights=(-128, 127)),
    *(conv((1, c, 2, 1), (6, c, 1, 1), zero=3, stored=False) for c in (2, 3, 10, 11, 12)),
]
"""Around four columns by four terms, with rows that wait in scratch and rows that do not."""
