"""Simplifies nodes one by one: movement that moves nothing, chains of movement, maps that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError, varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.structure import Coordinates
from mccompile.ir.types import Shape, TensorType, broadcast_shapes
from mccompile.ops.concat import Concat
from mccompile.ops.map import Map
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.movement import reorders
from mccompile.passes.clean.expression_rules import simplify
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import AnyOp
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Simplify movement, reshapes, maps and expressions by local rules, all of them exact."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        where = node.where
        while rule := next((rule for rule in _RULES if rule(r, node)), None):
            remarks.hit(f"{where}: {rule.__name__.strip('_').replace('_', ' ')}")
            changes += 1
            if rule in _LAST:
                break
    r.finish()
    return changes


def _is_plain(node: Node | None) -> bool:
    """True if a node is what its operator says, on row-major tensors."""
    if node is None or node.pre or node.post:
        return False
    return all(v.type.layout is None for v in (*node.inputs, *node.results))


# -- rules: each changes the node and says so, or leaves it and answers False -------------------------------
def _moves_nothing(r: Rewriter, node: Node) -> bool:
    """Movement that copies its operand to the same coordinates goes: a slice of everything, a concat of one,
    a pad by nothing, a transpose that keeps the order, an expand to the same shape."""
    if not reorders(node.op) or len(node.operands) != 1 or len(node.results) != 1:
        return False
    (source,), (result,) = node.operands, node.results
    if source is None or source.type != result.type or not _is_plain(node):
        return False
    nests = node.op.structure((source.type,))
    if len(nests) != 1 or nests[0].loops != result.shape:
        return False
    (reads,) = nests[0].reads
    stays = reads is not None and _stays(reads, result.shape) and _stays(nests[0].writes, result.shape)
    return stays and r.bypass(node, source)


def _stays(maps: Coordinates, loops: Shape) -> bool:
    """True if coordinate a is loop a, whatever is said of loops that run once."""
    long = [k for k, extent in enumerate(loops) if extent > 1]
    known = [m for m in maps if m is not None and m.const == 0]
    return len(known) == len(maps) and all(m.coefs[k] == (k == a) for k in long for a, m in enumerate(known))


def _reshapes_to_its_own_shape(r: Rewriter, node: Node) -> bool:
    """reshape(x) to the shape of x is x."""
    source = node.operands[0] if node.op.keeps_order else None
    return source is not None and _is_plain(node) and source.shape == node.result.shape and r.bypass(node, source)


def _does_nothing(r: Rewriter, node: Node) -> bool:
    """map(x) { x0 } is x, if the result is stored as x is and nothing is broadcast."""
    if node.op.elementwise is None or node.pre or node.post or not isinstance(node.op.elementwise, ex.Var):
        return False
    (source,) = node.operands
    return source is not None and source.type == node.result.type and r.bypass(node, source)


def _takes_elements_one_by_one(r: Rewriter, node: Node) -> bool:
    """A pool of single elements is a map of what its epilogue computes."""
    if not node.op.is_identity or node.pre:
        return False
    body = node.post.get(0, ex.acc(node.result.dtype))

    def read(v: ex.Var) -> ex.Expr:
        return replace(v, index=0 if v.index == ex.ACC else v.index + 1)

    operands = [node.operands[0], *node.extras]
    node.op, node.post = Map.of(ex.substitute(body, read), node.result.dtype), {}
    r.rewire(node, operands, [])
    return True


def _reshapes_a_reshape(r: Rewriter, node: Node) -> bool:
    """reshape(reshape(x)) is one reshape of x: both keep the row-major order."""
    inner = r.producer(node.operands[0]) if node.op.keeps_order else None
    if inner is None or not inner.op.keeps_order or not _is_plain(node) or not _is_plain(inner):
        return False
    r.rewire(node, inner.operands)
    return True


def _two(r: Rewriter, node: Node, kind: type[AnyOp]) -> tuple[AnyOp, Node, AnyOp] | None:
    """An operator of a kind, what made its operand by another one, and that: both plain."""
    outer, inner = node.op, r.producer(node.operands[0]) if node.operands else None
    if not isinstance(outer, kind) or inner is None or not isinstance(inner.op, kind):
        return None
    return (outer, inner, inner.op) if _is_plain(node) and _is_plain(inner) else None


def _transposes_a_transpose(r: Rewriter, node: Node) -> bool:
    """transpose(transpose(x, p), q) is transpose(x, p[q])."""
    pair = _two(r, node, Transpose)
    if pair is None:
        return False
    outer, inner, first = pair
    node.op = Transpose(tuple(first.perm[p] for p in outer.perm))
    r.rewire(node, inner.operands)
    return True


def _transposes_axes_of_extent_one(r: Rewriter, node: Node) -> bool:
    """A transpose that keeps the order of all axes longer than 1 keeps the row-major order: it is a reshape."""
    if not isinstance(node.op, Transpose) or not _is_plain(node):
        return False
    source = node.operands[0]
    assert source is not None
    kept = [p for p in node.op.perm if source.shape[p] != 1]
    if kept != sorted(kept):
        return False
    node.op = Reshape(node.result.shape)
    return True


def _slices_a_slice(r: Rewriter, node: Node) -> bool:
    """slice(slice(x)): starts and steps are composed, where it is still to be seen that all of it is on its axes: the
    extent of the slice between said so."""
    pair = _two(r, node, Slice)
    if pair is None:
        return False
    outer, inner, first = pair
    starts = tuple(a + b * s for a, b, s in zip(first.starts, outer.starts, first.steps, strict=True))
    extents = outer.extents
    # What has at most one element may have none: then its first index may lie before all others.
    alone = [not varies([e]) and e <= 1 for e in extents]
    steps = tuple(1 if one else a * b for a, b, one in zip(first.steps, outer.steps, alone, strict=True))
    both = Slice(starts, steps, extents)
    try:
        both.infer(*inner.operand_types())
    except UndecidedError:
        return False
    node.op = both
    r.rewire(node, inner.operands)
    return True


def _joins_what_is_joined(r: Rewriter, node: Node) -> bool:
    """concat(concat(a, b), c) along one axis is concat(a, b, c), if nothing else reads the inner one."""
    if not isinstance(node.op, Concat) or not _is_plain(node):
        return False
    flat: list[Value | None] = []
    for v in node.operands:
        inner = r.producer(v)
        nested = inner is not None and v is not None and inner.op == node.op and _is_plain(inner) and r.is_private(v)
        flat += inner.operands if nested and inner is not None and node.operands.count(v) == 1 else [v]
    if len(flat) == len(node.operands):
        return False
    r.rewire(node, flat)
    return True


def _reads_an_operand_twice(r: Rewriter, node: Node) -> bool:
    """map(x, x) reads x once; operands the expression does not need go, if the result keeps its shape."""
    if node.op.elementwise is None or node.pre:
        return False
    needed = ex.variables(node.op.elementwise)
    kept = list(dict.fromkeys(v for i, v in enumerate(node.operands) if i in needed and v is not None))
    if len(kept) == len(node.operands) or not kept:
        return False
    operands = node.operands

    def place(v: ex.Var) -> ex.Expr:
        operand = operands[v.index]
        assert operand is not None
        return ex.var(kept.index(operand), v.dtype)

    node.op = node.op.with_elementwise(ex.substitute(node.op.elementwise, place))
    r.rewire(node, kept)
    return True


def _simplifies_its_expression(r: Rewriter, node: Node) -> bool:
    """The rules of `expression_rules`; a map that stores f16 need not round to f16 before."""
    if node.op.elementwise is None or node.pre or node.post:
        return False
    body = simplify(node.op.elementwise)
    if node.result.dtype.name == "f16" and isinstance(body, ex.Apply) and body.fn == "round_f16":
        body = body.operands[0]
    shapes = [v.shape for i, v in enumerate(node.operands) if v is not None and i in ex.variables(body)]
    if body is node.op.elementwise or not shapes or broadcast_shapes(*shapes) != node.result.shape:
        return False
    node.op = node.op.with_elementwise(body)
    _reads_an_operand_twice(r, node)
    return True


def _comes_to_a_number(r: Rewriter, node: Node) -> bool:
    """select(true, 2.0, x) needs no x: the result is a constant, unless a caller wants to read it."""
    body = node.op.elementwise
    if body is None or not _is_plain(node) or r.is_output(node.result) or node.result.type.varies:
        return False
    body = simplify(body)
    if not isinstance(body, ex.Num):
        return False
    result = node.result
    array = np.full(result.shape, body.value, body.dtype.numpy).astype(result.dtype.numpy)
    r.replace(result, r.graph.constant(f"{result.name}.number", array))
    r.erase(node)
    return True


def _simplifies_its_bodies(r: Rewriter, node: Node) -> bool:
    """The rules of `expression_rules` for prologues and epilogues; one that is ``acc`` goes unless it widens."""
    found = {(k, i): simplify(b) for k, table in enumerate((node.pre, node.post)) for i, b in table.items()}
    types = [v.dtype for v in node.results]
    if all(b is (node.pre, node.post)[k][i] and not _is_idle(node, k, i, b) for (k, i), b in found.items()):
        return False
    kept = {key: b for key, b in found.items() if not _is_idle(node, *key, b)}
    read = sorted(set().union(*map(ex.variables, kept.values())) - {ex.ACC})

    def place(v: ex.Var) -> ex.Expr:
        return v if v.index == ex.ACC else ex.var(read.index(v.index), v.dtype)

    before = node.pre, node.post, node.extras
    placed = {key: ex.substitute(b, place) for key, b in kept.items()}
    node.pre = {i: b for (k, i), b in placed.items() if k == 0}
    node.post = {i: b for (k, i), b in placed.items() if k == 1}
    extras, node.extras = [node.extras[i] for i in read], []
    same = [t.dtype for t in node.infer()] == types
    node.pre, node.post, node.extras = (node.pre, node.post, before[2]) if same else before
    if same:
        r.rewire(node, extras=extras)
    return same


def _is_idle(node: Node, kind: int, index: int, body: ex.Expr) -> bool:
    """Whether a body of operand (``kind`` 0) or result ``index`` leaves it as it is, type included."""
    operand = node.operands[index] if kind == 0 else None
    return isinstance(body, ex.Var) and body.index == ex.ACC and (operand is None or operand.dtype == body.dtype)


def _computes_before_it_reshapes(r: Rewriter, node: Node) -> bool:
    """map(reshape(x), scalars) is reshape(map(x, scalars)): so the map comes next to what made x."""
    if node.op.elementwise is None or not _is_plain(node):
        return False
    reshapes = [p for v in node.operands if (p := r.producer(v)) is not None and p.op.keeps_order]
    if len(reshapes) != 1 or not _is_plain(reshapes[0]) or not r.is_private(reshapes[0].result):
        return False
    (reshape,) = reshapes
    source, view = reshape.operands[0], reshape.result
    assert source is not None
    if r.producer(source) is None or not r.is_private(source) or view.shape != node.result.shape:
        return False
    rest = [v for v in node.operands if v is not None and v is not view]
    if any(v.type.count != 1 or len(v.shape) > len(source.shape) for v in rest):
        return False
    result = node.result
    inner = r.graph.value(f"{result.name}.flat", TensorType(result.dtype, source.shape))
    r.rewire(node, [source if v is view else v for v in node.operands])
    r.rewire(reshape, [inner])
    reshape.op = Reshape(result.shape)
    r.set_results(node, [inner])
    r.set_results(reshape, [result])
    return True


_LAST = (_moves_nothing, _reshapes_to_its_own_shape, _does_nothing, _comes_to_a_number)
"""Rules after which the node is gone."""

_RULES: tuple[Callable[[Rewriter, Node], bool], ...] = (
    *_LAST,
    _takes_elements_one_by_one,
    _reshapes_a_reshape,
    _transposes_a_transpose,
    _transposes_axes_of_extent_one,
    _slices_a_slice,
    _joins_what_is_joined,
    _simplifies_its_expression,
    _reads_an_operand_twice,
    _simplifies_its_bodies,
    _computes_before_it_reshapes,
)
