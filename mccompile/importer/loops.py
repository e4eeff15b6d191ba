"""Loop and Scan that stay loops: a closed graph for a turn, and a node around it.

A body of Scan takes rows, that of Loop the number of its turn; both become the same: a Loop over as many turns as
there are rows, in which the row is gathered. What a body gives back as it got it is not carried, but read from
outside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.branch import Captures, is_one, take_back
from mccompile.importer.counting import Counting, Line, own_shapes
from mccompile.importer.rewriting import used_names
from mccompile.importer.sequences import Known, Rows, require_tensor
from mccompile.ir.dims import Dim, UndecidedError, bound, identifier, maximum, span, symbols
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES, I32, TensorType
from mccompile.onnxio import OnnxGraph, OnnxNode, subgraphs
from mccompile.ops.extents import Extents
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.loop import Loop
from mccompile.ops.pad import Pad
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
class Growth:
    """A carried tensor that gets ``step`` longer along an axis in each turn, as what ``cat`` makes: it lies in memory
    for its largest extent, of which a turn sees ``first + step * turn``."""

    axis: int
    first: int
    step: int

    @staticmethod
    def of(before: TensorType, after: TensorType) -> Growth | None:
        """How one turn changes a type; None where that is no such growth."""
        pairs = list(zip(before.shape, after.shape, strict=False))
        axes = [a for a, (x, y) in enumerate(pairs) if x != y]
        if before.dtype != after.dtype or before.rank != after.rank or len(axes) != 1:
            return None
        (axis,) = axes
        step = pairs[axis][1] - pairs[axis][0]
        return Growth(axis, pairs[axis][0], step) if not isinstance(step, Dim) and step > 0 else None

    def shape(self, like: Sequence[int], turns: int) -> tuple[int, ...]:
        """The shape behind so many turns."""
        return tuple(self.first + turns * self.step if a == self.axis else e for a, e in enumerate(like))


class _GrowsError(Exception):
    """A turn was walked with tensors that were not known to grow."""

    def __init__(self, found: Mapping[str, Growth]) -> None:
        super().__init__()
        self.found = found


class _BecomesError(Exception):
    """A turn gave other types than what is carried had before, which it may as well have from the first turn on:
    {input of the body: type}."""

    def __init__(self, found: Mapping[str, TensorType]) -> None:
        super().__init__()
        self.found = found


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
        trips, count = int(n.one(0, "trip count")), None
    elif count is not None and count in w.varying:
        trips, count = maximum(w.varying[count].reshape(-1)[0], 0), None  # less than no turn is none
    if first is not None and n.is_const(1):
        first = None if n.one(1, "condition") else first
    rows = tuple(given[len(names) :])
    return _counted(w, Course(
        body, trips, count, first, number, condition, going,
        tuple(zip(names, carried, given, strict=False)), (), rows, (0,) * len(rows), (False,) * len(rows),
    ))  # fmt: skip


def _counted(w: Walker, course: Course) -> Course:
    """A Loop with the number of its turns, where what it carries counts them and nothing else ends it; else with the
    most that there can be."""
    if course.count is not None:
        return course
    counting = Counting(course.body, course.carried, w.values, w.numbers)
    trips, whole = counting.turns(course.trips)
    if trips is None or bound(trips) > MAX_TURNS:
        return course
    counters = {
        name: line
        for name, first, _ in course.carried
        if (line := counting.lines.get(name)) and line.slope and _is_whole(first) and counting.keeps_rank(name)
    }
    exact = whole and course.going is None
    return replace(course, trips=trips, next="" if exact else course.next, counters=counters)


def of_scan(
    n: Import, body: OnnxGraph, states: Sequence[Value], items: Sequence[Item], length: int
) -> Course:
    """A Scan: its states are carried."""
    names, given = [v.name for v in body.inputs], [v.name for v in body.outputs]
    many = len(states)
    rows = tuple(given[many:])
    axes = n.each("scan_output_axes", len(rows))
    back = n.each("scan_output_directions", len(rows))
    return Course(
        body, length, carried=tuple(zip(names, states, given, strict=False)),
        items=tuple(zip(names[many:], items, strict=True)), rows=rows, axes=tuple(axes),
        backwards=tuple(map(bool, back)),
    )  # fmt: skip


def keep(w: Walker, n: Import, course: Course, depth: int) -> list[Known] | NotKept:
    """The outputs of a loop that stays one."""
    try:
        return _with_sequences(w, n, course, depth)
    except CompileError as e:
        return NotKept([e])
    except UndecidedError as e:
        return NotKept([n.undecided(e)])


def _with_sequences(w: Walker, n: Import, course: Course, depth: int) -> list[Known] | NotKept:
    """The outputs of a loop in which sequences that are empty before, and get one tensor longer in each turn, are
    rows that it stacks."""
    added = {i: item for i, c in enumerate(course.carried) if (item := _appended(course.body, *c)) is not None}
    if not added:
        return _grown(w, n, course, depth)
    inserts = {course.carried[i][2] for i in added}
    body = replace(course.body, nodes=[node for node in course.body.nodes if inserts.isdisjoint(node.outputs)])
    rows = (*course.rows, *(name for name, _ in added.values()))
    many, count = len(added), len(course.carried)
    plain = replace(
        course, body=body, carried=tuple(c for i, c in enumerate(course.carried) if i not in added), rows=rows,
        axes=(*course.axes, *(0,) * many), backwards=(*course.backwards, *(False,) * many),
    )  # fmt: skip
    outputs = [*n.node.outputs, *[""] * (count + len(course.rows) - len(n.node.outputs))]
    order = [i for i in range(len(outputs)) if i not in added]
    named = replace(n.node, outputs=tuple(outputs[i] for i in (*order, *added)))
    made = _grown(w, Import(n.graph, named, n.inputs, stated=n.stated), plain, depth)
    if isinstance(made, NotKept):
        return made
    stacked = iter(made[len(made) - many :])
    others = iter(made[: len(made) - many])
    found: list[Known] = []
    for i in range(count + len(course.rows)):
        found.append(Rows(require_tensor(n.node, "rows", next(stacked))) if i in added else next(others))
    return found


def _grown(w: Walker, n: Import, course: Course, depth: int) -> list[Known] | NotKept:
    """The outputs of a loop, what it carries and makes longer found out by walking a turn."""
    grows: dict[str, Growth] = {}
    while True:
        nodes = len(n.graph.nodes)
        try:
            return _Keeper(w, n, course, grows).keep(depth)
        except _GrowsError as e:
            take_back(n.graph, w.values, nodes)
            grows = {**grows, **e.found}
        except _BecomesError as e:
            take_back(n.graph, w.values, nodes)
            course = replace(course, carried=tuple(
                (name, _become(n, name, first, e.found[name]) if name in e.found else first, out)
                for name, first, out in course.carried
            ))  # fmt: skip


def _become(n: Import, name: str, first: Known, type_: TensorType) -> Value:
    """What is carried, as of another type: one element with more axes, or what is not read."""
    value = require_tensor(n.node, "a carried value", first)
    if is_one(value.type) and is_one(type_) and value.dtype == type_.dtype:
        return n.reshape(value, type_.shape, f"{name}.one")
    return n.constant(f"{name}.none", np.zeros(type_.shape, type_.dtype.numpy))


def _appended(body: OnnxGraph, given: str, first: Known, made: str) -> tuple[str, OnnxNode] | None:
    """What each turn adds to the end of a sequence that is empty before, and the node that does; None where more
    becomes of it."""
    node = next((node for node in body.nodes if given in node.inputs), None)
    if first != () or node is None or node.op_type != "SequenceInsert" or node.outputs != (made,):
        return None
    reads = _reads(body)
    used_once = reads[given] == 1 and reads[made] == 1  # the insertion of the one, the output of the other
    at_the_end = len(node.inputs) == 2 or not node.inputs[2]
    return (node.inputs[1], node) if at_the_end and node.inputs[0] == given and used_once else None


def _reads(body: OnnxGraph) -> Counter[str]:
    """How often each name is read by a body: by its nodes, the graphs inside of them, and as an output."""
    found = Counter(v.name for v in body.outputs)
    for node in body.nodes:
        found.update(node.inputs)
        for inner in subgraphs(node):
            found.update(used_names(inner))
    return found


class _Keeper:
    """One loop on its way to a node."""

    def __init__(self, w: Walker, n: Import, course: Course, grows: Mapping[str, Growth]) -> None:
        self.w = w
        self.grows = grows
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
        for _, v, _ in self.carried:
            if v in w.narrow:
                rule = f"{w.narrow[v]} is not carried from turn to turn of a loop that the run decides on"
                raise n.error(rule, decide)
        self.trips, self.count, self.limited = self._trips()
        self.carried = [(name, self._lying(name, v), out) for name, v, out in self.carried]
        self.turn = n.stated.fresh(identifier(f"{n.node.name}_turn"))
        self.this_turn = Loop(self.trips, self.turn).this_turn

    def _lying(self, name: str, first: Value) -> Value:
        """What is carried, in a tensor that is as long as it becomes."""
        if name not in self.grows:
            return first
        most = max(bound(self.trips), 1)  # a turn that is never made has its place, too
        full = list(self.grows[name].shape(first.shape, most))
        full[self.grows[name].axis] = bound(full[self.grows[name].axis])
        return _filled(self.n.graph, first, tuple(full))

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
            going = require_tensor(n.node, "", names[course.next])
            known = going in graph.constants
            if known and going.type.count != 1:
                raise n.error(f"the condition that its body gives is {going.type}, but it may only be one element")
            endless = known and bool(graph.array(going).reshape(-1)[0])
            conditional = course.going is not None or not endless
            self._set_condition(graph, conditional)
        lead = 1 if conditional else 0
        grows: dict[str, Growth] = {}
        becomes: dict[str, TensorType] = {}
        read = _reads(course.body)  # in the file: what is read for its shape, or has no elements, is not in the graph
        for i, (name, first, _) in enumerate(self.carried, lead):
            last = graph.outputs[i]
            if name in self.grows and last.shape == self.grows[name].shape(first.shape, self.this_turn + 1):
                last = graph.outputs[i] = _filled(graph, last, first.shape)
            elif self._may_become(first.type, last.type, name in read):
                becomes[name] = last.type
            elif name not in self.grows and (growth := Growth.of(first.type, last.type)) is not None:
                grows[name] = growth
            elif first.type != last.type:
                raise n.error(f"its carried value {name!r} is {first.type} before, and {last.type} after a turn")
        if grows:
            raise _GrowsError(grows)
        if becomes:
            raise _BecomesError(becomes)
        if any(s.name in graph.counts for v in graph.outputs for s in symbols(*v.shape)):
            raise n.error("its body gives tensors whose extents each turn finds out")
        graph.remove_dead()
        return self._emit(graph, names, conditional)

    def _may_become(self, before: TensorType, after: TensorType, read: bool) -> bool:
        """Whether what is carried may as well have its later type from the first turn on: one element that gets more
        axes, as ``[] + [1]`` has; or what is written before it is ``read``, where there is a turn."""
        if before.dtype == after.dtype and before.rank < after.rank <= 1 and is_one(before) and is_one(after):
            return True
        some_turn = self.course.going is None and self.count is None and span(self.trips)[0] > 0
        return before != after and not read and some_turn and not after.varies

    # -- the graph inside --------------------------------------------------------------------------------------
    def _begin(self, graph: Graph, names: Captures) -> None:
        """The inputs of the body: the turn, what is carried; the rest is read from outside."""
        course = self.course
        turn = graph.value(f"{self.n.node.name}.turn", TensorType(I32, ()))
        graph.inputs.append(turn)
        for s in symbols(self.this_turn):
            graph.counts[s.name] = turn
        for name, value, _ in self.carried:
            own = graph.value(f"{name}.before", value.type)
            graph.inputs.append(own)
            names[name] = own
            if name in self.grows:
                names[name] = _begin_of(graph, own, self.grows[name].shape(own.shape, self.this_turn), name)
        for name, known in self.invariant.items():
            names[name] = names.own(known)
        for name, (known, counter) in self.counters.items():
            now = counter.offset + self.this_turn * counter.slope
            names[name] = own = _number_like(graph, now, name, require_tensor(self.n.node, "a counter", known))
            if own not in graph.constants:
                self.w.varying[own] = np.array([now], object).reshape(own.shape)
        if course.number:
            of_number, of_condition = own_shapes(course.body)
            names[course.number] = number = _number(graph, self.this_turn, course.number, of_number)
            if number not in graph.constants:
                self.w.varying[number] = np.array([self.this_turn], object).reshape(of_number)
            names[course.condition] = graph.constant(course.condition, np.ones(of_condition, bool))
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
        wanted = course.rows or self.grows or (decided and self.counters)
        extent = (n.counted("turns", bound(self.trips)) if decided else self.trips) if wanted else 0
        rows = graph.outputs[len(graph.outputs) - len(course.rows) :]
        axes = [n.axis(a, len(row.shape) + 1) for a, row in zip(course.axes, rows, strict=True)]
        turned = [back and isinstance(extent, Dim) for back in course.backwards]
        forwards = tuple(back and not later for back, later in zip(course.backwards, turned, strict=True))
        op = Loop(self.trips, self.turn, extent if course.rows else 0, self.limited, many, tuple(axes), forwards)
        operands = [self.count, self._first_condition() if conditional else None, *(v for _, v, _ in self.carried)]
        made = n.graph.emit(
            op, [*operands, *captured], self._names(), origins=(n.node.name,), regions=[graph]
        )
        if decided:
            n.count(extent, made[-1])
        changed: dict[str, Known] = {}
        for (name, _, _), value in zip(self.carried, made, strict=False):
            changed[name] = value
            if name in self.grows:
                shape = self.grows[name].shape(value.shape, extent)
                changed[name] = _begin_of(n.graph, value, shape, f"{n.node.name}.{name}")
        for name, (known, counter) in self.counters.items():
            turns = extent if decided else self.trips
            end, like = counter.offset + turns * counter.slope, require_tensor(n.node, "a counter", known)
            changed[name] = last = _number_like(n.graph, end, f"{n.node.name}.{name}", like)
            if isinstance(end, Dim):
                self.w.varying[last] = np.array([end], object).reshape(last.shape)
        carried = [changed.get(name, known) for name, known, _ in course.carried]
        stacked = [self._turned(v, a) if back else v for v, a, back in zip(made[many:], axes, turned, strict=False)]
        return [*carried, *stacked]

    def _turned(self, rows: Value, axis: int) -> Value:
        """Rows in the opposite order, where it is known when the program runs only which is the last."""
        shape, name = rows.shape, rows.name
        starts = tuple(e - 1 if a == axis else 0 for a, e in enumerate(shape))
        steps = tuple(-1 if a == axis else 1 for a in range(len(shape)))
        self.n.graph.rename(rows, f"{name}.forwards")
        (turned,) = self.n.graph.emit(Slice(starts, steps, shape), [rows], [name], origins=(self.n.node.name,))
        return turned

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


def _filled(graph: Graph, value: Value, shape: tuple[int, ...]) -> Value:
    """A value in a longer tensor, at its begin."""
    after = tuple(whole - own for whole, own in zip(shape, value.shape, strict=True))
    if value.type.count == 0 and not value.type.varies:
        return graph.constant(f"{value.name}.filled", np.zeros(shape, value.dtype.numpy))
    return graph.emit(Pad((*(0,) * len(shape), *after)), [value], [f"{value.name}.filled"])[0]


def _begin_of(graph: Graph, value: Value, shape: tuple[int, ...], name: str) -> Value:
    """The first elements of a value along each axis."""
    rank = len(shape)
    return graph.emit(Slice((0,) * rank, (1,) * rank, shape), [value], [name])[0]


def _is_whole(known: Known) -> bool:
    return isinstance(known, Value) and known.dtype.name in ("i32", "i64")


def _gives_back(same: dict[str, str], given: str, made: str) -> bool:
    """Whether a body gives an input back as it is; ``same`` are its identities, output to input."""
    while made in same and made != given:
        made = same[made]
    return made == given


def _number_like(graph: Graph, number: int, name: str, like: Value) -> Value:
    return _number(graph, number, name, like.shape, like.dtype.name)


def _number(graph: Graph, number: int, name: str, shape: tuple[int, ...] = (), to: str = "i64") -> Value:
    """A number of the turn as a tensor."""
    if not isinstance(number, Dim):
        return graph.constant(name, np.full(shape, number, DTYPES[to].numpy))
    (made,) = graph.emit(Extents((number,), shape, to), [], [name])
    return made
