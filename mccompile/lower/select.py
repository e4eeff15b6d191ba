"""Chooses the kernel variant of each node: the cheapest one that supports it, by measured or estimated cycles."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Node, Value
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Variant
from mccompile.lower.cost_table import UNMEASURED, CostTable
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Candidate:
    """A variant that supports a node: cycles by its own model, and measured ones where there are any.

    ``halo`` tells that it is put behind others because it takes memory.
    """

    variant: Variant
    estimate: float
    measured: float | None = None
    halo: bool = False

    @property
    def cycles(self) -> float:
        """What counts: a measurement is worth more than an estimate."""
        return self.estimate if self.measured is None else self.measured


@dataclass(frozen=True)
class Choice:
    """The candidate taken for a node, the others by rank, and why further variants do not support it."""

    best: Candidate
    others: tuple[Candidate, ...]
    rejected: tuple[tuple[str, str], ...]

    @property
    def variant(self) -> Variant:
        return self.best.variant


def choose(
    node: Node,
    target: Target,
    force: Mapping[str, str],
    constants: Container[Value],
    arena_first: bool = False,
    costs: CostTable = UNMEASURED,
    room: int = 0,
) -> Choice:
    """The variant for a node. ``force`` maps an operator to the kernel that must be used where supported.

    ``constants`` are the values whose elements are known, which some variants rearrange. With ``arena_first`` a
    variant that wants a halo around an operand, or scratch, is taken only where there is no other. What ``costs`` has
    measured replaces the variants' estimates. A variant that adds more than ``room`` bytes to the weights must be
    forced.

    Raises CompileError if no variant supports the node.
    """
    measured = costs.of(node, constants)
    wanted = force.get(node.op.name)
    ranked: list[Candidate] = []
    rejected: list[tuple[str, str]] = []
    for variant in candidates(node.op.name):
        reason = unsupported(variant, node, target, constants)
        if not reason and wanted not in (variant.label, variant.kernel) and variant.growth(node, target) > room:
            reason = f"its weights take {variant.growth(node, target)} bytes more"
        if reason:
            rejected.append((variant.label, reason))
            continue
        spends = variant.spends_arena or any(lo or hi for d in variant.demands(node) for lo, hi in d.halo)
        halo = arena_first and spends
        for v in _forms(variant, node, target, {*measured, wanted}):
            ranked.append(Candidate(v, v.cost(node, target), measured.get(v.label), halo))
    if not ranked:
        reasons = "; ".join(f"{kernel}: {reason}" for kernel, reason in rejected)
        raise CompileError(f"no kernel supports this node ({reasons})", where=node.where)
    ranked.sort(key=lambda c: (c.halo, c.cycles))  # stable: of equals the first
    named = [c for c in ranked if wanted in (c.variant.label, c.variant.kernel)]
    best = next((c for c in named if c.variant.label == wanted), (named or ranked)[0])
    return Choice(best, tuple(c for c in ranked if c is not best), tuple(rejected))


def unsupported(variant: Variant, node: Node, target: Target, constants: Container[Value]) -> str:
    """Why a variant cannot compute a node; empty if it can."""
    variable = [i for i in variant.packs if node.operands[i] not in constants]
    return f"operand {variable[0]} is no constant" if variable else variant.supports(node, target)


def _forms(variant: Variant, node: Node, target: Target, known: Container[str | None]) -> Iterator[Variant]:
    """A variant as its model wants it, and with other parameters where these were measured or asked for: without a
    measurement there is no reason to believe in them."""
    yield variant
    for other in variant.alternatives(node, target):
        if other.label in known:
            yield other
