"""Resizes along one axis at a time, where vectors are not of channels or a result is made of many elements.

Worked example: a plane of 28 x 28 becomes one of 224 x 224, linearly. Kernels have channels in vectors, of which
there is one here. But each pixel of a line is made of two, in all 28 lines alike, which are as good as channels if
the plane lies on its side; then each line of the result is made of two, whose 224 pixels are as good, too:

    %y = resize(%x, %i, %j, %v, %w) {axes=(2, 3), weighted=True} : f32[1,1,224,224]        %x : f32[1,1,28,28]

    %a = resize(reshape(%x), %j, %w) {axes=(2,), ..} : f32[1,28,224]      [planes, lines as channels, pixels]
    %b = transpose(%a) : f32[1,224,28]                                    [planes, pixels as channels, lines]
    %c = resize(%b, %i, %v) {axes=(2,), ..} : f32[1,224,224]
    %y = reshape(transpose(%c))                                           nothing moves: lines lie as they do in %y

Cubic weights against aliasing are 9 and more along each axis: 81 products for each element become 18.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import Shape
from mccompile.ops.reshape import Reshape
from mccompile.ops.resize import Resize
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True

LEAST_LANES = 4
"""Lanes of a target below which channels are as good as lines."""
MOST_TAPS = 16
"""Elements that a result is made of, at most, in kernels that have channels in vectors."""
TURNED_CYCLES = 0.6
"""What it takes to turn an element of a plane."""
VECTOR_CYCLES = 1.5
"""What it takes to add a vector of products."""
PLAIN_CYCLES = 1.5
"""What it takes to add one product, where elements are made one by one; a third of that to store one."""
_SWAP = (0, 2, 1)


def run(graph: Graph, remarks: Remarks, target: Target, kernels: Mapping[str, str]) -> int:
    """Resize planes of few channels, volumes, and what is made of many elements, along one axis at a time. May change
    rounding: products are taken in another order."""
    if target.lanes < LEAST_LANES or not target.spare_memory:
        remarks.miss("separate resizes", f"target {target.name} has no wide vectors, or no memory to turn planes")
        return 0

    def check(m: Match) -> Fail | None:
        return _check(m, target.lanes)

    def rewrite(m: Match) -> None:
        _rewrite(m, target.lanes)

    pattern = Is(Resize, None, "resize", plain=False)
    return apply_rules(graph, remarks, (Rule("separated axes", pattern, check, rewrite),), kernels)


@dataclass(frozen=True)
class _Step:
    """``axis`` becomes longer or shorter, with ``beside`` elements as channels: those ``inside`` of it, or else, of
    the last axis, some of those outside."""

    axis: int
    inside: bool
    beside: int


def _check(m: Match, lanes: int) -> Fail | None:
    node, op, x = m.root, m.op(Resize), m.root.inputs[0]
    if op.partial:
        return Fail("some results lie outside of the operand")
    if refused := not_floats_in_rows(node, x, *node.results):
        return refused
    if any(v.type.count > 1 and v.shape != node.result.shape for v in node.extras):
        return Fail("an operand of its epilogue is broadcast along some axes")
    if _fills(x, op, lanes):
        few = len(op.axes) == 1 or math.prod(_taps(op, node)) <= MOST_TAPS
        return Fail("its channels fill vectors") if few else None
    return None if _steps(op, node, lanes) else Fail("its lines do not fill vectors, or it takes more")


def _fills(x: Value, op: Resize, lanes: int) -> bool:
    """Whether kernels have channels in vectors."""
    return x.type.rank in (3, 4) and min(op.axes) >= 2 and 2 * x.shape[1] > lanes


def _taps(op: Resize, node: Node) -> list[int]:
    """How many elements each resized axis of a result is made of."""
    return [table.shape[1] for table in node.inputs[1 : 1 + len(op.axes)]]


def _steps(op: Resize, node: Node, lanes: int) -> list[_Step]:
    """The axes in the order that takes least, each with what is a channel then; empty if elements are better made one
    by one."""
    best: list[_Step] = []
    taps = _taps(op, node)
    least = PLAIN_CYCLES * node.result.type.count * (math.prod(taps) + 1 / 3)
    for order in itertools.permutations(range(len(op.axes))):
        shape, steps, cycles = list(node.inputs[0].shape), [], 0.0
        for i in order:
            axis = op.axes[i]
            inner = math.prod(shape[axis + 1 :])
            inside = 2 * inner > lanes
            beside = inner if inside else _outside(shape[:axis], lanes)
            if 2 * beside <= lanes or (not inside and inner > 1):  # what is inside of the axis would lie between
                break
            before = math.prod(shape)
            shape[axis] = node.result.shape[axis]
            after = math.prod(shape)
            vectors = after / beside * -(-beside // lanes)
            cycles += VECTOR_CYCLES * vectors * taps[i] + (0 if inside else TURNED_CYCLES * (before + after))
            steps.append(_Step(axis, inside, beside))
        if len(steps) == len(order) and cycles < least:
            best, least = steps, cycles
    return best


def _outside(shape: list[int], lanes: int) -> int:
    """How many elements of the last axes fill vectors; those of all axes, if they do not."""
    count = 1
    for extent in reversed(shape):
        count *= extent
        if count >= lanes:
            break
    return count


def _rewrite(m: Match, lanes: int) -> None:
    op = m.op(Resize)
    if _fills(m.root.inputs[0], op, lanes):
        _by_axes(m, op)
    else:
        _by_lines(m, op, _steps(op, m.root, lanes))


def _by_axes(m: Match, op: Resize) -> None:
    """With channels as they are, the axis first that shrinks most."""
    r, node = m.r, m.root
    x, *tables = node.operands
    shape, own = node.result.shape, node.inputs[0].shape
    *order, last = sorted(range(len(op.axes)), key=lambda i: shape[op.axes[i]] / own[op.axes[i]])
    for i in order:
        one = replace(op, axes=(op.axes[i],))
        x = r.insert(node, one, [x, *_tables(op, tables, i)], f"{node.result.name}.axis{op.axes[i]}")
    node.op = replace(op, axes=(op.axes[last],))
    r.rewire(node, [x, *_tables(op, tables, last)])


def _by_lines(m: Match, op: Resize, steps: list[_Step]) -> None:
    """With lines as channels."""
    r, node = m.r, m.root
    found, tables, name = node.inputs[0], node.operands[1:], node.result.name
    shape = found.shape
    for step in steps:
        lines = _lines(r, node, found, step, shape, f"{name}.lines{step.axis}")
        shape = (*shape[: step.axis], node.result.shape[step.axis], *shape[step.axis + 1 :])
        one = Node(replace(op, axes=(2,)), [lines, *_tables(op, tables, op.axes.index(step.axis))], [],
                   origins=node.origins)  # fmt: skip
        if step is steps[-1]:
            one.extras = [_lines(r, node, v, step, shape, f"{v.name}.lines{step.axis}") for v in node.extras]
            one.post = dict(node.post)
        (found,) = r.insert_node(node, one, [f"{name}.axis{step.axis}"])
        if step.inside:
            found = r.insert(node, Transpose(_SWAP), [found], f"{name}.back{step.axis}")
    node.op, node.post = Reshape(node.result.shape), {}
    r.rewire(node, [found], [])


def _tables(op: Resize, tables: Sequence[Value | None], i: int) -> Sequence[Value | None]:
    """Places, and weights if there are any, of one axis."""
    return tables[i :: len(op.axes)]


def _lines(r: Rewriter, node: Node, v: Value, step: _Step, shape: Shape, name: str) -> Value:
    """A value of a shape, in whatever shape it is, as [outer, channels, the axis]; a single number stays one."""
    if v.type.count == 1 and math.prod(shape) > 1:
        return r.insert(node, Reshape((1, 1, 1)), [v], name)
    extent, outer = shape[step.axis], math.prod(shape[: step.axis])
    if not step.inside:
        return r.insert(node, Reshape((outer // step.beside, step.beside, extent)), [v], name)
    planes = r.insert(node, Reshape((outer, extent, step.beside)), [v], name)
    return r.insert(node, Transpose(_SWAP), [planes], f"{name}.turned")
