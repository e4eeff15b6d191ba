"""Computes at compile time what depends on constants alone.

Worked example: w[2, 1920, 640] has the weights of both directions of a cell, and two slices of it are all that is
read. The first one alone would be 1.2 MB beside w, but both together take the place of w, which nothing reads then:
the blob grows by nothing. So either both are computed or neither is.

What is dear to compute may make more of it, where there is memory to spare: of t = a[640, 1] + b[455] and y = sin(t),
1.2 MB, a run would compute 291,200 sines, so that t is a constant for y, which then takes its place.
"""

from __future__ import annotations

from collections.abc import Container, Set
from functools import cached_property

import numpy as np

from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.limits import exceeds, to_raise
from mccompile.ir.op import Kind
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import calls_library
from mccompile.targets.target import Target

MAX_GROWTH_BYTES = 1 << 20
"""The constants of a graph may take this much more room after folding than before."""
DEAR_GROWTH_BYTES = 32 << 20
"""Likewise for what is dear to compute, on targets with memory to spare: reading so much takes some milliseconds."""


def run(graph: Graph, remarks: Remarks, target: Target, growth: float = 1.0) -> int:
    """Compute nodes whose operands are all constants, unless the constants would take much more room then.

    Exact but for functions of the C library, whose last bit numpy may round another way.
    """
    outputs = set(graph.outputs)
    room = _Room(graph, outputs, may_grow(target, growth))
    kept: list[Node] = []
    for node in graph.nodes:
        if not _is_constant(node, graph.constants):
            kept.append(node)
        elif reason := _obstacle(node, outputs) or room.obstacle(node):
            remarks.miss(f"folded {node.where}", reason)
            kept.append(node)
        else:
            arrays = node.evaluate({v: graph.array(v) for v in node.inputs})
            for result, array in zip(node.results, arrays, strict=True):
                graph.constants[result] = np.ascontiguousarray(array).reshape(result.shape)
            room.take(node)
            remarks.hit(f"folded {node.where}")
    changes = len(graph.nodes) - len(kept)
    graph.nodes = kept
    return changes


def may_grow(target: Target, growth: float) -> bool:
    """Whether what is dear to compute may make the constants grow, where ``growth`` is said of weights."""
    return target.spare_memory and not target.compact and growth > 0


def _is_constant(node: Node, known: Container[Value]) -> bool:
    """Whether a node depends on constants alone, as far as these are known."""
    return bool(node.inputs) and not node.varies and all(v in known for v in node.inputs)


def _obstacle(node: Node, outputs: Set[Value]) -> str:
    """Why a node is not computed that could be; empty if it is, where its results have room."""
    if not node.evaluates:
        return "what it computes is known to C alone"
    if is_dequantised(node):
        return "integers that stand for floats are small, and may stay so"
    steps = sum(node.op.turns_inside() * len(region.nodes) for region in node.regions)
    if exceeds("folded-steps", steps):
        return f"a loop of {steps:,} steps; {to_raise('folded-steps', steps)}"
    return "" if outputs.isdisjoint(node.results) else "its result is an output"


def is_dequantised(node: Node) -> bool:
    """Whether a node makes floats of as many integers: see `fold-dequantised`."""
    y = node.results[0]
    whole = any(v.dtype.kind in "iu" and v.type.count == y.type.count for v in node.inputs)
    return node.op.elementwise is not None and y.dtype.is_float and y.type.count > 1 and whole


def _is_dear(node: Node) -> bool:
    """Whether a node has more to compute than reading its results takes: functions of the C library, products."""
    return node.op.kind is Kind.COMPLEX or calls_library(node)


def _dear(graph: Graph, outputs: Set[Value]) -> set[Node]:
    """Nodes that are dear, and those that are there for them, of what depends on constants alone."""
    known, found = set(graph.constants), list[Node]()
    for node in graph.nodes:
        if _is_constant(node, known) and not _obstacle(node, outputs):
            found.append(node)
            known.update(node.results)
    dear, read = set[Node](), set[Value]()
    for node in reversed(found):
        if _is_dear(node) or not read.isdisjoint(node.results):
            dear.add(node)
            read.update(node.inputs)
    return dear


class _Room:
    """What constants take more than before: results, less the operands that nothing reads any more then."""

    def __init__(self, graph: Graph, outputs: Set[Value], spare: bool) -> None:
        self._graph, self._outputs, self._spare = graph, outputs, spare
        self._users = graph.users()
        self._left = {v: len(nodes) for v, nodes in self._users.items()}
        self._grown = 0
        self._granted: set[Node] = set()
        """Nodes that have room, which counts as taken."""
        self._kept: set[Value] = set()
        """Constants of which it is known that not all that read them have room."""

    def obstacle(self, node: Node) -> str:
        """Why the results of a node have no room; empty if they have."""
        grown = self._grown + self._growth(node)
        if node in self._granted or grown <= MAX_GROWTH_BYTES or any(map(self._grant, node.inputs)):
            return ""
        if grown <= DEAR_GROWTH_BYTES and node in self._dear:
            return ""
        return f"the blob would grow by {grown} bytes"

    def take(self, node: Node) -> None:
        """The results of a node are constants now."""
        if node not in self._granted:
            self._grown += self._growth(node)
        for v in set(node.inputs):
            self._left[v] -= 1

    @cached_property
    def _dear(self) -> Set[Node]:
        """Nodes that may make the constants grow by more."""
        return _dear(self._graph, self._outputs) if self._spare else set()

    def _growth(self, node: Node) -> int:
        freed = [v for v in set(node.inputs) if self._left[v] == 1 and v not in self._outputs]
        return self._results(node) - sum(v.type.nbytes for v in freed)

    def _results(self, node: Node) -> int:
        return sum(r.type.nbytes for r in node.results if r in self._users)

    def _grant(self, operand: Value) -> bool:
        """Give room to all nodes that read a constant, and so to nothing else, if they have it together."""
        if operand in self._kept or operand in self._outputs:
            return False
        nodes = [n for n in self._users[operand] if any(r not in self._graph.constants for r in n.results)]
        grown = self._grown + sum(map(self._results, nodes)) - operand.type.nbytes
        alike = all(_is_constant(n, self._graph.constants) and not _obstacle(n, self._outputs) for n in nodes)
        if not alike or grown > MAX_GROWTH_BYTES or not self._granted.isdisjoint(nodes):
            self._kept.add(operand)
            return False
        self._granted.update(nodes)
        self._grown = grown
        return True
