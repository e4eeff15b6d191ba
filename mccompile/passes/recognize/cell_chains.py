"""Cells that an exporter wrote out turn by turn: products with the same weights, each of what the one before made.

Worked example: h1 and h2 are what the weights %r are multiplied by, and %h2 is made of the first of these products:

    %p1 = matmul(%h1, %r)  ...  %h2 = map(...)  ...  %p2 = matmul(%h2, %r)  ...  %h3 = map(...)

Each turn is looked at by itself, and joined with the one before if it is the same cell, on values of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.passes.analysis.cells import NotACellError, cell_of
from mccompile.passes.analysis.movement import moves
from mccompile.passes.analysis.polynomials import Poly
from mccompile.passes.analysis.turn_forms import Outer, Turn
from mccompile.passes.manager import Remarks
from mccompile.passes.recognize.cell_first_turn import FoldedTurn
from mccompile.passes.recognize.cell_inputs import Emitter, for_all_turns, reads_of
from mccompile.passes.recognize.cell_stacks import Line
from mccompile.passes.recognize.cell_turn import NO_CELL, Nodes, WrittenTurn, inner_of
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter


def recognise_chain(graph: Graph, remarks: Remarks) -> bool:
    """Make the first cell that is written out an operator; False if there is none."""
    search = _Search(graph)
    for anchors in search.chains():
        try:
            turns = search.turns(anchors)
            if len(turns) > 1:
                _rewrite(search, turns)
                remarks.hit(f"recognised {turns[0].cell.op.name} in {len(turns)} turns: {anchors[0].where}")
                return True
        except NO_CELL as e:
            remarks.miss(f"recognised a recurrent cell: {anchors[0].where}", str(e))
    return False


class _Search(Nodes):
    """Chains of products in a graph, and the turns around them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.r = Rewriter(graph)

    def chains(self) -> Iterator[list[Node]]:
        """The products with the same constant weights, where each depends on the one before."""
        groups: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            for v in node.operands if node.op.weight_axes is not None else ():
                if v in self.graph.constants:
                    groups.setdefault(v, []).append(node)
        for group in groups.values():
            if len(group) > 1:
                self.count(set(group))
                if [self.levels[n.result] for n in group] == list(range(1, len(group) + 1)):
                    yield group

    # -- the states ----------------------------------------------------------------------------------------------
    def turns(self, anchors: Sequence[Node]) -> list[WrittenTurn]:
        """The longest row of turns that are the same cell, among the first. NO_CELL if there are no two."""
        states, rows = self._states(anchors)
        found: list[WrittenTurn] = []
        first_error: Exception | None = None
        for k in range(len(anchors)):
            try:
                after = states[k + 1] if k + 1 < len(states) else None
                turn = self._turn(states[k], after, rows, k + 1, found[-1] if found else None)
            except NO_CELL as e:
                first_error = first_error or e
                if len(found) > 1:
                    break
                found = []
                continue
            same = bool(found) and _alike(found[-1], turn)
            if len(found) > 1 and not same:
                break
            found = [*found, turn] if same else [turn]
        if len(found) < 2:
            raise first_error or NotACellError("its turns differ")
        self._require_closed(found)
        return self._with_first(found, rows)

    def _states(self, anchors: Sequence[Node]) -> tuple[list[Value], int]:
        """What the weights are multiplied by in each turn, but for what is read from outside."""
        second = self._pieces(anchors[1])
        rows = second[0]
        own = [(v, places) for v, places in second[1] if self.level(v) == 1]
        if len(own) != 1:
            raise NotACellError("what depends on the turn before is no single state")
        places = own[0][1]
        states: list[Value] = []
        for node in anchors:
            at = [v for v, where in self._pieces(node)[1] if np.array_equal(where, places)]
            if len(at) != 1:
                raise NotACellError("what its weights are multiplied by is not alike in all turns")
            states.append(at[0])
        if len({v.shape for v in states}) > 1 and len({v.type.count for v in states}) > 1:
            raise NotACellError("its states have different extents")
        return states, rows

    def _pieces(self, node: Node) -> tuple[int, list[tuple[Value, np.ndarray]]]:
        """The sequences of a batch, and the values that the operand of a product is made of, with their places."""
        a, b = node.operands
        x = a if b in self.graph.constants else b
        assert x is not None
        if x.type.varies:
            raise NotACellError("its extents are known at run time only")
        if x.type.count == 0:
            raise NotACellError("its weights are multiplied by nothing")
        rows = x.type.count // x.shape[-1] if x is a else 1
        looked = Turn(self.graph, self.producers, rows, {}, lambda v: True)
        whole = []
        for v, at, one, places in looked.pieces(x, np.arange(x.type.count // rows)):
            if not one and np.array_equal(at, np.arange(v.type.count // rows)):
                whole.append((v, places))
        return rows, whole

    # -- one turn ------------------------------------------------------------------------------------------------
    def _turn(self, h: Value, after: Value | None, rows: int, level: int, before: WrittenTurn | None) -> WrittenTurn:
        """The turn from a state to the next one; where that is not known, to what is the same cell as ``before``."""
        inside = self.reached([h], level)
        if after is not None:
            return self._turn_to(h, after, rows, level, inside)
        assert before is not None or level
        for v in [v for n in inside for v in n.results]:
            if before is None or v.dtype != F32 or v.type.varies or v.type.count != h.type.count:
                continue
            try:
                found = self._turn_to(h, v, rows, level, inside)
            except NO_CELL:
                continue
            if _alike(before, found):
                return found
        raise NotACellError("its last turn is none like those before")

    def _turn_to(self, h: Value, after: Value, rows: int, level: int, inside: Sequence[Node]) -> WrittenTurn:
        depending = {v for n in inside for v in n.results}
        first = Turn(self.graph, self.producers, rows, {h: "h"}, depending.__contains__)
        c = _cell_state(first.whole(after))
        units = h.type.count // rows
        states = {h: "h"} if c is None else {h: "h", c: "c"}
        if c is not None:
            inside = self.reached([h, c], level)
            depending = {v for n in inside for v in n.results}
        turn = Turn(self.graph, self.producers, rows, states, depending.__contains__)
        form = turn.whole(after)
        inner = None if c is None else inner_of(form)
        outside = Turn(self.graph, self.producers, rows, {}, lambda v: False, True)
        cell = cell_of(
            form, inner, units, lambda o: outside.form(o.value, np.array(o.columns, np.int64), o.one)
        )
        reads = reads_of(cell)
        if any(self.level(o.value) for o in reads.read):
            raise NotACellError("it reads what an earlier turn of it has made")
        last = () if inner is None else (self._of_form(turn, inner, inside, h.type.count),)
        nodes = frozenset(self._between(inside, (after, *last)))
        return WrittenTurn(tuple(states), (after, *last), cell, reads, nodes, level)

    def _between(self, inside: Sequence[Node], after: Sequence[Value | None]) -> set[Node]:
        """Those of some nodes that what comes out is made by."""
        own = set(inside)
        found: set[Node] = set()
        pending = [self.producers[v] for v in after if v is not None and v in self.producers]
        while pending:
            node = pending.pop()
            if node in own and node not in found:
                found.add(node)
                pending += [self.producers[v] for v in node.inputs if v in self.producers]
        return found

    def _of_form(self, turn: Turn, form: Poly, inside: Sequence[Node], count: int) -> Value | None:
        """The value of a form, if anything but the turn itself may want it."""
        for v in [v for n in inside for v in n.results]:
            if v.type.varies or v.type.count != count or v.dtype != F32:
                continue
            try:
                if turn.whole(v) == form:
                    return v
            except NO_CELL:
                continue
        return None

    # -- what is joined ------------------------------------------------------------------------------------------
    def _require_closed(self, turns: Sequence[WrittenTurn]) -> None:
        """The cell states between the turns must not be wanted by others."""
        own = {n for t in turns for n in t.nodes}
        for t in turns[:-1]:
            for c in t.after[1:]:
                if self.wanted(c, own):
                    raise NotACellError("the cell state between its turns is needed elsewhere")

    def _with_first(self, turns: list[WrittenTurn], rows: int) -> list[WrittenTurn]:
        """The turns, and one before them that begins with zeros, which was folded, if there is such."""
        first = turns[0]
        found = FoldedTurn(self, first, rows).turn()
        if found is None:
            return turns
        made = [v for v in found.after if v is not None]
        depending = {*made, *(v for n in self.reached(made, len(self.levels)) for v in n.results)}
        if depending & {o.value for t in (found, *turns) for o in t.reads.read}:
            return turns
        try:
            self._require_closed([found, *turns])
        except NotACellError:
            return turns
        return [found, *turns]

    def wanted(self, value: Value | None, own: set[Node]) -> bool:
        """Whether anything but some nodes reads a value."""
        return value is not None and (self.r.is_output(value) or not own.issuperset(self.users.get(value, ())))


def _alike(a: WrittenTurn, b: WrittenTurn) -> bool:
    """Whether a turn follows another one of the same cell."""
    same_states = len(a.after) == len(b.before) and all(x is y for x, y in zip(a.after, b.before, strict=True))
    return same_states and a.cell.alike(b.cell) and a.reads == b.reads


def _cell_state(h: Poly) -> Value | None:
    """The value that is the cell state before the turn, of what may be the new state of an LSTM."""
    form = inner_of(h)
    for m in form.terms if form is not None else ():
        outer = [a for a in m.factors if isinstance(a, Outer) and not a.one]
        if len(outer) == 1 and outer[0].columns == tuple(range(len(outer[0].columns))):
            return outer[0].value
    return None


# -- what takes its place --------------------------------------------------------------------------------------
def _rewrite(search: _Search, turns: Sequence[WrittenTurn]) -> None:
    """Let one operator make the states after the turns."""
    r, first, last = search.r, turns[0], turns[-1]
    own = {n for t in turns for n in t.nodes}
    state = next(v for v in first.after if v is not None)
    origins = tuple(dict.fromkeys(o for n in search.graph.nodes if n in first.nodes for o in n.origins))
    rows = state.type.count // len(first.cell.gates[0].recurrent)
    at = search.producers[state]
    e = Emitter(r, at, origins, state.name, len(turns), rows, len(first.cell.gates[0].recurrent))
    lines = [Line.of(search, read, rows) for read in zip(*(t.reads.read for t in turns), strict=True)]
    back = bool(lines) and all(line.step < 0 for line in lines)
    wanted = [t for t in turns if search.wanted(t.after[0], own)]
    outputs = ["y"] if any(t is not last for t in wanted) else []
    outputs += ["h"] if last in wanted and not outputs else []
    outputs += ["c"] if len(last.after) > 1 and search.wanted(last.after[1], own) else []
    with for_all_turns():
        x = e.gates(first.reads.gates, [line.stacked(search, e, back) for line in lines])
        made = dict(zip(outputs, e.cell(first.cell, x, first.before, tuple(outputs), back), strict=True))
    order = [t.after[0] for t in (reversed(turns) if back else turns)]
    for joined, axis in _joins(search, order) if "y" in made else ():
        _replace(e, joined, e.by_turn(made["y"], axis, joined.shape))
    for k, t in enumerate(turns):
        if t in wanted:
            place = len(turns) - 1 - k if back else k
            _replace(e, t.after[0], made["h"] if "h" in made else _row(e, made["y"], place))
    if "c" in made:
        _replace(e, last.after[1], made["c"])
    r.finish()
    search.graph.remove_dead()


def _joins(search: _Search, states: Sequence[Value | None]) -> list[tuple[Value, int]]:
    """What joins all states, one after the other along an axis of their own, and that axis."""
    first = states[0]
    found: list[tuple[Value, int]] = []
    assert first is not None
    seen = [first]
    for v in seen:
        for node in search.users.get(v, ()):
            if node.op.keeps_order and is_plain(node):
                seen += node.results
            elif moves(node.op) and is_plain(node) and [search.reshaped_from(v) for v in node.inputs] == list(states):
                found += [(node.result, axis) for axis in _axis_of_join(node)]
    return list(dict.fromkeys(found))


def _axis_of_join(node: Node) -> list[int]:
    """The axis along which a node puts its operands, each of extent 1 there, one after the other; none if it does
    anything else."""
    types = [v.type for v in node.inputs]
    if any(t.varies for t in types) or len({t.shape for t in types}) > 1:
        return []
    ids = [i * t.count + np.arange(t.count).reshape(t.shape) for i, t in enumerate(types)]
    joined = np.asarray(node.op.evaluate(*ids)[0])
    axes = [a for a, extent in enumerate(types[0].shape) if extent == 1 and joined.shape[a] == len(types)]
    return [a for a in axes if np.array_equal(joined, np.concatenate(ids, axis=a))][:1]


def _row(e: Emitter, y: Value, turn: int) -> Value:
    return e.emit(Slice((turn, 0, 0), (1, 1, 1), (1, *y.shape[1:])), [y], f"turn{turn}")


def _replace(e: Emitter, old: Value | None, new: Value) -> None:
    """Let a reshape of ``new`` be what ``old`` was."""
    assert old is not None
    producer = e.r.producer(old)
    assert producer is not None
    e.r.erase(producer)
    node = Node(Reshape(old.shape), [new], [old], origins=e.origins)
    e.r.insert_after(producer, node)
