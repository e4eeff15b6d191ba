"""Lets the heads of attention that share keys and values read the same ones, where these were repeated for each head.

Worked example: 16 heads of queries share 4 of keys and values, so that an exporter repeats each four times. Seen as 4
groups of 4 heads, all heads of a group read one head of keys; with one query each, they are rows of one product::

    %a = expand(%k) {shape=(1, 4, 4, 512, 64)}                         %k is [1, 4, 1, 512, 64], and so is %v
    %b = reshape(%a) {shape=(1, 16, 512, 64)}
    %y = attention(%q, %b, %w) {trans_k=True} : f32[1,16,1,64]         %w comes of %v as %b of %k

    %b = reshape(%k) {shape=(1, 4, 512, 64)}
    %g = reshape(%q) {shape=(1, 4, 4, 64)}
    %o = attention(%g, %b, %w) {trans_k=True} : f32[1,4,4,64]
    %y = reshape(%o) {shape=(1, 16, 1, 64)}
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ops.attention import FIRST_MASK, Attention
from mccompile.ops.expand import Expand
from mccompile.ops.map import Map
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Is, Match, matches
from mccompile.passes.rewrite.rewriter import Rewriter

_ATTENTION = Is(Attention, None, "attention", plain=False)
_JOINED, _SPREAD = Is(Reshape, None, "joined"), Is(Expand, None, "spread")
_MAPPED, _TURNED = Is(Map, None, "mapped"), Is(Transpose, None, "turned")

HEADS = -3
"""The axis of heads: that before the rows."""
SHARED = (1, 2)
"""Keys and values."""


@dataclass(frozen=True)
class _Repeated:
    """An operand whose heads are those of ``source``, each ``times`` over, behind ``steps`` of each head."""

    source: Value
    times: int
    steps: tuple[Node, ...]


def run(graph: Graph, remarks: Remarks) -> int:
    """Let heads of attention read keys and values that they share, not copies of them. Exact."""
    r = Rewriter(graph)
    changes = 0
    for node in list(r.nodes()):
        attention = _seen(_ATTENTION, r, node)
        if attention is None:
            continue
        found = [_repeated(r, node.operands[i]) for i in SHARED]
        keys, values = found
        if keys is None or values is None:
            continue
        what = f"let heads of {node.where} share keys and values"
        if keys.times != values.times:
            remarks.miss(what, "there are other heads of keys than of values")
        elif reason := _obstacle(node):
            remarks.miss(what, reason)
        else:
            _rewrite(r, node, attention.op(Attention), keys, values)
            remarks.hit(what)
            changes += 1
    r.finish()
    return changes


def _seen(pattern: Is, r: Rewriter, node: Node | None) -> Match | None:
    """What a node is to a pattern; None if it is something else."""
    return None if node is None else next(matches(pattern, r, node), None)


def _repeated(r: Rewriter, value: Value | None) -> _Repeated | None:
    """How the heads of a value are repeated; None if they are not."""
    steps: list[Node] = []
    while (node := r.producer(value)) is not None and value is not None and _each_head(r, node, value):
        steps.insert(0, node)
        value = node.operands[0]
    if value is None or node is None or _seen(_JOINED, r, node) is None:
        return None
    many = r.producer(node.operands[0])
    if many is None or _seen(_SPREAD, r, many) is None or value.type.rank < 3:
        return None
    one, shape = many.operands[0], value.shape
    assert one is not None
    spread = many.result.shape
    if len(spread) != len(shape) + 1 or spread[HEADS] == 1:
        return None
    heads, times = spread[HEADS - 1], spread[HEADS]
    known = isinstance(heads, int) and isinstance(times, int)
    rest = (*spread[: HEADS - 1], heads * times, *spread[HEADS + 1 :])
    if not known or rest != shape or one.shape != (*spread[:HEADS], 1, *spread[HEADS + 1 :]):
        return None
    return _Repeated(one, times, tuple(steps))


def _each_head(r: Rewriter, node: Node, value: Value) -> bool:
    """Whether the node that makes a value, for one reader, does the same to each head: maps one operand, or turns
    rows to columns."""
    if len(node.inputs) != 1 or node.pre or node.post or not r.is_private(value):
        return False
    turned = _seen(_TURNED, r, node)
    if turned is not None:
        return turned.op(Transpose, "turned").perm == _last_turned(value.type.rank)
    return _seen(_MAPPED, r, node) is not None and node.inputs[0].type.shape == value.shape


def _last_turned(rank: int) -> tuple[int, ...]:
    """The permutation that exchanges the last two axes."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _obstacle(node: Node) -> str:
    """Why heads cannot be seen as groups of them; empty if they can."""
    values = [v for v in node.inputs if v is not None]
    if node.pre:
        return "an operand has a prologue"
    if any(v.type.layout is not None for v in (*values, *node.results)):
        return "a layout is not row-major"
    q, rank = node.operands[0], node.result.type.rank
    if q is None or q.type.rank != rank or q.shape[HEADS] != node.result.shape[HEADS]:
        return "queries have other heads"
    return ""


def _rewrite(r: Rewriter, node: Node, op: Attention, keys: _Repeated, values: _Repeated) -> None:
    result, name = node.result, node.result.name
    q = node.operands[0]
    assert q is not None
    heads, rows = result.shape[HEADS] // keys.times, q.shape[-1 if op.trans_q else -2]
    # One row of each head of a group: they are the rows of one product.
    merged = isinstance(rows, int) and rows == 1 and not op.trans_q

    def grouped(v: Value) -> Value:
        """With the axis of heads as groups of heads, which are rows if those of a head are one."""
        if v.type.rank < -HEADS:
            return v
        own = v.shape[HEADS]
        parts = (heads, keys.times) if own != 1 else (1, 1)
        behind = v.shape[HEADS + 1 :][1:] if merged else v.shape[HEADS + 1 :]
        return r.insert(node, Reshape((*v.shape[:HEADS], *parts, *behind)), [v], f"{v.name}.groups")

    shared = [_of_groups(r, node, found, merged) for found in (keys, values)]
    masks = [grouped(v) for v in node.operands[FIRST_MASK:] if v is not None]
    r.rewire(node, [grouped(q), *shared, *masks], [grouped(v) for v in node.extras])
    own = r.graph.value(f"{name}.groups", node.infer()[0])
    r.set_results(node, [own])
    r.insert_after(node, Node(Reshape(result.shape), [own], [result], origins=node.origins))


def _of_groups(r: Rewriter, node: Node, found: _Repeated, merged: bool) -> Value:
    """The operand with one head for each group."""
    value = found.source
    if merged:
        shape = (*value.shape[:HEADS], *value.shape[HEADS + 1 :])
        value = r.insert(node, Reshape(shape), [value], f"{value.name}.own")
    for step in found.steps:
        turned = _seen(_TURNED, r, step) is not None
        op = Transpose(_last_turned(value.type.rank)) if turned else step.op
        value = r.insert(node, op, [value], f"{step.result.name}.own")
    return value
