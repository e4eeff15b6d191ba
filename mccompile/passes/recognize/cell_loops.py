"""Loops whose turns compute a recurrent cell: the cell becomes an operator, what is left of the loop stays one.

Worked example: of a loop that carries h, and stacks a row for each turn,

    h = tanh(xs[turn] . W + h . R)          row = h . V

the first line becomes `rnn` on all rows of xs, with the states of all turns as its result y; the loop that is left
reads h = y[turn]. Where the rows are h itself nothing is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import cast

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError, symbols
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import TypeRuleError
from mccompile.ir.structure import Coordinates
from mccompile.ir.types import F32
from mccompile.ops.extents import Extents
from mccompile.ops.gather import Gather
from mccompile.ops.loop import Loop
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.cells import Cell, NotACellError, cell_of
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.polynomials import TooLargeError
from mccompile.passes.analysis.turn_forms import Turn, UnknownFormError
from mccompile.passes.manager import Remarks
from mccompile.passes.recognize.cell_inputs import Emitter, Reads, Stack, for_all_turns, reads_of
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter

NO_CELL = (NotACellError, UnknownFormError, TooLargeError)


def recognise_loop(graph: Graph, remarks: Remarks, refused: set[Node]) -> bool:
    """Make the first cell that a loop computes an operator; False if there is none, loops in ``refused`` aside."""
    for node in graph.nodes:
        if node.op.turns_inside() == 1 or node in refused:
            continue
        body = _Body(graph, node, cast(Loop, node.op))
        error: Exception | None = None
        for states in body.candidates():
            try:
                found = body.cell(states)
                body.take_out(states, *found)
                remarks.hit(f"recognised {found[0].op.name}: {node.where}")
                return True
            except NO_CELL as e:
                error = error or e
        refused.add(node)
        reason = str(error or "no state of it depends on itself alone")
        remarks.miss(f"recognised a recurrent cell: {node.where}", reason)
    return False


@dataclass(frozen=True)
class _Rows:
    """A value of every turn, one after the other along axis 0; ``same``: one for all turns."""

    value: Value
    same: bool


class _Body:
    """A loop and the graph inside: (turn, carried, captured) -> (carried, rows)."""

    def __init__(self, graph: Graph, node: Node, op: Loop) -> None:
        self.graph, self.node, self.op = graph, node, op
        self.inside = node.regions[0]
        self.producers = self.inside.producers()
        self.users = self.inside.users()
        self.conditional = node.operands[1] is not None
        self.depends = self._depends()

    def _depends(self) -> dict[Value, frozenset[int]]:
        """The carried values that each value of the body depends on."""
        found = {v: frozenset({i}) for i, v in enumerate(self.inside.inputs[1 : 1 + self.op.carried])}
        for n in self.inside.nodes:
            of = frozenset[int]().union(*(found.get(v, frozenset[int]()) for v in n.inputs))
            found.update(dict.fromkeys(n.results, of))
        return found

    # -- what is looked for --------------------------------------------------------------------------------------
    def candidates(self) -> list[tuple[int, ...]]:
        """Numbers of carried values that may be h, or h and c: all that they depend on."""
        found: list[tuple[int, ...]] = []
        for i in range(self.op.carried):
            v = self.inside.inputs[1 + i]
            of = self._of_state(i)
            if v.dtype != F32 or not v.shape or i not in of:
                continue
            others = sorted(of - {i})
            if not others:
                found.append((i,))
            elif len(others) == 1 and self._of_state(others[0]) <= of:
                found.append((i, others[0]))
        return found

    def _of_state(self, i: int) -> frozenset[int]:
        return self.depends.get(self._after(i), frozenset())

    def _after(self, i: int) -> Value:
        return self.inside.outputs[i + self.conditional]

    def cell(self, states: tuple[int, ...]) -> tuple[Cell, Reads]:
        """The cell of some carried values, and what it reads. NO_CELL if they are none."""
        if self.node.operands[0] is not None or self.conditional or self.op.limited:
            raise NotACellError("how many turns it makes is decided while it runs")
        before = {self.inside.inputs[1 + i]: name for i, name in zip(states, "hc", strict=False)}
        h = next(iter(before))
        if any(v.type.varies for v in before):
            raise NotACellError("the extents of its states are known at run time only")
        if len({v.type.count for v in before}) > 1:
            raise NotACellError("its states have different extents")
        if h.type.count == 0:
            raise NotACellError("its states have no elements")
        units, rows = extents_of(h)
        turn = Turn(self.inside, self.producers, rows, before, lambda v: bool(self.depends.get(v)))
        forms = [turn.whole(self._after(i)) for i in states]
        outside = Turn(self.inside, self.producers, rows, {}, lambda v: False, True)
        cell = cell_of(
            forms[0], forms[1] if len(forms) > 1 else None, units,
            lambda o: outside.form(o.value, np.array(o.columns, np.int64), o.one),
        )  # fmt: skip
        reads = reads_of(cell)
        if any(self.depends.get(o.value) for o in reads.read):
            raise NotACellError("it reads what other states become")
        return cell, reads

    # -- what takes its place ------------------------------------------------------------------------------------
    def take_out(self, states: tuple[int, ...], cell: Cell, reads: Reads) -> None:
        """Let an operator compute the cell. NO_CELL, and nothing is changed, where the rest of the loop needs more of
        it than its states after each turn."""
        rest = self._rest(states)
        trial = self.graph.shallow_copy()
        r = Rewriter(trial)
        h = self.inside.inputs[1 + states[0]]
        units, rows = extents_of(h)
        inner = (name for node, _ in self.inside.everywhere() for name in node.origins)  # options may say them
        origins = tuple(dict.fromkeys([*self.node.origins, *inner]))
        e = Emitter(r, self.node, origins, self.node.results[states[0]].name, self.op.trips, rows, units)
        lift = _Lift(self, e)
        first = [self.node.operands[2 + i] for i in states]
        after = [self.node.results[i] for i in states]
        asked = [v for v in after if r.users(v) or r.is_output(v)]
        outputs = ["y"] if rest or self._direct(states) else []
        outputs += [name for name, v in zip("hc", after, strict=False) if v in asked]
        with for_all_turns():
            stacks = [Stack(lift.stacked(o.value, 1 if o.one else rows), o.columns) for o in reads.read]
            x = e.gates(reads.gates, stacks)
            made = dict(zip(outputs, e.cell(cell, x, first, tuple(outputs) or ("h",), lift.back), strict=False))
        self._replace(e, states, made, rest, lift.back)
        r.finish()
        self.graph.adopt(trial)
        self.graph.remove_dead()

    def _direct(self, states: tuple[int, ...]) -> list[int]:
        """The rows that are the state after the turn."""
        rows = self.inside.outputs[self.op.carried :]
        return [k for k, v in enumerate(rows) if self._same(v) is self._after(states[0])]

    def _same(self, value: Value) -> Value:
        """What a value has the elements of, in their order."""
        node = self.producers.get(value)
        while node is not None and is_plain(node) and node.operands[0] is not None:
            same = node.op.keeps_order or isinstance(node.op.elementwise, ex.Var)
            if not same or node.result.dtype != node.operands[0].dtype:  # f32 stored as f16 is rounded
                break
            value = node.operands[0]
            node = self.producers.get(value)
        return value

    def _rest(self, states: tuple[int, ...]) -> list[int]:
        """The outputs of the body that something else has to compute."""
        direct = {self.op.carried + k for k in self._direct(states)}
        outputs = self.inside.outputs
        rest = [k for k in range(len(outputs)) if k not in states and k not in direct]
        own = {self.inside.inputs[1 + i] for i in states} | {self._after(i) for i in states[1:]}
        seen, pending = set[Value](), [outputs[k] for k in rest]
        while pending:
            v = pending.pop()
            if v in own:
                raise NotACellError("the rest of the loop reads its states before the turn, or the cell state")
            if v not in seen and v is not self._after(states[0]):
                seen.add(v)
                pending += self.producers[v].inputs if v in self.producers else []
        return rest

    def _replace(
        self, e: Emitter, states: tuple[int, ...], made: Mapping[str, Value], rest: Sequence[int], back: bool
    ) -> None:
        """Let results of the cell be those of the loop; the loop is left with the rest."""
        r, op, results, direct = e.r, self.op, self.node.results, self._direct(states)
        node = Node(op, list(self.node.operands), [], origins=self.node.origins, regions=self.node.regions)
        kept = [results[k] for k in rest]
        if rest:
            self._leave(node, states, rest, made["y"], back)
        turns = results[-1]
        r.erase(self.node)
        if rest:
            node.results = [*kept, turns]
            r.insert_after(self.node, node)
        elif r.users(turns) or r.is_output(turns):
            count = Node(Extents((op.trips,), (), "i32"), [], [turns], origins=self.node.origins)
            r.insert_after(self.node, count)
        for name, i in zip("hc", states, strict=False):
            if name in made:
                self._become(e, results[i], made[name])
        for k in direct:
            flipped = back != op.backwards[k]
            y = e.flipped(made["y"]) if flipped else made["y"]
            row = results[op.carried + k]
            self._become(e, row, e.by_turn(y, op.axes[k], row.shape))

    def _become(self, e: Emitter, result: Value, value: Value) -> None:
        e.r.insert_after(self.node, Node(Reshape(result.shape), [value], [result], origins=self.node.origins))

    def _leave(self, node: Node, states: tuple[int, ...], rest: Sequence[int], y: Value, back: bool) -> None:
        """Take the cell out of the body: its state after the turn is read from y."""
        op, inside, h = self.op, self.inside, self._after(states[0])
        own = inside.value(f"{y.name}.turns", y.type)
        number = op.this_turn
        (at,) = inside.emit(Extents((op.trips - 1 - number if back else number,), ()), [], [f"{h.name}.turn"])
        (row,) = inside.emit(Gather(0), [own, at], [f"{h.name}.row"])
        (new,) = inside.emit(Reshape(h.shape), [row], [f"{h.name}.read"])
        lead = [inside.nodes.pop() for _ in range(3)][::-1]
        outputs = [inside.outputs[k] for k in rest]
        inside.replace(h, new)
        inside.outputs = [new if v is h else v for v in outputs]
        inside.nodes = [*lead, *inside.nodes]
        gone = {1 + i for i in states}
        inside.inputs = [*(v for i, v in enumerate(inside.inputs) if i not in gone), own]
        node.operands = [*(v for i, v in enumerate(node.operands) if i - 1 not in gone), y]
        carried = [k for k in range(op.carried) if k not in states]
        left = [k - op.carried for k in rest if k >= op.carried]
        node.op = replace(
            op, carried=len(carried), axes=tuple(op.axes[k] for k in left),
            backwards=tuple(op.backwards[k] for k in left),
        )  # fmt: skip
        inside.remove_dead()


def _picked_axis(node: Node) -> int | None:
    """The axis along which a node picks whole slices of its first operand, those that the second one numbers."""
    nests = node.op.structure(node.operand_types()) if node.op.selects and len(node.inputs) == 2 else ()
    if len(nests) != 1 or node.op.multilinear != (0,) or moves(node.op):
        return None
    read, numbers = nests[0].reads
    if read is None or numbers is None or _loops(read) & _loops(numbers):  # each element has a number of its own
        return None
    picked = [axis for axis, at in enumerate(read) if at is None]
    return picked[0] if len(picked) == 1 else None


def _loops(read: Coordinates) -> set[int]:
    """The loops that coordinates depend on."""
    return {k for at in read if at is not None for k, coef in enumerate(at.coefs) if coef}


def _fits(op: Slice, x: Value) -> bool:
    """Whether what a slice takes is there, whatever the run's extents are: a gather checks that as it runs."""
    try:
        op.infer(x.type)
    except (TypeRuleError, UndecidedError):
        return False
    return True


def extents_of(h: Value) -> tuple[int, int]:
    """(units, sequences of the batch) of a state: its last axis is that of the units, unless it has extent 1."""
    units = h.shape[-1] if h.shape[-1] > 1 else h.type.count
    return units, h.type.count // units


@dataclass
class _Lift:
    """Values of the body for all turns at once, in the graph around: what depends on no state."""

    body: _Body
    e: Emitter
    back: bool = field(init=False)
    known: dict[Value, _Rows] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Where the first value read row by row is read from its end, all are, and the cell runs backwards."""
        steps = [self._step(n) for n in self.body.inside.nodes]
        self.back = next((s < 0 for s in steps if s), False)

    def _step(self, node: Node) -> int:
        """1 where a node takes the row of the turn, -1 from the end on, 0 for anything else."""
        at = self._place(node)
        turn = self.body.op.this_turn
        if at is None:
            return 0
        known = {s.name for s in symbols(turn)}
        return next((s for s in (1, -1) if not known & {d.name for d in symbols(at - s * turn)}), 0)

    def _place(self, node: Node) -> int | None:
        """The number of the row that a gather takes, an expression of the turn."""
        made = self.body.producers.get(node.inputs[1]) if _picked_axis(node) is not None else None
        return made.op.numbers[0] if made is not None and not made.inputs and len(made.op.numbers) == 1 else None

    def stacked(self, value: Value, rows: int) -> Value:
        """[turns or 1, rows, columns] of a value."""
        found = self.rows_of(value)
        width = value.type.count // rows
        lead = 1 if found.same else self.e.turns
        return self.e.shaped(found.value, (lead, rows, width), "turns")

    def rows_of(self, value: Value) -> _Rows:
        if value not in self.known:
            self.known[value] = self._rows_of(value)
        return self.known[value]

    def _rows_of(self, value: Value) -> _Rows:
        body, inside = self.body, self.body.inside
        if value in inside.constants:
            return _Rows(self.e.r.graph.constant(value.name, inside.array(value)), True)
        if value in inside.inputs[1 + body.op.carried :]:
            outer = body.node.operands[inside.inputs.index(value) + 1]
            assert outer is not None
            return _Rows(outer, True)
        node = body.producers.get(value)
        if node is None or node.pre or node.regions or (node.post and node.op.weight_axes is None):
            raise NotACellError(f"%{value.name} is not computed for all turns at once")
        axis = _picked_axis(node)
        if axis is not None and self._step(node):
            return self._gathered(node, axis)
        given = [self.rows_of(v) for v in node.inputs]
        others = [g.value for g in given[1:]]
        if node.op.weight_axes is not None:
            if len(node.inputs[1].shape) != 2 or not all(g.same for g in given[1:]):
                raise NotACellError(f"{node.where} is not computed for all turns at once")
            made = self.e.emit(node.op, [given[0].value, others[0]], value.name, others[1:], node.post.get(0))
            return _Rows(made, given[0].same)
        if all(g.same for g in given) and not node.varies and len(node.results) == 1:
            return _Rows(self.e.emit(node.op, [g.value for g in given], value.name), True)
        if len(given) == 1 and node.op.keeps_order:
            return _Rows(self.e.shaped(given[0].value, (self.e.turns, *value.shape), value.name), False)
        if node.op.elementwise is not None:
            own = [g.value if g.same else self._aligned(g.value, len(value.shape)) for g in given]
            return _Rows(self.e.emit(node.op, own, value.name), False)
        if axis == 0 and given[0].same:
            return _Rows(self.e.emit(node.op, [g.value for g in given], value.name), False)
        raise NotACellError(f"{node.where} is not computed for all turns at once")

    def _aligned(self, value: Value, rank: int) -> Value:
        """Rows of smaller rank than those that they are broadcast to, with the axes that are missing."""
        missing = rank + 1 - len(value.shape)
        return self.e.shaped(value, (value.shape[0], *(1,) * missing, *value.shape[1:]), "aligned")

    def _gathered(self, node: Node, axis: int) -> _Rows:
        """The rows that a gather takes turn by turn; from the end on where the cell runs backwards."""
        source, turns = self.rows_of(node.inputs[0]), self.e.turns
        place, step = self._place(node), self._step(node)
        assert place is not None
        if not source.same:
            raise NotACellError(f"{node.where} reads another value in each turn")
        x, turn = source.value, self.body.op.this_turn
        start = place - step * turn  # of the first turn
        if self.back:
            start, step = start + step * (turns - 1), -step
        cut = [(start, step, turns) if a == axis else (0, 1, extent) for a, extent in enumerate(x.shape)]
        if (start, step) != (0, 1) or x.shape[axis] != turns:
            starts, steps, extents = zip(*cut, strict=True)
            op = Slice(starts, steps, extents)
            if not _fits(op, x):
                raise NotACellError(f"{node.where} may read rows that %{x.name} lacks, or count them from its end")
            x = self.e.emit(op, [x], "turns")
        if any(extent != 1 for extent in x.shape[:axis]):
            x = self.e.emit(Transpose((axis, *(a for a in range(len(x.shape)) if a != axis))), [x], "by_turn")
        return _Rows(self.e.shaped(x, (turns, *node.result.shape), "rows"), False)
