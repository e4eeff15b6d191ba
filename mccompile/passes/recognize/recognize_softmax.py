"""Recognises softmax and its logarithm written with exponentials and sums."""

from __future__ import annotations

import math
from collections.abc import Callable

from mccompile.ir.graph import Graph
from mccompile.ops.reduce import Reduce
from mccompile.ops.reshape import Reshape
from mccompile.ops.softmax import Softmax
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Number, Reduced, Rule, apply_rules, fn, one_of

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Recognise softmax and log-softmax in their primitive forms, with and without the largest value subtracted.

    May change rounding; without that subtraction the primitive form also overflows, the operator does not.
    """
    return apply_rules(graph, remarks, RULES) if any(isinstance(n.op, Reduce | Softmax) for n in graph.nodes) else 0


_X = Any("x")
_MOST = Reduced("max", _X, "largest")
_LARGEST = one_of(
    _MOST,
    fn("max", Number(value=-math.inf), _MOST),
    fn("select", fn("lt", fn("abs", _MOST), Number(value=math.inf)), _MOST, Number(value=0)),
)
_SHIFTED = fn("sub", _X, _LARGEST)
_POWERS = tuple((e, Reduced("sum", e, "total")) for e in (fn("exp", _SHIFTED), fn("exp", _X)))
_SOFT = one_of(
    *(fn("div", power, total) for power, total in _POWERS),
    *(fn("mul", power, fn("div", Number(value=1), total)) for power, total in _POWERS),
)
_LOG = one_of(
    fn("sub", _SHIFTED, fn("log", _POWERS[0][1])),
    fn("sub", _X, fn("log", _POWERS[1][1])),
)


def _check(m: Match) -> Fail | None:
    x, total = m.values["x"], m.nodes["total"]
    axes = m.op(Reduce, "total").axes
    largest = m.op(Reduce, "largest").axes if "largest" in m.nodes else axes
    if x.dtype.name == "f16" or m.root.result.type != x.type:
        return Fail(f"{x.type} does not become {m.root.result.type} by softmax")
    if len(axes) != 1 or largest != axes:
        return Fail("it is not along one axis")
    kept = tuple(1 if a in axes else e for a, e in enumerate(x.shape))
    for node in (n for n in m.walked if n.op.elementwise is not None or n.op.keeps_order):
        whole = node.result.shape == x.shape
        if not whole and node.result.type.count != total.result.type.count:
            return Fail("a sum or maximum is broadcast to another shape")
        for v in node.inputs if whole else ():
            row = v.type.count != x.type.count and v not in m.r.graph.constants
            if node.op.keeps_order or (row and (1,) * (len(kept) - len(v.shape)) + v.shape != kept):
                return Fail("a sum or maximum is broadcast along another axis")
    if total not in m.dying():
        return Fail("the sum is needed elsewhere")
    return None


def _rewrite(mode: str) -> Callable[[Match], None]:
    def rewrite(m: Match) -> None:
        total, dying = m.op(Reduce, "total"), m.dying()
        walked = [n for n in m.r.graph.nodes if n in dying or n is m.root]
        m.root.op = Softmax(total.axes[0], mode)
        m.root.origins = tuple(dict.fromkeys(o for n in walked for o in n.origins))
        m.r.rewire(m.root, [m.values["x"]])

    return rewrite


def _check_log(m: Match) -> Fail | None:
    soft = m.nodes["soft"]
    if m.op(Softmax, "soft").mode != "soft":
        return Fail("it is no softmax but its logarithm or maximum")
    if soft not in m.dying():
        return Fail("the softmax is needed elsewhere")
    return None


def _rewrite_log(m: Match) -> None:
    soft = m.nodes["soft"]
    m.root.op = Softmax(m.op(Softmax, "soft").axis, "log")
    m.root.origins = tuple(dict.fromkeys(soft.origins + m.root.origins))
    m.r.rewire(m.root, soft.operands)


def _check_rows(m: Match) -> Fail | None:
    x, shape = m.values["x"], m.root.result.shape
    same = bool(x.shape) and x.shape[-1] == shape[-1] and m.op(Softmax).axis == len(shape) - 1
    return None if same else Fail("")


def _rewrite_rows(m: Match) -> None:
    softmax, x = m.root, m.values["x"]
    rows = m.r.insert(softmax, Softmax(len(x.shape) - 1, m.op(Softmax).mode), [x], f"{softmax.result.name}.rows")
    softmax.op = Reshape(softmax.result.shape)
    m.r.rewire(softmax, [rows])


RULES = (
    Rule("recognised softmax", _SOFT, _check, _rewrite("soft")),
    Rule("recognised log-softmax", _LOG, _check, _rewrite("log")),
    Rule("recognised the logarithm of a softmax", fn("log", Is(Softmax, (_X,), "soft")), _check_log, _rewrite_log),
    # Old exports flatten what is before the axis; scores of attention are to lie between two products.
    Rule(
        "took a softmax before a reshape that keeps its rows",
        Is(Softmax, (Is(Reshape, (_X,), "reshape"),), "softmax"), _check_rows, _rewrite_rows,
    ),
)  # fmt: skip
