"""The family of `pool`: each channel on its own, or pixel by pixel where channels lie together."""

from __future__ import annotations

import numpy as np

from mccompile.ir.graph import Node
from mccompile.ir.kernel import Call
from mccompile.kernels.variant import Builder, Variant
from mccompile.kernels.windows import Order, distance
from mccompile.ops.pool import Pool


class PoolGeneric(Variant):
    ops = ("pool",)
    kernel = "pool.generic"
    params = Order

    def lower(self, node: Node, b: Builder) -> None:
        (x,) = node.inputs[:1]
        b.call(self.kernel, [b.read(x)], [b.result(i) for i in range(len(node.results))], params=Order())

    def near(self, call: Call) -> int | None:
        op, x = call.op, call.reads[0]
        assert isinstance(op, Pool)
        assert isinstance(call.params, Order)
        assert x is not None
        return distance(call, op.window, np.arange(x.shape[1]), call.params.channels_last)


VARIANTS = (PoolGeneric(),)
