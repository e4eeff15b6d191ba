"""What a node costs in its cheapest kernel, for passes that weigh one form of a graph against another."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Offer
from mccompile.targets.target import Target


def cheapest(node: Node, target: Target, constants: Container[Value]) -> float:
    """Estimated cycles of the cheapest variant that supports a node; infinite if none does.

    ``constants`` are the values whose elements are known, which some variants rearrange.
    """
    return min((offer.cycles for offer in offers(node, target, constants)), default=float("inf"))


def offers(node: Node, target: Target, constants: Container[Value]) -> list[Offer]:
    """What the variants that support a node offer for it."""
    known, planned = not node.varies, node.at_bounds()
    able = (variant for variant in candidates(node.op.name) if known or variant.takes(node))
    found = (variant.offer(planned, target, constants) for variant in able)
    return [offer for offer in found if isinstance(offer, Offer)]
