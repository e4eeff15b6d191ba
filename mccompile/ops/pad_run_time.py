"""Pad whose pads or axes are computed at run time: each axis is read at places that are computed from its pads.

Worked example: an axis of 3 elements with the pads 2 and 1 has 6 places, k - 2 for k = 0, 1, ...: -2, -1, 0, 1, 2, 3.
The mode says what lies at -2, -1 and 3: the pad's value, or the elements 0, 0 and 2 (edge), 2, 1, 1 (reflect), or
1, 2, 0 (wrap). A negative pad crops before anything is added; in the places that is the same.
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, span
from mccompile.ir.graph import Value
from mccompile.ir.types import BOOL, I32
from mccompile.ops.elements import Elements, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.pad import Pad
from mccompile.ops.picked import ByAxis, shifted, take
from mccompile.ops.run_time import RunTime


@dataclass(frozen=True)
class _Axis:
    """An axis that may be padded: its ``number``, its extents before and after, the pad in front of it. ``before``
    and ``after`` are ``extent`` and ``result`` as numbers of the run."""

    number: int
    extent: int
    result: int
    before: Whole
    after: Whole
    begin: Whole


def import_pad(n: Import) -> None:
    x, e = n.input(0), Elements(n)
    rank, mode = len(x.shape), n.attr("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise n.error(f"mode {mode!r} is unknown")
    pads = e.of(1, "pads")
    axes = e.of(3, "axes") if n.optional(3) is not None else tuple(map(Whole.of, range(rank)))
    if len(pads) != 2 * len(axes) or len(axes) > rank:
        raise n.error(f"{len(pads)} pads for {len(axes)} axes")
    if 0 in x.shape:
        raise n.error("pads around no elements have to be known")
    by = ByAxis(e, axes, rank)
    inside: list[tuple[Value, int]] = []
    for a in range(rank):
        begin, end = (by.of(a, pads[i * len(axes) : (i + 1) * len(axes)], 0) for i in (0, 1))
        if by.given(a).known is False or (begin.known == 0 and end.known == 0):
            continue
        before = e.extent(x.shape[a])
        result = _result(e, a, x.shape[a], begin, end)
        axis = _Axis(a, x.shape[a], result, before, e.extent(result), begin)
        _require_mode(e, axis, mode)
        x, mask = _padded(n, e, x, axis, mode)
        inside += [] if mask is None else [(mask, a)]
    n.bind(0, _with_value(n, x, inside))


def _result(e: Elements, axis: int, extent: int, begin: Whole, end: Whole) -> int:
    """The extent after the pads, which may be told by extents, and may be less than none then."""
    pads, found = [e.told(begin), e.told(end)], begin + end + e.extent(extent)
    known = [p for p in pads if p is not None]
    if len(known) < len(pads):
        return e.result(axis, found)
    low, high = span(extent + sum(known))
    return extent + sum(known) if low >= 0 else e.number(f"extent{axis}", found, 0, max(high, 0))


def _require_mode(e: Elements, axis: _Axis, mode: str) -> None:
    """Something has to be left where pads repeat it, and reflections are not wider than that."""
    if mode == "constant":
        return
    low, high = _kept(axis)
    left, none = high - low + 1, axis.after.equals(0)
    e.require(none | Whole.of(0).below(left))
    if mode == "reflect":
        before, after = axis.begin.most(0), axis.after - axis.before - axis.begin
        e.require(none | (before.below(left) & after.below(left)))


def _kept(axis: _Axis) -> tuple[Whole, Whole]:
    """The first and the last element that negative pads leave."""
    low = (Whole.of(0) - axis.begin).most(0)
    return low, (axis.after - 1 - axis.begin).least(axis.before - 1)


def _padded(n: Import, e: Elements, x: Value, axis: _Axis, mode: str) -> tuple[Value, Value | None]:
    """The value with one axis padded, and for mode constant where elements of it are."""
    name, most = f"axis{axis.number}", bound(axis.extent)
    operands = [n.steps(axis.result, I32, f"{name}.k")]
    wide = max(bound(axis.result), most)
    begin = shifted(n, e, f"{name}.begin", axis.begin, -wide, wide, operands)
    place = ex.apply("sub", ex.var(0, I32), begin)
    zero = ex.num(0, I32)
    if mode in ("constant", "edge"):
        last = shifted(n, e, f"{name}.last", axis.before - 1, -1, most - 1, operands)
        within = ex.apply("max", ex.apply("min", place, last), zero)
    if mode == "constant":
        test = ex.apply("and", ex.apply("le", zero, place), ex.apply("le", place, last))
        mask = n.map(test, operands, f"{name}.inside")
        if span(axis.extent)[0] < 1:  # of no element there is none to be taken for the pads
            ends = tuple(int(i == len(x.shape) + axis.number) for i in range(2 * len(x.shape)))
            x = n.inner(Pad(ends), [x], f"{name}.longer")
        return take(n, x, axis.number, n.map(within, operands, f"{name}.places"), f"{name}.padded"), mask
    if mode != "edge":
        low, high = (
            shifted(n, e, f"{name}.{what}", v, least, least + most, operands)
            for what, v, least in zip(("low", "high"), _kept(axis), (0, -1), strict=True)
        )
        count = ex.apply("add", ex.apply("sub", high, low), ex.num(1, I32))
        away = ex.apply("sub", place, low)
        within = ex.apply("add", low, _wrapped(away, count) if mode == "wrap" else _reflected(away, count))
    return take(n, x, axis.number, n.map(within, operands, f"{name}.places"), f"{name}.padded"), None


def _wrapped(at: ex.Expr, count: ex.Expr) -> ex.Expr:
    return ex.apply("mod", at, count)


def _reflected(at: ex.Expr, count: ex.Expr) -> ex.Expr:
    """0, 1, 2, 1, 0, 1, ... of three elements; of one, always that."""
    one = ex.num(1, I32)
    turn = ex.apply("max", ex.apply("mul", ex.apply("sub", count, one), ex.num(2, I32)), one)
    there = ex.apply("mod", at, turn)
    back = ex.apply("sub", turn, there)
    return ex.apply("min", ex.apply("min", there, back), ex.apply("sub", count, one))


def _with_value(n: Import, x: Value, inside: list[tuple[Value, int]]) -> Value:
    """The pad's value wherever one of the masks, each along its axis, is false."""
    if not inside:
        return x
    operands, tests = [x], []
    for mask, a in inside:
        shape = tuple(mask.shape[0] if i == a else 1 for i in range(len(x.shape)))
        operands.append(n.reshape(mask, shape, f"axis{a}.mask"))
        tests.append(ex.var(len(operands) - 1, BOOL))
    test: ex.Expr = tests[0]
    for other in tests[1:]:
        test = ex.apply("and", test, other)
    value: ex.Expr = ex.num(0, x.dtype)
    if n.optional(2) is not None:
        operands.append(n.reshape(n.input(2), (), "value"))
        value = ex.var(len(operands) - 1, x.dtype)
    body = ex.apply("select", test, ex.var(0, x.dtype), value)
    return n.inner(Map(body, "f16" if x.dtype.name == "f16" else ""), operands, "filled")


RUN_TIME = {"Pad": RunTime(import_pad, (1, 2, 3), undecided=True)}
