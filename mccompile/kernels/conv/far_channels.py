"""What it costs to broadcast the channels of a pixel one after the other where they lie far apart.

Worked example: AVX2, a first cache of 32 KiB whose lines meet 4096 bytes apart, eight of them. Channels of 32 x 32
pixels are 4096 bytes apart, so that the lines of all of them meet: those of 3 stay, those of 16 do not, as weights
pass through as well. Channels of 33 x 33 pixels are spread over all sets.

>>> from mccompile.targets.target import resolve
>>> avx2 = resolve("x86-64-v3").machine
>>> [avx2.keeps(count, 4 * 32 * 32) for count in (3, 16)], avx2.keeps(64, 4 * 33 * 33)
([True, False], True)
"""

from __future__ import annotations

import math

from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Node
from mccompile.ir.kernel import Call
from mccompile.kernels.variant import operand_pair
from mccompile.kernels.views.channels import is_channels_last
from mccompile.targets.target import Target

FAR = 6.0
"""Cycles of a broadcast whose line was lost to the first cache."""
TILE_PIXELS = 14
"""Pixels that share a line while it is there."""


def far_reads(node: Node, target: Target) -> float:
    """Cycles that a convolution, transposed or not, loses where neighbours in memory are pixels."""
    x, w = operand_pair(node)
    if not target.cached or is_channels_last(x):
        return 0.0
    pitch = x.dtype.nbytes * math.prod(map(bound, x.shape[2:]))
    if target.machine.keeps(bound(x.shape[1]), pitch):
        return 0.0
    pixels = node.op.macs(node.operand_types(), [node.results[0].type]) / w.type.count
    return FAR * w.type.count / (2 * target.lanes) * pixels / TILE_PIXELS


def read_far(before: Call, after: Call, target: Target) -> str:
    """Why a call should not be given an operand whose channels, its last axis, lie further apart than they did."""
    x, y = before.reads[0], after.reads[0]
    if not target.cached or x is None or y is None or not y.linear or varies([y.shape[-1]]):
        return ""
    near, far = (abs(bound(v.axis_strides()[-1])) * v.dtype.nbytes for v in (x, y))
    if far <= near or far < target.machine.line or target.machine.keeps(y.shape[-1], far):
        return ""
    return f"{after.kernel} would read channels from far apart"
