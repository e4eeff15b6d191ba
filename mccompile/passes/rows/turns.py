"""Multiplies what a recurrent cell reads a few turns at a time, in a loop: the gates of all turns never exist.

Worked example: a cell of 2 units with 4 gates reads 6 turns of 3 numbers. Their product with the weights is 6 rows of
8 floats, 192 bytes. In blocks of 2 turns a loop of 3 turns makes 2 rows, 64 bytes, and carries the states:

    %p = matmul(%x, %w) : f32[6,8]                       loop of 3 turns, on %h and %c:
    %g = reshape(%p) : f32[6,1,8]                          %part = slice(%x) from 2 * turn on : f32[2,3]
    %y = lstm(%g, %r, _, %h, %c) : f32[6,1,2]    ->        %p = matmul(%part, %w) : f32[2,8]
                                                           %g = reshape(%p) : f32[2,1,8]
                                                           %y, %h, %c = lstm(%g, %r, _, %h, %c)

Weights are read once for each block: the fewer rows a block has, the less of a tile of the product they fill.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, counter, symbols, varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op, Recurrence
from mccompile.ir.types import I32, TensorType
from mccompile.kernels.model.costs import cheapest
from mccompile.ops.expand import Expand
from mccompile.ops.loop import Loop
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

CALL_CYCLES = 100
"""What a block takes beside its kernels: the calls, the states that go in and out, the turn of the loop."""

SMALL = 1 / 16
"""The part of all turns that a block may have where fewer would take longer: gates hardly count any more then."""


@dataclass(frozen=True)
class Gates:
    """A cell, and the product that makes its gates for all turns; ``between`` are the nodes that reshape it."""

    cell: Node
    carried: Recurrence
    product: Node
    between: tuple[Node, ...]

    @property
    def turns(self) -> int:
        (x, *_) = self.cell.operand_types()
        assert x is not None
        return x.shape[0]

    @property
    def rows(self) -> int:
        """Rows of the product that a turn reads: the sequences of the batch."""
        (x, *_) = self.cell.operand_types()
        assert x is not None
        return x.shape[1]

    def blocks(self) -> list[int]:
        """How many turns a block may have, ascending: all blocks are equal."""
        if varies([self.turns]):
            return [1]
        return [b for b in range(1, self.turns // 2 + 1) if self.turns % b == 0]


def gates(graph: Graph) -> Iterator[Gates]:
    """The cells of a graph that could be computed in blocks of turns."""
    r = Rewriter(graph)
    for cell in graph.nodes:
        carried = cell.op.recurrence
        if carried is None or cell.operands[carried.lengths] is not None or 0 in cell.pre or cell.post:
            continue
        between: list[Node] = []
        value = cell.operands[0]
        node = r.producer(value)
        while node is not None and node.op.keeps_order and is_plain(node) and r.is_private(node.result):
            between.append(node)
            value = node.operands[0]
            node = r.producer(value)
        private = value is not None and r.is_private(value)
        if node is not None and private and _by_rows(graph, node, cell, carried):
            found = Gates(cell, carried, node, tuple(reversed(between)))
            if found.blocks():
                yield found


def _by_rows(graph: Graph, product: Node, cell: Node, carried: Recurrence) -> bool:
    """True of a product of rows by constants, as many rows for each turn, to which only constants are added."""
    x, gates = product.operands[0], cell.operands[0]
    if product.op.weight_axes is None or x is None or gates is None or x.type.rank != 2:
        return False
    if not product.result.shape[0] == x.shape[0] == gates.shape[0] * gates.shape[1]:
        return False
    own = [v for i, v in enumerate(cell.operands) if not carried.first <= i < carried.first + len(carried.states)]
    others = [*product.operands[1:], *product.extras, *own[1:], *cell.extras]
    alike = all(len(v.shape) < 2 or v.shape[0] == 1 for v in product.extras)
    return alike and all(v is None or v in graph.constants for v in others)


def best_block(found: Gates, target: Target, graph: Graph, worth: float) -> int:
    """How many turns a block has best: at most `SMALL` of all as far as cell and product then take no more than
    ``worth`` times the cycles that they take on all turns at once, else as few as do; 0 if none do."""
    whole = sum(cheapest(n, target, graph.constants) for n in (found.product, found.cell))
    taken = {b: _cycles(found, b, target, graph) for b in found.blocks()}
    fitting = [b for b in taken if taken[b] <= worth * whole]
    small = [b for b in fitting if b <= SMALL * bound(found.turns)]
    return min(small, key=lambda b: taken[b], default=min(fitting, default=0))


def _cycles(found: Gates, block: int, target: Target, graph: Graph) -> float:
    """Estimated cycles in blocks of so many turns."""
    body = _Body(found, graph, block)
    own = sum(cheapest(n, target, body.graph.constants) for n in body.steps)
    return bound(found.turns) // block * (CALL_CYCLES + own)


class _Body:
    """What is computed for a block: (turn of the loop, states, rows that are multiplied) -> (states, rows of y)."""

    def __init__(self, found: Gates, outer: Graph, block: int) -> None:
        self.found, self.outer, self.block = found, outer, block
        self.trips = found.turns // block
        self.turn = f"{found.cell.results[0].name}.turn"
        self.graph = Graph("turns")
        self.steps: list[Node] = []
        inside, carried = self.graph, found.carried
        turn = inside.value("turn", TensorType(I32, ()))
        inside.inputs.append(turn)
        inside.counts.update({s.name: turn for s in symbols(counter(self.turn, self.trips))})
        self.states = [inside.value(name, self._state_type()) for name in carried.states]
        x = found.product.operands[0]
        assert x is not None
        rows = inside.value("x", x.type)
        inside.inputs += [*self.states, rows]
        made = self._cell(self._product(rows))
        many = len(made) - len(self.states)
        inside.outputs = [*made[many:], *made[:many]]

    def _state_type(self) -> TensorType:
        gates, r = self.found.cell.operand_types()[:2]
        assert gates is not None
        assert r is not None
        return TensorType(r.dtype, (gates.shape[1], r.shape[1]))

    def _own(self, value: Value | None) -> Value | None:
        """A constant of the graph around, here."""
        if value is None:
            return None
        own = self.graph.value(value.name, value.type)
        self.graph.constants[own] = self.outer.constants[value]
        return own

    def _node(self, like: Node, op: Op, operands: list[Value | None], names: Sequence[str]) -> list[Value]:
        extras = [v for v in map(self._own, like.extras) if v is not None]
        node = Node(op, operands, [], extras, dict(like.pre), dict(like.post), like.origins)
        node.results = [self.graph.value(name, t) for name, t in zip(names, node.infer(), strict=True)]
        self.graph.nodes.append(node)
        self.steps.append(node)
        return node.results

    def _product(self, rows: Value) -> Value:
        """The gates of the block."""
        product = self.found.product
        number = counter(self.turn, self.trips)
        if self.found.carried.backwards:
            number = self.trips - 1 - number
        part = self._part(rows, number * self.block)
        (made,) = self._node(product, product.op, [part, *map(self._own, product.operands[1:])], ["product"])
        gates = self.found.cell.operands[0]
        assert gates is not None
        return self.graph.emit(Reshape((self.block, *gates.shape[1:])), [made], ["gates"], origins=product.origins)[0]

    def _part(self, rows: Value, first: int) -> Value:
        """What is multiplied in the turns from ``first`` on."""
        of, columns, origins = self.found, rows.shape[1], self.found.product.origins
        many = of.rows * self.block
        if not varies([of.rows]):
            op = Slice((first * of.rows, 0), (1, 1), (many, columns), view=True)
            return self.graph.emit(op, [rows], ["part"], origins=origins)[0]
        (by_turn,) = self.graph.emit(Reshape((of.turns, of.rows, columns)), [rows], ["by_turn"], origins=origins)
        op = Slice((first, 0, 0), (1, 1, 1), (self.block, of.rows, columns), view=True)
        (part,) = self.graph.emit(op, [by_turn], ["part"], origins=origins)
        return self.graph.emit(Reshape((many, columns)), [part], ["rows"], origins=origins)[0]

    def _cell(self, gates: Value) -> list[Value]:
        """Its states after each turn, if somebody wants them, and after the last one."""
        cell, carried = self.found.cell, self.found.carried
        operands = [gates, *map(self._own, cell.operands[1 : carried.first]), *self.states]
        operands += map(self._own, cell.operands[len(operands) :])
        names = [*(name for name in carried.results if name == "y"), *carried.states]
        return self._node(cell, carried.whole, operands, names)


def in_blocks(graph: Graph, found: Gates, block: int) -> Graph:
    """The graph with a cell in blocks of so many turns; the given graph stays as it is."""
    other = graph.shallow_copy()
    r = Rewriter(other)
    body = _Body(found, graph, block)
    cell, carried = found.cell, found.carried
    name, first, many = cell.results[0].name, carried.first, len(carried.states)
    given = zip(cell.operands[first : first + many], body.states, strict=True)
    starts = [_zeros(r, cell, v.type) if start is None else start for start, v in given]
    stacked = "y" in carried.results
    op = Loop(
        body.trips, body.turn, body.trips, carried=many, axes=(0,) * stacked,
        backwards=(carried.backwards,) * stacked,
    )  # fmt: skip
    loop = Node(op, [None, None, *starts, found.product.operands[0]], [], origins=cell.origins, regions=[body.graph])
    made = [*carried.states, *["y"] * stacked]
    results = dict(zip(made, r.insert_node(cell, loop, [f"{name}.{m}" for m in (*made, "turns")]), strict=False))
    for node in (cell, *reversed(found.between), found.product):
        r.erase(node)
    for wanted, result in zip(carried.results, cell.results, strict=True):
        r.insert_after(cell, Node(Reshape(result.shape), [results[wanted]], [result], origins=cell.origins))
    r.finish()
    other.remove_dead()
    return other


def _zeros(r: Rewriter, cell: Node, of: TensorType) -> Value:
    """What a state is before the first turn, if nobody says it."""
    name = f"{cell.results[0].name}.zero"
    if not of.varies:
        return r.graph.constant(name, np.zeros(of.shape, of.dtype.numpy))
    zero = r.graph.constant(name, np.zeros((1,) * of.rank, of.dtype.numpy))
    return r.insert(cell, Expand(of.shape), [zero], f"{name}s")
