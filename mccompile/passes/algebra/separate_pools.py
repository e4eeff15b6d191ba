"""Pools planes of few channels along one axis, then along the other, each time with lines as channels.

Worked example: the maximum of 9 x 9 pixels around each of a plane of 120 x 160. Kernels for pools have channels in
vectors, of which there is one here. But a window of 9 x 1 takes the maximum of 9 lines, whose 160 pixels are as good
as channels; then, of the plane on its side, one of 9 lines of 120: 18 comparisons for each pixel in place of 81.

    %y = pool(%x) {mode='max', kernel=(9, 9), ..} : f32[1,1,120,160]

    %a = transpose(reshape(%x)) : f32[1,160,120,1]               nothing moves: this is x with its lines as channels
    %b = pool(%a) {mode='max', kernel=(9, 1), ..} : f32[1,160,120,1]
    %c = transpose(%b) : f32[1,120,160,1]
    %d = pool(%c) {mode='max', kernel=(9, 1), ..} : f32[1,120,160,1]
    %y = reshape(%d)
"""

from __future__ import annotations

from mccompile.ir.graph import Graph, Node
from mccompile.ir.types import F32
from mccompile.ops.pool import Pool
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules
from mccompile.targets.target import Target

LEAST_LANES = 4
"""Lanes of a target below which channels are as good as lines."""
_SWAP = (0, 2, 1, 3)


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute the maximum over windows of planes with few channels as one of columns of the maxima of rows. Exact."""
    if target.lanes < LEAST_LANES or not target.spare_memory:
        remarks.miss("separate pools", f"target {target.name} has no wide vectors, or no memory to turn planes")
        return 0

    def check(m: Match) -> Fail | None:
        return _check(m, target.lanes)

    pattern = Is(Pool, (Any("x"),), "pool", plain=False)
    return apply_rules(graph, remarks, (Rule("separated pools", pattern, check, _rewrite),))


def _check(m: Match, lanes: int) -> Fail | None:
    node, op, x = m.root, m.op(Pool), m.values["x"]
    if op.mode != "max" or len(op.kernel) != 2 or min(op.kernel) == 1:
        return Fail("")
    if node.varies or node.pre or any(v.dtype != F32 or v.type.layout is not None for v in (x, *node.results)):
        return Fail("it has a prologue, extents of the run, or is not row-major in f32")
    channels, _, width = x.shape[1:]
    if 2 * channels > lanes or width < 2 * lanes or node.result.shape[2] < lanes:
        return Fail("its channels fill vectors, or its lines do not")
    if any(v.type.count > 1 and v.shape != node.result.shape for v in node.extras):
        return Fail("an operand of its epilogue is broadcast along some axes")
    return None


def _rewrite(m: Match) -> None:
    r, node, op, x = m.r, m.root, m.op(Pool), m.values["x"]
    name, (n, channels, height, width) = node.result.name, x.shape
    planes, rows, columns = n * channels, *node.result.shape[2:]
    lines = r.insert(node, Reshape((planes, height, width, 1)), [x], f"{name}.lines")
    turned = r.insert(node, Transpose(_SWAP), [lines], f"{name}.turned")
    first = r.insert(node, op.down(0), [turned], f"{name}.down")
    sideways = r.insert(node, Transpose(_SWAP), [first], f"{name}.sideways")
    extras = [
        r.insert(node, Reshape((planes, rows, columns, 1) if v.type.count > 1 else (1,) * 4), [v], f"{v.name}.lines")
        for v in node.extras
    ]
    second = Node(op.down(1), [sideways], [], extras, {}, dict(node.post), origins=node.origins)
    (found,) = r.insert_node(node, second, [f"{name}.across"])
    node.op, node.post = Reshape(node.result.shape), {}
    r.rewire(node, [found], [])
