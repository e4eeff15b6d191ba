"""How large the values of an expression may be: what is bounded is a number, and conversions of it need no care.

>>> from mccompile.ir.types import I32
>>> sums = ex.apply("mul", ex.convert(ex.acc(I32), F32), ex.num(0.5))
>>> round(magnitude(sums, lambda i: 1000.0))
500
>>> magnitude(ex.apply("div", sums, sums), lambda i: 1000.0)
inf
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.types import BOOL, F32, DType
from mccompile.ir.views import View

LIMIT = 2.0**30
"""Floats below this become integers of 32 bits in one instruction."""
_LARGEST = 1e30
"""Beyond this, nothing is known."""


def magnitude(e: ex.Expr, of_variable: Callable[[int], float]) -> float:
    """A bound of |e|; infinite where it may be an infinity or NaN. ``of_variable`` bounds variables."""
    found = _magnitude(e, of_variable)
    return found if found <= _LARGEST else math.inf


def _magnitude(e: ex.Expr, of_variable: Callable[[int], float]) -> float:
    match e:
        case ex.Num(dtype=dtype):
            return abs(float(e.value)) if dtype != BOOL and math.isfinite(e.value) else math.inf
        case ex.Var(index=index):
            return of_variable(index)
        case ex.Lookup():
            return float(np.abs(e.elements.astype(np.float64)).max())
        case ex.Convert(dtype=dtype, operand=operand):
            inner = magnitude(operand, of_variable) * (1 + 2.0**-20)
            if dtype.is_float and operand.dtype != BOOL:
                return inner
            becomes_large = dtype.kind == "u" and operand.dtype.kind == "i"  # what is below 0
            return of_type(dtype) if becomes_large else min(of_type(dtype), inner)
        case ex.Apply(fn="sub") if e.dtype.kind == "u":
            return of_type(e.dtype)
        case ex.Apply(fn=("add" | "sub"), operands=(a, b)) if e.dtype.is_float:
            return (magnitude(a, of_variable) + magnitude(b, of_variable)) * (1 + 2.0**-20)
        case ex.Apply(fn=("add" | "sub"), operands=(a, b)):
            whole = magnitude(a, of_variable) + magnitude(b, of_variable)
            return whole if whole <= of_type(e.dtype) else of_type(e.dtype)  # else it wraps
        case ex.Apply(fn="mul", operands=(a, b)) if e.dtype.is_float:
            return magnitude(a, of_variable) * magnitude(b, of_variable) * (1 + 2.0**-20)
        case ex.Apply(fn=("max" | "min"), operands=(a, b)):
            return max(magnitude(a, of_variable), magnitude(b, of_variable))
        case ex.Apply(fn=("relu" | "neg" | "abs" | "rounded"), operands=(a,)) if e.dtype.is_float:
            return magnitude(a, of_variable)
        case ex.Apply(fn=("rne" | "floor" | "ceil"), operands=(a,)):
            return magnitude(a, of_variable) + 1
        case ex.Apply(fn=("erf" | "tanh" | "sigmoid"), operands=(a,)):
            return 1.01 if magnitude(a, of_variable) < math.inf else math.inf
    return of_type(e.dtype)


def of_type(dtype: DType) -> float:
    """The largest magnitude that integers of a type have; infinite for others."""
    if dtype.kind not in "iu":
        return math.inf
    info = np.iinfo(dtype.numpy.name)
    return float(max(abs(int(info.min)), int(info.max)))


def of_view(view: View) -> float:
    """The largest magnitude of what a view may hold: of weights, what they are."""
    data = view.buffer.data
    if view.dtype != F32 or not isinstance(data, np.ndarray):
        return of_type(view.dtype)
    largest = float(np.abs(data).max(initial=0.0))
    return largest if math.isfinite(largest) else math.inf
