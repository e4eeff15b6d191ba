"""How many turns a Loop makes whose condition counts: as exporters write ``while`` and ``for``.

    def body(turn, going, i, x):               i is 0 before, and turn after that many turns
        next = i + 1                           is turn + 1
        return next < 12 and turn < 12, next, f(x)

Each comparison is the sign of ``offset + slope * turn``: ``11 - turn > 0`` holds in the turns 0 to 10, so that turn
11 is the last, and there are 12; ``12 - turn > 0`` would let there be 13. The least number counts. With extents for
numbers, ``next < seq``, it is an extent. Of ``next < 12 and not found``, where the run decides on what is found, 12
is the most.

All that only where each number on the way is one that its element type has, in all these turns: i32 wraps, a truth is
0 or 1, an f32 is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.ratios import cast_to
from mccompile.importer.sequences import Known
from mccompile.ir.dims import Dim, bound, maximum, span
from mccompile.ir.graph import Value
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxGraph, OnnxNode
from mccompile.onnxio.dtypes import dtype_of_array
from mccompile.ops.extents import holds

Number = Callable[[Value], "np.ndarray | None"]
"""The elements of a value from outside of the loop, where they are known or extents."""

_SAME = frozenset({"Identity", "Reshape", "Squeeze", "Unsqueeze"})
"""What leaves the one element of its operand as it is."""
_EXACT = frozenset({"bool", "i32", "i64", "f32", "f64"})
"""So does Cast to one of these, if that type has it (`Counting._hold`), or of a truth."""
_OF_ONE_TYPE = _SAME | {"Add", "Sub"}
"""What they make has the element type of their first operand."""
_GREATER = {
    "Greater": (0, 1, 0), "GreaterOrEqual": (0, 1, 1), "Less": (1, 0, 0), "LessOrEqual": (1, 0, 1),
}  # fmt: skip
"""Comparisons of whole numbers as ``operand[a] - operand[b] + c > 0``: (a, b, c)."""
_WHOLE = 1 << 24
"""Floats hold whole numbers up to this one."""


def own_shapes(body: OnnxGraph) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shapes of the number of the turn, and of the condition, in a body of Loop: numbers, or [1] where the body
    states one axis, as onnxruntime has it."""
    number, condition = ((1,) if v.shape is not None and len(v.shape) == 1 else () for v in body.inputs[:2])
    return number, condition


@dataclass(frozen=True)
class Line:
    """``offset + slope * turn``."""

    offset: int
    slope: int

    def plus(self, other: Line, sign: int) -> Line:
        return Line(self.offset + sign * other.offset, self.slope + sign * other.slope)

    @property
    def turns(self) -> int | None:
        """How many turns there are if another one follows while this is above 0; None where that is not known; -1
        where one always follows."""
        if self.slope < 0:
            return 1 + (maximum(self.offset, 0) - self.slope - 1) // -self.slope
        low, high = span(self.offset)
        if low > 0:
            return -1
        return 1 if high <= 0 else None


class Counting:
    """The nodes of a body by what they make, and ``lines``: the numbers that count, by their names in it."""

    def __init__(
        self, body: OnnxGraph, carried: Sequence[tuple[str, Known, str]], values: Mapping[str, Known], number: Number
    ) -> None:
        self.made = {output: node for node in body.nodes for output in node.outputs}
        self.constants = dict(body.initializers)
        self.going, self.condition = body.inputs[1].name, body.outputs[0].name
        self.given = {v.name for v in body.inputs}
        self.carried = {name: first for name, first, _ in carried}
        self.last = {name: last for name, _, last in carried}
        self.values, self.number = values, number
        self.turn = body.inputs[0].name
        self.turn_shape = own_shapes(body)[0]
        self.read: set[str] = set()
        """The names that were followed: what is known of the turns depends on them."""
        self.lines = {self.turn: Line(0, 1)}
        for name, first, last in carried:
            start, step = self._one(first), self._step(name, last)
            if start is not None and step is not None:
                self.lines[name] = Line(start, step)

    def turns(self, most: int | None) -> tuple[int | None, bool]:
        """The number of turns, at most ``most``, of a Loop that begins, None where nothing says it; and whether that
        is all that ends the loop, so that there are not fewer."""
        limits, whole = self._limits(self.condition)
        turns = _least([*limits, *([most] if most is not None else [])])
        return (turns, whole) if turns is not None and self._hold(turns) else (None, False)

    def _hold(self, turns: int) -> bool:
        """Whether each number that was followed is one of its element type from before the first turn to behind the
        last one."""
        for name in sorted(self.read | self.lines.keys()):
            line, dtype = self._line(name), self._dtype(name)
            ends = [] if line is None else [line.offset, line.offset + line.slope * bound(turns)]
            if ends and (dtype not in DTYPES or not holds(DTYPES[dtype], *ends)):
                return False
        return True

    def _limits(self, name: str) -> tuple[list[int], bool]:
        """The number of turns that each comparison behind a condition allows, none for what is always true; and
        whether these are all that the condition says."""
        node = self.made.get(name)
        if name == self.going:
            return [], True
        if node is None or node.domain:
            known = self._outer(name)
            return [], known is not None and not isinstance(known, Dim) and known != 0
        same = self._same(node)
        if same:
            return self._limits(same)
        if node.op_type == "And":
            (left, of_left), (right, of_right) = (self._limits(operand) for operand in node.inputs)
            return [*left, *right], of_left and of_right
        if node.op_type == "If":
            return self._limits_of_both(node)
        if node.op_type not in _GREATER:
            return [], False
        larger, smaller, closed = _GREATER[node.op_type]
        above, below = self._line(node.inputs[larger]), self._line(node.inputs[smaller])
        if above is None or below is None:
            return [], False
        found = above.plus(below, -1).plus(Line(closed, 0), 1).turns
        return [] if found is None or found < 0 else [found], found is not None

    def _limits_of_both(self, node: OnnxNode) -> tuple[list[int], bool]:
        """Those of ``left and right``, as torch.jit.script has it: If(left), of whose branches one is right, and the
        other one is False."""
        right, other = node.attrs.get("then_branch"), node.attrs.get("else_branch")
        if not isinstance(right, OnnxGraph) or not isinstance(other, OnnxGraph):
            return [], False
        for branch in (right, other):  # no name stands in two graphs for different things
            self.made.update({output: inner for inner in branch.nodes for output in inner.outputs})
            self.constants.update(branch.initializers)
        otherwise = self._outer(other.outputs[0].name)
        if otherwise is None or isinstance(otherwise, Dim) or otherwise != 0:
            return [], False
        of_left, left_is_all = self._limits(node.inputs[0])
        of_right, right_is_all = self._limits(right.outputs[0].name)
        return [*of_left, *of_right], left_is_all and right_is_all

    def _line(self, name: str) -> Line | None:
        """A number inside the body by the turn."""
        self.read.add(name)
        if name in self.lines:
            return self.lines[name]
        node = self.made.get(name)
        if node is None or node.domain:
            known = self._outer(name)
            return None if known is None else Line(known, 0)
        same = self._same(node)
        if same:
            return self._line(same)
        if node.op_type in ("Add", "Sub"):
            left, right = self._line(node.inputs[0]), self._line(node.inputs[1])
            if left is not None and right is not None:
                return left.plus(right, 1 if node.op_type == "Add" else -1)
        return None

    def _step(self, name: str, last: str) -> int | None:
        """By how much a carried value grows in a turn, if it does by a number that is known."""
        node = self._origin(last)
        if last == name or node is None:
            return 0 if last == name else None
        if node.op_type not in ("Add", "Sub"):
            return None
        left, right = node.inputs
        if self._name(right) == name and node.op_type == "Add":
            left, right = right, left
        step = self._outer(self._name(right)) if self._name(left) == name else None
        return None if step is None or isinstance(step, Dim) else step if node.op_type == "Add" else -step

    def _name(self, name: str) -> str:
        """The name before what leaves a number as it is."""
        while name in self.made and (same := self._same(self.made[name])):
            name = same
        return name

    def _origin(self, name: str) -> OnnxNode | None:
        node = self.made.get(self._name(name))
        return None if node is None or node.domain else node

    def _same(self, node: OnnxNode) -> str:
        """The number that a node leaves as it is, if its type has it; "" if it makes another one."""
        self.read.add(node.outputs[0])
        first = node.inputs[0] if node.inputs and not node.domain else ""
        if node.op_type in ("Cast", "CastLike"):
            to = cast_to(node) if node.op_type == "Cast" else self._dtype(node.inputs[1])
            return first if to in _EXACT else ""
        if first and node.op_type == "Add":
            return next((other for other, zero in (node.inputs, node.inputs[::-1]) if self._is_zero(zero)), "")
        return first if node.op_type in _SAME else ""

    def _is_zero(self, name: str) -> bool:
        """Whether a name stands for a 0, as in what exporters write for an assignment."""
        known = None if name in self.made else self._outer(name)
        return known is not None and not isinstance(known, Dim) and known == 0

    def _dtype(self, name: str) -> str:
        """The element type of a number; "" where it is not told."""
        while name in self.made and not self.made[name].domain:
            node = self.made[name]
            if node.op_type == "Cast":
                return cast_to(node) or ""
            if node.op_type not in _OF_ONE_TYPE and node.op_type != "CastLike":
                return ""
            name = node.inputs[1 if node.op_type == "CastLike" else 0]
        if name in self.constants:
            return dtype_of_array(self.constants[name])
        known = self._known(name)
        return "i64" if name == self.turn else known.dtype.name if isinstance(known, Value) else ""

    def _outer(self, name: str) -> int | None:
        """A number that is the same in all turns."""
        if name in self.constants:
            return _whole(self.constants[name])
        if name in self.made and (same := self._same(self.made[name])):
            return self._outer(same)
        known = None if name in self.given else self._known(name)
        return None if known is None else self._one(known)

    def _known(self, name: str) -> Known | None:
        """What is carried before the first turn, and what comes from outside. ``values`` may have other names of the
        body, too: from turns that were walked before."""
        if name in self.given or name in self.made:
            return self.carried.get(name)
        if name not in self.values:
            return None
        return self.values[name]  # not by `get`: a nested graph takes in what it is asked for

    def keeps_rank(self, name: str) -> bool:
        """Whether a carried number has as many axes behind a turn as before the first one."""
        rank = self._rank(name)
        return rank is not None and self._rank(self.last[name]) == rank

    def _rank(self, name: str) -> int | None:
        """How many axes a number has in the first turn; None where that is not told."""
        node = self.made.get(name)
        if name == self.turn:
            return len(self.turn_shape)
        if name in self.constants:
            return self.constants[name].ndim
        if node is None:
            known = self._known(name)
            return known.type.rank if isinstance(known, Value) else None
        first = self._rank(node.inputs[0]) if node.inputs and not node.domain else None
        if first is None or node.op_type in ("Identity", "Cast", "CastLike"):
            return first
        if node.op_type in ("Add", "Sub"):
            second = self._rank(node.inputs[1])
            return None if second is None else max(first, second)
        axes = self._count(node.inputs[1]) if node.inputs[1:] and node.inputs[1] else None
        if node.op_type == "Squeeze":
            return 0 if len(node.inputs) == 1 else None if axes is None else first - axes
        if axes is None or node.op_type not in ("Unsqueeze", "Reshape"):
            return None
        return axes if node.op_type == "Reshape" else first + axes

    def _count(self, name: str) -> int | None:
        """How many elements a constant, or a value from outside, has."""
        if name in self.constants:
            return self.constants[name].size
        known = self._known(name)
        return known.type.count if isinstance(known, Value) else None

    def _one(self, known: Known) -> int | None:
        array = self.number(known) if isinstance(known, Value) else None
        return None if array is None else _whole(array)


def _least(limits: Sequence[int]) -> int | None:
    """The number that is not above any other, of which some may be extents; None where that is none."""
    for limit in limits:
        if all(span(other - limit)[0] >= 0 for other in limits):
            return limit
    return None


def _whole(array: np.ndarray) -> int | None:
    """The only element of an array, if it is a whole number that counts exactly."""
    if array.size != 1:
        return None
    element = array.reshape(-1)[0]
    if isinstance(element, Dim):
        return element
    if array.dtype.kind == "f" and not (abs(float(element)) < _WHOLE and float(element).is_integer()):
        return None
    return int(element) if array.dtype.kind in "biufO" else None
