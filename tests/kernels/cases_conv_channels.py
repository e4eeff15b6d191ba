"""Networks for convolutions of channels-last values: around tiles, borders, groups, half vectors, other operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx

from tests.kernels.cases import TAILS, Net, VariantCase

BORDER = [1, 1, 1, 1]


def channels(
    shape: Sequence[int], out: int, kernel: Sequence[int], tail: str = "plain", inner: bool = True, **attrs: Any
) -> VariantCase:
    """A convolution of an intermediate value, or with ``inner`` False of the network's input, which is row-major."""

    def build(n: Net) -> Sequence[str]:
        x = n.input(*shape)
        y = n.conv(n("Neg", x) if inner else x, (out, shape[1] // attrs.get("group", 1), *kernel), **attrs)
        extents = onnx.shape_inference.infer_shapes(n.model(y)).graph.output[0].type.tensor_type.shape.dim
        return [TAILS[tail](n, y, [d.dim_value for d in extents])]

    pointwise = set(kernel) == {1} and not any(attrs.get("pads", [0]))
    kernel_name = "matmul.packed" if pointwise else "conv.channels"
    name = f"channels {list(shape)} {out} {list(kernel)} {tail} {inner} {attrs}"
    return VariantCase(name, kernel_name, build, "conv", channels_last=True)


def _chain(n: Net) -> Sequence[str]:
    """A residual block with a strided shortcut: each kernel reads what another one of the family wrote."""
    x = n("Relu", n.conv(n.input(1, 3, 17, 15), (24, 3, 3, 3), pads=BORDER))
    a = n("Relu", n.conv(x, (10, 24, 1, 1)))
    b = n("Relu", n.conv(a, (10, 10, 3, 3), pads=BORDER, strides=[2, 2]))
    return [n("Relu", n("Add", n.conv(b, (40, 10, 1, 1)), n.conv(x, (40, 24, 1, 1), strides=[2, 2])))]


def _parts(n: Net) -> Sequence[str]:
    """Operands and results that are parts of wider pixels: slices and a concatenation along the channels."""
    x = n("Neg", n.input(1, 40, 6, 7))
    halves = [n("Slice", x, n.ints(lo), n.ints(hi), n.ints(1)) for lo, hi in ((0, 17), (17, 40))]
    made = [n.conv(halves[0], (9, 17, 3, 3), pads=BORDER), n.conv(halves[1], (31, 23, 1, 1))]
    return [n.conv(n("Concat", *made, axis=1), (8, 40, 3, 3), pads=BORDER)]


CHANNELS = [
    *(channels((1, 3, 3, w), m, (3, 3), pads=BORDER) for w, m in ((1, 4), (2, 5), (13, 7), (14, 8), (29, 15))),
    *(channels((1, 5, 4, 9), m, (3, 3), pads=BORDER) for m in (16, 24, 25, 33, 72)),
    *(channels((1, c, 5, 7), 20, (3, 3), pads=BORDER) for c in (1, 4, 8, 9, 13)),
    *(channels((1, 4, 9, 20), 12, (3, 3), pads=BORDER, group=g, strides=[s, s]) for g, s in ((2, 1), (4, 2), (4, 3))),
    *(channels((1, c, 40), 20, (11,), pads=[4, 7], strides=[s], dilations=[d]) for c, s, d in ((1, 1, 2), (5, 3, 1))),
    *(channels((1, 3, 6, w), 20, (3, 11), pads=[1, 2, 1, 2], strides=[2, 4]) for w in (40, 43, 9)),
    channels((1, 2, 4, 40), 12, (1, 13), "residual", pads=[0, 2, 0, 3]),
    channels((2, 3, 6, 33), 17, (2, 9), pads=[1, 8, 0, 3], group=1),
    *(channels((1, 3, 5, 18), 24, (3, 3), tail, pads=BORDER) for tail in TAILS if tail != "roots"),
    channels((1, 70, 3, 5), 34, (3, 3), "residual", pads=BORDER, group=2),
    channels((2, 6, 7, 10), 9, (3, 2), group=3, dilations=[2, 3], pads=[0, 2, 3, 1]),
    channels((1, 2, 8, 9), 18, (3, 3), dilations=[4, 4], pads=[4, 4, 4, 4]),
    channels((1, 8, 6, 6), 16, (5, 5), group=8, pads=[2] * 4),
    channels((1, 2, 12, 12), 33, (3, 3)),
    channels((1, 2, 5, 5), 8, (1, 1), pads=[2, 0, 0, 2]),
    channels((1, 2, 3, 3), 8, (2, 2), pads=[3, 3, 3, 3], strides=[2, 2]),
    channels((1, 3, 30, 31), 21, (7, 7), pads=[3] * 4, strides=[2, 2], inner=False),
    channels((1, 1, 9, 9), 64, (3, 3), "residual", pads=BORDER, inner=False),
    channels((1, 5, 33, 1), 12, (7, 1), "residual", pads=[3, 0, 2, 0], strides=[2, 1]),
    channels((1, 3, 29, 4), 9, (2, 4), pads=[0, 1, 1, 0], dilations=[3, 1], inner=False),
    channels((2, 3, 21), 7, (5,), "residual", pads=[4, 0]),
    channels((1, 4, 40), 20, (3,), dilations=[4], pads=[8, 0]),
    channels((1, 1, 100), 16, (80,), strides=[4], pads=[38, 38], inner=False),
    *(channels((1, 3, e), 20, (33,), "residual", pads=[16, 16]) for e in (5, 31, 70)),
    channels((1, 3, 2), 20, (33,), pads=[20, 20]),  # pixels of a tile that no tap has in common
    *(channels((1, 5, 2, 50), 9, (3, 21), pads=[1, 30, 1, 9], strides=[1, s], dilations=[1, 2]) for s in (1, 3)),
    channels((1, 40, 60), 8, (64,), pads=[31, 32]),
    *(channels((1, 4, 7, 7), m, (1, 1)) for m in (1, 9, 16, 24, 130)),
    *(channels((1, 3, *hw), 9, (1, 1)) for hw in ((1, 1), (9, 1), (4, 4))),
    *(channels((1, k, 2, 3), 24, (1, 1)) for k in (1, 8, 11, 12)),
    *(channels((2, 3, 5, 5), 24, (1, 1), tail) for tail in TAILS if tail != "roots"),
    channels((1, 6, 9, 8), 24, (1, 1), "residual", strides=[2, 2]),
    channels((1, 6, 9, 8), 5, (1, 1), inner=False, strides=[3, 2]),
    channels((1, 300, 31, 30), 8, (1, 1)),
    channels((2, 5, 19), 3, (1,), "residual", strides=[2]),
    *(channels((1, 3, 4, 5, w), m, (3, 3, 3), pads=[1] * 6) for w, m in ((3, 7), (15, 24), (9, 33))),
    channels((2, 6, 5, 6, 9), 10, (3, 3, 3), "residual", pads=[1] * 6, strides=[2, 2, 2]),
    channels((1, 3, 6, 9, 15), 16, (2, 7, 7), pads=[1, 3, 3, 0, 3, 3], strides=[1, 2, 2], inner=False),
    channels((1, 12, 7, 3, 8), 18, (3, 1, 1), "swish", group=2, pads=[2, 0, 0, 2, 0, 0], dilations=[2, 1, 1]),
    channels((1, 5, 4, 4, 5), 9, (1, 1, 1), "residual", strides=[1, 2, 2]),
    channels((1, 4, 4, 5, 6), 8, (2, 2, 2)),
    # Volumes in groups stay volumes: their windows leave the operand along its planes.
    channels((1, 6, 5, 6, 9), 10, (3, 3, 3), group=2, pads=[1, 1, 1, 2, 1, 0]),
    channels((2, 6, 7, 6, 9), 10, (3, 2, 3), group=2, pads=[2, 1, 1, 1, 1, 0], strides=[2, 1, 2]),
    channels((1, 8, 7, 6, 9), 16, (3, 2, 3), "residual", group=2, pads=[3, 1, 1, 2, 1, 0], dilations=[2, 1, 3]),
    channels((1, 6, 2, 6, 9), 10, (5, 3, 3), group=2, pads=[4, 1, 1, 5, 1, 1], strides=[3, 1, 1]),
    VariantCase("channels _chain", "conv.channels", _chain, "conv", channels_last=True),
    VariantCase("channels _chain in rows", "matmul.packed", _chain, "conv", channels_last=True),
    VariantCase("channels _parts", "conv.channels", _parts, "conv", channels_last=True),
]
