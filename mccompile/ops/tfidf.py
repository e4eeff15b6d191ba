"""TfIdfVectorizer: how often the n-grams of a list occur in rows of tokens, weighted.

    tokens 1 2 1 2, n-grams [1], [1 2]      [1] occurs twice, and so does [1 2]

Texts are numbered first, by the texts that n-grams have.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.limits import MOST_INDEX
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, I32, I64, TensorType
from mccompile.ops.filled import filled
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.text import TEXT
from mccompile.ops.text_find import emit_find

MODES = ("TF", "IDF", "TFIDF")


@dataclass(frozen=True)
class CountGrams(Op):
    """Operands tokens i64[rows, n]; grams i64[], those of each length in rising order one after the other; places
    i32[], one for each; the result f32[rows, ``places``] is how often each occurs.

    ``counts`` says how many there are of length 1, 2, and so on. The tokens of one stand side by side, or up to
    ``skips`` are left out between any two, as many each time.
    """

    name = "count_grams"

    counts: tuple[int, ...]
    skips: int
    places: int

    @property
    def trusted(self) -> tuple[int, ...]:
        return (2,)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        tokens, grams, places = types
        assert tokens is not None
        whole = sum(length * count for length, count in enumerate(self.counts, 1))
        if tokens.rank != 2 or tokens.dtype != I64 or grams != TensorType(I64, (whole,)):
            raise TypeRuleError(f"{tokens} are no rows of tokens, or {grams} no n-grams {self.counts}")
        if places != TensorType(I32, (sum(self.counts),)):
            raise TypeRuleError(f"{places} are no places of {sum(self.counts)} n-grams")
        return (TensorType(F32, (tokens.shape[0], self.places)),)

    def spans(self) -> list[tuple[int, int, int, int]]:
        """Of each length that occurs: the length, how many n-grams, the first of their tokens, of their places."""
        found, token, place = [], 0, 0
        for length, count in enumerate(self.counts, 1):
            if count:
                found.append((length, count, token, place))
            token, place = token + length * count, place + count
        return found

    def steps(self, length: int) -> int:
        """How far apart at most neighbours of an n-gram of ``length`` stand, in rows of any length."""
        return 1 if length == 1 else min(1 + self.skips, MOST_INDEX)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        tokens, grams, places = (np.asarray(a) for a in arrays)
        found = np.zeros((len(tokens), self.places), np.float32)
        for length, count, first, place in self.spans():
            listed = grams[first : first + length * count].reshape(count, length).tolist()
            known = {tuple(g): int(places[place + i]) for i, g in enumerate(listed)}
            for row, own in enumerate(tokens.tolist()):
                for step in range(1, 1 + min(self.steps(length), len(own))):
                    for i in range(len(own) - step * (length - 1)):
                        at = known.get(tuple(own[i : i + step * (length - 1) + 1 : step]))
                        if at is not None:
                            found[row, at] += 1
        return (found,)


def _convert(n: Import, tokens: Value, pool: Sequence[int]) -> None:
    low, high = n.required("min_gram_length", int), n.required("max_gram_length", int)
    starts, indexes = n.required("ngram_counts", tuple), n.required("ngram_indexes", tuple)
    mode, weights = n.required("mode", str), n.attr("weights", ())
    ends = [0, *starts, len(pool)]
    if mode not in MODES or not 1 <= low <= high or len(tokens.shape) > 2 or ends != sorted(ends):
        raise n.error(f"n-grams of {low} to {high} tokens of {tokens.type}, mode {mode!r}, are not supported")
    high = min(high, len(starts))  # no longer ones are listed
    skips = n.attr("max_skip_count", 0)
    if skips < 0:
        raise n.error(f"max_skip_count {skips} is below 0")
    grams: list[tuple[tuple[int, ...], int]] = []
    for length, (first, end) in enumerate(pairwise(ends[1:]), 1):
        grams += [(tuple(pool[i : i + length]), length) for i in range(first, end - length + 1, length)]
    if len(grams) != len(indexes) or min(indexes, default=0) < 0:
        raise n.error(f"{len(indexes)} ngram_indexes for {len(grams)} n-grams, or one below 0")
    # Of equal n-grams the last one counts.
    known = {g: place for (g, length), place in zip(grams, indexes, strict=True) if low <= length <= high}
    counts = tuple(sum(len(g) == length for g in known) for length in range(1, high + 1))
    listed = sorted(known, key=lambda g: (len(g), g))
    op = CountGrams(counts, skips, max(indexes) + 1)
    shape = (op.places,) if len(tokens.shape) < 2 else (tokens.shape[0], op.places)
    if not listed:
        n.bind(0, filled(n, 0, F32, shape, "none"))
        return
    rows = n.reshape(tokens, (1, tokens.type.count) if len(tokens.shape) < 2 else tokens.shape, "rows")
    operands = [
        rows,
        n.constant("grams", np.array([t for g in listed for t in g], np.int64)),
        n.constant("places", np.array([known[g] for g in listed], np.int32)),
    ]
    found = n.reshape(n.inner(op, operands, "counts"), shape, "found")
    if mode == "TF" or not weights:
        if mode == "IDF":
            once = ex.convert(ex.apply("gt", ex.var(0, F32), ex.num(0, F32)), F32)
            found = n.map(once, [found], "once")
        n.bind(0, found)
        return
    if len(weights) != len(indexes):
        raise n.error(f"{len(weights)} weights for {len(indexes)} n-grams")
    n.require_foldable(4 * op.places, "weights")
    own = {g: w for (g, length), w in zip(grams, weights, strict=True) if low <= length <= high}  # the last counts
    if len({(known[g], w) for g, w in own.items()}) > len(set(known.values())):
        raise n.error("n-grams of different weights share a place of the result")
    by_place = np.zeros(op.places, np.float32)
    for g, w in own.items():
        by_place[known[g]] = w
    count, weight = ex.var(0, F32), ex.var(1, F32)
    body = ex.apply("mul", count, weight)
    if mode == "IDF":
        body = ex.apply("select", ex.apply("gt", count, ex.num(0, F32)), weight, ex.num(0, F32))
    n.emit(Map(body), [found, n.constant("weights", by_place)])


def _sample(d: Draw) -> Case:
    low = d.int(1, 2)
    high, words = low + d.int(0, 1), d.int(1, 3)
    pool: list[int] = []
    starts: list[int] = []
    for length in range(1, high + 1):
        starts.append(len(pool))
        for gram in dict.fromkeys(tuple(d.array((length,), "i64", 0, words).tolist()) for _ in range(d.int(1, 4))):
            pool += gram
    ends = [*starts, len(pool)]
    count = sum((b - a) // length for length, (a, b) in enumerate(pairwise(ends), 1))
    attrs = {
        "min_gram_length": low, "max_gram_length": high, "max_skip_count": d.int(0, 3), "ngram_counts": starts,
        "ngram_indexes": list(d.permutation(count)), "pool_int64s": pool, "mode": d.choice(MODES),
    }  # fmt: skip
    if d.bool():
        attrs["weights"] = d.array((count,), "f32", 0.5, 2).tolist()
    shape = d.choice([(d.int(1, 9),), (d.int(1, 3), d.int(1, 9))])
    return Case([d.array(shape, d.choice(["i64", "i32"]), 0, words)], attrs)


@onnx_op("TfIdfVectorizer", sample=_sample, tolerance={})
def import_tfidf(n: Import) -> None:
    x, pool = n.input(0), n.attr("pool_int64s", ())
    if n.attr("pool_strings", ()) or not pool:
        raise n.error(f"n-grams of text for {x.type}")
    tokens = x if x.dtype == I64 else n.map(ex.convert(ex.var(0, x.dtype), I64), [x], "tokens")
    _convert(n, tokens, pool)


@onnx_op("TfIdfVectorizer", domain=TEXT, tolerance={})
def import_tfidf_of_text(n: Import) -> None:
    pool: tuple[str, ...] = n.attr("pool_strings") or ()
    if n.attr("pool_int64s", ()) or not pool:
        raise n.error("n-grams of numbers for text")
    tokens, numbers = emit_find(n, n.input(0), pool, "tokens")
    _convert(n, tokens, [numbers[text] for text in pool])
