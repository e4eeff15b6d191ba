"""Rewrites scalar expressions into equal ones that cost less, where that may change rounding."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.passes.analysis.absorption import FAR
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.quotients import quantises
from mccompile.passes.analysis.steps import stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import with_bodies
from mccompile.passes.rewrite.patterns import (
    Any,
    Bindings,
    ExpressionRule,
    Number,
    Pattern,
    fn,
    match_expression,
    one_of,
)
from mccompile.targets.target import Target

ROUNDS = True


def run(graph: Graph, remarks: Remarks, target: Target, whole: Graph, analyses: Analyses) -> int:
    """Recognise sigmoid, SiLU, GELU, HardSigmoid and HardSwish in their primitive forms; divide by multiplying.

    May change rounding, the sign of a zero, and where intermediate values overflow. What is rounded to whole numbers,
    or compared, is divided as it is written, and so are means: 41 times the inverse of 41 is less than 1.
    """
    bodies = [body for node in graph.nodes for body in node.expressions]
    if not any(map(_has_matches, dict.fromkeys(bodies))):
        return 0  # where steps are takes longer to find
    steps = analyses.of_whole(whole, stepped)
    scaling = target.requant != "tflite"
    return sum(
        with_bodies(node, steps, partial(_rewritten, node=node, remarks=remarks, scaling=scaling))
        for node in graph.nodes
    )


def _has_matches(body: ex.Expr) -> bool:
    """Whether a rule might fire in a body."""
    parts = [e for e in ex.distinct(body) if isinstance(e, ex.Apply) and e.dtype.is_float]
    return any(True for e in parts for rule in RULES for _ in match_expression(rule.pattern, e, {}))


def _rewritten(body: ex.Expr, exact: set[ex.Expr], node: Node, remarks: Remarks, scaling: bool) -> ex.Expr:
    """The body after all rules, from the leaves up; a rule that would leave an operand unread does not fire.

    Without ``scaling`` the scales of what is quantised stay as the network has them. A step depends on what is
    ``exact``.
    """
    rules = RULES if scaling or not quantises(body) else (*_RECOGNISED, *_SCALED)
    titles: list[str] = []
    refused: list[ExpressionRule] = []

    def step(e: ex.Expr, of: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
        inner = ex.with_operands(e, of)
        if not isinstance(inner, ex.Apply) or not inner.dtype.is_float:
            return inner
        for rule in _RECOGNISED if e in exact else rules:
            for bound in match_expression(rule.pattern, inner, {}):
                better = rule.rewrite(bound)
                if better is None:
                    refused.append(rule)
                elif ex.variables(better) == ex.variables(inner):
                    titles.append(rule.title)
                    return of(better)
        return inner

    result = ex.OfParts(step)(body)
    for title in dict.fromkeys(titles):
        remarks.hit(f"{title}: {node.where}")
    for rule in dict.fromkeys(refused):
        remarks.miss(f"{rule.title}: {node.where}", rule.refusal)
    return result


def _num(e: ex.Expr) -> float:
    assert isinstance(e, ex.Num)
    return float(np.asarray(e.value, dtype=e.dtype.numpy))


def _number(value: float, like: ex.Expr) -> ex.Expr | None:
    """A number, if it is a normal one: others lose more than a rounding."""
    found = ex.num(value, like.dtype) if abs(value) < 1e37 else None  # NaN is none
    return found if found is not None and (value == 0 or abs(_num(found)) > 1e-37) else None


# -- rewrites ------------------------------------------------------------------------------------------------
def _times_inverse(b: Bindings) -> ex.Expr | None:
    inverse = _number(1 / _num(b["c"]), b["c"]) if _num(b["c"]) else None
    return None if inverse is None else ex.apply("mul", b["x"], inverse)


def _joined(b: Bindings) -> ex.Expr | None:
    """Of factors only: adding and subtracting a large number is how some round."""
    number = _number(_num(b["a"]) * _num(b["c"]), b["a"])
    return None if number is None else ex.apply("mul", b["x"], number)


def _sigmoid_of_double(b: Bindings) -> ex.Expr:
    return ex.apply("sigmoid", ex.apply("mul", b["u"], ex.num(2, b["u"].dtype)))


def _gate(b: Bindings) -> ex.Expr:
    return ex.apply("mul", b["x"], _sigmoid_of_double(b))


def _scaled_bounds(b: Bindings) -> ex.Expr | None:
    """clip(u + a, low, high) * c as clip(u * c + a * c, low * c, high * c): the sum is one fused multiply-add."""
    c = _num(b["c"])
    low, high, a = _num(b["low"]) if "low" in b else 0.0, _num(b["high"]), _num(b["a"])
    if not (c > 0 and low <= high and abs(a) <= FAR * max(abs(low), abs(high))):
        return None
    factor, shift, *bounds = (_number(v, b["c"]) for v in (c, a * c, low * c, high * c))
    if factor is None or shift is None or None in bounds:
        return None
    inner = ex.apply("add", ex.apply("mul", b["u"], factor), shift)
    least, most = (ex.num(v * c, b["c"].dtype) for v in (low, high))
    return ex.apply("min", ex.apply("max", inner, least), most)


def _hard_swish(b: Bindings) -> ex.Expr | None:
    gate = _scaled_bounds(b)
    return None if gate is None else ex.apply("mul", b["x"], gate)


def _half_erf(b: Bindings) -> ex.Expr:
    """(1 + erf(u)) / 2, the distribution function, with one fused multiply-add."""
    half = ex.num(0.5, b["u"].dtype)
    return ex.apply("add", ex.apply("mul", ex.apply("erf", b["u"]), half), half)


def _gelu(b: Bindings) -> ex.Expr:
    return ex.apply("mul", b["x"], _half_erf(b))


_X = Any("x")
_ONE, _HALF = Number(value=1), Number(value=0.5)
_LOGISTIC = fn("add", _ONE, fn("exp", fn("neg", _X)))
_TANH = fn("add", _ONE, fn("tanh", Any("u")))
_ERF = fn("add", _ONE, fn("erf", Any("u")))
_UNBOUNDED = "the bounds cross, or a number is not positive or not normal, or much larger than the bounds"
_SUM = fn("add", Any("u"), Number("a"))
_CLIP = one_of(
    fn("min", one_of(fn("max", _SUM, Number("low")), fn("relu", _SUM)), Number("high")),
    fn("max", fn("min", _SUM, Number("high")), Number("low")),
)


def _gate_of(unit: Pattern) -> Pattern:
    """x / 2 times a gate, in any order."""
    return one_of(fn("mul", fn("mul", _X, _HALF), unit), fn("mul", fn("mul", _X, unit), _HALF))


_RECOGNISED = (
    ExpressionRule("dropped + 0", fn("add", _X, Number(value=0)), lambda b: b["x"]),
    ExpressionRule("recognised SiLU", fn("div", _X, _LOGISTIC), lambda b: ex.apply("mul", b["x"], _sigmoid(b))),
    ExpressionRule("recognised sigmoid", fn("div", _ONE, _LOGISTIC), lambda b: _sigmoid(b)),
    ExpressionRule("recognised GELU", _gate_of(_ERF), _gelu),
    ExpressionRule("recognised half of 1 + erf", fn("mul", _HALF, _ERF), _half_erf),
    ExpressionRule("recognised the gate of GELU", _gate_of(_TANH), _gate),
    ExpressionRule("recognised sigmoid as tanh", fn("mul", _HALF, _TANH), _sigmoid_of_double),
)
_SCALED = (
    ExpressionRule("recognised HardSwish", fn("mul", fn("mul", _X, _CLIP), Number("c")), _hard_swish, _UNBOUNDED),
    ExpressionRule("recognised HardSigmoid", fn("mul", _CLIP, Number("c")), _scaled_bounds, _UNBOUNDED),
)
"""Forms that multiply before they add: of whole numbers the quotients are others."""
_SCALING = (
    ExpressionRule("multiplied by the inverse", fn("div", _X, Number("c")), _times_inverse),
    ExpressionRule("joined two factors", fn("mul", fn("mul", _X, Number("a")), Number("c")), _joined),
)
RULES = (*_RECOGNISED, *_SCALED, *_SCALING)


def _sigmoid(b: Bindings) -> ex.Expr:
    return ex.apply("sigmoid", b["x"])
