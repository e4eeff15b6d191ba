"""Networks for depthwise and transposed convolutions, pools and resizes of channels-last values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx

from tests.kernels.cases import TAILS, Net, VariantCase

Op = Callable[[Net, str], str]


def _shape(n: Net, y: str) -> list[int]:
    extents = onnx.shape_inference.infer_shapes(n.model(y)).graph.output[0].type.tensor_type.shape.dim
    return [d.dim_value for d in extents]


def _case(name: str, kernel: str, op: str, shape: Sequence[int], node: Op, tail: str = "plain") -> VariantCase:
    """``node`` applied to an intermediate value."""

    def build(n: Net) -> Sequence[str]:
        y = node(n, n("Neg", n.input(*shape)))
        return [TAILS[tail](n, y, _shape(n, y))]

    return VariantCase(f"{name} {list(shape)} {tail}", kernel, build, op, channels_last=True)


def depthwise(shape: Sequence[int], kernel: Sequence[int], tail: str = "plain", **attrs: Any) -> VariantCase:
    def node(n: Net, x: str) -> str:
        return n.conv(x, (shape[1], 1, *kernel), group=shape[1], **attrs)

    return _case(f"depthwise {list(kernel)} {attrs}", "conv.depthwise", "conv", shape, node, tail)


def transposed(
    shape: Sequence[int], out: int, kernel: Sequence[int], tail: str = "plain", **attrs: Any
) -> VariantCase:
    def node(n: Net, x: str) -> str:
        w = n.weight(shape[1], out // attrs.get("group", 1), *kernel)
        return n("ConvTranspose", x, w, n.weight(out), **attrs)

    return _case(f"transposed {out} {list(kernel)} {attrs}", "conv.channels", "conv_transpose", shape, node, tail)


def transposed_depthwise(
    shape: Sequence[int], kernel: Sequence[int], tail: str = "plain", **attrs: Any
) -> VariantCase:
    def node(n: Net, x: str) -> str:
        return n("ConvTranspose", x, n.weight(shape[1], 1, *kernel), n.weight(shape[1]), group=shape[1], **attrs)

    return _case(f"transposed {list(kernel)} {attrs}", "conv.depthwise", "conv_transpose", shape, node, tail)


def pool(shape: Sequence[int], op: str, kernel: Sequence[int], tail: str = "plain", **attrs: Any) -> VariantCase:
    def node(n: Net, x: str) -> str:
        return n(op, x, kernel_shape=kernel, **attrs)

    return _case(f"{op} {list(kernel)} {attrs}", "pool.channels", "pool", shape, node, tail)


def resize(shape: Sequence[int], extents: Sequence[int], mode: str, tail: str = "plain", **attrs: Any) -> VariantCase:
    def node(n: Net, x: str) -> str:
        return n("Resize", x, "", "", n.ints(*shape[:2], *extents), mode=mode, **attrs)

    return _case(f"resize {list(extents)} {mode} {attrs}", "resize.channels", "resize", shape, node, tail)


def sample(shape: Sequence[int], places: Sequence[int], mode: str, tail: str = "plain", **attrs: Any) -> VariantCase:
    """GridSample at places of and around the operand."""

    def node(n: Net, x: str) -> str:
        grid = n("Mul", n.input(shape[0], *places, len(places)), n.constant(np.float32(1.2)))
        return n("GridSample", x, grid, mode=mode, **attrs)

    return _case(f"sample {list(places)} {mode} {attrs}", "grid_sample.channels", "grid_sample", shape, node, tail)


def _inside_wider_pixels(n: Net) -> Sequence[str]:
    """Operands and results that are parts of wider pixels: a slice and a concatenation along the channels."""
    x = n("Neg", n.input(1, 40, 6, 7))
    part = n("Slice", x, n.ints(3), n.ints(36), n.ints(1))
    y = n.conv(part, (33, 1, 3, 3), group=33, pads=[1] * 4)
    z = n("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    return [n("Concat", y, z, axis=1)]


def _into_a_concatenation(n: Net) -> Sequence[str]:
    """The phases of a transposed convolution are written beside what was skipped."""
    x, skipped = n("Neg", n.input(1, 12, 5, 4)), n("Exp", n.input(1, 7, 10, 8))
    y = n("ConvTranspose", x, n.weight(12, 9, 2, 2), n.weight(9), strides=[2, 2])
    return [n("Relu", n.conv(n("Concat", skipped, y, axis=1), (5, 16, 3, 3)))]


def _bottleneck(n: Net) -> Sequence[str]:
    """What the layout pass stores channels-last by itself, with channels that are no whole vectors."""
    x = n("Relu", n.conv(n.input(1, 8, 15, 13), (44, 8, 1, 1)))
    y = n("Relu", n.conv(x, (44, 1, 3, 3), group=44, pads=SAME))
    z = n("MaxPool", y, kernel_shape=[3, 3], pads=SAME, strides=[2, 2])
    up = n("Resize", z, "", "", n.ints(1, 44, 15, 13), mode="linear")
    wide = n("ConvTranspose", n.conv(up, (44, 44, 1, 1)), n.weight(44, 20, 2, 2), strides=[2, 2])
    return [n.conv(wide, (9, 20, 1, 1))]


SAME = [1, 1, 1, 1]
DEPTHWISE = [
    *(depthwise((1, c, 5, 9), (3, 3), pads=SAME) for c in (2, 7, 8, 9, 16, 17, 33, 48)),
    *(depthwise((1, 20, h, w), (3, 3), pads=SAME) for h, w in ((1, 1), (2, 7), (3, 8), (7, 15), (4, 17), (1, 40))),
    *(depthwise((2, 18, 9, 13), (3, 3), pads=SAME, strides=[s, s]) for s in (2, 3)),
    *(depthwise((1, 18, 6, 9), (3, 3), tail, pads=SAME) for tail in ("swish", "residual", "masks", "clip")),
    depthwise((1, 19, 14, 30), (5, 5), pads=[2] * 4),
    depthwise((1, 8, 11, 31), (7, 7), pads=[3] * 4, dilations=[2, 2]),
    depthwise((1, 12, 12, 12), (3, 3)),
    depthwise((1, 9, 6, 5), (2, 3), pads=[0, 2, 1, 0], strides=[1, 2]),
    depthwise((1, 4, 3, 3), (3, 3), pads=[5] * 4, strides=[3, 3]),
    depthwise((2, 5, 40), (3,), "residual", pads=[8, 8], dilations=[8]),
    depthwise((1, 17, 50), (31,), pads=[15, 15]),
    VariantCase("depthwise inside", "conv.depthwise", _inside_wider_pixels, "conv", channels_last=True),
    VariantCase("depthwise bottleneck", "conv.depthwise", _bottleneck, "conv", channels_last=True),
]
TRANSPOSED = [
    transposed((1, 20, 5, 9), 7, (2, 2), strides=[2, 2]),
    transposed((2, 16, 7, 7), 33, (4, 4), "residual", strides=[2, 2], pads=SAME),
    transposed((1, 9, 4, 5), 20, (3, 3), "swish", strides=[2, 2], pads=SAME, output_padding=[1, 1]),
    transposed((1, 8, 11, 6), 16, (3, 3), group=2, pads=SAME),
    transposed((1, 3, 5, 4), 4, (4, 3), strides=[2, 1], dilations=[3, 2]),
    transposed((1, 3, 5, 4), 4, (3, 3), strides=[2, 2], pads=[4, 4, 3, 3]),
    transposed((1, 6, 10), 9, (5,), group=3, strides=[3], dilations=[2], pads=[3, 1]),
    transposed((1, 5, 1, 1), 8, (4, 4)),
    transposed((1, 6, 3, 4, 5), 9, (2, 2, 2), "residual", strides=[2, 2, 2]),
    transposed((1, 4, 3, 2, 5), 20, (3, 4, 3), strides=[2, 2, 1], pads=[1] * 6, group=2),
    transposed_depthwise((1, 20, 5, 9), (4, 4), "residual", strides=[2, 2], pads=SAME),
    transposed_depthwise((2, 9, 4, 3), (3, 5), strides=[2, 3], pads=[1, 0, 0, 2], output_padding=[1, 2]),
    transposed_depthwise((1, 8, 5, 4), (3, 3), "swish", dilations=[3, 2], strides=[2, 1], pads=[4, 3, 1, 0]),
    transposed_depthwise((1, 17, 11), (16,), strides=[8], pads=[4, 4]),
    VariantCase("transposed beside", "conv.channels", _into_a_concatenation, "conv_transpose", channels_last=True),
]
POOLS = [
    *(pool((1, c, 9, 9), "MaxPool", (3, 3), pads=SAME, strides=[2, 2]) for c in (3, 8, 16, 20)),
    pool((2, 16, 8, 8), "MaxPool", (2, 2), "residual", strides=[2, 2]),
    pool((1, 8, 13, 13), "MaxPool", (5, 5), strides=[1, 1], pads=[2] * 4),
    pool((1, 8, 13, 13), "MaxPool", (3, 3), strides=[1, 1], pads=[2] * 4, dilations=[2, 2]),
    pool((1, 9, 40), "MaxPool", (4,), strides=[4]),
    *(pool((1, 33, 7, 19), "AveragePool", (3, 3), "clip", pads=SAME, count_include_pad=c) for c in (0, 1)),
    pool((1, 9, 10, 8), "AveragePool", (4, 3), pads=[2, 1, 1, 1], ceil_mode=1, strides=[3, 3]),
    pool((1, 9, 10, 8), "AveragePool", (4, 3), pads=[2, 1, 1, 1], strides=[3, 3], count_include_pad=1),
    pool((1, 9, 10, 7), "AveragePool", (3, 3), pads=[1, 1, 0, 1], ceil_mode=1, strides=[2, 2], count_include_pad=1),
    pool((1, 24, 7, 7), "AveragePool", (7, 6)),
    pool((1, 17, 50), "AveragePool", (25,), strides=[3], pads=[12, 7], ceil_mode=1),
]
RESIZES = [
    *(resize((1, c, 5, 7), (12, 11), "linear") for c in (4, 8, 16, 20, 35)),
    resize((2, 16, 8, 8), (17, 8), "linear", "residual", coordinate_transformation_mode="align_corners"),
    resize((1, 35, 5, 7), (12, 11), "nearest", "clip"),
    resize((1, 5, 6, 7), (6, 15), "cubic"),
    resize((1, 8, 6, 6), (13, 9), "cubic", "swish"),
    resize((1, 33, 4, 5), (3, 3), "linear"),
    resize((1, 18, 11), (20,), "linear"),
]
SAMPLES = [
    *(sample((1, c, 5, 7), (6, 3), "bilinear") for c in (3, 8, 16, 35)),
    sample((2, 16, 6, 5), (4, 9), "bilinear", "residual", padding_mode="border", align_corners=1),
    sample((1, 9, 5, 6), (3, 4), "nearest", "clip", padding_mode="reflection"),
    sample((1, 20, 5, 5), (4, 4), "bicubic", "swish"),
]
OVER_CHANNELS = [*DEPTHWISE, *TRANSPOSED, *POOLS, *RESIZES, *SAMPLES]
