"""Simplifies scalar expressions by rules that are exact, NaN, infinities and signs of zero included."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.types import DType


def simplify(expr: ex.Expr) -> ex.Expr:
    """The expression after every rule of this module, from the leaves up; the same object if none applies, which is
    found out once and kept beside it."""
    if "_simplest" in expr.__dict__:
        return expr
    result = ex.OfParts(_simpler)(expr)
    if result != expr:
        return result
    expr.__dict__["_simplest"] = True
    return expr


def _simpler(e: ex.Expr, of: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
    match ex.with_operands(e, of):
        case ex.Apply() as function:
            return _apply(function)
        case ex.Convert(dtype=dtype, operand=operand):
            return _convert(operand, dtype)
        case other:
            return other


def _apply(e: ex.Apply) -> ex.Expr:
    if all(isinstance(a, ex.Num) for a in e.operands):
        return _folded(e)
    rule = _RULES.get(e.fn)
    return e if rule is None else rule(e)


def _folded(e: ex.Expr) -> ex.Expr:
    """A function of numbers is a number: numpy's, as in constant folding."""
    value = ex.evaluate(e, lambda i: np.zeros(()))
    return ex.num(value.reshape(()).item(), e.dtype)


def _is(e: ex.Expr, value: float) -> bool:
    """True for the number ``value``; a zero must have the same sign."""
    if not isinstance(e, ex.Num) or e.value != value:
        return False
    return math.copysign(1, e.value) == math.copysign(1, value)


def _add(e: ex.Apply) -> ex.Expr:
    """x + -0.0 is x for floats (x + 0.0 is not: -0.0 becomes 0.0); x + 0 is x for integers."""
    zero = -0.0 if e.dtype.is_float else 0
    a, b = e.operands
    if _is(b, zero):
        return a
    return b if _is(a, zero) else e


def _sub(e: ex.Apply) -> ex.Expr:
    """x - 0.0 is x for floats (x - -0.0 is not: -0.0 becomes 0.0) and x - 0 for integers."""
    return e.operands[0] if _is(e.operands[1], 0) else e


def _mul(e: ex.Apply) -> ex.Expr:
    """x * 1 is x. x * 0 stays: it is NaN for NaN and infinities."""
    a, b = e.operands
    if _is(b, 1):
        return a
    return b if _is(a, 1) else e


def _div(e: ex.Apply) -> ex.Expr:
    """x / 1 is x; division of floats by a power of two whose inverse is a normal number is a multiplication."""
    a, b = e.operands
    if _is(b, 1):
        return a
    if isinstance(b, ex.Num) and b.dtype.is_float and math.isfinite(b.value):
        mantissa, exponent = math.frexp(b.value)
        if abs(mantissa) == 0.5 and -120 < exponent < 120:
            return ex.apply("mul", a, ex.num(1 / b.value, b.dtype))
    return e


def _pow(e: ex.Apply) -> ex.Expr:
    """Powers of 2 have a function of their own, which is exact of whole numbers."""
    base, exponent = e.operands
    return ex.apply("exp2", exponent) if e.dtype.is_float and _is(base, 2) else e


def _select(e: ex.Apply) -> ex.Expr:
    """A choice between equal things, or by a constant, is no choice."""
    condition, a, b = e.operands
    if isinstance(condition, ex.Num):
        return a if condition.value else b
    return a if a == b else e


def _involution(e: ex.Apply) -> ex.Expr:
    """-(-x) and not(not(x)) are x."""
    (a,) = e.operands
    return a.args[0] if isinstance(a, ex.Apply) and a.fn == e.fn else e


def _idempotent(e: ex.Apply) -> ex.Expr:
    """f(f(x)) is f(x) for relu, abs, sign, the roundings."""
    (a,) = e.operands
    return a if isinstance(a, ex.Apply) and a.fn == e.fn else e


def _bound(e: ex.Apply) -> tuple[ex.Expr, ex.Num] | None:
    """(what is bounded, the number) of a max or min with one number that is not NaN."""
    a, b = e.operands
    value, number = (b, a) if isinstance(a, ex.Num) else (a, b)
    return (value, number) if isinstance(number, ex.Num) and number.value == number.value else None


def _clip(e: ex.Apply) -> ex.Expr:
    """Bounds that say nothing go: infinite ones, and those within which a value was bounded already."""
    found = _bound(e)
    if found is None:
        return e
    value, number = found
    none = -math.inf if e.fn == "max" else math.inf
    if number.dtype.is_float and number.value == none:
        return value
    inner = _bound(value) if isinstance(value, ex.Apply) and value.fn in ("max", "min") else None
    if inner is None or not isinstance(value, ex.Apply):
        return e
    if value.fn == e.fn:
        return _joined_bounds(e, inner[0], inner[1], number)
    deeper = _bound(inner[0]) if isinstance(inner[0], ex.Apply) and inner[0].fn == e.fn else None
    if deeper is None:
        return e
    # max(min(max(x, l), h), m) is at least the smaller of l and h: m is idle below that.
    idle = all(_beyond(e.fn, known, number) for known in (deeper[1], inner[1]))
    return value if idle else e


def _beyond(fn: str, known: ex.Num, number: ex.Num) -> bool:
    """True if a value bounded by ``known`` is within ``number`` too; zeros of two signs tell nothing."""
    if known.value == number.value:
        return known == number
    return known.value > number.value if fn == "max" else known.value < number.value


def _joined_bounds(e: ex.Apply, value: ex.Expr, a: ex.Num, b: ex.Num) -> ex.Expr:
    """max(max(x, a), b) is max(x, the larger), and so for min."""
    if _beyond(e.fn, a, b):
        return ex.apply(e.fn, value, a)
    return ex.apply(e.fn, value, b) if _beyond(e.fn, b, a) else e


_RULES: dict[str, Callable[[ex.Apply], ex.Expr]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "pow": _pow,
    "select": _select,
    "max": _clip,
    "min": _clip,
    "neg": _involution,
    "not": _involution,
    **dict.fromkeys(("relu", "abs", "sign", "floor", "ceil", "rne", "round_f16", "round_bf16"), _idempotent),
}


def _convert(operand: ex.Expr, dtype: DType) -> ex.Expr:
    """A chain A -> B -> C is A -> C if B holds every A, or if all are integers and C is no wider than B.

    Where A and C are integers and B is a float, C must hold every A too: float to integer saturates, integer
    to integer wraps. A bool is excepted: to it everything but 0 is true.
    """
    if isinstance(operand, ex.Num):
        return _folded(ex.convert(operand, dtype))
    if isinstance(operand, ex.Convert):
        source, middle = operand.operand.dtype, operand.dtype
        kinds = {source.kind, middle.kind, dtype.kind}
        narrowing = kinds <= {"i", "u"} and dtype.nbytes <= middle.nbytes
        saturates = middle.is_float and not source.is_float and dtype.kind in "iu" and not holds(dtype, source)
        if narrowing or (holds(middle, source) and not saturates):
            return ex.convert(operand.operand, dtype)
    return ex.convert(operand, dtype)


def holds(wide: DType, narrow: DType) -> bool:
    """True if every value of ``narrow`` is one of ``wide``."""
    if wide == narrow or narrow.kind == "b":
        return True
    if wide.is_float:
        mantissa = {"f16": 11, "f32": 24, "f64": 53}[wide.name]
        return narrow.nbytes < wide.nbytes if narrow.is_float else 8 * narrow.nbytes <= mantissa
    if narrow.is_float or wide.kind == "b" or (narrow.kind == "i" and wide.kind == "u"):
        return False
    return wide.nbytes > narrow.nbytes
