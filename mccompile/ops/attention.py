"""Scaled dot-product attention: a product, scores that are scaled and masked, their softmax, another product."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Coordinates, Nest, Structure, axis_loops, broadcast
from mccompile.ir.types import TensorType, broadcast_shapes
from mccompile.ops.matmul import MatMul
from mccompile.ops.softmax import Softmax

FIRST_MASK = 3
"""The operand with which the masks begin, behind queries, keys and values."""


@dataclass(frozen=True)
class Attention(Op):
    """Operands q[..., M, D], k[..., D, N], v[..., N, E] and masks; the result [..., M, E] is softmax(s) v.

    The scores s[..., M, N] are ``score``, an expression in which x0 stands for the product q k, and x3, x4 ... for
    the masks, which broadcast to it. ``weight``, if there is one, is what the softmax (its x0) becomes before it
    weighs the values. ``trans_q``, ``trans_k`` and ``trans_v`` say that the last two axes of an operand come the
    other way round.

    With ``band`` (low, high) query i reads keys from i + low to i + high alone, those that there are, as if all other
    scores were -inf: (-7, 0) are eight keys up to its own, (1 - M, N - M) what causal masks of M queries show.
    """

    name = "attention"
    kind = Kind.COMPLEX

    score: ex.Expr
    trans_q: bool = False
    trans_k: bool = False
    trans_v: bool = False
    weight: ex.Expr | None = None
    band: tuple[int, ...] = ()

    @property
    def makes_products(self) -> bool:
        return True

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        known = [t for t in types if t is not None]
        if len(known) != len(types) or len(types) < FIRST_MASK:
            raise TypeRuleError("queries, keys and values are needed")
        q, k, v, *masks = known
        (scores,) = self._first.infer(q, k)
        bodies = self.bodies
        if not q.dtype.is_float or any(b.dtype != q.dtype or 0 not in ex.variables(b) for b in bodies):
            raise TypeRuleError(f"scores and weights must be of {q.dtype} and read the product and the softmax")
        if set().union(*map(ex.variables, bodies)) != {0, *range(FIRST_MASK, len(types))}:
            raise TypeRuleError("scores or weights must read each of the masks")
        if self.band and (len(self.band) != 2 or self.band[0] > self.band[1]):
            raise TypeRuleError(f"a band {self.band} is no pair of a lowest and a highest number")
        for m in masks:
            if m.rank > scores.rank or broadcast_shapes(scores.shape, m.shape) != scores.shape:
                raise TypeRuleError(f"a mask {m} does not broadcast to scores {scores}")
        return self._second.infer(scores, v)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Each row of queries weighs all values by all keys."""
        q, k, v, *masks = types
        (y,) = self.infer(*types)
        n, lead = y.rank, y.rank - 2
        row, column = axis_loops(2, n, lead)
        lasts: list[Coordinates] = [(row, None), (None, None), (None, column)]
        turned = self.trans_q, self.trans_k, self.trans_v
        reads: list[Coordinates] = []
        for t, last, swap in zip((q, k, v), lasts, turned, strict=True):
            assert t is not None
            reads.append((*broadcast(t.shape[:-2], lead, n), *(last[::-1] if swap else last)))
        for m in masks:
            assert m is not None
            own = broadcast(m.shape, n, n)
            reads.append((*own[:-1], None) if own else ())
        return (Nest(y.shape, axis_loops(n, n), tuple(reads)),)

    def with_pads(self, axis: int, before: int, after: int) -> Op | None:
        """A band counts from the first query: on a part of them it would be another one."""
        return None if self.band else super().with_pads(axis, before, after)

    @property
    def bodies(self) -> tuple[ex.Expr, ...]:
        """The expressions over a product or softmax and the masks."""
        return (self.score,) if self.weight is None else (self.score, self.weight)

    @property
    def _first(self) -> MatMul:
        return MatMul(self.trans_q, self.trans_k)

    @property
    def _second(self) -> MatMul:
        return MatMul(False, self.trans_v)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        return self._evaluate(arrays, any(a is not None and a.dtype == np.float64 for a in arrays))

    def evaluate_wide(self, *arrays: Array | None) -> tuple[Array, ...]:
        return self._evaluate(arrays, True)

    def _evaluate(self, arrays: Sequence[Array | None], wide: bool) -> tuple[Array, ...]:
        q, k, v, *_ = known = [np.asarray(a) for a in arrays]

        def applied(body: ex.Expr, first: Array) -> Array:
            return ex.evaluate(body, lambda i: first if i == 0 else known[i], wide)

        scores = applied(self.score, *self._first.evaluate(q, k))
        if self.band:
            scores = np.where(in_band(self.band, *scores.shape[-2:]), scores, scores.dtype.type(-np.inf))
        with np.errstate(invalid="ignore"):  # a row that is masked altogether is NaN
            (weights,) = Softmax(scores.ndim - 1).evaluate(scores)
        return self._second.evaluate(weights if self.weight is None else applied(self.weight, weights), v)

    def macs(self, types: Sequence[TensorType | None], results: Sequence[TensorType]) -> int:
        q, k = types[:2]
        assert q is not None
        assert k is not None
        (scores,) = self._first.infer(q, k)
        total = self._first.macs(types[:2], [scores]) + self._second.macs([scores], results)
        if not self.band:
            return total
        queries, keys = scores.shape[-2:]
        return total * keys_in_band(self.band, queries, keys) // (queries * keys)


def in_band(band: Sequence[int], queries: int, keys: int) -> Array:
    """Which keys each query reads, bool [queries, keys].

    >>> in_band((-1, 0), 3, 4).astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0]]
    """
    apart = np.arange(keys) - np.arange(queries)[:, None]
    return np.asarray((band[0] <= apart) & (apart <= band[1]))


def keys_in_band(band: Sequence[int], queries: int, keys: int) -> int:
    """How many pairs of a query and a key that it reads there are: 5 in the example of `in_band`."""
    rows = np.arange(queries)
    ends = np.minimum(rows + band[1] + 1, keys)
    return int(np.maximum(ends - np.maximum(rows + band[0], 0), 0).sum())
