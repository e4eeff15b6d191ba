"""What a rounded expression is before it is rounded: a constant, and integers times scales.

    i8(rne(relu(f32(acc + x0) * 0.01) / 0.5) + 3.0)      0.02 times (acc + x0), plus 3, cut off from below
    i8(rne((f32(i32(x0) - 3) * 0.5 + f32(i32(x1)) * 0.25) / 0.1))     5 times (x0 - 3), plus 2.5 times x1
    i8(rne((relu(f32(acc) * 0.1) + f32(acc) * 0.1)))                  0.2 times acc, of which a part is cut off: apart

Where the numbers are cut off is not recorded: the expression says it, at its ends. It does not where a part of a sum
or product is cut off by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32

_NOTHING = np.zeros(())


@dataclass(frozen=True)
class Form:
    """``offset`` plus the sum of ``terms``: expressions of integers, each with its scale; in float64.

    ``cut`` says that it is cut off somewhere, ``apart`` that only a part of it is: the expression is no form then.
    """

    terms: Mapping[ex.Expr, Array]
    offset: Array
    cut: bool = False
    apart: bool = False

    def scaled(self, by: Array) -> Form:
        terms = {core: scale * by for core, scale in self.terms.items()}
        return replace(self, terms=terms, offset=self.offset * by)

    def plus(self, other: Form) -> Form:
        terms = dict(self.terms)
        for core, scale in other.terms.items():
            terms[core] = terms[core] + scale if core in terms else scale
        return Form(terms, self.offset + other.offset, *self._cut_with(other))

    def times(self, other: Form) -> Form | None:
        """The product of two forms of one term and nothing else; None of others."""
        if len(self.terms) != 1 or len(other.terms) != 1 or self.offset.any() or other.offset.any():
            return None
        (p, s), (q, t) = next(iter(self.terms.items())), next(iter(other.terms.items()))
        if p.dtype != q.dtype:
            return None
        return Form({ex.apply("mul", p, q): s * t}, np.zeros(()), *self._cut_with(other))

    def _cut_with(self, other: Form) -> tuple[bool, bool]:
        """`cut` and `apart` of what both are in."""
        cut = self.cut or other.cut
        return cut, self.apart or other.apart or (cut and bool(self.terms) and bool(other.terms))


def form_of(body: ex.Expr, constant: Callable[[int], Array | None]) -> Form | str:
    """The form, of finite numbers, of a float expression that is rounded at the end at most; or why there is none.

    ``constant`` gives the elements of variables that are known.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        found = _form(body, constant, False)
    if isinstance(found, Form) and not all(np.isfinite(a).all() for a in (found.offset, *found.terms.values())):
        return "a scale or an offset is not finite"
    return found


def _form(e: ex.Expr, constant: Callable[[int], Array | None], rounded: bool) -> Form | str:
    match e:
        case ex.Num():
            return Form({}, ex.evaluate(e, lambda _: _NOTHING, wide=True))  # 0.1 is the f32 nearest to it
        case ex.Var(index=index):
            array = constant(index)
            return "a float is computed at run time" if array is None else Form({}, array.astype(np.float64))
        case ex.Convert(operand=operand) if not operand.dtype.is_float:
            return _integers(operand, constant)
        case ex.Apply(operands=(_,)) if not _varies(e, constant):
            return _known(e, constant)  # relu, too, and what is rounded
        case ex.Apply(fn="rne", operands=(a,)):
            return "it is rounded twice" if rounded else _form(a, constant, True)
        case ex.Apply(fn="relu", operands=(a,)):
            inner = _form(a, constant, rounded)
            return inner if isinstance(inner, str) else replace(inner, cut=True)
        case ex.Apply(fn="neg", operands=(a,)):
            inner = _form(a, constant, rounded)
            return inner if isinstance(inner, str) else inner.scaled(np.asarray(-1.0))
        case ex.Apply(fn=fn, operands=(a, b)):
            left, right = _form(a, constant, rounded), _form(b, constant, rounded)
            if isinstance(left, str) or isinstance(right, str):
                return left if isinstance(left, str) else right
            return _combined(fn, left, right)
    return f"{e.fn if isinstance(e, ex.Apply) else 'a conversion'} is no sum of products"


def quantising_form(body: ex.Convert, main: int, constant: Callable[[int], Array | None]) -> Form | str:
    """The form of a conversion of the float variable ``main``: an integer stands for it, for forms are of these.

    i8((rne((x0 / 0.5)) + 3.0)) has the form of i8((rne((f32(i32(x0)) / 0.5)) + 3.0)): 2 times x0, plus 3.
    """

    def stand_in(v: ex.Var) -> ex.Expr:
        return ex.convert(ex.var(main, I32), v.dtype) if v.index == main else v

    return form_of(ex.substitute(body.operand, stand_in), lambda i: None if i == main else constant(i))


def _integers(core: ex.Expr, constant: Callable[[int], Array | None]) -> Form:
    if not _varies(core, constant):
        return _known(core, constant)
    wide = ex.convert(core, I32) if core.dtype.nbytes < I32.nbytes else core
    return Form({wide: np.ones(())}, np.zeros(()))


def _known(e: ex.Expr, constant: Callable[[int], Array | None]) -> Form:
    """What an expression of constants is, as it is computed in its own types."""
    return Form({}, ex.evaluate(e, lambda i: np.asarray(constant(i))).astype(np.float64))


def _varies(e: ex.Expr, constant: Callable[[int], Array | None]) -> bool:
    return any(constant(i) is None for i in ex.variables(e))


def _combined(fn: str, a: Form, b: Form) -> Form | str:
    if fn == "add":
        return a.plus(b)
    if fn == "sub":
        return a.plus(b.scaled(np.asarray(-1.0)))
    if fn in ("max", "min") and not (a.terms or b.terms):
        return Form({}, (np.maximum if fn == "max" else np.minimum)(a.offset, b.offset))
    if fn in ("max", "min") and not (a.terms and b.terms):
        return replace(a if a.terms else b, cut=True)
    if fn == "div" and not b.terms:
        return a.scaled(1 / b.offset) if np.all(b.offset) else "a scale is 0"
    if fn == "mul" and not (a.terms and b.terms):
        return a.scaled(b.offset) if a.terms else b.scaled(a.offset)
    product = a.times(b) if fn == "mul" else None
    return f"{fn} is no sum of products" if product is None else product
