"""Networks for what memory bounds: maps, reductions, softmax, normalisation, around whole vectors and tails."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto

from mccompile.ops.window import Window
from tests.kernels.cases import TAILS, Net, VariantCase

Shape = Sequence[int]
WIDTHS = (1, 3, 4, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130)


def case(kernel: str, name: str, build: Callable[[Net], str]) -> VariantCase:
    return VariantCase(f"{kernel} {name}", kernel, lambda n: [build(n)])


def mapped(shape: Shape, op: str, **attrs: Any) -> VariantCase:
    return case("map.vector", f"{list(shape)} {op} {attrs}", lambda n: n(op, n.input(*shape), **attrs))


def broadcast(*shapes: Shape) -> VariantCase:
    """x0 * x1 + x2 ..., each broadcast."""

    def build(n: Net) -> str:
        y = n.input(*shapes[0])
        for i, shape in enumerate(shapes[1:]):
            y = n("Add" if i % 2 else "Mul", y, n.input(*shape))
        return y

    return case("map.vector", f"broadcast {list(map(list, shapes))}", build)


def _gelu(n: Net) -> str:
    x = n.input(3, 50)
    erf = n("Erf", n("Mul", x, n.constant(np.float32(0.70710678))))
    return n("Mul", n("Mul", x, n.constant(np.float32(0.5))), n("Add", erf, n.constant(np.float32(1))))


def _masked(n: Net) -> str:
    """A comparison is an output's bools, and chooses between two values."""
    x, y = n.input(5, 21), n.input(21)
    return n("Where", n("Greater", x, y), n("Floor", x), n("Round", n("Mul", x, y)))


def _cube(n: Net) -> str:
    return n("Pow", n.input(37), n.constant(np.float32(3)))


def _bools(n: Net) -> str:
    return n("And", n("Less", n.input(3, 21), n.input(21)), n("Greater", n.input(3, 1), n.input(21)))


def _whole(*shapes: Shape) -> VariantCase:
    """Arithmetic, comparisons and choices of whole numbers; products may wrap."""

    def build(n: Net) -> str:
        a, b, c = (n.input(*shape, dtype=TensorProto.INT32) for shape in shapes)
        product = n("Mul", n("Add", a, n.constant(np.int32(2**31 - 1))), b)
        return n("Where", n("Less", a, c), n("Max", n("Sub", product, a), c), n("Min", n("Neg", product), b))

    return case("map.vector", f"whole {list(map(list, shapes))}", build)


def _whole_as_floats(n: Net) -> str:
    return n("Mul", n("Cast", n.input(3, 21, dtype=TensorProto.INT32), to=TensorProto.FLOAT), n.input(21))


def _turned(n: Net) -> str:
    """An operand that lies in another order than the result."""
    return n("Add", n("Transpose", n("Neg", n.input(19, 6)), perm=[1, 0]), n.input(6, 19))


def _strided(n: Net) -> str:
    """Every third element of the operand's rows."""
    x = n("Slice", n("Neg", n.input(4, 60)), n.ints(1), n.ints(59), n.ints(1), n.ints(3))
    return n("Exp", x)


def topk(shape: Shape, k: int, axis: int = -1, kernel: str = "topk.radix", **attrs: object) -> VariantCase:
    def build(n: Net) -> Sequence[str]:
        return n.several("TopK", [n.input(*shape), n.ints(k)], 2, axis=axis, **attrs)

    return VariantCase(f"{kernel} {shape} {k} {axis} {attrs}", kernel, build)


def best(shape: Shape, op: str, **attrs: Any) -> VariantCase:
    return case("arg_reduce.vector", f"{shape} {op} {attrs}", lambda n: n(op, n.input(*shape), axis=-1, **attrs))


def softmax(shape: Shape, axis: int = -1, tail: str = "plain", op: str = "Softmax") -> VariantCase:
    def build(n: Net) -> str:
        return TAILS[tail](n, n(op, n("Neg", n.input(*shape)), axis=axis), shape)

    return case("softmax.vector", f"{list(shape)} {axis} {tail} {op}", build)


def hardmax(shape: Shape, axis: int = -1, tail: str = "plain") -> VariantCase:
    """Of few different numbers, so that several are the largest."""

    def build(n: Net) -> str:
        few = n("Round", n("Mul", n.input(*shape), n.constant(np.float32(1.4))))
        return TAILS[tail](n, n("Hardmax", few, axis=axis), shape)

    return case("softmax.hard", f"{list(shape)} {axis} {tail}", build)


def layer_norm(shape: Shape, axis: int = -1, tail: str = "plain") -> VariantCase:
    def build(n: Net) -> str:
        inner = shape[axis:]
        y = n("LayerNormalization", n("Neg", n.input(*shape)), n.weight(*inner), n.weight(*inner), axis=axis)
        return TAILS[tail](n, y, shape)

    return case("normalize.vector", f"{list(shape)} {axis} {tail}", build)


def instance_norm(shape: Shape) -> VariantCase:
    def build(n: Net) -> str:
        return n("InstanceNormalization", n.input(*shape), n.weight(shape[1]), n.weight(shape[1]))

    return case("normalize.vector", f"instance {list(shape)}", build)


def variance(shape: Shape, axes: Sequence[int]) -> VariantCase:
    """Any axes are normalised."""

    def build(n: Net) -> str:
        return n("MeanVarianceNormalization", n.input(*shape), axes=axes)

    return case("normalize.vector", f"variance {list(shape)} {axes}", build)


def reduced(op: str, shape: Shape, axes: Sequence[int], tail: str = "plain") -> VariantCase:
    def build(n: Net) -> str:
        left = [1 if a in [b % len(shape) for b in axes] else e for a, e in enumerate(shape)]
        return TAILS[tail](n, n(op, n("Neg", n.input(*shape)), axes=list(axes)), left)

    return case("reduce.vector", f"{op} {list(shape)} {list(axes)} {tail}", build)


def both_extremes(shape: Shape, axes: Sequence[int]) -> VariantCase:
    """The least and the largest element of what is read once."""

    def build(n: Net) -> str:
        x = n("Neg", n.input(*shape))
        low, high = (n(op, x, axes=list(axes)) for op in ("ReduceMin", "ReduceMax"))
        return n("Sub", high, low)

    return case("extremes.vector", f"{list(shape)} {list(axes)}", build)


def _summed(n: Net) -> str:
    return n("ReduceSum", n("Neg", n.input(6, 45)), n.ints(1), keepdims=0)


def _masked_rows(shape: Shape, axis: int) -> VariantCase:
    """Which rows a mask leaves nothing of, as the operator Attention asks: bools, where a float is compared with."""

    def build(n: Net) -> str:
        x = n("Log", n("Relu", n("Sub", n.input(*shape), n.constant(np.float32(1.5)))))
        return n("Equal", n("ReduceMax", x, axes=[axis]), n.constant(np.float32(-np.inf)))

    return case("reduce.vector", f"masked rows {list(shape)} {axis}", build)


def image(extents: Shape, block: Shape, tail: str = "plain", n: int = 1, **attrs: Any) -> VariantCase:
    """Columns of blocks, added up to an image of 3 channels."""
    rank = len(extents)
    strides, pads = attrs.get("strides", [1] * rank), attrs.get("pads", [0] * 2 * rank)
    window = Window(tuple(block), tuple(strides), tuple(attrs.get("dilations", [1] * rank)), tuple(pads))
    columns = (n, 3 * math.prod(block), math.prod(window.output(tuple(extents))))

    def build(net: Net) -> str:
        net.opset = 18
        x = net("Neg", net.input(*columns))
        y = net("Col2Im", x, net.ints(*extents), net.ints(*block), **attrs)
        return TAILS[tail](net, y, (n, 3, *extents))

    return case("col2im.lines", f"{list(extents)} {list(block)} {tail} {n} {attrs}", build)


MAPS = [
    *(mapped((w,), "Sigmoid") for w in WIDTHS),
    *(mapped((2, 21), op) for op in ("Tanh", "Exp", "Softplus", "HardSwish", "LeakyRelu", "Elu", "Sign", "Ceil")),
    mapped((5, 11), "Selu"),
    broadcast((3, 40), (40,), (3, 1)),
    broadcast((2, 3, 17), (1, 3, 1), (2, 1, 17)),
    broadcast((1, 1), (4, 18), (4, 1), (18,)),
    broadcast((6, 1), (1, 5)),
    *(_whole((w,), (w,), (w,)) for w in (1, 3, 4, 7, 15, 16, 21, 64, 130)),
    _whole((5, 19), (19,), (5, 1)),
    *(
        case("map.vector", f.__name__, f)
        for f in (_gelu, _masked, _cube, _bools, _turned, _strided, _whole_as_floats)
    ),
]  # fmt: skip
SOFTMAXES = [
    topk((2, 300), 200),
    topk((5, 40, 3), 7, 1, largest=0),
    topk((3, 300), 9, kernel="topk.ranks"),
    topk((5, 40, 3), 7, 1, kernel="topk.ranks", largest=0),
    best((3, 5, 70), "ArgMax"),
    best((7, 130), "ArgMin", keepdims=0, select_last_index=1),
    *(softmax((3, w)) for w in WIDTHS if w > 1),
    softmax((2, 300), tail="residual"),
    softmax((2, 19), tail="clip"),
    *(softmax((40, w), tail="residual") for w in (2, 3, 4)),
    softmax((3, 21, 2), op="LogSoftmax"),
    softmax((2, 5, 33), 1),
    softmax((2, 12, 33), 1),
    softmax((2, 5, 3, 7), 1, "residual"),
    softmax((40, 6), 0, "clip"),
    softmax((3, 300), op="LogSoftmax"),
    softmax((2, 19), op="LogSoftmax"),
    softmax((2, 9, 20), 1, op="LogSoftmax"),
    hardmax((5, 130)),
    *(hardmax((3, w)) for w in (2, 15, 16, 17, 64)),
    hardmax((2, 3, 70), tail="residual"),
    hardmax((7, 33), tail="clip"),
    *(hardmax((5, w), axis=0) for w in (2, 16, 19, 70)),
    hardmax((2, 7, 33), axis=1, tail="residual"),
    hardmax((3, 4, 2, 16), axis=1, tail="clip"),
    hardmax((6, 3, 5), axis=0),
]
NORMALISATIONS = [
    *(layer_norm((3, w)) for w in WIDTHS if w > 3),
    layer_norm((2, 3, 70), -2, "residual"),
    layer_norm((2, 19), -1, "clip"),
    instance_norm((2, 3, 9, 10)),
    variance((3, 20, 6, 18), (0, 2)),
    variance((150, 3, 21), (0,)),
    variance((2, 4, 6, 5), (1, 3)),
]
REDUCTIONS = [
    *(reduced("ReduceMean", (3, w), (1,)) for w in WIDTHS if w > 1),
    *(reduced(op, (4, 75), (-1,)) for op in ("ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2", "ReduceL1")),
    *(reduced(op, (200, 37), (0,)) for op in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2")),
    reduced("ReduceMean", (2, 5, 7, 9), (2, 3), "swish"),
    reduced("ReduceMean", (2, 5, 7, 9), (0, 2), "residual"),
    reduced("ReduceMax", (2, 5, 7, 9), (1, 3), "clip"),
    reduced("ReduceMean", (3, 9, 16), (0, 1, 2)),
    case("reduce.vector", "dropped", _summed),
    *(both_extremes((3, w), (1,)) for w in WIDTHS if w > 1),
    both_extremes((7, 130), (0, 1)),
    both_extremes((2, 5, 7, 9), (1, 3)),
    _masked_rows((5, 3, 2), 1),
    _masked_rows((9, 4), 1),
    _masked_rows((3, 21), 0),
]
IMAGES = [
    *(image((w,), (3,), n=n, tail=t) for w, n, t in ((3, 1, "plain"), (9, 2, "swish"), (40, 1, "residual"))),
    *(image((7, w), (3, 3), pads=[1] * 4) for w in (4, 15, 16, 17, 33, 130)),
    *(image((8, w), (4, 4), t, pads=[1] * 4, strides=[2, 2])
      for w, t in ((8, "plain"), (32, "clip"), (62, "masks"), (70, "residual"))),
    *(image((6, w), (2, 2), pads=[0, 1, 0, 0], strides=[2, s]) for w, s in ((33, 2), (49, 3), (77, 4), (5, 4))),
    *(image((9, w), (3, 3), strides=[2, s], dilations=[2, d]) for w, s, d in ((13, 2, 2), (70, 4, 3), (66, 5, 2))),
    *(image((7, w), (1, 1), strides=[3, s], pads=[1, 2, 0, 1], n=2) for w, s in ((16, 3), (50, 2), (40, 6))),
    image((40, 50), (8, 16), "swish", strides=[4, 8], pads=[2, 4, 2, 4]),
    image((100,), (20,), strides=[10], pads=[5, 5]),
    image((9, 200), (3, 8), strides=[2, 2]),
    image((9, 100), (3, 5)),
    image((1,), (1,), pads=[1, 1], strides=[2]),  # what no block has anything for
    image((4, 6, 35), (2, 3, 3), "residual", strides=[2, 1, 2], pads=[0, 1, 1, 0, 1, 0]),
]  # fmt: skip

VECTORS = [*MAPS, *SOFTMAXES, *NORMALISATIONS, *REDUCTIONS, *IMAGES]
GUARDED_VECTORS = [
    MAPS[9], MAPS[-4], SOFTMAXES[3], SOFTMAXES[-3], NORMALISATIONS[3], NORMALISATIONS[-3], REDUCTIONS[20],
    IMAGES[5], IMAGES[12], IMAGES[-1],
]  # fmt: skip
"""One with a tail for each arrangement of a template."""
