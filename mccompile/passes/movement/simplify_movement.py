"""Removes movement by rules over two operators: what is cut from a join, padded twice, spread for nothing."""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir import expr as ex
from mccompile.ir.affine import Affine
from mccompile.ir.dims import may_be_none
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.places import is_on_axis
from mccompile.ir.structure import Nest
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.normalize import Normalize
from mccompile.ops.pad import Pad
from mccompile.ops.recurrent import Recurrent
from mccompile.ops.reduce import Reduce
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.softmax import Softmax
from mccompile.ops.split import Split
from mccompile.ops.transpose import Transpose
from mccompile.passes.analysis.contraction import is_product
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules


def run(graph: Graph, remarks: Remarks) -> int:
    """Remove slices of joins, pads of pads, transposes of products, spreads that readers broadcast. Exact."""
    return apply_rules(graph, remarks, RULES)


def _absorb(m: Match, name: str, operands: list[Value | None]) -> None:
    """Let the root read other operands than the result of a node."""
    m.r.rewire(m.root, operands)
    m.root.origins = tuple(dict.fromkeys(m.nodes[name].origins + m.root.origins))


# -- cut from a join -----------------------------------------------------------------------------------------
def _part_of(m: Match) -> tuple[Value, int] | None:
    """The operand of the concat that a slice stays within, and where that begins."""
    op, concat = m.op(Slice), m.nodes["concat"]
    a, begin = m.op(Concat, "concat").axis, 0
    low, high = _ends(op.starts[a], op.steps[a], op.extents[a])
    for v in concat.operands:
        assert v is not None
        if begin <= low and is_on_axis(begin + v.shape[a], high, op.extents):
            return v, begin
        begin += v.shape[a]
    return None


def _ends(start: int, step: int, extent: int) -> tuple[int, int]:
    """The lowest and the highest place that a slice takes."""
    last = start + (extent - 1) * step
    return (start, last) if step > 0 else (last, start)


def _check_slice_of_concat(m: Match) -> Fail | None:
    return Fail("it takes elements of several operands") if _part_of(m) is None else None


def _slice_of_concat(m: Match) -> None:
    op, part, concat = m.op(Slice), _part_of(m), m.op(Concat, "concat")
    assert part is not None
    starts = tuple(s - part[1] if a == concat.axis else s for a, s in enumerate(op.starts))
    m.root.op = replace(op, starts=starts)
    m.r.rewire(m.root, [part[0]])


def _check_slice_of_pad(m: Match) -> Fail | None:
    op, pad, x = m.op(Slice), m.op(Pad, "pad"), m.values["x"]
    for start, step, extent, begin, inside in zip(
        op.starts, op.steps, op.extents, pad.pads[: len(x.shape)], x.shape, strict=True
    ):
        low, high = _ends(start, step, extent)
        if low < begin or not is_on_axis(begin + inside, high, op.extents):
            return Fail("it takes some of the padding")
    return None


def _slice_of_pad(m: Match) -> None:
    op, pad = m.op(Slice), m.op(Pad, "pad")
    m.root.op = replace(op, starts=tuple(s - b for s, b in zip(op.starts, pad.pads, strict=False)))
    m.r.rewire(m.root, [m.values["x"]])


def _check_pad_of_pad(m: Match) -> Fail | None:
    inner, outer = m.op(Pad, "inner"), m.op(Pad)
    if (inner.mode, outer.mode) != ("constant", "constant") or repr(inner.value) != repr(outer.value):
        return Fail("they pad with different things")
    return None if m.r.is_private(m.nodes["inner"].result) else Fail("the inner one is needed elsewhere")


def _pad_of_pad(m: Match) -> None:
    inner, outer = m.op(Pad, "inner"), m.op(Pad)
    m.root.op = replace(outer, pads=tuple(a + b for a, b in zip(inner.pads, outer.pads, strict=True)))
    _absorb(m, "inner", [m.values["x"]])


# -- transposes ----------------------------------------------------------------------------------------------
def _check_transpose_of_concat(m: Match) -> Fail | None:
    op, concat = m.op(Transpose), m.nodes["concat"]
    if not m.r.is_private(concat.result):
        return Fail("the joined tensor is needed elsewhere")
    for v in concat.operands:
        kept = [p for p in op.perm if v is not None and v.shape[p] != 1]
        if kept != sorted(kept):
            return Fail("an operand would have to be transposed itself")
    return None


def _transpose_of_concat(m: Match) -> None:
    op, concat = m.op(Transpose), m.nodes["concat"]
    parts: list[Value | None] = []
    for v in concat.operands:
        assert v is not None
        shape = tuple(v.shape[p] for p in op.perm)
        parts.append(m.r.insert(m.root, Reshape(shape), [v], f"{v.name}.turned"))
    m.root.op = Concat(op.perm.index(m.op(Concat, "concat").axis))
    _absorb(m, "concat", parts)


def _swaps_last(op: Transpose) -> bool:
    rank = len(op.perm)
    return op.perm == (*range(rank - 2), rank - 1, rank - 2)


def _check_operand(index: int, m: Match) -> Fail | None:
    transpose, node = m.op(Transpose, "transpose"), m.root
    if not _swaps_last(transpose):
        return Fail("the transpose moves other axes than the last two")
    extras = ex.variables(node.pre[index]) - {ex.ACC} if index in node.pre else set()
    return Fail("an operand of the prologue has the shape after the transpose") if extras else None


def _turn_operand(index: int, m: Match) -> None:
    op = m.op(MatMul)
    m.root.op = replace(op, trans_a=not op.trans_a) if index == 0 else replace(op, trans_b=not op.trans_b)
    operands = list(m.root.operands)
    operands[index] = m.values["x"]
    _absorb(m, "transpose", operands)


def _check_transposed_product(m: Match) -> Fail | None:
    op, product = m.op(Transpose), m.nodes["product"]
    if not _swaps_last(op):
        return Fail("the transpose moves other axes than the last two")
    if not m.r.is_private(product.result):
        return Fail("the product is needed elsewhere")
    if product.operands[1] in m.r.graph.constants:
        return Fail("its weights would become the first operand")
    return None


def _transposed_product(m: Match) -> None:
    product = m.op(MatMul, "product")
    m.root.op = MatMul(not product.trans_b, not product.trans_a)
    _absorb(m, "product", m.nodes["product"].operands[::-1])


def _check_turned_rows(m: Match) -> Fail | None:
    outer, inner, rows = m.op(Transpose), m.op(Transpose, "transpose"), m.nodes["rows"]
    if [inner.perm[p] for p in outer.perm] != sorted(inner.perm):
        return Fail("the transposes do not undo each other")
    if any(sum(e != 1 for e in v.shape) > 1 for v in rows.extras):
        return Fail("an operand beside it would have to be transposed itself")
    return None if m.r.is_private(rows.result) else Fail("what is between them is needed elsewhere")


def _check_turned_normalisation(m: Match) -> Fail | None:
    norm, perm, x = m.op(Normalize, "rows"), m.op(Transpose, "transpose").perm, m.nodes["rows"].operands[0]
    assert x is not None
    turned = [perm[a] for a in sorted(norm.axes) if x.shape[a] != 1]
    another = None if turned == sorted(turned) else Fail("its sums would be taken in another order")
    return _check_turned_rows(m) or another


def _turned_softmax(m: Match) -> None:
    soft = m.op(Softmax, "rows")
    _read_unturned(m, replace(soft, axis=m.op(Transpose, "transpose").perm[soft.axis]))


def _turned_normalisation(m: Match) -> None:
    norm, perm = m.op(Normalize, "rows"), m.op(Transpose, "transpose").perm
    _read_unturned(m, replace(norm, axes=tuple(sorted(perm[a] for a in norm.axes))))


def _read_unturned(m: Match, op: Op) -> None:
    """Let the root be the node between two transposes; what lies beside it has one long axis, which moves along."""
    rows, back = m.nodes["rows"], m.op(Transpose).perm
    extras: list[Value] = []
    for v in rows.extras:
        shape = (*(1,) * (len(back) - len(v.shape)), *v.shape)
        turned = tuple(shape[p] for p in back)
        extras.append(v if turned == shape else m.r.insert(m.root, Reshape(turned), [v], f"{v.name}.turned"))
    m.root.op, m.root.pre, m.root.post = op, dict(rows.pre), dict(rows.post)
    m.r.rewire(m.root, [m.values["x"]], extras)
    m.root.origins = tuple(dict.fromkeys(rows.origins + m.root.origins))


# -- spreads -------------------------------------------------------------------------------------------------
def _broadcasts(node: Node, old: Value, new: Value) -> bool:
    """True if a node goes through the same loops reading ``new`` in place of ``old``. A convolution does not, where
    the taps of its window, or the places that it moves over, are the axis that was expanded, though the shape of its
    result may be the same."""
    if node.op.elementwise is not None:
        return _same_loops(node, old, new)
    return is_product(node.op) and not node.pre and _same_loops(node, old, new) and all(
        _follows(nest, i, old, new)
        for nest in node.op.structure(node.operand_types()) for i, v in enumerate(node.operands) if v is old
    )  # fmt: skip


def _same_loops(node: Node, old: Value, new: Value) -> bool:
    trial = replace(node, operands=[new if v is old else v for v in node.operands])
    try:
        same = [t.shape for t in trial.infer()] == [r.shape for r in node.results]  # before its loops are asked for
        loops = [n.loops for n in trial.op.structure(trial.operand_types())]
    except (TypeRuleError, ValueError):
        return False
    return same and loops == [n.loops for n in node.op.structure(node.operand_types())] != []


def _follows(nest: Nest, i: int, old: Value, new: Value) -> bool:
    """Whether each axis of operand i that was expanded goes with a loop, element by element: it is never beside."""
    before = (*(1,) * (len(old.shape) - len(new.shape)), *new.shape)
    expanded = [a for a, (e, given) in enumerate(zip(old.shape, before, strict=True)) if e != given]
    reads = nest.reads[i] or ()
    return all(_is_loop(reads[a]) for a in expanded)


def _is_loop(at: Affine | None) -> bool:
    return at is not None and at.const == 0 and [c for c in at.coefs if c] == [1]


def _expand_readers(m: Match) -> list[Node]:
    old, new = m.root.result, m.values["x"]
    return [u for u in m.r.users(old) if old not in u.extras and _broadcasts(u, old, new)]


def _check_expand(m: Match) -> Fail | None:
    return None if _expand_readers(m) else Fail("no reader broadcasts it")


def _bypass_expand(m: Match) -> None:
    old, new = m.root.result, m.values["x"]
    for user in _expand_readers(m):
        m.r.rewire(user, [new if v is old else v for v in user.operands])
    if not m.r.users(old) and not m.r.is_output(old):
        m.r.erase(m.root)


def _spread_axes(m: Match) -> tuple[int, ...]:
    """The axes that are reduced over copies of one element."""
    shape, x = m.op(Expand, "expand").shape, m.values["x"]
    before = (*(1,) * (len(shape) - len(x.shape)), *x.shape)
    return tuple(a for a in m.op(Reduce).axes if before[a] == 1 and shape[a] != 1)


def _check_reduced_spread(m: Match) -> Fail | None:
    shape, spread = m.op(Expand, "expand").shape, _spread_axes(m)
    if not m.op(Reduce).selects or not spread:
        return Fail("")
    return Fail("there may be no copy at all") if may_be_none(shape[a] for a in spread) else None


def _reduce_before_it_is_spread(m: Match) -> None:
    op, x, shape = m.op(Reduce), m.values["x"], m.root.result.shape
    shift = len(shape) - len(x.shape)
    axes = tuple(a - shift for a in op.axes if a not in _spread_axes(m) and a >= shift)
    if axes:
        x = m.r.insert(m.root, replace(op, axes=axes), [x], f"{m.root.result.name}.once")
    same = m.root.result.type.count == x.type.count
    m.root.op = Reshape(shape) if same else Expand(shape)
    _absorb(m, "expand", [x])


# -- what is not needed --------------------------------------------------------------------------------------
def _long_axes(m: Match) -> tuple[int, ...]:
    x = m.root.operands[0]
    return tuple(a for a in m.op(Reduce).axes if x is not None and x.shape[a] != 1)


def _check_reduce(m: Match) -> Fail | None:
    op, node = m.op(Reduce), m.root
    if _long_axes(m) == op.axes:
        return Fail("")
    if not _long_axes(m) and node.result.dtype.name == "f16":
        return Fail("its result is rounded to f16")
    return None


def _shorten_reduce(m: Match) -> None:
    op, node = m.op(Reduce), m.root
    if _long_axes(m):
        node.op = replace(op, axes=_long_axes(m))
        return
    (x,) = node.operands
    assert x is not None
    inner, outer = (table.get(0, ex.acc(x.dtype)) for table in (node.pre, node.post))
    body = ex.substitute(outer, lambda v: inner if v.index == ex.ACC else v)
    read = sorted(ex.variables(body) - {ex.ACC})
    at = {ex.ACC: 0, **{old: new + 1 for new, old in enumerate(read)}}
    operands = [x, *(node.extras[i] for i in read)]
    node.op = Map(ex.substitute(body, lambda v: ex.var(at[v.index], v.dtype)))
    node.pre, node.post = {}, {}
    m.r.rewire(node, operands, [])


def _used(m: Match) -> list[int]:
    return [i for i, v in enumerate(m.root.results) if m.r.users(v) or m.r.is_output(v)]


def _check_results(m: Match) -> Fail | None:
    used = _used(m)
    return Fail("") if len(used) in (0, len(m.root.results)) else None


def _drop_results(m: Match) -> None:
    op, used = m.op(Recurrent), _used(m)
    m.root.op = replace(op, outputs=tuple(op.outputs[i] for i in used))
    m.root.post = {new: m.root.post[old] for new, old in enumerate(used) if old in m.root.post}
    m.r.set_results(m.root, [m.root.results[i] for i in used])


def _check_split(m: Match) -> Fail | None:
    return None if len(_used(m)) == 1 < len(m.root.results) else Fail("")


def _split_to_slice(m: Match) -> None:
    op, (index,) = m.op(Split), _used(m)
    result, rank = m.root.results[index], len(m.root.results[index].shape)
    starts = tuple(sum(op.sizes[:index]) if a == op.axis else 0 for a in range(rank))
    m.root.op = Slice(starts, (1,) * rank, result.shape)
    m.r.set_results(m.root, [result])


def _check_whole_concat(m: Match) -> Fail | None:
    """The results of one split, all and in order."""
    split = m.r.producer(m.root.operands[0])
    if split is None or not isinstance(split.op, Split) or split.results != m.root.operands:
        return Fail("")
    same = split.operands[0] is not None and split.operands[0].type == m.root.result.type
    return None if same else Fail("the parts were cut along another axis")


def _whole_concat(m: Match) -> None:
    split = m.r.producer(m.root.operands[0])
    assert split is not None
    m.root.op = Reshape(m.root.result.shape)
    m.r.rewire(m.root, split.operands)


_X = Any("x")
_CONCAT = Is(Concat, None, "concat")
_TURNED = Is(Transpose, (_X,), "transpose")
RULES = (
    Rule(
        "took from an operand of a concat",
        Is(Slice, (_CONCAT,), "slice"), _check_slice_of_concat, _slice_of_concat,
    ),
    Rule("took from under a pad", Is(Slice, (Is(Pad, (_X,), "pad"),), "slice"), _check_slice_of_pad, _slice_of_pad),
    Rule("padded once", Is(Pad, (Is(Pad, (_X,), "inner"),), "pad"), _check_pad_of_pad, _pad_of_pad),
    Rule(
        "joined along another axis",
        Is(Transpose, (_CONCAT,), "transpose"), _check_transpose_of_concat, _transpose_of_concat,
    ),
    Rule(
        "read the first operand transposed", Is(MatMul, (_TURNED, Any("b")), "product", plain=False),
        lambda m: _check_operand(0, m), lambda m: _turn_operand(0, m),
    ),
    Rule(
        "read the second operand transposed", Is(MatMul, (Any("a"), _TURNED), "product", plain=False),
        lambda m: _check_operand(1, m), lambda m: _turn_operand(1, m),
    ),
    Rule(
        "exchanged the operands of a product",
        Is(Transpose, (Is(MatMul, None, "product"),), "transpose"), _check_transposed_product, _transposed_product,
    ),
    Rule(
        "took the softmax along another axis", Is(Transpose, (Is(Softmax, (_TURNED,), "rows"),), "back"),
        _check_turned_rows, _turned_softmax,
    ),
    Rule(
        "normalised along other axes",
        Is(Transpose, (Is(Normalize, (_TURNED,), "rows", plain=False),), "back"),
        _check_turned_normalisation, _turned_normalisation,
    ),
    Rule("let the readers broadcast", Is(Expand, (_X,), "expand"), _check_expand, _bypass_expand),
    Rule(
        "reduced what is spread before it is",
        Is(Reduce, (Is(Expand, (_X,), "expand"),), "reduce"), _check_reduced_spread, _reduce_before_it_is_spread,
    ),
    Rule("left axes of extent 1", Is(Reduce, None, "reduce", plain=False), _check_reduce, _shorten_reduce),
    Rule("dropped results", Is(Recurrent, None, "cell", plain=False), _check_results, _drop_results),
    Rule("cut one part", Is(Split, (_X,), "split"), _check_split, _split_to_slice),
    Rule("joined what was split", _CONCAT, _check_whole_concat, _whole_concat),
)  # fmt: skip
