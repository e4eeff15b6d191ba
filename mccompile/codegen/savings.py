"""What it saves to share code, and what it takes: one function of numbers is worth it where it saves enough bytes of
machine code, and with vectors as long as the network is hardly slower.

Worked example: a network of 1,000,000 multiply-adds may take MOST_SLOWER more, 10,000. What may be one function saves
3,000 bytes and takes 6,000 multiply-adds (2 a byte), 1,000 and 1,000 (1 a byte), 2,000 and 5,000 (2.5), 500 and 1,500
(3). Of all of these, whichever stage finds them, the first two are bought before the budget has not enough left: 2 is
the price, up to which each stage takes what it finds, 7,000 in all. 3,000 are to spare: too few for the third, and
the fourth, although it is dear, is taken of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from mccompile._dataclass import dataclass
from mccompile.codegen.shared_numbers import Joined
from mccompile.ir.dims import bound
from mccompile.ir.kernel import Call, Fill
from mccompile.targets.target import Target

BYTES_OF_LETTER = 1 / 8
"""Of machine code, for the text of kernels that share their numbers: counted on networks of bytes for a Cortex-M4."""
BYTES_OF_TILE_LETTER = 1 / 2
"""The same for functions beside kernels of vectors: counted on MobileNetV2 of bytes (x86-64-v3)."""
BYTES_OF_DEPTHWISE_LETTER = 1.2
"""The same for kernels of one filter a channel, which mention each tap and pixel of a tile once, in loops that are
written out: counted on MobileNetV1 (aarch64)."""
BYTES_OF_NUMBER = 5
"""Of machine code that gives a function a number."""
WORTH = 200
"""Bytes that are worth the numbers of functions that would know them otherwise."""


def least_saving(target: Target) -> int | None:
    """How many bytes of code are worth functions that do not know their numbers; None: none are, on hosts without
    vectors, whose compilers unroll loops of a few turns, and at -O3."""
    if target.compact:
        return 1
    if target.unshared or (target.hosted and target.lanes <= 1):
        return None
    return WORTH


SLOWER = 4
"""Multiply-adds that each of their results takes more then: counted on MobileNetV1 (aarch64) and on the MobileNets of
MLPerf Tiny and of 0.35 (x86-64-v3)."""
SLOWER_DEPTHWISE = 1.4
"""Those that each element of the operand takes more in kernels of one filter a channel: counted on MobileNetV1
(aarch64), for strides of 1 and of 2."""
SLOWER_TILE = 2
SLOWER_LANES = 0.4
SLOWER_CHANNELS = 7
SLOWER_COPY = 10
"""Those that each result of a kernel takes more if all functions beside it are given numbers: tiles of sums, counted
on MobileNetV2 and ShuffleNetV2 of bytes; tiles whose products take one lane of a vector, on MobileNetV1 (aarch64),
where only what is before and behind the sums does; tiles of `conv.channels` without, on MobileNetV1; and copies,
which do little else than count, on the MobileNet of MLPerf Tiny (x86-64-v3)."""
MOST_SLOWER = 0.01
"""What sharing may take of a network with vectors."""


def results(step: Call | Fill) -> int:
    """Elements that a step stores."""
    return 0 if isinstance(step, Fill) else sum(bound(v.count) for v in step.results)


def macs(step: Call | Fill) -> float:
    """Multiply-adds of a kernel by what it stores and its weights, which are [.., channels] both."""
    if isinstance(step, Fill) or len(step.inputs) < 2 or (weights := step.inputs[1]) is None:
        return 0.0
    if weights.buffer.space != "blob" or not step.results[0].shape:
        return 0.0
    stored = step.results[0]
    return bound(stored.count) / max(bound(stored.shape[-1]), 1) * bound(weights.buffer.type.count)


def saved(one: Joined, same: Sequence[str], of_letter: float = BYTES_OF_LETTER) -> float:
    """Bytes of machine code that one function saves, for functions of these texts."""
    copies = len(set(same)) - 1
    letters = len("".join(one.text.split()))
    return copies * letters * of_letter - (len(same) + 1) * len(one.names) * BYTES_OF_NUMBER


@dataclass(frozen=True)
class Saving:
    """What may be one function: what that saves in bytes, and takes in multiply-adds."""

    bytes: float
    macs: float

    @property
    def price(self) -> float:
        """Multiply-adds for a byte; what is chosen saves some."""
        return self.macs / self.bytes


_S = TypeVar("_S", bound=Saving)


class Allowed:
    """The multiply-adds that sharing may still take of a program, and the most of them that a byte is worth."""

    def __init__(self, steps: Iterable[Call | Fill], target: Target) -> None:
        self.free = target.compact or target.lanes <= 1
        self._least = least_saving(target) or 0
        self._left = math.inf if self.free else MOST_SLOWER * sum(map(macs, steps))
        self._spare = 0.0
        self._price = math.inf

    def worthy(self, found: Iterable[_S]) -> list[_S]:
        """What saves enough bytes, the cheapest first. The order of what is free is kept."""
        return sorted((s for s in found if s.bytes >= self._least), key=lambda s: s.price)

    def set_price(self, found: Iterable[Saving]) -> None:
        """Decide how much a byte may take, by all that the stages of sharing may find."""
        self._price, spare = 0.0, self._left
        for saving in self.worthy(found):
            if saving.macs > spare:
                break
            self._price = saving.price
            spare -= saving.macs
        self._left, self._spare = self._left - spare, spare

    def affordable(self, found: Iterable[_S]) -> list[_S]:
        """What is worth its price."""
        return [s for s in self.worthy(found) if s.price <= self._price]

    def chosen(self, found: Iterable[_S], last: bool = False) -> Iterator[_S]:
        """What is worth its price, those first that save most for what they take, as long as the network is hardly
        slower; and what can be spared for more. The ``last`` stage leaves nothing to others."""
        if last:
            self._left, self._spare, self._price = self._left + self._spare, 0.0, math.inf
        for saving in self.worthy(found):
            if saving.price <= self._price and saving.macs <= self._left:
                self._left -= saving.macs
                yield saving
            elif saving.macs <= self._spare:
                self._spare -= saving.macs
                yield saving
