"""Convolutions of little code for floating-point units without vectors: a few channels of results at a time.

Four results of a pixel at once read each element of the operand once for all of them, where the generic kernel reads
it, and asks whether it lies in the padding, for each: a fourth of the instructions, from code that is no larger.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.kernels.conv.channels import PackedTaps
from mccompile.kernels.model.tiles import LONG
from mccompile.kernels.variant import Builder, Offer, Staged, Variant, computed, operand_pair, sums_backwards
from mccompile.kernels.views.windows import Order, tiles_distance
from mccompile.ops.conv import Conv
from mccompile.targets.target import Target

BLOCK = 4
"""Channels that are summed at once: as many as their sums, weights and an element leave registers to compilers."""
CYCLES = 3.0
"""Of a product; the generic kernel takes 4."""


@dataclass(frozen=True)
class BlockOrder(Order):
    """An order of blocks of `BLOCK` channels, of a window of ``kernel`` taps along each axis."""

    kernel: tuple[int, ...] = ()


class ConvBlocks(Variant):
    ops = ("conv",)
    kernel = "conv.blocks"
    params = BlockOrder
    rereads = (0,)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op, (x, w) = node.op, operand_pair(node)
        assert isinstance(op, Conv)
        if reason := computed(node, constants, 1):
            return reason
        if target.lanes != 1 or not target.compact:
            return "it is for little code with floats one by one"
        if node.pre or any(v.dtype != F32 for v in (x, w)):
            return "only f32 without prologues is computed so"
        if w.shape[1] == 1:
            return "it reads one channel: the generic kernel is smaller"
        if op.groups != 1 or w.shape[0] % BLOCK:
            return f"its channels are no blocks of {BLOCK} in one group"
        if len(x.shape) not in (3, 4):
            return "it has more than two spatial axes"
        steps = math.prod(w.shape[1:])
        if steps > LONG:
            return "its sums are so long that they go in runs"
        return Offer(self.label, CYCLES * node.results[0].type.count * steps)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, w = operand_pair(node)
        packed = b.packed(w, PackedTaps(BLOCK, 1))
        params = BlockOrder(by_extents=True, kernel=w.shape[2:])
        b.call(self.kernel, [b.read(x), packed], [b.result(0)], params=params)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        x = after.reads[0]
        assert x is not None
        if before.reads[1] != after.reads[1]:
            return f"{self.kernel} is made for its weights as they are packed"
        return sums_backwards(x, [1])

    def staged(self, call: Call) -> Staged | None:
        """Pixel by pixel, of 1x1 convolutions."""
        op, params, x, y = call.op, call.params, call.reads[0], call.results[0]
        assert isinstance(op, Conv)
        assert isinstance(params, BlockOrder)
        assert x is not None
        pointwise = set(params.kernel) <= {1} and set(op.strides) <= {1} and not any(op.pads)
        return Staged(replace(params, pixel_buffer=True), y.shape[1]) if pointwise and x.same_elements(y) else None

    def near(self, call: Call) -> int | None:
        op, p, x, y = call.op, call.params, call.reads[0], call.results[0]
        assert isinstance(op, Conv)
        assert isinstance(p, BlockOrder)
        assert x is not None
        if p.pixel_buffer:
            return None
        rank = y.rank
        order = (0, *range(2, rank), 1) if p.channels_last else tuple(range(rank))

        def along(axis: int, values: Array) -> Array:
            return values.reshape([-1 if a == axis else 1 for a in order])

        batch = along(0, np.arange(y.shape[0]))
        last = along(1, np.arange(BLOCK - 1, y.shape[1], BLOCK))
        out = [along(2 + a, np.arange(y.shape[2 + a])) for a in range(rank - 2)]
        starts = [np.clip(o * op.strides[a] - op.pads[a], 0, x.shape[2 + a] - 1) for a, o in enumerate(out)]
        return tiles_distance(call, [batch, np.array(0), *starts], [batch, last, *out])


VARIANTS = (ConvBlocks(),)
