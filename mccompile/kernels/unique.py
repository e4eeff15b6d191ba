"""The family of unique: rows are told apart by a sort of their numbers."""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.types import I32
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.ops.unique import Unique
from mccompile.targets.target import Target

COMPARED_CYCLES = 8.0
"""Cycles of a comparison in the heap."""


class UniqueGeneric(Variant):
    ops = ("unique",)
    kernel = "unique.generic"
    stores_rows = True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x = node.operands[0]
        assert x is not None
        if node.pre or node.post or x.type.layout is not None:
            return f"{self.kernel} carries no prologue or epilogue, and takes rows"
        rows = max(int(x.shape[0]), 2)
        return Offer(self.label, 2 * rows * math.log2(rows) * COMPARED_CYCLES)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x,) = (b.read(v) for v in node.inputs)
        assert isinstance(node.op, Unique)
        scratch = b.scratch(int(x.shape[0]) * (1 if node.op.rising else 2), I32)
        b.call(self.kernel, [x], [b.result(i) for i in range(5)], scratch=scratch)


VARIANTS = (UniqueGeneric(),)
