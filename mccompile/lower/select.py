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


def choose(
    node: Node, target: Target, force: Mapping[str, str], constants: Container[Value], arena_first: bool = False
) -> Choice:
    """The variant for a node. ``force`` maps an operator to the kernel that must be used where supported.

    ``constants`` are the values whose elements are known, which some variants rearrange. With ``arena_first`` a
    variant that wants a halo around an operand is taken only where there is no other.

    Raises CompileError if no variant supports the node.
    """
    ranked: list[tuple[bool, float, int, Variant]] = []
    rejected: list[tuple[str, str]] = []
    for rank, variant in enumerate(candidates(node.op.name)):
        variable = [i for i in variant.packs if node.operands[i] not in constants]
        reason = f"operand {variable[0]} is no constant" if variable else variant.supports(node, target)
        if reason:
            rejected.append((variant.kernel, reason))
        else:
            halo = arena_first and any(lo or hi for d in variant.demands(node) for lo, hi in d.halo)
            ranked.append((halo, variant.cost(node, target), rank, variant))
    if not ranked:
        reasons = "; ".join(f"{kernel}: {reason}" for kernel, reason in rejected)
        raise CompileError(f"no kernel supports this node ({reasons})", where=node.where)
    ranked.sort(key=lambda r: r[:3])
    wanted = [r for r in ranked if r[3].kernel == force.get(node.op.name)]
    _, cost, _, best = (wanted or ranked)[0]
    slower = [
        (v.kernel, "its halo takes memory" if halo else f"about {c:.0f} cycles")
        for halo, c, _, v in ranked
        if v is not best
    ]
    return Choice(best, cost, (*slower, *rejected))
