"""Finds the keys that queries of attention read at all, where masks that are known hide all others.

Worked example: a causal mask of 64 queries and keys has -inf above its diagonal, of which the softmax makes 0, and 0
elsewhere. Half of the scores, and of the products with values, need not be computed, and nothing is left to add::

    %m = const : f32[64,64]                                                  0, or -inf above the diagonal
    %y = attention(%q, %k, %v, %m) {score={((x0 * 0.5) + x3)}}

    %y = attention(%q, %k, %v) {score={(x0 * 0.5)}, band=(-63, 0)}

A key is hidden from a query if its score is -inf, or so far below that of another key that the softmax makes 0 of it,
whatever their products are. What a mask leaves within the band stays an operand, as long as it is not one number.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.ranges import Range, anything, constant, of_expression
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL
from mccompile.ops.attention import FIRST_MASK, Attention, in_band, keys_in_band
from mccompile.ops.map import Map
from mccompile.passes.clean.expression_rules import simplify
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Is, is_plain, matches
from mccompile.passes.rewrite.rewriter import Rewriter

ROUNDS = True
_ATTENTION = Is(Attention, None, "attention", plain=False)
_MAP = Is(Map, None, "map")
PRODUCTS = 2.0**20
"""No product of a query and a key is larger: one of a million outdoes every other key, and so it does with 10,000
taken off. What is hidden by -1e9, or the least number of f32, is hidden from such products, too."""
FAR = 110.0
"""By how much a score may be less than the largest one: of e to the power of -104 f32 makes 0."""
QUERIES = 16
"""Of fewer queries a tile reads all keys that any of them reads: nearly all there are."""
LEFT = 7 / 8
"""Of more keys than these nothing is gained."""
MAX_ELEMENTS = 1 << 25
"""Of a mask that is computed for this: half a second."""
CHUNK = 1 << 18
"""Scores that are looked at together."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Let queries of attention read those keys alone that known masks do not hide from them. May change rounding."""
    r = Rewriter(graph)
    found: dict[Hashable, _Shown | str] = {}
    changes = 0
    masks = _Masks(r)
    for node in r.nodes():
        attention = next(matches(_ATTENTION, r, node), None)
        if attention is None or len(node.operands) == FIRST_MASK:
            continue
        op, what = attention.op(Attention), f"left out keys that masks hide: {node.where}"
        key = (op, node.result.shape, *node.operands[FIRST_MASK:])
        seen = found.get(key)
        if seen is None:
            seen = found[key] = _shown(node, op, masks)
        if isinstance(seen, str):
            remarks.miss(what, seen)
            continue
        kept = sorted({i for body in seen.bodies for i in ex.variables(body) if i >= FIRST_MASK})
        places = {old: FIRST_MASK + new for new, old in enumerate(kept)}

        def moved(v: ex.Var, places: dict[int, int] = places) -> ex.Expr:
            return ex.var(places.get(v.index, v.index), v.dtype)

        score, *weights = (ex.substitute(body, moved) for body in seen.bodies)
        weight = weights[0] if weights and weights[0] != ex.var(0, weights[0].dtype) else None
        node.op = Attention(score, op.trans_q, op.trans_k, op.trans_v, weight, seen.band)
        r.rewire(node, [*node.operands[:FIRST_MASK], *(node.operands[i] for i in kept)])
        remarks.hit(what)
        changes += 1
    r.finish()
    return changes


@dataclass(frozen=True)
class _Shown:
    """The band that an attention reads, and its bodies where they are of numbers instead of masks."""

    band: tuple[int, int]
    bodies: tuple[ex.Expr, ...]


class _Masks:
    """What elements of masks may be: those of constants, and of what is computed of these."""

    def __init__(self, r: Rewriter) -> None:
        self._r = r
        self._arrays: dict[Value, Array | None] = {}

    def array(self, value: Value) -> Array | None:
        """The elements of a value that depends on constants alone; None if it does not, or has too many."""
        if value not in self._arrays:
            self._arrays[value] = self._computed(value)
        return self._arrays[value]

    def _computed(self, value: Value) -> Array | None:
        if value in self._r.graph.constants:
            return self._r.graph.array(value)
        node = self._r.producer(value)
        if node is None or node.varies or node.regions or not node.evaluates or value.type.count > MAX_ELEMENTS:
            return None
        arrays = {v: self.array(v) for v in node.inputs}
        known = {v: a for v, a in arrays.items() if a is not None}
        if len(known) < len(arrays):
            return None
        return dict(zip(node.results, node.evaluate(known), strict=True))[value]

    def known(self, value: Value) -> bool:
        """Whether anything is known of its elements."""
        return self.array(value) is not None or any(self.known(v) for v in self._mapped(value))

    def _mapped(self, value: Value) -> list[Value]:
        """What a value is computed of, element by element."""
        node = self._r.producer(value)
        if node is None or next(matches(_MAP, self._r, node), None) is None or not is_plain(node):
            return []
        return node.inputs

    def ends(self, value: Value, shape: tuple[int, ...], rows: slice) -> Range:
        """What the elements are that ``rows`` of scores of a ``shape`` are made of, one after the other."""
        array = self.array(value)
        if array is not None:
            part = np.broadcast_to(array, shape)[..., rows, :].astype(np.float64).reshape(-1)
            missing = np.isnan(part)
            return Range(np.where(missing, -np.inf, part), np.where(missing, np.inf, part))
        node = self._r.producer(value)
        if node is None or not self._mapped(value):
            return _unknown(value)
        operands = node.operands
        body = node.op.elementwise
        assert body is not None

        def variable(index: int) -> Range:
            operand = operands[index]
            assert operand is not None
            return self.ends(operand, shape, rows)

        return of_expression(body, variable)


def _unknown(value: Value) -> Range:
    """What may be added to scores by who is not known: no NaN, and nothing that makes one NaN of -inf."""
    if not value.dtype.is_float:
        return constant(0, 1) if value.dtype == BOOL else anything(value.dtype)
    return constant(-math.inf, float(np.finfo(value.dtype.numpy.name).max))


def _shown(node: Node, op: Attention, masks: _Masks) -> _Shown | str:
    """What the masks of an attention show; the reason if they show nearly everything."""
    k, result = node.operands[1], node.result
    assert k is not None
    queries, keys = result.shape[-2], k.shape[-2 if op.trans_k else -1]
    named = {i: v for i, v in enumerate(node.operands) if i >= FIRST_MASK and v is not None}
    if op.band or varies((*result.shape, keys)) or queries < QUERIES:
        return "a band is known, extents are not, or there are few queries"
    if any(i in node.pre for i in named) or not any(map(masks.known, named.values())):
        return "no mask is known"
    shape = np.broadcast_shapes((queries, keys), *(v.shape for v in named.values() if masks.known(v)))
    shape = tuple(int(e) for e in shape)
    if math.prod(shape) > MAX_ELEMENTS:
        return "there are too many scores to look at each"
    visible = np.zeros((queries, keys), bool)
    for rows in _chunks(shape):
        visible[rows] = _visible(op, named, masks, shape, rows).any(tuple(range(len(shape) - 2)))
    if not visible.any(1).all():
        return "a query reads no key at all"
    row, column = np.nonzero(visible)
    band = (int((column - row).min()), int((column - row).max()))
    if keys_in_band(band, queries, keys) > LEFT * queries * keys:
        return "queries read nearly all keys, as far as is known"
    return _Shown(band, _bodies(op, named, masks, band, shape))


def _chunks(shape: tuple[int, ...]) -> Iterator[slice]:
    """The rows of scores, so many at a time."""
    step = max(CHUNK * shape[-2] // math.prod(shape), 1)
    return (slice(at, min(at + step, shape[-2])) for at in range(0, shape[-2], step))


def _visible(
    op: Attention, named: dict[int, Value], masks: _Masks, shape: tuple[int, ...], rows: slice
) -> Array:
    """Whether keys may count, for some rows of scores."""
    part = (*shape[:-2], rows.stop - rows.start, shape[-1])
    ends = {i: masks.ends(v, shape, rows) for i, v in named.items()}

    def whole(found: Range) -> tuple[Array, Array]:
        count = math.prod(part)
        return tuple(np.broadcast_to(e, count).reshape(part) for e in (found.low, found.high))  # type: ignore[return-value]

    low, high = whole(of_expression(op.score, lambda i: ends[i] if i else constant(-PRODUCTS, PRODUCTS)))
    with np.errstate(invalid="ignore"):
        hidden = (high == -np.inf) | (high < low.max(axis=-1, keepdims=True) - FAR)
    if op.weight is not None:
        least, most = whole(of_expression(op.weight, lambda i: ends[i] if i else constant(0, 0)))
        hidden &= (least == 0) & (most == 0)
    return np.asarray(~hidden)


def _bodies(
    op: Attention, named: dict[int, Value], masks: _Masks, band: tuple[int, int], shape: tuple[int, ...]
) -> tuple[ex.Expr, ...]:
    """The bodies with numbers in place of masks that are one number within the band."""
    read = in_band(band, *shape[-2:])
    numbers: dict[int, float] = {}
    for i, value in named.items():
        array = masks.array(value)
        if array is not None:
            inside = np.broadcast_to(array, shape)[..., read]
            if (inside == inside.flat[0]).all():
                numbers[i] = inside.flat[0].item()

    def known(v: ex.Var) -> ex.Expr:
        return ex.num(numbers[v.index], v.dtype) if v.index in numbers else v

    return tuple(_without_zeros(simplify(ex.substitute(body, known))) for body in op.bodies)


def _without_zeros(e: ex.Expr) -> ex.Expr:
    """A sum without 0 among its terms: the same but for the sign of a zero, which no softmax tells."""
    match e:
        case ex.Apply(fn="add", operands=(a, b)):
            terms = [_without_zeros(t) for t in (a, b) if not (isinstance(t, ex.Num) and t.value == 0)]
            return ex.apply("add", *terms) if len(terms) == 2 else terms[0] if terms else a
    return e
