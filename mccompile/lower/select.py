"""Chooses the kernel variant of each node: the cheapest one that supports it, by measured or estimated cycles."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Set
from itertools import islice

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Node, Value
from mccompile.kernels.model.costs import answers
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Offer, Variant
from mccompile.lower.cost_table import UNMEASURED, CostTable
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Candidate:
    """A variant's offer for a node: cycles by its own model, and measured ones where there are any.

    ``halo`` tells that it is put behind others because it takes memory; ``forced`` that it is asked for by name.
    """

    variant: Variant
    offer: Offer
    measured: float | None = None
    halo: bool = False
    forced: bool = False

    @property
    def growth(self) -> int:
        """The bytes that it adds to the weights, where that is a reason against it."""
        return 0 if self.forced else max(self.offer.growth_bytes, 0)

    @property
    def cycles(self) -> float:
        """What counts: a measurement is worth more than an estimate."""
        return self.offer.cycles if self.measured is None else self.measured


@dataclass(frozen=True)
class Choice:
    """The candidate taken for a node, the others by rank, and why further variants do not support it."""

    best: Candidate
    others: tuple[Candidate, ...]
    rejected: tuple[tuple[str, str], ...]

    @property
    def variant(self) -> Variant:
        return self.best.variant

    @property
    def offer(self) -> Offer:
        return self.best.offer

    @property
    def growth(self) -> int:
        """The bytes that it adds to the weights."""
        return self.best.growth

    def within(self, room: int) -> Choice:
        """The choice where no more than ``room`` bytes may be added to the weights. There is always one."""
        ranked = (self.best, *self.others)
        rest = [c for c in ranked if c.growth <= room]
        reasons = {c.variant.label: f"its weights take {c.growth} bytes more" for c in ranked if c.growth > room}
        return Choice(rest[0], tuple(rest[1:]), (*self.rejected, *reasons.items()))


def choose(
    node: Node,
    target: Target,
    force: Mapping[str, str],
    constants: Container[Value],
    arena_first: bool = False,
    costs: CostTable = UNMEASURED,
) -> Choice:
    """The variant for a node. ``force`` maps an operator to the kernel that must be used where supported.

    ``constants`` are the values whose elements are known, which some variants rearrange. With ``arena_first`` a
    variant that wants a halo around an operand, or scratch, is taken only where there is no other. What ``costs`` has
    measured replaces the variants' estimates, where it decides. `Choice.within` limits what is added to the weights.

    Raises CompileError if no variant supports the node.
    """
    measured = costs.of(node, constants)
    wanted = force.get(node.op.name)
    planned = node.at_bounds()
    ranked: list[Candidate] = []
    rejected: list[tuple[str, str]] = []
    for variant, found in answers(candidates(node.op.name), node, target, constants):
        if isinstance(found, str):
            rejected.append((variant.label, found))
            continue
        halo = arena_first and found.enlarges_arena
        known = {*(measured if costs.decides else ()), wanted} - {None}
        for offer in (found, *_others(variant, planned, target, constants, known)):
            forced = wanted in (variant.label, variant.kernel)
            ranked.append(Candidate(variant, offer, measured.get(offer.label), halo, forced))
    if not ranked:
        reasons = "; ".join(f"{kernel}: {reason}" for kernel, reason in rejected)
        raise CompileError(f"no kernel supports this node ({reasons})", where=node.where)
    ranked.sort(key=lambda c: (c.halo, c.cycles if costs.decides else c.offer.cycles))  # stable: of equals the first
    named = [c for c in ranked if wanted in (c.offer.label, c.variant.kernel)]
    best = next((c for c in named if c.offer.label == wanted), (named or ranked)[0])
    return Choice(best, tuple(c for c in ranked if c is not best), tuple(rejected))


def _others(
    variant: Variant, node: Node, target: Target, constants: Container[Value], known: Set[str | None]
) -> Iterator[Offer]:
    """Offers with other parameters than the model prefers, where these were measured or asked for: without a
    measurement there is no reason to believe in them."""
    if known:
        for offer in islice(variant.offers(node, target, constants), 1, None):
            if offer.label in known:
                yield offer
