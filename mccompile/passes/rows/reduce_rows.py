"""Reduces pixels row by row first, where they are read again, so that each core has rows of its own.

Worked example: the mean of all pixels, by which these are scaled (squeeze and excite)::

    %m = reduce(%x) {mode='sum', axes=(2, 3)} post0{ (acc / 3136) } : f32[1,64,1,1]         %x : f32[1,64,56,56]:nhwc
    %y = map(%x, %gate) {expr={(x0 * x1)}} : f32[1,64,56,56]:nhwc

    %m.rows = reduce(%x) {mode='sum', axes=(3)} : f32[1,64,56,1]:nhwc
    %m = reduce(%m.rows) {mode='sum', axes=(2)} post0{ (acc / 3136) } : f32[1,64,1,1]

As it was, two threads take 32 channels each of all pixels: half of each row comes from the other core, which has
made it, and neither may then write to a row, as the map wants to, before it has told the other one. (Zen 4,
EfficientNet-B0: the maps took 3.6 times as long by two threads as by one.) In rows, each core reads what it has made
and will write.
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node
from mccompile.ir.op import Op
from mccompile.ir.types import F32
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.passes.rows.strips import stored_as
from mccompile.targets.target import Target

ROUNDS = True

HANDOFFS = 4
"""What takes less than so many hand-overs to another core is no work for two: see `split-calls`."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Reduce pixels row by row first, where they are read again, so that each core has rows of its own. May change
    rounding: sums are taken in another order, whatever the number of threads."""
    if target.lanes < 2 or not target.machine.l2:
        return 0
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        found = _row_by_row(r, node, target)
        if found is None:
            continue
        what = f"reduced {node.where} row by row first"
        if any(ex.variables(body) - {ex.ACC} for body in node.pre.values()):
            remarks.miss(what, "its prologue reads more than the pixels")
            continue
        _rewrite(r, node, *found)
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


def _row_by_row(r: Rewriter, node: Node, target: Target) -> tuple[Op, Op] | None:
    """The reductions within rows and across them, in place of one over all pixels of a large tensor of f32 that
    others read, too; None for all else. Pixels are told by all axes of several elements but the innermost one."""
    x = node.operands[0] if len(node.operands) == 1 else None
    if x is None or x.dtype != F32 or node.varies or not x.type.linear or len(r.users(x)) < 2:
        return None
    if x.type.nbytes < HANDOFFS * target.machine.handoff * target.machine.peer_rate:
        return None
    walked = [f.axis for f in x.type.factors if x.shape[f.axis] != 1]
    return node.op.last_axis_first(walked[:-1])


def _rewrite(r: Rewriter, node: Node, within: Op, across: Op) -> None:
    """Let a node reduce what another one has reduced; the prologue is that one's."""
    x = node.operands[0]
    assert x is not None
    rows = Node(within, [x], [], pre=dict(node.pre), origins=node.origins)
    value = stored_as(r.insert_node(node, rows, [f"{node.result.name}.rows"])[0], x)
    node.op, node.pre = across, {}
    r.rewire(node, [value])
