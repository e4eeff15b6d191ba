"""Elements of an operand at places along its axes that are computed at run time: slices, pads and windows whose
arguments are known then only.

Worked example: x[9:2:-3] has the places 9, 6, 3. Of run-time numbers first, count and step these are a vector,
first + k * step for k < count, which Gather reads.
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import I32
from mccompile.ops.elements import Elements, Test, Whole, all_of, any_of, total, wrapped
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather


def places(
    n: Import, e: Elements, suffix: str, count: int, line: tuple[Whole, int, int], step: tuple[Whole, int]
) -> Value:
    """The vector first + k * step of ``count`` places. ``line`` is the first one and its range, ``step`` the step and
    the largest it may be, of either sign."""
    first, low, high = line
    by, most = step
    operands = [n.steps(count, I32, f"{suffix}.k")]
    terms = [shifted(n, e, f"{suffix}.first", first, low, high, operands)]
    away = by.most(-most).least(most)
    terms.append(ex.apply("mul", ex.var(0, I32), shifted(n, e, f"{suffix}.step", away, -most, most, operands)))
    return n.map(ex.apply("add", *terms), operands, f"{suffix}.places")


def shifted(
    n: Import, e: Elements, suffix: str, found: Whole, low: int, high: int, operands: list[Value]
) -> ex.Expr:
    """A number of ``low`` to ``high``, which may be negative, for the body of a map; what it reads is added to its
    ``operands``."""
    if found.known is not None:
        return ex.num(found.known, I32)
    operands.append(e.held(suffix, found - low, 0, high - low))
    return ex.apply("add", ex.var(len(operands) - 1, I32), ex.num(low, I32))


def take(n: Import, x: Value, axis: int, at: Value, suffix: str) -> Value:
    """The elements at places, which the kernel checks, along an axis."""
    return n.inner(Gather(axis), [x, at], suffix)


class ByAxis:
    """Numbers that are given with the axes they are for: of each axis of ``rank``, or what it has otherwise."""

    def __init__(self, e: Elements, axes: Sequence[Whole], rank: int) -> None:
        self.axes = [wrapped(a, rank) for a in axes]
        self.rank = rank
        counted = [total(a.equals(i).otherwise(1, 0) for a in self.axes) for i in range(rank)]
        valid = [a.equals(i) for a in self.axes for i in range(rank)]
        within = all_of(any_of(valid[k * rank : (k + 1) * rank]) for k in range(len(self.axes)))
        once = all_of(c.below(2) for c in counted)
        e.require(within & once)

    def given(self, axis: int) -> Test:
        return any_of(a.equals(axis) for a in self.axes)

    def of(self, axis: int, numbers: Sequence[Whole], otherwise: int) -> Whole:
        found = Whole.of(otherwise)
        for a, number in zip(self.axes, numbers, strict=True):
            found = a.equals(axis).otherwise(number, found)
        return found
