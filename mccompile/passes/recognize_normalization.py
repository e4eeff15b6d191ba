"""Recognises normalisation written with means, squares and roots."""

from __future__ import annotations

import math
from collections.abc import Callable

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import Shape, broadcast_shapes
from mccompile.ops.map import Map
from mccompile.ops.normalize import Normalize
from mccompile.ops.reduce import Reduce
from mccompile.ops.reshape_op import Reshape
from mccompile.passes.manager import Remarks
from mccompile.passes.patterns import Any, Fail, Match, Number, Pattern, Reduced, Rule, apply_rules, fn, mean, one_of

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Recognise layer, RMS and L2 normalisation in their primitive forms: one kernel that reads its operand once.

    May change rounding: variances as E[x^2] - E[x]^2 are computed from the centred values.
    """
    return apply_rules(graph, remarks, RULES) if any(isinstance(n.op, Reduce) for n in graph.nodes) else 0


def _rooted(square: Pattern) -> Pattern:
    """sqrt(square + epsilon)."""
    return fn("sqrt", one_of(fn("add", square, Number("epsilon")), square))


def _divided(dividend: Pattern, square: Pattern) -> Pattern:
    """Division by the root, multiplication by its inverse, or by the inverse times a scale."""
    inverse = one_of(
        fn("div", Number(value=1), _rooted(square)),
        fn("pow", fn("add", square, Number("epsilon")), Number(value=-0.5)),
    )
    return one_of(
        fn("div", dividend, _rooted(square)),
        fn("mul", dividend, inverse),
        fn("mul", dividend, fn("mul", inverse, Any("scale"))),
    )


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
    x, reduces = m.values["x"], [n for n in m.walked if isinstance(n.op, Reduce)]
    axes = {n.op.axes for n in reduces if isinstance(n.op, Reduce)}
    if x.dtype.name == "f16" or m.root.result.type != x.type:
        return Fail(f"{x.type} does not become {m.root.result.type} by normalisation")
    if len(axes) != 1 or any(v is None or v.shape != x.shape for n in reduces for v in n.operands):
        return Fail("its statistics are of other axes")
    if not _means_are_means(m, x):
        return Fail("a sum is divided by another number than the count of its elements")
    if m.numbers.get("epsilon", 0) < 0:
        return Fail("epsilon is negative")
    (reduced,) = axes
    kept = tuple(1 if a in reduced else e for a, e in enumerate(x.shape))
    long = [a for a, e in enumerate(x.shape) if e > 1]
    if long and long[-1] not in reduced:
        return Fail("its rows are not contiguous: reductions that run through columns are faster")
    return _misaligned(m, x, kept) or _scale_fails(m, x) or _still_needed(m)


def _means_are_means(m: Match, x: Value) -> bool:
    for name, node in m.nodes.items():
        assert isinstance(node.op, Reduce)
        count = math.prod(x.shape[a] for a in node.op.axes)
        given, inverse = m.numbers.get(f"{name}.count", count), m.numbers.get(f"{name}.inverse", 1 / count)
        if given != count or abs(inverse * count - 1) > 1e-6:
            return False
    return True


def _misaligned(m: Match, x: Value, kept: Shape) -> Fail | None:
    """Statistics must meet the elements they were made of: one per row, broadcast along the reduced axes."""
    rows = math.prod(kept)
    if rows == x.type.count:
        return Fail("nothing is reduced")
    for node in (n for n in m.walked if isinstance(n.op, Map | Reshape)):
        count = node.result.type.count
        if count not in (rows, x.type.count) or (count != rows and isinstance(node.op, Reshape)):
            return Fail("its statistics are broadcast to another shape")
        for v in node.inputs if count != rows else ():
            of_rows = v.type.count == rows and v not in m.values.values() and v not in m.r.graph.constants
            if of_rows and (1,) * (len(kept) - len(v.shape)) + v.shape != kept:
                return Fail("its statistics are broadcast along other axes")
    return None


def _scale_fails(m: Match, x: Value) -> Fail | None:
    scale = m.values.get("scale")
    if scale is None:
        return None
    if "scale" in m.reshaped or broadcast_shapes(scale.shape, x.shape) != x.shape:
        return Fail("the scale is not broadcast to the operand")
    return None


def _still_needed(m: Match) -> Fail | None:
    if any(isinstance(n.op, Reduce) for n in m.dying()):
        return None
    return Fail("its statistics are needed elsewhere")


# -- rewrites ------------------------------------------------------------------------------------------------
def _rewrite(center: bool, is_mean: bool = True) -> Callable[[Match], None]:
    def rewrite(m: Match) -> None:
        x, scale, node = m.values["x"], m.values.get("scale"), m.root
        reduce = m.nodes["variance"].op
        assert isinstance(reduce, Reduce)
        count = 1 if is_mean else math.prod(x.shape[a] for a in reduce.axes)
        node.op = Normalize(reduce.axes, m.numbers.get("epsilon", 0.0) / count, center)
        body: ex.Expr = ex.acc(x.dtype)
        if count != 1:
            body = ex.apply("mul", body, ex.num(1 / math.sqrt(count), x.dtype))
        if scale is not None:
            body = ex.apply("mul", body, ex.var(0, x.dtype))
        node.post = {} if isinstance(body, ex.Var) else {0: body}
        m.r.rewire(node, [x], [] if scale is None else [scale])
        node.origins = _origins(m)

    return rewrite


def _origins(m: Match) -> tuple[str, ...]:
    walked: list[Node] = [n for n in m.r.graph.nodes if n in m.dying() or n is m.root]
    return tuple(dict.fromkeys(o for n in walked for o in n.origins))


RULES = (
    Rule("recognised layer normalisation", _divided(_CENTRED, _VARIANCE), _check, _rewrite(center=True)),
    Rule("recognised RMS normalisation", _divided(_X, _RMS), _check, _rewrite(center=False)),
    Rule("recognised L2 normalisation", _divided(_X, _SUM), _check, _rewrite(center=False, is_mean=False)),
)
