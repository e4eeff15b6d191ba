"""Cases of Winograd convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.kernels.cases import TAILS, Net, VariantCase

TOLERANCE = 3e-5
"""Of the largest result; see `mccompile.kernels.conv.winograd`."""


def winograd(
    shape: Sequence[int], channels: int, kernel: Sequence[int], tail: str = "plain", **attrs: Any
) -> VariantCase:
    """A convolution of an intermediate value."""
    pads = attrs.get("pads", [0] * (2 * len(kernel)))
    reach = [(k - 1) * d for k, d in zip(kernel, attrs.get("dilations", [1] * len(kernel)), strict=True)]
    strides = attrs.get("strides", [1] * len(kernel))
    out = [(e + pads[i] + pads[i + len(kernel)] - reach[i] - 1) // strides[i] + 1 for i, e in enumerate(shape[2:])]

    def build(n: Net) -> Sequence[str]:
        own = shape[1] // attrs.get("group", 1)
        y = n.conv(n("Neg", n.input(*shape)), (channels, own, *kernel), **attrs)
        return [TAILS[tail](n, y, (shape[0], channels, *out))]

    name = f"winograd {list(shape)} {channels} {list(kernel)} {tail} {attrs}"
    return VariantCase(name, "conv.winograd", build, channels_last=True, tolerance=TOLERANCE)


SAME = {"pads": [1] * 4}
WINOGRAD = [
    *(winograd((1, 16, 12, w), m, (3, 3), **SAME) for w, m in ((12, 16), (12, 13), (13, 24), (20, 33))),
    *(winograd((1, 16, 12, w), m, (3, 3), **SAME) for w, m in ((9, 64), (16, 96))),
    *(winograd((1, 20, 10, 11), 32, (3, 3), tail, **SAME) for tail in ("swish", "residual", "masks")),
    winograd((2, 32, 7, 7), 40, (3, 3), "residual", **SAME),
    winograd((1, 16, 18, 18), 16, (3, 3)),
    winograd((1, 16, 15, 14), 32, (3, 3), pads=[2, 0, 0, 2]),
    winograd((1, 24, 14, 14), 32, (5, 5), pads=[2] * 4),
    winograd((1, 32, 60), 32, (3,), "residual", pads=[4, 4], dilations=[4]),
    *(winograd((1, 16, 24, w), m, (3, 3), strides=[2, 2], **SAME) for w, m in ((24, 16), (23, 40), (18, 96))),
    winograd((1, 64, 14, 14), 96, (3, 3), "residual", group=2, **SAME),
    winograd((2, 24, 14, 15), 32, (3, 3), "residual", pads=[0, 0, 1, 1], strides=[2, 2]),
    winograd((1, 16, 20, 40), 32, (3, 7), pads=[1, 3, 1, 3], strides=[1, 2]),
    winograd((1, 32, 61), 32, (4,), "swish", pads=[1, 1], strides=[2]),
    winograd((1, 32, 10, 60), 32, (1, 3), pads=[0, 1, 0, 1], dilations=[4, 1]),  # tiles of a line that are none
    winograd((2, 32, 29, 5), 24, (3, 1), "residual", pads=[2, 0, 1, 0], dilations=[2, 1]),
    winograd((5, 24, 13, 14), 32, (3, 3), "residual", **SAME),  # a last block of fewer tiles
]
