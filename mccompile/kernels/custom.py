"""The family of `custom`: a call of a function from outside, which sees tensors row by row without gaps."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.kernels.variant import Offer, Plain, laid_out
from mccompile.targets.target import Target


class CustomGeneric(Plain):
    ops = ("custom",)
    kernel = "custom.generic"
    may_share = False

    def takes(self, node: Node) -> bool:
        return True

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if laid_out(node):
            return "a function of C wants its tensors row by row"
        return super().offer(node, target, constants)

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        views = [v for v in (*after.inputs, *after.results) if v is not None]
        return "" if all(v.gapless for v in views) else "a function of C wants its tensors row by row"


VARIANTS = (CustomGeneric(),)
