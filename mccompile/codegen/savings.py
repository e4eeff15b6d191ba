"""What it saves to share code, and what it takes: one function of numbers is worth it where it saves enough bytes of
machine code, and with vectors as long as the network is hardly slower.

Worked example: a network of 1,000,000 multiply-adds may take MOST_SLOWER more, 10,000. What may be one function saves
3,000 bytes and takes 6,000 multiply-adds, 1,000 and 1,000, 2,000 and 5,000: the second is chosen first, then the
first; 3,000 are left, too few for the third.
"""

from __future__ import annotations

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
SLOWER_TILE = 2
SLOWER_CHANNELS = 7
SLOWER_COPY = 10
"""Those that each result of a kernel takes more if all functions beside it are given numbers: tiles of sums, counted
on MobileNetV2 and ShuffleNetV2 of bytes; tiles of `conv.channels`, on MobileNetV1 (aarch64); and copies, which do
little else than count, on the MobileNet of MLPerf Tiny (x86-64-v3)."""
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


_S = TypeVar("_S", bound=Saving)


class Allowed:
    """The multiply-adds that numbers as parameters may still take of a program."""

    def __init__(self, steps: Iterable[Call | Fill], target: Target) -> None:
        self._all = target.compact or target.lanes <= 1
        self._least = least_saving(target) or 0
        self._left = MOST_SLOWER * sum(map(macs, steps))

    def chosen(self, found: Iterable[_S]) -> Iterator[_S]:
        """What is worth it, those first that save most for what they take, as long as the network is hardly slower.
        """
        worthy = [s for s in found if s.bytes >= self._least]
        for saving in sorted(worthy, key=lambda s: s.macs / s.bytes):  # stable: all are 0 without vectors
            if self._all or saving.macs <= self._left:
                self._left -= saving.macs
                yield saving
