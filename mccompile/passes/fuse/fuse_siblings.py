"""Makes one wider convolution or matrix product of several that read the same value (horizontal fusion)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape
from mccompile.ops.conv import Conv
from mccompile.ops.map import Map
from mccompile.ops.slice import Slice
from mccompile.passes.analysis.contraction import contraction, is_product
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Join convolutions or products of one value and constant weights where reading it once saves more bytes than
    taking their results apart moves; and depthwise convolutions of neighbouring channels of one value.

    Exact: each result is the same sum as before. Results larger than what they are computed from stay apart: as
    one value all of them would be alive at once.
    """
    changes = 0
    for family, join in ((_family, _join), (_depthwise_family, _join_depthwise)):
        r = Rewriter(graph)
        families: dict[object, list[Node]] = {}
        for node in graph.nodes:
            key = family(r, node)
            if key is not None:
                families.setdefault(key, []).append(node)
        changes += sum(join(r, nodes, remarks) for nodes in families.values() if len(nodes) > 1)
        r.finish()
    return changes


def _family(r: Rewriter, node: Node) -> object | None:
    """What siblings have in common; None for a node that has none: the operator, what it reads, its window."""
    w = _own_weights(r, node)
    if w is None:
        return None
    found = contraction(node)
    if found is None or found.groups > 1 or found.scattered:
        return None
    own = found.result.weights
    return (node.op, node.operands[0], w.shape[:own], w.shape[own + 1 :])


def _own_weights(r: Rewriter, node: Node) -> Value | None:
    """The constant weights of a convolution or product that nothing else reads."""
    if not is_product(node.op) or node.pre:
        return None
    w = node.operands[1]
    assert w is not None
    known = isinstance(r.graph.constants.get(w), np.ndarray) and r.users(w) == [node]
    plain = all(v.type.layout is None for v in (*node.inputs, *node.results))
    return w if known and plain else None


def _join(r: Rewriter, nodes: Sequence[Node], remarks: Remarks) -> int:
    """Join the siblings whose epilogues agree, else all of them, as far as that saves bytes."""
    alike: dict[object, list[Node]] = {}
    for n in nodes:
        alike.setdefault(_epilogue_key(r.graph, n), []).append(n)
    if any(k is not None and len(v) > 1 for k, v in alike.items()):
        parts = [v for k, v in alike.items() if k is not None and len(v) > 1]
    else:
        parts = [list(nodes)]
    return sum(_join_alike(r, part, remarks) for part in parts)


def _join_alike(r: Rewriter, nodes: list[Node], remarks: Remarks) -> int:
    what = f"joined {', '.join(n.where for n in nodes)}"
    keys = {_epilogue_key(r.graph, n) for n in nodes}
    same = len(keys) == 1 and None not in keys
    x = nodes[0].operands[0]
    assert x is not None
    read = bound(x.type.count) * x.dtype.nbytes
    members = sorted(nodes, key=_result_bytes)
    sizes = list(accumulate(map(_result_bytes, members), initial=0))
    # A part is read and written once more, unless its reader takes it as it lies, which is decided later.
    saved = [(k - 1) * read - 2 * sizes[k] for k in range(len(members) + 1)]
    fitting = [k for k in range(2, len(saved)) if saved[k] > 0 and sizes[k] <= read]
    if not fitting:
        moved, less = 2 * sizes[-1], read * (len(nodes) - 1)
        remarks.miss(what, f"taking the results apart moves {moved} bytes, reading once saves {less}")
        return 0
    best = max(fitting, key=lambda k: (saved[k], k))
    some = [n for n in nodes if n in members[:best]]
    remarks.hit(f"joined {', '.join(n.where for n in some)}: {saved[best]} bytes less")
    _rewrite(r, some, same, some[0].op, x)
    return 1


def _result_bytes(node: Node) -> int:
    return bound(node.result.type.count) * node.result.dtype.nbytes


def _epilogue_key(graph: Graph, node: Node) -> object | None:
    """Equal for nodes whose epilogues are the same and read constants per channel only; None if one does not."""
    if not node.post:
        return ()
    axis = _axis(node)
    for v in node.extras:
        padded = (1,) * (node.result.type.rank - v.type.rank) + v.shape
        if not isinstance(graph.constants.get(v), np.ndarray) or math.prod(padded) != padded[axis]:
            return None
    return (node.post[0], node.result.dtype, len(node.extras))


def _axis(node: Node) -> int:
    """The axis of the result along which the weights' filters or columns lie."""
    found = contraction(node)
    assert found is not None
    return found.result.axis


def _rewrite(r: Rewriter, nodes: list[Node], same: bool, op: Op, x: Value) -> None:
    """One node for all; each of them becomes a slice of its result, or its epilogue applied to one."""
    graph, first = r.graph, nodes[0]
    name = "+".join(n.result.name for n in nodes)
    found = contraction(first)
    assert found is not None
    axis = found.result.axis
    weights = [graph.array(w) for n in nodes if (w := n.operands[1]) is not None]
    joined = graph.constant(f"{name}.weights", np.concatenate(weights, axis=found.result.weights))
    whole = r.insert(first, op, [x, joined], name)
    maker = r.producer(whole)
    assert maker is not None
    if same and first.post:
        extras = (_per_channel(graph, nodes, k, axis) for k in range(len(first.extras)))
        maker.post = dict(first.post)
        r.rewire(maker, extras=[graph.constant(f"{name}.extra", e) for e in extras])
        whole.type = whole.type.with_dtype(first.result.dtype)
    maker.origins = tuple(dict.fromkeys(o for n in nodes for o in n.origins))
    start = 0
    for n in nodes:
        _take(r, n, whole, axis, start, same)
        start += n.result.shape[axis]


def _per_channel(graph: Graph, nodes: Sequence[Node], k: int, axis: int) -> Array:
    """Extra operand ``k`` of all nodes, one behind the other along the channels."""
    found = []
    for n in nodes:
        shape = tuple(n.result.shape[a] if a == axis else 1 for a in range(n.result.type.rank))
        found.append(np.broadcast_to(graph.array(n.extras[k]).reshape(_padded(n.extras[k].shape, len(shape))), shape))
    return np.concatenate(found, axis=axis)


def _padded(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + shape


def _take(r: Rewriter, node: Node, whole: Value, axis: int, start: int, same: bool) -> None:
    """Let ``node`` take its part of the joint result."""
    shape = node.result.shape
    op = Slice(tuple(start if a == axis else 0 for a in range(len(shape))), (1,) * len(shape), shape)
    if same or not node.post:
        node.op, node.post = op, {}
        r.rewire(node, [whole], [])
        return
    part = r.insert(node, op, [whole], f"{node.result.name}.part")
    body = ex.substitute(
        node.post[0], lambda v: ex.var(0, v.dtype) if v.index == ex.ACC else ex.var(v.index + 1, v.dtype)
    )
    operands = [part, *node.extras]
    node.op, node.post = Map.of(body, node.result.dtype), {}
    r.rewire(node, operands, [])


# -- depthwise convolutions of neighbouring channels ---------------------------------------------------------------
def _depthwise_family(r: Rewriter, node: Node) -> object | None:
    """As `_family`, for a depthwise convolution of a slice of channels that it alone reads."""
    op, w = node.op, _own_weights(r, node)
    if w is None or not isinstance(op, Conv):
        return None
    part = r.producer(node.operands[0])
    if part is None or not isinstance(part.op, Slice):
        return None
    source, value = part.operands[0], part.result
    assert source is not None
    alike = (*source.shape[:1], value.shape[1], *source.shape[2:]) == value.shape and set(part.op.steps) == {1}
    if not alike or op.groups != value.shape[1] or not r.is_private(value):
        return None
    return (replace(op, groups=1), source, w.shape[1:], w.shape[0] // op.groups, _epilogue_key(r.graph, node))


def _join_depthwise(r: Rewriter, nodes: list[Node], remarks: Remarks) -> int:
    """Join runs of neighbours where their slices move more bytes than taking the results apart."""

    def first(n: Node) -> int:
        part = r.producer(n.operands[0])
        assert part is not None
        assert isinstance(part.op, Slice)
        return part.op.starts[1]

    ordered = sorted(nodes, key=first)
    runs: list[list[Node]] = []
    for n in ordered:
        end = -1 if not runs else first(runs[-1][-1]) + _channels(runs[-1][-1])
        if first(n) == end:
            runs[-1].append(n)
        else:
            runs.append([n])
    return sum(_join_run(r, neighbours, first(neighbours[0]), remarks) for neighbours in runs)


def _join_run(r: Rewriter, nodes: list[Node], start: int, remarks: Remarks) -> int:
    """Join depthwise convolutions of the channels from ``start`` on."""
    op = nodes[0].op
    what = f"joined {', '.join(n.where for n in nodes)}"
    apart = sum(map(_result_bytes, nodes))
    slices = sum(bound(v.type.count) * v.dtype.nbytes for n in nodes if (v := n.operands[0]) is not None)
    reason = ""
    if len(nodes) < 2:
        reason = "no other one reads the channels beside its own"
    elif _epilogue_key(r.graph, nodes[0]) is None:
        reason = "epilogues read more than constants per channel"
    elif apart > slices:
        reason = "its results are larger than what it reads"
    if reason:
        remarks.miss(what, reason)
        return 0
    remarks.hit(what)
    _rewrite(r, nodes, True, op.in_groups(sum(map(_channels, nodes))), _covered(r, nodes, start))
    return 1


def _channels(node: Node) -> int:
    assert node.operands[0] is not None
    return node.operands[0].shape[1]


def _covered(r: Rewriter, nodes: list[Node], start: int) -> Value:
    """The value whose channels the slices of ``nodes`` cover: their source, or one slice of it."""
    part = r.producer(nodes[0].operands[0])
    source = part.operands[0] if part is not None else None
    assert source is not None
    count = sum(map(_channels, nodes))
    if count == source.shape[1]:
        return source
    starts = tuple(start if a == 1 else 0 for a in range(source.type.rank))
    extents = (source.shape[0], count, *source.shape[2:])
    return r.insert(nodes[0], Slice(starts, (1,) * source.type.rank, extents), [source], f"{source.name}.part")
