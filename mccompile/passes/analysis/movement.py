"""Operators that move elements and do nothing else."""

from __future__ import annotations

from mccompile.ir.op import Kind, Op


def moves(op: Op) -> bool:
    """Whether elements come out as they go in, in whatever type all of them are."""
    return op.kind is Kind.INJECTIVE and op.elementwise is None


def picks_places(op: Op) -> bool:
    """Whether the elements of the result are elements of operand 0, at places that its elements do not decide."""
    return moves(op) or (op.selects and op.multilinear == (0,))


def reorders(op: Op) -> bool:
    """Whether an operator moves elements, and is more than another shape of them."""
    return moves(op) and not op.keeps_order
