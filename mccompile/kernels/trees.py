"""The family of `tree_ensemble`: trees are walked one after the other, or some of them together.

A walk waits for each node before it can ask for the next: a core that computes out of order walks several trees in
the time of one, to the depth of the deepest. Others stop at the leaf of each.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.graph import Node, Value
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.ops.tree_ensemble import WORDS, TreeEnsemble
from mccompile.targets.target import Target

STEP_CYCLES = 10.0
"""Cycles from a node to the next."""
LEVELS = 8
"""Of a tree of unknown depth."""
TOGETHER = (8, 4, 1)
"""Trees that may be walked together."""


@dataclass(frozen=True)
class Together:
    """``together``: how many trees are walked at a time."""

    together: int


class TreeEnsembleGeneric(Variant):
    ops = ("tree_ensemble",)
    kernel = "tree_ensemble.generic"
    params = Together
    may_share = False

    def takes(self, node: Node) -> bool:
        """Rows may be as many as they are; their features are held beside what is compared with them."""
        return not varies(node.inputs[0].shape[1:])

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        return next(self.offers(node, target, constants), f"{self.kernel} carries no prologue")

    def offers(self, node: Node, target: Target, constants: Container[Value]) -> Iterator[Offer]:
        if node.pre:
            return
        trees = node.operands[2]
        assert trees is not None
        steps = node.results[0].shape[0] * trees.shape[0] * LEVELS
        for count in TOGETHER if target.cached and not target.compact else TOGETHER[-1:]:
            yield Offer(f"{self.label} {count}", steps * STEP_CYCLES * (0.25 + 0.75 / count), Together(count))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        op, (x, _, trees, _, weights, _) = node.op, node.operands
        assert isinstance(op, TreeEnsemble)
        assert x is not None
        assert trees is not None
        scratch = b.scratch(op.slots + (0 if weights is None else trees.shape[0]), WORDS[x.dtype])
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(0)], params=offer.params, scratch=scratch)


VARIANTS = (TreeEnsembleGeneric(),)
