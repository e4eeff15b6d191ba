"""The family of recurrent cells: weights packed so that one hidden unit's row of all gates is contiguous."""

from __future__ import annotations

from collections.abc import Container
from typing import ClassVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.kernels.model.lanes import loaded
from mccompile.kernels.model.widening import scaled, unscaled, widening
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.targets.target import Target


@dataclass(frozen=True)
class ByHidden:
    """Recurrent weights [G*H, H] as [H, G*H]: the loop over gate outputs is the inner one and vectorises."""

    def pack(self, array: Array) -> Array:
        return np.ascontiguousarray(array.T)


def is_narrow(node: Node) -> bool:
    """Whether weights are stored in fewer bits; those that have a scale have one for each unit of a gate."""
    r, body = node.operands[1], node.pre.get(1)
    if r is None or not widening(unscaled(body, r.dtype), r.dtype):
        return False
    extra = scaled(body, r.dtype)
    return extra is None or (len(node.extras) == 1 and node.extras[extra].shape == (r.shape[0], 1))


class RecurrentGeneric(Variant):
    """The template of a cell; ``vectors`` of H elements each are its scratch: states, then gates."""

    vectors: ClassVar[int] = 0

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if any(i != 0 and not (i == 1 and is_narrow(node)) for i in node.pre):
            return "a prologue is supported on the gates only, and on weights in fewer bits"
        return super().offer(node, target, constants)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, r, *rest = node.operands
        assert x is not None
        assert r is not None
        # Weights that are computed at run time are read where they lie, by columns.
        weights = b.packed(r, ByHidden()) if b.is_constant(r) else b.read(r).along((1, 0))
        reads = [b.read(x), weights, *(None if v is None else b.read(v) for v in rest)]
        scratch = b.scratch(self.vectors * r.shape[1], loaded(node, 1).compute)
        extras = None
        if scaled(node.pre.get(1), r.dtype) is not None:  # it is seen as the weights are
            extras = [b.read(node.extras[0]).broadcast(r.shape).along((1, 0))]
        results = [b.result(i) for i in range(len(node.results))]
        b.call(self.kernel, reads, results, scratch=scratch, extras=extras)


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
