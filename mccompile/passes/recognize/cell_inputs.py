"""What a recurrent cell reads from outside, for all turns at once: one matrix product for each value that it reads.

Worked example: a gate that reads x . W + b in each of three turns, x [1,2] being a row of %xs [3,1,2], becomes

    %rows = reshape(%xs) {shape=(3, 2)}        %gates = matmul(%rows, %W) with(%b) post0{ (acc + x0) } : f32[3,4]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Node, Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.gather import Gather
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.cells import Cell, NotACellError
from mccompile.passes.analysis.turn_forms import Numbers, Outer, Product
from mccompile.passes.rewrite.patterns import number_of
from mccompile.passes.rewrite.rewriter import Rewriter

_SUM = ex.apply("add", ex.acc(F32), ex.var(0, F32))


@dataclass(frozen=True)
class Term:
    """A summand of a gate's argument: ``coefficient`` times constants, or times what is read number ``slot``, which
    may be multiplied by ``weights`` [columns, units]."""

    coefficient: float
    weights: Numbers | None
    slot: int = -1


@dataclass(frozen=True)
class Reads:
    """What the gates of a cell read from outside: a tuple of terms for each, over ``read``.

    Two turns whose ``gates`` are equal read alike, each its own columns of its own values. ``one`` tells what has one
    row for all sequences.
    """

    gates: tuple[tuple[Term, ...], ...]
    one: tuple[bool, ...]
    read: tuple[Outer, ...] = field(compare=False)


def reads_of(cell: Cell) -> Reads:
    """What a cell reads. NotACellError for what cannot be computed for all turns at once."""
    seen: dict[Outer, int] = {}
    gates = []
    for gate in cell.gates:
        terms = []
        for m, c in gate.outside.terms.items():
            (a,) = m.factors or (None,)
            of, weights = (a.of.only, a.weights) if isinstance(a, Product) else (a, None)
            if a is None or isinstance(a, Numbers):
                terms.append(Term(c, a))
                continue
            if not isinstance(of, Outer):
                raise NotACellError("it reads a product of products")
            terms.append(Term(c, weights, seen.setdefault(of, len(seen))))
        gates.append(tuple(terms))
    return Reads(tuple(gates), tuple(o.one for o in seen), tuple(seen))


@contextmanager
def for_all_turns() -> Iterator[None]:
    """Where nodes are made that compute for all turns at once, and nothing is replaced yet: NotACellError for an
    operator that cannot be put on the values of all of them."""
    try:
        yield
    except (TypeRuleError, ValueError) as e:
        raise NotACellError(f"what it reads is not computed for all turns at once: {e}") from e


@dataclass(frozen=True)
class Stack:
    """What is read in all turns: columns of a value [turns, rows, columns]; 1 turn, or 1 row, if all read that."""

    value: Value
    columns: tuple[int, ...]


@dataclass
class Emitter:
    """Nodes before node ``at`` of a graph, for a cell of ``units`` that makes ``turns`` on ``rows`` sequences."""

    r: Rewriter
    at: Node
    origins: tuple[str, ...]
    name: str
    turns: int
    rows: int
    units: int

    def emit(
        self, op: Op, operands: Sequence[Value | None], suffix: str, extras: Sequence[Value] = (),
        post: ex.Expr | None = None,
    ) -> Value:  # fmt: skip
        node = Node(op, list(operands), [], list(extras), {}, {} if post is None else {0: post}, self.origins)
        return self.r.insert_node(self.at, node, [f"{self.name}.{suffix}"])[0]

    def constant(self, suffix: str, array: Array) -> Value:
        return self.r.graph.constant(f"{self.name}.{suffix}", array.astype(np.float32))

    def shaped(self, value: Value, shape: tuple[int, ...], suffix: str) -> Value:
        return value if value.shape == shape else self.emit(Reshape(shape), [value], suffix)

    def by_turn(self, y: Value, axis: int, shape: tuple[int, ...]) -> Value:
        """The states after all turns, one after the other along an axis of ``shape``."""
        others = (*shape[:axis], *shape[axis + 1 :])
        rows = self.shaped(y, (shape[axis], *others), "rows_by_turn")
        if all(extent == 1 for extent in shape[:axis]):
            return self.shaped(rows, shape, "turns")
        return self.emit(Transpose((*range(1, axis + 1), 0, *range(axis + 1, len(shape)))), [rows], "by_turn")

    def flipped(self, x: Value) -> Value:
        """Rows in the opposite order of turns."""
        starts = (x.shape[0] - 1, *(0 for _ in x.shape[1:]))
        return self.emit(Slice(starts, (-1, *(1 for _ in x.shape[1:])), x.shape), [x], "flipped")

    # -- the gates' share of what is read ------------------------------------------------------------------------
    def gates(self, gates: tuple[tuple[Term, ...], ...], stacks: Sequence[Stack]) -> Value:
        """[turns, rows, gates * units]: what the gates read."""
        width = len(gates) * self.units
        bias = self._bias(gates)
        total: Value | None = None
        for slot in dict.fromkeys(t.slot for g in gates for t in g if t.weights is not None and t.slot >= 0):
            x = self._columns(stacks[slot].value, stacks[slot].columns)
            flat = self.shaped(x, (x.shape[0] * x.shape[1], x.shape[2]), "rows")
            product = self._product(flat, self._weights(gates, slot), bias)
            product, bias = self.shaped(product, (*x.shape[:2], width), "gates"), None
            total = product if total is None else self._sum(total, product)
        for part in self._direct(gates, stacks):
            total = part if total is None else self._sum(total, part)
        if total is None:
            raise NotACellError("it reads nothing from outside")
        if bias is not None:
            total = self._sum(total, bias)
        shape = (self.turns, self.rows, width)
        return total if total.shape == shape else self.emit(Expand(shape), [total], "gates")

    def _sum(self, a: Value, b: Value) -> Value:
        return self.emit(Map(ex.apply("add", ex.var(0, F32), ex.var(1, F32))), [a, b], "sum")

    def _product(self, x: Value, weights: Array, bias: Value | None) -> Value:
        operands = [x, self.constant("weights", weights)]
        return self.emit(
            MatMul(False, True), operands, "product", [] if bias is None else [bias], None if bias is None else _SUM
        )

    def _bias(self, gates: tuple[tuple[Term, ...], ...]) -> Value | None:
        total = np.zeros((len(gates), self.units), np.float32)
        for i, terms in enumerate(gates):
            for t in terms:
                if t.slot < 0:
                    total[i] += np.float32(t.coefficient) * (1 if t.weights is None else t.weights.array)
        return self.constant("bias", total.reshape(-1)) if total.any() else None

    def _weights(self, gates: tuple[tuple[Term, ...], ...], slot: int) -> Array:
        """[gates * units, columns] of what is read number ``slot``."""
        total: list[Array] = []
        for terms in gates:
            own: list[Array] = []
            for t in terms:
                if t.weights is not None and t.slot == slot:
                    own.append(np.float32(t.coefficient) * t.weights.array.T)
            total.append(np.sum(own, axis=0) if own else np.zeros((self.units, 0), np.float32))
        columns = max(w.shape[1] for w in total)
        return np.concatenate([w if w.size else np.zeros((self.units, columns), np.float32) for w in total])

    def _direct(self, gates: tuple[tuple[Term, ...], ...], stacks: Sequence[Stack]) -> list[Value]:
        """What is read without weights, as values [turns, rows, gates * units]."""
        lists = [[t for t in terms if t.weights is None and t.slot >= 0] for terms in gates]
        made = []
        for place in range(max(map(len, lists))):
            row = [terms[place] if place < len(terms) else None for terms in lists]
            known = {(stacks[t.slot].value, t.coefficient) for t in row if t is not None}
            if len(known) == 1 and None not in row:
                ((value, coefficient),) = known
                columns = tuple(c for t in row if t is not None for c in stacks[t.slot].columns)
                made.append(self._scaled(self._columns(value, columns), coefficient))
            else:
                made.append(self._joined(row, stacks))
        return made

    def _joined(self, row: Sequence[Term | None], stacks: Sequence[Stack]) -> Value:
        """Gates that read different values, or none, beside each other."""
        shape = (self.turns, self.rows, self.units)
        parts = []
        for t in row:
            if t is None:
                zero = self.constant("zero", np.zeros((1, 1, 1)))
                parts.append(self.emit(Expand(shape), [zero], "zeros"))
                continue
            stack = stacks[t.slot]
            part = self._scaled(self._columns(stack.value, stack.columns), t.coefficient)
            parts.append(part if part.shape == shape else self.emit(Expand(shape), [part], "all"))
        return self.emit(Concat(2), parts, "joined")

    def _scaled(self, value: Value, factor: float) -> Value:
        if factor == 1:
            return value
        return self.emit(Map(ex.apply("mul", ex.var(0, F32), ex.num(factor, F32))), [value], "scaled")

    def _columns(self, x: Value, columns: tuple[int, ...]) -> Value:
        """Columns of a value [turns, rows, columns]: runs of them beside each other."""
        if columns == tuple(range(x.shape[2])):
            return x
        runs = _runs(columns)
        if len(runs) > 8:
            at = self.r.graph.constant(f"{self.name}.columns", np.array(columns, np.int32))
            return self.emit(Gather(2, True), [x, at], "columns")
        lead = x.shape[:2]
        parts = [
            self.emit(Slice((0, 0, first), (1, 1, 1), (*lead, count)), [x], "columns") for first, count in runs
        ]
        return parts[0] if len(parts) == 1 else self.emit(Concat(2), parts, "columns")

    # -- the cell ------------------------------------------------------------------------------------------------
    def cell(
        self, cell: Cell, x: Value, states: Sequence[Value | None], outputs: tuple[str, ...], back: bool
    ) -> list[Value]:
        """The results of a cell on the gates' share of what it reads; ``states`` of any shape, None for zeros."""
        r = self.constant("recurrent", np.concatenate([g.recurrent for g in cell.gates]))
        operands: list[Value | None] = [x, r, None, *(self._state(v) for v in states)]
        operands += [None if a is None else self.constant("own", a) for a in cell.own]
        node = Node(cell.make(outputs, back), operands, [], origins=self.origins)
        return self.r.insert_node(self.at, node, [f"{self.name}.{o}" for o in outputs])

    def _state(self, value: Value | None) -> Value | None:
        if value is None or number_of(self.r.graph, value) == 0:
            return None
        return self.shaped(value, (self.rows, self.units), "state")


def _runs(columns: Sequence[int]) -> list[tuple[int, int]]:
    """(first, how many) of columns that follow each other."""
    runs: list[tuple[int, int]] = []
    for c in columns:
        if runs and c == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((c, 1))
    return runs
