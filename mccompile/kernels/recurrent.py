"""The family of recurrent cells: weights packed so that one hidden unit's row of all gates is contiguous."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.kernels.variant import Builder, Offer, Variant, laid_out
from mccompile.targets.target import Target


@dataclass(frozen=True)
class ByHidden:
    """Recurrent weights [G*H, H] as [H, G*H]: the loop over gate outputs is the inner one and vectorises."""

    def pack(self, array: Array) -> Array:
        return np.ascontiguousarray(array.T)


class RecurrentGeneric(Variant):
    """The template of a cell; ``vectors`` of H elements each are its scratch: states, then gates."""

    vectors: ClassVar[int] = 0

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if any(i != 0 for i in node.pre):
            return "a prologue is supported on the gates only"
        if laid_out(node):
            return "recurrent cells need row-major operands"
        return super().offer(node, target, constants)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, r, *rest = node.operands
        assert x is not None
        assert r is not None
        # Weights that are computed at run time are read where they lie, by columns.
        weights = b.packed(r, ByHidden()) if b.is_constant(r) else b.read(r).along((1, 0))
        reads = [b.read(x), weights, *(None if v is None else b.read(v) for v in rest)]
        scratch = b.scratch(self.vectors * r.shape[1], r.dtype.compute)
        b.call(self.kernel, reads, [b.result(i) for i in range(len(node.results))], scratch=scratch)


class LstmGeneric(RecurrentGeneric):
    ops = ("lstm",)
    kernel = "lstm.generic"
    vectors = 6


class GruGeneric(RecurrentGeneric):
    ops = ("gru",)
    kernel = "gru.generic"
    vectors = 4


class RnnGeneric(RecurrentGeneric):
    ops = ("rnn",)
    kernel = "rnn.generic"
    vectors = 2


VARIANTS = (LstmGeneric(), GruGeneric(), RnnGeneric())
