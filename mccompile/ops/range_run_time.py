"""Range whose start, limit or step is computed at run time: of as many numbers as the model states, or up to a bound.

Worked example: of 5 numbers the program has the vector start + k * delta for k = 0 to 4, and ends with MCC_E_DIM
where start, limit and delta do not give 5.
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import F64, I64, DType
from mccompile.ops.elements import Elements, Test, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.run_time import RunTime


def import_range(n: Import) -> None:
    e, dtype = Elements(n), n.input(0).dtype
    start, limit, delta = (_element(e, n.input(i)) for i in range(3))
    count = _float_count(start, limit, delta) if dtype.is_float else _whole_count(start, limit, delta)
    n.bind(0, _line(n, e.result(0, count), dtype))


def _element(e: Elements, value: Value) -> ex.Expr:
    if value in e.node.graph.constants:
        return ex.num(e.node.graph.array(value).item(), value.dtype)
    return e.raw(value)[0]


def _float_count(start: ex.Expr, limit: ex.Expr, delta: ex.Expr) -> Whole:
    """Rounded up of a quotient in f64, as where all is constant: 0.3 / 0.1 of f32 is a little more than 3."""
    away, by = (ex.convert(x, F64) for x in (ex.apply("sub", limit, start), delta))
    steps = ex.apply("ceil", ex.apply("div", away, by))
    none = Test(ex.apply("eq", delta, ex.num(0, delta.dtype))) | Test(ex.apply("isnan", steps))
    return none.otherwise(-1, Whole(ex.convert(steps, I64)).most(0))


def _whole_count(start: ex.Expr, limit: ex.Expr, delta: ex.Expr) -> Whole:
    """Rounded up. Of a step of 0, or of numbers so far apart that 64 bits do not hold their difference, it is none
    that the model could state."""
    first, last, by = (Whole(ex.convert(x, I64)) for x in (start, limit, delta))
    rising = Whole.of(0).below(by)
    away, size = rising.otherwise(last - first, first - last), rising.otherwise(by, Whole.of(0) - by)
    some = (rising & first.below(last)) | (by.below(0) & last.below(first))
    wrong = by.equals(0) | (some & (away.below(1) | size.below(1)))
    count = (away.most(1) - 1) // size.most(1) + 1
    return wrong.otherwise(-1, some.otherwise(count, 0))


def _line(n: Import, count: int, dtype: DType) -> Value:
    k = n.steps(count, dtype.compute, "k")
    start, delta = (n.reshape(n.input(i), (), what) for i, what in ((0, "start"), (2, "delta")))
    step = ex.apply("mul", ex.var(0, dtype), ex.var(1, dtype))
    body = ex.apply("add", ex.var(2, dtype), step)
    return n.inner(Map(body, "f16" if dtype.name == "f16" else ""), [k, delta, start], "range")


RUN_TIME = {"Range": RunTime(import_range, (0, 1, 2), undecided=True)}
