"""Loop and Scan that stay loops: a closed graph for a turn, and a node around it.

A body of Scan takes rows, that of Loop the number of its turn; both become the same: a Loop over as many turns as
there are rows, in which the row is gathered. What a body gives back as it got it is not carried, but read from
outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from mccompile.importer.branch import Captures
from mccompile.importer.counting import Counting, Line
from mccompile.importer.sequences import Known, require_tensor
from mccompile.ir.dims import Dim, bound, identifier, symbols
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES, I32, TensorType
from mccompile.onnxio import OnnxGraph
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.loop import Loop
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice

if TYPE_CHECKING:
    from mccompile.importer.control import Walker

MAX_TURNS = 2**31 - 2
"""Turns are counted in 32 bits."""


@dataclass(frozen=True)
class Item:
    """An input that a Scan takes row by row."""

    value: Value
    axis: int
    backwards: bool


@dataclass(frozen=True)
class Course:
    """A Loop or a Scan by what its body is given and gives: names of the body's inputs and outputs, outer values.

    ``trips`` is the number of turns, or the most there can be; None if nothing says it. ``number`` and ``condition``
    are the body's inputs of Loop, ``next`` its output that says whether there is another turn. ``counters`` are the
    carried values that count the turns, by their names in the body.
    """

    body: OnnxGraph
    trips: int | None
    count: Value | None = None
    going: Value | None = None
    number: str = ""
    condition: str = ""
    next: str = ""
    carried: tuple[tuple[str, Known, str], ...] = ()
    items: tuple[tuple[str, Item], ...] = ()
    rows: tuple[str, ...] = ()
    axes: tuple[int, ...] = ()
    backwards: tuple[bool, ...] = ()
    counters: Mapping[str, Line] = field(default_factory=dict)


@dataclass(frozen=True)
class NotKept:
    """Why a loop cannot stay one."""

    errors: list[CompileError]


def of_loop(w: Walker, n: Import, body: OnnxGraph, carried: Sequence[Known]) -> Course:
    """A Loop. CompileError for a condition or trip count that is none."""
    number, condition, *names = (v.name for v in body.inputs)
    going, *given = (v.name for v in body.outputs)
    count, first = n.optional(0), n.optional(1)
    trips: int | None = None
    if count is not None and n.is_const(0):
        trips, count = int(n.const(0, "trip count").reshape(-1)[0]), None
    elif count is not None and count in w.varying:
        trips, count = w.varying[count].reshape(-1)[0], None
    if first is not None and n.is_const(1):
        first = None if n.const(1, "condition").reshape(-1)[0] else first
    rows = tuple(given[len(names) :])
    return _counted(w, Course(
        body, trips, count, first, number, condition, going,
        tuple(zip(names, carried, given, strict=False)), (), rows, (0,) * len(rows), (False,) * len(rows),
    ))  # fmt: skip


def _counted(w: Walker, course: Course) -> Course:
    """A Loop with the number of its turns, where what it carries counts them and nothing else ends it."""
    if course.going is not None or course.count is not None:
        return course
    counting = Counting(course.body, course.carried, w.values, w.numbers)
    trips = counting.turns(course.trips)
    if trips is None or bound(trips) > MAX_TURNS:
        return course
    counters = {
        name: line
        for name, first, _ in course.carried
        if (line := counting.lines.get(name)) and line.slope and _is_whole(first)
    }
    return replace(course, trips=trips, next="", counters=counters)


def of_scan(
    n: Import, body: OnnxGraph, states: Sequence[Value], items: Sequence[Item], length: int
) -> Course:
    """A Scan: its states are carried."""
    names, given = [v.name for v in body.inputs], [v.name for v in body.outputs]
    many = len(states)
    rows = tuple(given[many:])
    axes = n.attr("scan_output_axes", (0,) * len(rows))
    back = n.attr("scan_output_directions", (0,) * len(rows))
    return Course(
        body, length, carried=tuple(zip(names, states, given, strict=False)),
        items=tuple(zip(names[many:], items, strict=True)), rows=rows, axes=tuple(axes),
        backwards=tuple(map(bool, back)),
    )  # fmt: skip


def keep(w: Walker, n: Import, course: Course, depth: int) -> list[Known] | NotKept:
    """The outputs of a loop that stays one."""
    try:
        return _Keeper(w, n, course).keep(depth)
    except CompileError as e:
        return NotKept([e])


class _Keeper:
    """One loop on its way to a node."""

    def __init__(self, w: Walker, n: Import, course: Course) -> None:
        self.w = w
        self.n = n
        self.course = course
        same = {node.outputs[0]: node.inputs[0] for node in course.body.nodes if node.op_type == "Identity"}
        counted = {} if course.trips is None or w.stated.bounds.get(n.node.name) is not None else course.counters
        self.counters = {name: (known, counted[name]) for name, known, _ in course.carried if name in counted}
        changing = [c for c in course.carried if c[0] not in counted and not _gives_back(same, c[0], c[2])]
        other = {c[0] for c in changing} | set(counted)
        self.invariant = {name: known for name, known, _ in course.carried if name not in other}
        decide = w.inputs_behind([v for v in (course.count, course.going) if v is not None])
        if any(isinstance(v, tuple) for _, v, _ in changing):
            raise n.error("sequences are not carried from turn to turn of a loop that the run decides on", decide)
        self.carried = [(name, require_tensor(n.node, "a carried value", v), out) for name, v, out in changing]
        if any(v in w.narrow for _, v, _ in self.carried):
            raise n.error("integers below 8 bits are not carried from turn to turn")
        self.trips, self.count, self.limited = self._trips()
        self.turn = n.stated.fresh(identifier(f"{n.node.name}_turn"))
        self.this_turn = Loop(self.trips, self.turn).this_turn

    def _trips(self) -> tuple[int, Value | None, bool]:
        """How many turns there are at most, the value that says how many, and whether there might be more."""
        n, course = self.n, self.course
        most = self.w.most_turns(n)
        if course.trips is None or course.trips > MAX_TURNS:
            if most is None:
                what = "its trip count" if course.count is not None else "whether it goes on"
                behind = self.w.inputs_behind([v for v in (course.count, course.going) if v is not None])
                raise n.error(
                    f"{what} is computed at run time, and nothing says how many turns it makes at most",
                    f"say it: --bound {n.node.name}=N" + (f"; or {behind}" if behind else ""),
                )
            return most, course.count, True
        stated = self.w.stated.bounds.get(n.node.name)
        if stated is None or stated >= bound(course.trips):
            return course.trips, course.count, False
        count = course.count
        if count is None:
            count = n.constant("trips", np.array(course.trips, np.int64))
        return stated, count, True

    def keep(self, depth: int) -> list[Known] | NotKept:
        n, course = self.n, self.course
        outputs = [*([course.next] if course.next else []), *(out for _, _, out in self.carried), *course.rows]
        inner = self.w.closed(n, course.body, "body", depth, self._begin, outputs)
        if isinstance(inner, list):
            return NotKept(inner or [n.error("its body reads what cannot be converted")])
        graph, names = inner
        conditional = False
        if course.next:
            going = names[course.next]
            endless = going in graph.constants and bool(graph.array(require_tensor(n.node, "", going)).reshape(-1)[0])
            conditional = course.going is not None or not endless
            self._set_condition(graph, conditional)
        lead = 1 if conditional else 0
        for (name, first, _), last in zip(self.carried, graph.outputs[lead:], strict=False):
            if first.type != last.type:
                raise n.error(f"its carried value {name!r} is {first.type} before, and {last.type} after a turn")
        if any(v.type.varies for v in graph.outputs):
            raise n.error("its body gives tensors whose extents are known when the program runs only")
        graph.remove_dead()
        return self._emit(graph, names, conditional)

    # -- the graph inside --------------------------------------------------------------------------------------
    def _begin(self, graph: Graph, names: Captures) -> None:
        """The inputs of the body: the turn, what is carried; the rest is read from outside."""
        course = self.course
        turn = graph.value(f"{self.n.node.name}.turn", TensorType(I32, ()))
        graph.inputs.append(turn)
        for s in symbols(self.this_turn):
            graph.counts[s.name] = turn
        for name, value, _ in self.carried:
            names[name] = own = graph.value(f"{name}.before", value.type)
            graph.inputs.append(own)
        for name, known in self.invariant.items():
            names[name] = names.own(known)
        for name, (known, counter) in self.counters.items():
            now = counter.offset + self.this_turn * counter.slope
            names[name] = own = _number(graph, now, name, require_tensor(self.n.node, "a counter", known))
            if own not in graph.constants:
                self.w.varying[own] = np.array([now], object).reshape(own.shape)
        if course.number:
            names[course.number] = number = _number(graph, self.this_turn, course.number)
            if number not in graph.constants:
                self.w.varying[number] = np.array(self.this_turn, object)
            names[course.condition] = graph.constant(course.condition, np.array(True))
        for name, item in course.items:
            source = names.own(item.value)
            assert isinstance(source, Value)
            last = item.value.shape[item.axis] - 1
            at = _number(graph, last - self.this_turn if item.backwards else self.this_turn, f"{name}.at")
            (names[name],) = graph.emit(Gather(item.axis), [source, at], [name])

    def _set_condition(self, graph: Graph, conditional: bool) -> None:
        """Output 0, a condition, as a scalar; or without it."""
        going, *others = graph.outputs
        if conditional and going.shape:
            (going,) = graph.emit(Reshape(()), [going], [f"{going.name}.one"])
        graph.outputs = [going, *others] if conditional else others

    # -- the node around it ------------------------------------------------------------------------------------
    def _emit(self, graph: Graph, names: Captures, conditional: bool) -> list[Known]:
        n, course, many = self.n, self.course, len(self.carried)
        used = {v for node in graph.nodes for v in node.inputs} | set(graph.outputs)
        captured = [v for v, own in names.taken.items() if own in graph.inputs and own in used]
        graph.inputs = [*graph.inputs[: 1 + many], *(names.taken[v] for v in captured)]
        decided = self.count is not None or conditional
        extent = (n.counted("turns", bound(self.trips)) if decided else self.trips) if course.rows else 0
        rows = graph.outputs[len(graph.outputs) - len(course.rows) :]
        axes = [n.axis(a, len(row.shape) + 1) for a, row in zip(course.axes, rows, strict=True)]
        turned = [back and isinstance(extent, Dim) for back in course.backwards]
        forwards = tuple(back and not later for back, later in zip(course.backwards, turned, strict=True))
        op = Loop(self.trips, self.turn, extent, self.limited, many, tuple(axes), forwards)
        operands = [self.count, self._first_condition() if conditional else None, *(v for _, v, _ in self.carried)]
        made = n.graph.emit(
            op, [*operands, *captured], self._names(), origins=(n.node.name,), regions=[graph]
        )
        if decided:
            n.count(extent, made[-1])
        changed: dict[str, Known] = dict(zip((name for name, _, _ in self.carried), made, strict=False))
        for name, (known, counter) in self.counters.items():
            end, like = counter.offset + self.trips * counter.slope, require_tensor(n.node, "a counter", known)
            changed[name] = last = _number(n.graph, end, f"{n.node.name}.{name}", like)
            if isinstance(end, Dim):
                self.w.varying[last] = np.array([end], object).reshape(last.shape)
        carried = [changed.get(name, known) for name, known, _ in course.carried]
        stacked = [self._turned(v, a) if back else v for v, a, back in zip(made[many:], axes, turned, strict=False)]
        return [*carried, *stacked]

    def _turned(self, rows: Value, axis: int) -> Value:
        """Rows in the opposite order, where it is known when the program runs only which is the last."""
        shape = rows.shape
        starts = tuple(e - 1 if a == axis else 0 for a, e in enumerate(shape))
        steps = tuple(-1 if a == axis else 1 for a in range(len(shape)))
        return self.n.inner(Slice(starts, steps, shape), [rows], f"{rows.name}.turned")

    def _first_condition(self) -> Value:
        going = self.course.going
        if going is None:
            return self.n.constant("going", np.array(True))
        return self.n.reshape(going, (), "going")

    def _names(self) -> list[str]:
        """A name for each result: those of the node, without those of invariant values, and the turns."""
        course, base, outputs = self.course, self.n.node.name, self.n.node.outputs
        named = [f"{base}.unused{i}" for i in range(len(course.carried) + len(course.rows))]
        for i, name in enumerate(outputs):
            named[i] = name or named[i]
        gone = {*self.invariant, *self.counters}
        kept = [o for o, (name, _, _) in zip(named, course.carried, strict=False) if name not in gone]
        return [*kept, *named[len(course.carried) :], f"{base}.turns"]


def _is_whole(known: Known) -> bool:
    return isinstance(known, Value) and known.dtype.name in ("i32", "i64")


def _gives_back(same: dict[str, str], given: str, made: str) -> bool:
    """Whether a body gives an input back as it is; ``same`` are its identities, output to input."""
    while made in same and made != given:
        made = same[made]
    return made == given


def _number(graph: Graph, number: int, name: str, like: Value | None = None) -> Value:
    """A number of the turn as a tensor: an i64, or one ``like`` another."""
    shape, to = ((), "i64") if like is None else (like.shape, like.dtype.name)
    if not isinstance(number, Dim):
        return graph.constant(name, np.full(shape, number, DTYPES[to].numpy))
    (made,) = graph.emit(Extents((number,), shape, to), [], [name])
    return made
