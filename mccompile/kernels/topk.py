"""The family of `topk`: a heap of the best so far, whose root is the worst of them; or elements sorted by bits.

Worked example: of 10,000 numbers the 10 best are few to reach a heap, which costs less than a look at all bits of all
numbers. The 1,000 best have 40,000 steps in a heap, each of which waits for the one before.

>>> heap_cycles(10_000, 10) < radix_cycles(10_000, 10), heap_cycles(10_000, 1_000) < radix_cycles(10_000, 1_000)
(True, False)
"""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Node, Value
from mccompile.ir.types import F32, I32, U64
from mccompile.kernels.model.traffic import moved
from mccompile.kernels.variant import Builder, Offer, Variant, laid_out
from mccompile.ops.topk import TopK
from mccompile.targets.target import Target

STEP = 21
"""Cycles of a step in a heap: what decides it is not foreseen (Zen 3)."""
LOOK = 8
"""Cycles to look at an element twice, and to count what it begins with."""
SORTED = 20
"""Cycles to sort an element by four digits."""
DIGITS = 4000
"""Cycles that the counts of digits take, however few elements there are."""
BLOCK = 16
"""Elements that are compared with the worst of the best at once."""
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


def heap_cycles(count: int, k: int) -> float:
    """Of a row of ``count`` elements."""
    return count + STEP * k * (1 + math.log(max(count / k, 1))) * math.log2(k + 1)


def radix_cycles(count: int, k: int) -> float:
    """Of a row of ``count`` elements: about as many as the best have their first digit without being among them."""
    return LOOK * count + SORTED * min(count, 2 * k) + DIGITS


class TopKGeneric(Variant):
    ops = ("topk",)
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


class TopKRadix(Variant):
    """Many of many numbers of 32 bits, where there is memory for a number of 64 for each of them, twice."""

    ops = ("topk",)
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


def _top(node: Node) -> tuple[Value, TopK]:
    """The operand and the operator."""
    (x,), op = node.operands, node.op
    assert x is not None
    assert isinstance(op, TopK)
    return x, op


def _obstacle(node: Node) -> str:
    """Why neither kernel computes a node; empty if they do."""
    if node.pre:
        return "a prologue is not supported"
    return "top-k needs row-major operands" if laid_out(node) else ""


def _rows(node: Node) -> tuple[int, int, int]:
    """Rows, elements of a row, and how many of them are asked for; bounds where these vary."""
    x, op = _top(node)
    count = bound(x.shape[op.axis])
    return bound(x.type.count) // max(count, 1), count, bound(op.k)


VARIANTS = (TopKGeneric(), TopKRadix())
