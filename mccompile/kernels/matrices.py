"""The families of det, inverse and pairwise_coupling: matrices in memory of the call's own."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.dims import bound
from mccompile.ir.graph import Node, Value
from mccompile.ir.types import F32
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.targets.target import Target


class _Elimination(Variant):
    """Base of det and inverse: ``widths`` is how many matrices lie side by side in the scratch memory."""

    widths = 1

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x = node.inputs[0].type
        return Offer(self.label, 3.0 * x.count * x.shape[-1] * self.widths)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x = node.inputs[0].type
        scratch = b.scratch(self.widths * bound(x.shape[-1]) ** 2, x.dtype.compute)
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0)], scratch=scratch)


class DetGeneric(_Elimination):
    ops = ("det",)
    kernel = "det.generic"


class InverseGeneric(_Elimination):
    ops = ("inverse",)
    kernel = "inverse.generic"
    widths = 2


class PairwiseCouplingGeneric(Variant):
    ops = ("pairwise_coupling",)
    kernel = "pairwise_coupling.generic"

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        return Offer(self.label, 50.0 * node.result.type.count * node.result.shape[1])

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        n = node.result.shape[1]
        b.call(self.kernel, [b.read(node.inputs[0])], [b.result(0)], scratch=b.scratch((n + 2) * n, F32))


VARIANTS = (DetGeneric(), InverseGeneric(), PairwiseCouplingGeneric())
