"""What the variants answer for a node, and what it costs in the cheapest, for passes that weigh one form of a graph
against another.

An answer depends on what a node is, not on which: networks repeat their layers, and passes ask for the same node in
many forms, so each form is asked for once. Of x -> Conv+Relu -> Conv+Relu -> y with one shape, both have one form:

    operator, types and bodies            conv {strides=(1, 1), ..}, f32[1,4,6,6], f32[4,4,3,3], .. relu((acc + x0))
    which inputs are one and the same     (0, 1, 2): none
    which are constants                   (False, True, True)
    what variants ask of their elements   (None, True, None): of the second, whether sums of products stay small
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Sequence

from mccompile.ir.dims import UndecidedError
from mccompile.ir.graph import Node, Value
from mccompile.kernels.registry import candidates
from mccompile.kernels.variant import Offer, Variant
from mccompile.targets.target import Target

Answer = tuple[Variant, Offer | str]
"""A variant, and its offer for a node or why it cannot compute it."""

MOST_FORMS = 10_000
"""Forms that are kept: some tens of megabytes."""

_kept: dict[Target, dict[Hashable, Sequence[Answer]]] = {}


def cheapest(node: Node, target: Target, constants: Container[Value]) -> float:
    """Estimated cycles of the cheapest variant that supports a node; infinite if none does.

    ``constants`` are the values whose elements are known, which some variants rearrange.
    """
    return min((offer.cycles for offer in offers(node, target, constants)), default=float("inf"))


def offers(node: Node, target: Target, constants: Container[Value]) -> list[Offer]:
    """What the variants that support a node offer for it."""
    answered = answers(candidates(node.op.name), node, target, constants)
    return [offer for _, offer in answered if isinstance(offer, Offer)]


def answers(
    variants: tuple[Variant, ...], node: Node, target: Target, constants: Container[Value]
) -> Sequence[Answer]:
    """What each of the variants answers for a node."""
    if node.varies:
        return _of_run(variants, node, target, constants)
    if node.regions:
        return [(v, v.offer(node, target, constants)) for v in variants]
    kept = _of(target)
    form = (variants, *_form(node, constants), *(v.numbers(node, target, constants) for v in variants))
    if form not in kept:
        if len(kept) >= MOST_FORMS:
            kept.clear()
        kept[form] = [(v, v.offer(node, target, constants)) for v in variants]
    return kept[form]


def _of_run(
    variants: tuple[Variant, ...], node: Node, target: Target, constants: Container[Value]
) -> Sequence[Answer]:
    """What the variants answer for a node whose extents are known at run time only. One that cannot decide for all of
    them leaves the node to the others; UndecidedError if none is left."""
    planned, found, undecided = node.at_bounds(), list[Answer](), list[UndecidedError]()
    for v in variants:
        answer: Offer | str = "extents are known at run time only"
        try:
            if v.runs(node):
                answer = v.offer(planned, target, constants)
        except UndecidedError as error:
            undecided.append(error)
            answer = str(error)
        found.append((v, answer))
    if undecided and not any(isinstance(answer, Offer) for _, answer in found):
        raise undecided[0]
    return found


def _form(node: Node, constants: Container[Value]) -> tuple[Hashable, ...]:
    """All of a node that a variant may ask for."""
    inputs = node.inputs
    first: dict[Value, int] = {}
    same = tuple(first.setdefault(v, i) for i, v in enumerate(inputs))
    return node.typed_parts(), same, tuple(v in constants for v in inputs)


_last: tuple[Target, dict[Hashable, Sequence[Answer]]] | None = None


def _of(target: Target) -> dict[Hashable, Sequence[Answer]]:
    """What is kept for a target. One is asked for many times over, so that it is not compared each time."""
    global _last
    if _last is None or _last[0] is not target:
        _last = target, _kept.setdefault(target, {})
    return _last[1]
