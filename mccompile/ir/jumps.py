"""What jumps with the last digit of an operand: halves have to be numbers of their type there.

    floor(2047.9)      is 2047, but 2047.9 is 2048 in f16
    pow(-1, 2049)      is -1, but 2049 is 2048 in f16: with the exponent, not with the base
    lt(x, 0) ? 1 : 2   jumps at 0, where small numbers get when they are rounded
    lt(x, 0) ? a * x : x does not: it is 0 on both sides

`importer.narrow` rounds bfloat16 there, `passes.storage.widen_f16` f16, and `passes.analysis.steps` asks for exact
quotients in front of it, and of more.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node

_STEPS = ("floor", "ceil", "mod", "fmod", "sign", "acosh", "acos", "asin", "atanh", "rne")
"""Functions of which a digit of an operand may change all: a cosine above 1 has no angle."""


def at_jumps(e: ex.Expr) -> tuple[ex.Expr, ...]:
    """The operands of an expression of which the last digit may change all of it, not those of its parts."""
    match e:
        case ex.Apply(fn="pow", operands=(_, exponent)):  # -2 to the power of 1, or of nearly 1
            return () if isinstance(exponent, ex.Num) else (exponent,)
        case ex.Apply(fn=fn) if fn in _STEPS:
            return e.args
    return () if e.dtype.is_float else e.args


def decided_by(node: Node) -> set[int]:
    """The operands, by their places, that an operator compares or rounds."""
    return set(range(len(node.operands))) - set(node.op.smooth) if node.op.decides else set()


def jumps(node: Node) -> set[int]:
    """The operands, by their places, whose last digit may change all of a result: whole numbers, bools, places,
    floor, ..."""
    body = node.op.elementwise
    if body is not None:
        return _variables(body)
    if node.op.decides:
        return decided_by(node)
    return set(range(len(node.operands))) if any(not v.dtype.is_float for v in node.results) else set()


def _variables(body: ex.Expr) -> set[int]:
    parts = ex.distinct(body)
    smooth = {p.args[0] for p in parts if isinstance(p, ex.Apply) and p.fn == "select" and _is_smooth(*p.args)}
    at = {a for p in parts if p not in smooth for a in at_jumps(p)}
    return {v.index for a in at for v in ex.distinct(a) if isinstance(v, ex.Var) and v.dtype.is_float}


def _is_smooth(test: ex.Expr, yes: ex.Expr, no: ex.Expr) -> bool:
    """Whether a choice is one at 0, past which no rounding gets, and is the same on both sides of it."""
    if not isinstance(test, ex.Apply) or not any(isinstance(a, ex.Num) and a.value == 0 for a in test.args):
        return False
    at_0 = ex.variables(test)
    yes_at_0, no_at_0 = (ex.evaluate(e, lambda i: np.array(0 if i in at_0 else i + 2)) for e in (yes, no))
    return test.fn == "eq" or (test.fn in ("lt", "le", "gt", "ge") and bool(yes_at_0 == no_at_0))
