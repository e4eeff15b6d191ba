"""Joins that repeat what another join has made read its result: the parts then lie in memory once."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ops.concat import Concat
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import is_plain
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


@dataclass(frozen=True)
class _Join:
    """A join, and what it joined before it read others."""

    node: Node
    parts: tuple[Value, ...]


Joins = dict[tuple[Op, Value], list[_Join]]
"""The joins met so far by their axis and first part."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Let concat(a, b, c) read concat(a, b) where that is made before, as in dense blocks. Exact.

    The inner join can then be a part of the outer one's memory; apart, each would copy every operand again. The
    memory of the last one is then taken from the first one on: not every target has it to spare.
    """
    if not target.spare_memory:
        remarks.miss("joined once", f"target {target.name} may be short of memory")
        return 0
    r = Rewriter(graph)
    joins: Joins = {}
    changes = 0
    for node in r.nodes():
        if isinstance(node.op, Concat) and is_plain(node):
            join = _Join(node, tuple(node.inputs))
            changes += _nest(r, join, joins, remarks)
            joins.setdefault((node.op, join.parts[0]), []).append(join)
    r.finish()
    return changes


def _nest(r: Rewriter, join: _Join, joins: Joins, remarks: Remarks) -> int:
    """Let a join read those before it, from its first part on the longest; the number of those."""
    at, found = 0, 0
    operands: list[Value | None] = []
    while at < len(join.parts):
        inner = _longest(join, at, joins, remarks)
        if inner is None:
            operands.append(join.parts[at])
            at += 1
        else:
            remarks.hit(f"joined once: {inner.node.where} in {join.node.where}")
            operands.append(inner.node.result)
            at += len(inner.parts)
            found += 1
    if found:
        r.rewire(join.node, operands)
    return found


def _longest(join: _Join, at: int, joins: Joins, remarks: Remarks) -> _Join | None:
    """The longest join before whose parts come next, from ``at`` on, and are not all."""
    op, parts = join.node.op, join.parts
    shorter = [j for j in joins.get((op, parts[at]), ()) if 1 < len(j.parts) < len(parts)]
    fitting = [j for j in shorter if j.parts == parts[at : at + len(j.parts)]]
    if fitting:
        return max(fitting, key=lambda j: len(j.parts))
    for inner in shorter:
        if set(inner.parts) <= set(parts):
            remarks.miss(f"joined once: {inner.node.where} in {join.node.where}", "the parts are in another order")
    return None
