"""The family of `topk`: a heap of the best indices so far, whose root is the worst of them."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.types import I32
from mccompile.kernels.variant import Builder, Offer, Variant, laid_out
from mccompile.ops.topk import TopK
from mccompile.targets.target import Target


class TopKGeneric(Variant):
    ops = ("topk",)
    kernel = "topk.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre:
            return "a prologue is not supported"
        if laid_out(node):
            return "top-k needs row-major operands"
        return super().offer(node, target, constants)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        (x,) = node.operands
        assert x is not None
        assert isinstance(node.op, TopK)
        scratch = b.scratch(node.op.k, I32)
        b.call(self.kernel, [b.read(x)], [b.result(0), b.result(1)], scratch=scratch)


VARIANTS = (TopKGeneric(),)
