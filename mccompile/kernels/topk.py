"""The family of `topk`: a heap of the best so far, whose root is the worst of them; elements sorted by bits; ranks of
the few that can be among the best.

Worked example: of 10,000 numbers the 10 best are few to reach a heap, which costs less than a look at all bits of all
numbers. The 1,000 best have 40,000 steps in a heap, each of which waits for the one before.

>>> heap_cycles(10_000, 10) < radix_cycles(10_000, 10), heap_cycles(10_000, 1_000) < radix_cycles(10_000, 1_000)
(True, False)

With vectors, the 3 best of 12 numbers are found by 6 columns of two, whose best are 7 9 2 8 4 5: three numbers are 7
or more, so that only such can be among the three best. They are 9, 8 and 7 (one number more would do no harm).

>>> numbers = np.array([1, 9, 0, 8, 4, 3, 7, 6, 2, 1, 0, 5])
>>> bound = sorted(numbers.reshape(2, 6).max(axis=0))[-3]
>>> numbers[numbers >= bound].tolist()
[9, 8, 7]
>>> Ranks.of(12, 3).columns, Ranks.of(1000, 3).columns, Ranks.of(1000, 100).columns
(0, 16, 208)
"""

from __future__ import annotations

import math
from collections.abc import Container

import numpy as np  # noqa: F401  (the worked example)

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, F64, I8, I16, I32, I64, U8, U16, U64, DType
from mccompile.kernels.model.parts import Turns, axes
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import Builder, Offer, Variant
from mccompile.ops.topk import TopK
from mccompile.targets.target import Target

STEP = 8
"""Cycles of a step in a heap: what decides it is seldom foreseen (Zen 4: 4 where it is, 20 where it never is)."""
SEEK = 80
"""Cycles of a block in which elements that reach the heap are looked for."""
LOOK = 8
"""Cycles to look at an element twice, and to count what it begins with."""
SORTED = 20
"""Cycles to sort an element by four digits."""
DIGITS = 4000
"""Cycles that the counts of digits take, however few elements there are."""
BLOCK = 16
"""Elements that are compared with the worst of the best at once."""
KEYED = 2
"""Cycles to look at a vector once (Zen 4)."""
SUMMED = 12
"""Cycles to add up the lanes that say how many are before one."""
RANKED = 25
"""Cycles to rank a candidate, beside the comparisons with all others."""
ROW = 200
"""Cycles of a row, beside its elements."""
FIRST_BITS = 11
"""Of a number: by these elements are kept, or not."""


@dataclass(frozen=True)
class Scan:
    """How what lies behind the first k is looked at: ``block`` elements at once; 0: one by one."""

    block: int


@dataclass(frozen=True)
class Digits:
    """How many ``first`` digits there are, those of a number of 32 bits less its last ``shift``."""

    first: int
    shift: int


@dataclass(frozen=True)
class Ranks:
    """How the few are found that are ranked: by so many ``columns`` that a row is cut into (0: all of a row are
    candidates), looked at in a ``block`` at once. There is room for so many ``candidates``, and ``wanted`` of them.
    """

    columns: int
    candidates: int
    wanted: int
    block: int = BLOCK

    @staticmethod
    def of(count: int, k: int) -> Ranks:
        """For the ``k`` best of ``count``: twice as many columns as wanted, or more, of some elements each."""
        columns = -(-2 * k // BLOCK) * BLOCK
        if columns > count // 4:
            return Ranks(0, count + BLOCK, k)
        return Ranks(columns, min(count, 4 * k + 4 * BLOCK) + BLOCK, k)

    def words(self) -> int:
        """Keys in scratch memory; places take as many bytes at most."""
        return 2 * (self.candidates + self.wanted) + self.columns

    def cycles(self, count: int, lanes: int) -> float:
        """Of a row of ``count`` elements, keys in vectors of so many."""
        ranked = min(1.4 * self.wanted + 1, count) if self.columns else count
        looks = (2 if self.columns else 1) * KEYED * count / lanes
        seen = self.columns * (self.columns / lanes + SUMMED)
        return looks + seen + ranked * (ranked / lanes + RANKED + (SEEK if self.columns else 0)) + ROW


def heap_cycles(count: int, k: int) -> float:
    """Of a row of ``count`` elements."""
    hits = k * (1 + math.log(max(count / k, 1)))
    return 0.6 * count + SEEK * min(hits, count / BLOCK) + STEP * hits * math.log2(k + 1)


def radix_cycles(count: int, k: int) -> float:
    """Of a row of ``count`` elements: about as many as the best have their first digit without being among them."""
    return LOOK * count + SORTED * min(count, 2 * k) + DIGITS


class _TopK(Variant):
    ops = ("topk",)

    def parallel(self, call: Call, target: Target) -> list[Turns]:
        op, y = call.op, call.results[0]
        assert isinstance(op, TopK)
        return [t for t in axes(y, [f"i{a}" for a in range(y.rank)]) if t.name != f"i{op.axis}"]


class TopKGeneric(_TopK):
    kernel = "topk.generic"
    params = Scan

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if reason := _obstacle(node):
            return reason
        rows, count, k = _rows(node)
        return Offer(self.label, rows * heap_cycles(count, max(k, 1)) + moved(node, target))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, op = _top(node)
        view = b.read(x)
        blocks = b.target.lanes > 1 and x.dtype in (F32, I32) and view.axis_strides()[op.axis] == 1
        scan = Scan(BLOCK if blocks and not node.varies else 0)
        b.call(self.kernel, [view], [b.result(0), b.result(1)], params=scan, scratch=b.scratch(op.k, I32))


class TopKRadix(_TopK):
    """Many of many numbers of 32 bits, where there is memory for a number of 64 for each of them, twice."""

    kernel = "topk.radix"
    params = Digits

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, _ = _top(node)
        if reason := _obstacle(node):
            return reason
        if x.dtype not in (F32, I32):
            return "elements have other than 32 bits"
        if target.lanes <= 1:
            return "memory is short"
        rows, count, k = _rows(node)
        return Offer(self.label, rows * radix_cycles(count, max(k, 1)) + moved(node, target))

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, op = _top(node)
        digits = Digits(1 << FIRST_BITS, 32 - FIRST_BITS)
        scratch = b.scratch(2 * x.shape[op.axis] + digits.first, U64)
        b.call(self.kernel, [b.read(x)], [b.result(0), b.result(1)], params=digits, scratch=scratch)


class TopKRanks(_TopK):
    """Few of numbers that have keys of as many bits, or of a few."""

    kernel = "topk.ranks"
    params = Ranks

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        x, _ = _top(node)
        if reason := _obstacle(node):
            return reason
        if x.dtype not in (F32, F64, I32, I64, I8, U8, I16, U16):
            return "elements have no keys with a sign"
        if target.lanes <= 1:
            return "memory is short"
        rows, count, k = _rows(node)
        ranks = Ranks.of(count, max(k, 1))
        lanes = target.machine.vector_bytes // _key(x).nbytes
        return Offer(self.label, rows * ranks.cycles(count, lanes) + moved(node, target), ranks)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        x, _ = _top(node)
        assert isinstance(offer.params, Ranks)
        scratch = b.scratch(offer.params.words(), _key(x))
        b.call(self.kernel, [b.read(x)], [b.result(0), b.result(1)], params=offer.params, scratch=scratch)


def _key(x: Value) -> DType:
    """The type of the numbers that elements are ordered by."""
    return I64 if x.dtype.nbytes == 8 else I32


def _top(node: Node) -> tuple[Value, TopK]:
    """The operand and the operator."""
    (x,), op = node.operands, node.op
    assert x is not None
    assert isinstance(op, TopK)
    return x, op


def _obstacle(node: Node) -> str:
    """Why neither kernel computes a node; empty if they do."""
    return "a prologue is not supported" if node.pre else ""


def _rows(node: Node) -> tuple[int, int, int]:
    """Rows, elements of a row, and how many of them are asked for; bounds where these vary."""
    x, op = _top(node)
    count = bound(x.shape[op.axis])
    return bound(x.type.count) // max(count, 1), count, bound(op.k)


VARIANTS = (TopKGeneric(), TopKRadix(), TopKRanks())
