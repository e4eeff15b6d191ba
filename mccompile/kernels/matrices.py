"""The families of det and inverse: matrices are copied to memory of the call's own, and eliminated there."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.targets.target import Target


class _Elimination(Variant):
    """Base of both: ``widths`` is how many matrices lie side by side in the scratch memory."""

    widths = 1

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x = node.inputs[0].type
        return Offer(self.label, 3.0 * x.count * x.shape[-1] * self.widths)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x = node.inputs[0].type
        scratch = b.scratch(self.widths * x.shape[-1] ** 2, x.dtype.compute)
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0)], scratch=scratch)


class DetGeneric(_Elimination):
    ops = ("det",)
    kernel = "det.generic"


class InverseGeneric(_Elimination):
    ops = ("inverse",)
    kernel = "inverse.generic"
    widths = 2


VARIANTS = (DetGeneric(), InverseGeneric())
