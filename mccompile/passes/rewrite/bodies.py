"""What passes that fuse ask of scalar expressions: how large, how dear, how often a variable is read."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.ir.scalar import FUNCTIONS

MAX_SIZE = 64
"""Functions in one expression, shared parts counted once."""

MAX_TREE = 256
"""Functions in one expression counted as a tree: shared parts are printed as C once but walked often."""

MAX_OPERANDS = 9
"""Different operands that one expression reads."""


def size(e: ex.Expr) -> int:
    """The number of functions in an expression, counted as a tree."""
    return (not isinstance(e, ex.Var | ex.Num)) + sum(size(a) for a in e.args)


def tree_size(e: ex.Expr, operands: Sequence[int]) -> int:
    """The size of an expression whose variables stand for expressions of the given sizes."""
    if isinstance(e, ex.Var):
        return operands[e.index]
    return (not isinstance(e, ex.Num)) + sum(tree_size(a, operands) for a in e.args)


def functions(e: ex.Expr) -> set[str]:
    """The names of the functions in an expression."""
    return {part.fn for part in ex.distinct(e) if isinstance(part, ex.Apply)}


_STEPS = {"floor", "ceil", "rne", "sign", "mod", "fmod"}


def has_steps(node: Node) -> bool:
    """Whether the last digit of an operand may change all of a result: whole numbers, bools, places, floor, ..."""
    if any(not v.dtype.is_float for v in node.results):
        return True
    return node.op.elementwise is not None and bool(_STEPS & functions(node.op.elementwise))


def parts(e: ex.Expr) -> int:
    """The number of different functions in an expression: those that generated code computes."""
    return sum(not isinstance(part, ex.Var | ex.Num) for part in ex.distinct(e))


def reads(e: ex.Expr, index: int) -> int:
    """How often an expression, as a tree, reads a variable."""
    return (isinstance(e, ex.Var) and e.index == index) + sum(reads(a, index) for a in e.args)


_DEAR = ("div", "mod", "fmod", "sqrt", "round_f16", "round_bf16")


def is_cheap(e: ex.Expr) -> bool:
    """True for arithmetic of a few instructions; library functions and divisions are not cheap."""
    if isinstance(e, ex.Apply) and (FUNCTIONS[e.fn].ulp or e.fn in _DEAR):
        return False
    return all(is_cheap(a) for a in e.args)
