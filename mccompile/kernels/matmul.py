"""The family of `matmul`: operands with their leading axes broadcast to those of the result."""

from __future__ import annotations

from mccompile.ir.graph import Node
from mccompile.ir.kernel import View
from mccompile.kernels.variant import Builder, Variant


class MatMulGeneric(Variant):
    ops = ("matmul",)
    kernel = "matmul.generic"

    def lower(self, node: Node, b: Builder) -> None:
        a, w = node.operands
        assert a is not None and w is not None
        result = b.result(0)
        b.call(self.kernel, [batched(b.read(a), result), batched(b.read(w), result)], [result])


def batched(view: View, result: View) -> View:
    """A matrix operand with its leading axes broadcast to those of the result."""
    return view.broadcast((*result.shape[:-2], *view.shape[-2:]))


VARIANTS = (MatMulGeneric(),)
