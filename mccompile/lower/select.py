"""Chooses the kernel variant of each node: the cheapest one that supports it, by estimated cycles."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Node, Value
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Variant
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Choice:
    """The variant of a node, what it is thought to cost, and why each other candidate is not it."""

    variant: Variant
    cost: float
    others: tuple[tuple[str, str], ...]


def choose(node: Node, target: Target, force: Mapping[str, str], constants: Container[Value]) -> Choice:
    """The variant for a node. ``force`` maps an operator to the kernel that must be used where supported.

    ``constants`` are the values whose elements are known, which some variants rearrange.

    Raises CompileError if no variant supports the node.
    """
    ranked: list[tuple[float, int, Variant]] = []
    rejected: list[tuple[str, str]] = []
    for rank, variant in enumerate(candidates(node.op.name)):
        variable = [i for i in variant.packs if node.operands[i] not in constants]
        reason = f"operand {variable[0]} is no constant" if variable else variant.supports(node, target)
        if reason:
            rejected.append((variant.kernel, reason))
        else:
            ranked.append((variant.cost(node, target), rank, variant))
    if not ranked:
        reasons = "; ".join(f"{kernel}: {reason}" for kernel, reason in rejected)
        raise CompileError(f"no kernel supports this node ({reasons})", where=node.where)
    ranked.sort(key=lambda r: r[:2])
    wanted = [r for r in ranked if r[2].kernel == force.get(node.op.name)]
    cost, _, best = (wanted or ranked)[0]
    slower = [(v.kernel, f"about {c:.0f} cycles") for c, _, v in ranked if v is not best]
    return Choice(best, cost, (*slower, *rejected))
