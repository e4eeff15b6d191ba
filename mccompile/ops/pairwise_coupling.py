"""Probabilities of classes from those of each class against each other, as support vector machines have them.

Wu, Lin and Weng, Probability estimates for multi-class classification by pairwise coupling (2004), method 2: the p
that is nearest to all r[i, j] = p[i] / (p[i] + p[j]), by turns over its elements until none would move much.

Three classes, of which 0 wins with 0.8 against 1 and against 2, and these are even:

>>> [f"{p:.2f}" for p in PairwiseCoupling(3).evaluate(np.float32([[0.8, 0.8, 0.5]]))[0][0]]
['0.66', '0.17', '0.17']
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import F32, TensorType


def pairs(classes: int) -> list[tuple[int, int]]:
    """The two classes of each column: 0 against 1, 0 against 2, ..., 1 against 2, ..."""
    return [(i, j) for i in range(classes) for j in range(i + 1, classes)]


@dataclass(frozen=True)
class PairwiseCoupling(Op):
    """Operand r[n, pairs], between 0 and 1 and neither; result p[n, classes], which sum up to 1."""

    name = "pairwise_coupling"
    kind = Kind.OPAQUE

    classes: int

    @property
    def most_turns(self) -> int:
        """Those of libsvm, as is `least`, so that both end after the same turn."""
        return max(100, self.classes)

    @property
    def least(self) -> float:
        """The error at which the turns end."""
        return 0.005 / self.classes

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        r = types[0]
        assert r is not None
        return over_axes(r, (1,), self.infer(r))

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        r = types[0]
        assert r is not None
        if r.rank != 2 or r.dtype != F32 or r.shape[1] != self.classes * (self.classes - 1) // 2:
            raise TypeRuleError(f"{r} is not [rows, pairs of {self.classes} classes] in f32")
        return (TensorType(F32, (r.shape[0], self.classes)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        rows = np.asarray(arrays[0], np.float32)
        return (np.array([self._row(r) for r in rows], np.float32).reshape(len(rows), self.classes),)

    def _row(self, r: Array) -> Array:
        k = self.classes
        against = np.zeros((k, k), np.float32)
        for (i, j), value in zip(pairs(k), r, strict=True):
            against[i, j], against[j, i] = value, 1 - value
        q = np.diag((against**2).sum(axis=0)) - against * against.T
        p = np.full(k, 1 / k, np.float32)
        for _ in range(self.most_turns):
            slopes = q @ p
            total = p @ slopes
            if np.abs(slopes - total).max() < self.least:
                break
            for t in range(k):
                step = (total - slopes[t]) / q[t, t]
                total = (total + step * (step * q[t, t] + 2 * slopes[t])) / (1 + step) ** 2
                slopes = (slopes + step * q[t]) / (1 + step)
                p[t] += step
                p /= 1 + step
        return p
