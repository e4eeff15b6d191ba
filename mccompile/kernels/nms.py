"""The family of `nms`: a heap of the boxes of a class by their scores, of which the best are taken one by one."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.types import I32
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.targets.target import Target


class NmsGeneric(Variant):
    ops = ("nms",)
    kernel = "nms.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return "neither prologues nor epilogues are supported"
        return Offer(self.label, 20.0 * int(node.inputs[1].type.count))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        scores = node.operands[1]
        assert scores is not None
        scratch = b.scratch(int(scores.shape[2]), I32)
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0), b.result(1)], scratch=scratch)


VARIANTS = (NmsGeneric(),)
