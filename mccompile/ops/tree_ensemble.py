"""`tree_ensemble`: decision trees as one table of nodes, walked without branches.

A node is two words, the split and a link; the two children of a node are neighbours. Floats are compared as integers
of the same order and size (`sortable`), so that a step is

    slot, distance = link % 2^bits, link / 2^bits;        node += distance + (key[slot] > split)

A leaf's distance is 0, and its slot holds a key below all others: it stays where it is, however often it is asked.

>>> sortable(np.array([-1.5, -0.0, 0.0, 2.0], np.float32)).tolist()
[-1069547520, 0, 0, 1073741824]
>>> sortable(np.array([2.0**-1074, 0.0])).tolist()
[1, 0]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import F32, F64, I32, I64, DType, TensorType, dtype_of

WORDS: Mapping[DType, DType] = {F32: I32, F64: I64}
"""What the words of nodes are, by what is compared."""
MODES = ("sum", "min", "max")


def highest(word: DType) -> int:
    """The key of NaN, beyond those of all numbers."""
    return -lowest(word) - 1


def lowest(word: DType) -> int:
    """The key of leaves, and of NaN where it is to be below all numbers."""
    return -(1 << 8 * word.nbytes - 1)


def sortable(x: Array) -> Array:
    """Integers in the order of floats, f32 or f64, and as long; both zeros are 0, NaN is the largest."""
    word = WORDS[dtype_of(x)]
    bits, beyond = np.ascontiguousarray(x).view(word.numpy), word.numpy.type(highest(word))
    keys = np.where(bits < 0, -(bits & beyond), bits)
    return np.where(np.isnan(x), beyond, keys)


@dataclass(frozen=True)
class TreeEnsemble(Op):
    """Operands x[N, F]; nodes [.., 2]; trees i32[.., 2]; groups i32[targets + 1]; weights; tests [.., 3].

    x, weights and the result are f32 or f64, nodes and tests integers as long (`WORDS`). Keys are those of x, with
    ``missing_low`` once more with NaN below all numbers; then one for each group of tests (slot, feature, key), which
    is whether the feature has one of the keys; then `lowest`, the key of leaves. A tree is its first node and its
    depth. Without weights, the first word of a leaf is a float, and the trees of target t are those from groups[t] to
    groups[t + 1]. With weights[rows * targets], it is where a row begins, and all trees are of all targets. ``mode``
    combines what trees give to a target: result [N, targets].
    """

    name = "tree_ensemble"
    kind = Kind.COMPLEX

    mode: str
    targets: int
    bits: int
    slots: int
    missing_low: bool = False

    @property
    def decides(self) -> bool:
        return True

    @property
    def trusted(self) -> tuple[int, ...]:
        return (1, 2, 3, 5)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (y,) = self.infer(*types)
        own = axis_loops(2, 2)
        reads = [(own[0], None), *(None if t is None else (None,) * t.rank for t in types[1:])]
        return (Nest(y.shape, own, tuple(reads)),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, nodes, trees, groups, weights, tests = types
        assert x is not None
        assert nodes is not None
        assert trees is not None
        assert groups is not None
        if x.rank != 2 or x.dtype not in WORDS or self.mode not in MODES or self.targets < 1:
            raise TypeRuleError(f"trees of {x} by {self.mode}: rows of f32 or f64 are needed")
        word = WORDS[x.dtype]
        tables = [(nodes, word, 2), (trees, I32, 2), (tests, word, 3)]
        if any(t is not None and (t.dtype != of or t.shape[1:] != (width,)) for t, of, width in tables):
            raise TypeRuleError(f"{nodes}, {trees} or {tests} are no tables of nodes, trees and tests")
        if groups != TensorType(I32, (self.targets + 1,)) or (weights is not None and weights.dtype != x.dtype):
            raise TypeRuleError(f"groups {groups} or weights {weights} do not fit {self.targets} targets")
        most = 2**self.bits if 0 <= self.bits < 32 else 0
        if not x.shape[1] * (1 + self.missing_low) < self.slots <= most:
            raise TypeRuleError(f"{self.slots} keys are too few, or too many for {self.bits} bits")
        return (TensorType(x.dtype, (x.shape[0], self.targets)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, nodes, trees, groups, weights, tests = arrays
        assert x is not None
        assert nodes is not None
        assert trees is not None
        assert groups is not None
        x = np.asarray(x, np.dtype(f"f{nodes.dtype.itemsize}"))  # f32 may be evaluated in f64
        keys = self._keys(x, tests)
        at = np.tile(trees[:, 0].astype(np.int64), (len(x), 1))
        link = nodes[:, 1].astype(np.int64) & 0xFFFFFFFF
        for _ in range(int(trees[:, 1].max(initial=0))):
            slot = link[at] % 2**self.bits
            at += (link[at] >> self.bits) + (np.take_along_axis(keys, slot, 1) > nodes[at, 0])
        leaves = np.ascontiguousarray(nodes[at, 0])
        if weights is not None:
            rows = np.asarray(weights).reshape(-1)[leaves[:, :, None] + np.arange(self.targets)]
            return (self._combined(rows),)
        given = leaves.view(x.dtype)
        found = [self._combined(given[:, groups[t] : groups[t + 1]]) for t in range(self.targets)]
        return (np.stack(found, 1),)

    def _keys(self, x: Array, tests: Array | None) -> Array:
        """[N, slots]."""
        n, features = x.shape
        plain = sortable(x)
        keys, least = np.zeros((n, self.slots), plain.dtype), lowest(dtype_of(plain))
        keys[:, :features] = plain
        if self.missing_low:
            keys[:, features : 2 * features] = np.where(np.isnan(x), plain.dtype.type(least), plain)
        for slot, feature, key in () if tests is None else tests:
            keys[:, slot] |= plain[:, feature] == key
        keys[:, -1] = least
        return keys

    def _combined(self, given: Array) -> Array:
        """What trees, along axis 1, give together: 0 where there is no tree, or none that has the target."""
        if self.mode == "sum":
            return np.asarray(given.sum(1, dtype=given.dtype))
        none = given.dtype.type(np.inf if self.mode == "min" else -np.inf)
        best = (np.min if self.mode == "min" else np.max)(given, axis=1, initial=none)
        return np.asarray(np.where(best == none, given.dtype.type(0), best))
