"""Recognises normalisation written with means, squares and roots."""

from __future__ import annotations

import math
from collections.abc import Callable

from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Value
from mccompile.ir.op import Kind
from mccompile.ir.types import Shape, broadcast_shapes
from mccompile.ops.normalize import Normalize
from mccompile.ops.reduce import Reduce
from mccompile.passes.fuse.refine_groups import GROUPS
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import (
    Any,
    Fail,
    Match,
    Number,
    Pattern,
    Reduced,
    Rule,
    apply_rules,
    fn,
    mean,
    one_of,
)

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Recognise layer, RMS and L2 normalisation in their primitive forms: one kernel that reads its operand once.

    Instance and group normalisation are layer normalisation along spatial axes, and along channels and these.
    May change rounding: variances as E[x^2] - E[x]^2 are computed from the centred values.
    """
    normal = any(isinstance(n.op, Reduce | Normalize) for n in graph.nodes)
    return apply_rules(graph, remarks, RULES) if normal else 0


def _rooted(square: Pattern) -> Pattern:
    """sqrt(square + epsilon), or the root of the square, or itself, at least a number."""
    under = one_of(fn("add", square, Number("epsilon")), fn("max", square, Number("floor")), square)
    root = fn("sqrt", under)
    return one_of(root, fn("max", fn("sqrt", square), Number("root_floor")), fn("add", root, Number("beside")))


def _inverse(square: Pattern) -> Pattern:
    return one_of(
        fn("div", Number(value=1), _rooted(square)),
        fn("pow", fn("add", square, Number("epsilon")), Number(value=-0.5)),
    )


def _divided(dividend: Pattern, square: Pattern) -> Pattern:
    """Division by the root, multiplication by its inverse, or by the inverse times a scale."""
    return one_of(
        fn("div", dividend, _rooted(square)),
        fn("mul", dividend, _inverse(square)),
        fn("mul", dividend, fn("mul", _inverse(square), Any("scale"))),
    )


def _moved(square: Pattern) -> Pattern:
    """x * k + (shift - mean * k), as TensorFlow's batch_normalization writes it."""
    inverse = _inverse(square)
    factors = (fn("mul", inverse, Any("scale")), inverse)
    return one_of(*(fn("add", fn("mul", _X, k), fn("sub", Any("shift"), fn("mul", _MEAN, k))) for k in factors))


def _squared(x: Pattern) -> Pattern:
    return one_of(fn("mul", x, x), fn("pow", x, Number(value=2)))


_X = Any("x")
_MEAN = mean(_X, "mean")
_CENTRED = fn("sub", _X, _MEAN)
_DIFFERENCE = fn("sub", mean(_squared(_X), "variance"), _squared(_MEAN))
_VARIANCE = one_of(mean(_squared(_CENTRED), "variance"), _DIFFERENCE, fn("max", Number(value=0), _DIFFERENCE))
_RMS = mean(_squared(_X), "variance")
_SUM = Reduced("sum", _squared(_X), "variance")


# -- checks --------------------------------------------------------------------------------------------------
def _check(m: Match) -> Fail | None:
    x, reduces = m.values["x"], [n for n in m.walked if n.op.kind is Kind.REDUCTION]
    axes = {m.op(Reduce, name).axes for name in m.nodes}
    if x.dtype.name == "f16" or m.root.result.type != x.type:
        return Fail(f"{x.type} does not become {m.root.result.type} by normalisation")
    if len(axes) != 1 or any(v is None or v.shape != x.shape for n in reduces for v in n.operands):
        return Fail("its statistics are of other axes")
    if varies(x.shape[a] for own in axes for a in own):
        return Fail("how many elements belong together is known at run time only")
    if not _means_are_means(m, x):
        return Fail("a sum is divided by another number than the count of its elements")
    if "beside" in m.numbers:
        return Fail("epsilon is added to the root, not under it")
    if min(m.numbers.get(name, 0) for name in EPSILONS) < 0:
        return Fail("epsilon is negative")
    if any(map(m.numbers.get, EPSILONS)) and not TINY <= _epsilon(m) <= HUGE:
        return Fail("epsilon would be no normal number")
    (reduced,) = axes
    kept = tuple(1 if a in reduced else e for a, e in enumerate(x.shape))
    long = [a for a, e in enumerate(x.shape) if e > 1]
    if long and long[-1] not in reduced:
        return Fail("its rows are not contiguous: reductions that run through columns are faster")
    return _misaligned(m, x, kept) or _scale_fails(m, x) or _still_needed(m)


EPSILONS = ("epsilon", "floor", "root_floor")
TINY, HUGE = 1.2e-38, 3.4e38
"""Numbers of f32 below the first lose bits, above the second there are none."""


def _epsilon(m: Match) -> float:
    """What is added to the mean square, or to the sum, or what that is at least."""
    root = m.numbers.get("root_floor", 0.0)
    return m.numbers.get("epsilon", 0.0) + m.numbers.get("floor", 0.0) + root * root


def _means_are_means(m: Match, x: Value) -> bool:
    for name in m.nodes:
        count = math.prod(x.shape[a] for a in m.op(Reduce, name).axes)
        if m.numbers.get(f"{name}.count", count) != count:
            return False
        inverse = m.numbers.get(f"{name}.inverse")
        if inverse is not None and abs(inverse * count - 1) > 1e-6:
            return False
    return True


def _misaligned(m: Match, x: Value, kept: Shape) -> Fail | None:
    """Statistics must meet the elements they were made of: one per row, broadcast along the reduced axes."""
    rows = math.prod(kept)
    if rows == x.type.count:
        return Fail("nothing is reduced")
    for node in (n for n in m.walked if n.op.elementwise is not None or n.op.keeps_order):
        count = node.result.type.count
        if count not in (rows, x.type.count) or (count != rows and node.op.keeps_order):
            return Fail("its statistics are broadcast to another shape")
        for v in node.inputs if count != rows else ():
            of_rows = v.type.count == rows and v not in m.values.values() and v not in m.r.graph.constants
            if of_rows and (1,) * (len(kept) - len(v.shape)) + v.shape != kept:
                return Fail("its statistics are broadcast along other axes")
    return None


def _scale_fails(m: Match, x: Value) -> Fail | None:
    for name in ("scale", "shift"):
        v = m.values.get(name)
        if v is not None and (name in m.reshaped or broadcast_shapes(v.shape, x.shape) != x.shape):
            return Fail(f"the {name} is not broadcast to the operand")
    return None


def _still_needed(m: Match) -> Fail | None:
    if any(n.op.kind is Kind.REDUCTION for n in m.dying()):
        return None
    return Fail("its statistics are needed elsewhere")


# -- rewrites ------------------------------------------------------------------------------------------------
def _rewrite(center: bool) -> Callable[[Match], None]:
    def rewrite(m: Match) -> None:
        x, node = m.values["x"], m.root
        reduce = m.op(Reduce, "variance")
        floor = not {"floor", "root_floor"}.isdisjoint(m.numbers)
        of_sum = {"variance.count", "variance.inverse"}.isdisjoint(m.numbers)
        node.op = Normalize(reduce.axes, _epsilon(m), center, floor, of_sum)
        body: ex.Expr = ex.acc(x.dtype)
        extras: list[Value] = []
        for name, fn_name in (("scale", "mul"), ("shift", "add")):
            if name in m.values:
                body = ex.apply(fn_name, body, ex.var(len(extras), x.dtype))
                extras.append(m.values[name])
        node.post = {} if isinstance(body, ex.Var) else {0: body}
        m.r.rewire(node, [x], extras)
        node.origins = _origins(m)

    return rewrite


def _origins(m: Match) -> tuple[str, ...]:
    gone = {*m.dying(), m.root}
    return tuple(dict.fromkeys(o for n in m.r.graph.nodes if n in gone for o in n.origins))


RULES = (
    Rule("recognised layer normalisation", _divided(_CENTRED, _VARIANCE), _check, _rewrite(center=True)),
    Rule("recognised layer normalisation", _moved(_VARIANCE), _check, _rewrite(center=True)),
    Rule("recognised RMS normalisation", _divided(_X, _RMS), _check, _rewrite(center=False)),
    Rule("recognised L2 normalisation", _divided(_X, _SUM), _check, _rewrite(center=False)),
    *GROUPS,
)
