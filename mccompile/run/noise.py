"""How far results are from a reference over many samples: signal to noise, and whether the same class wins.

    reference [0.1, 0.9], result [0.2, 0.8]     signal 0.82, error 0.02: 16.1 dB, and both say class 1
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Noise:
    """Sums over samples of one value: power of signal and of difference, the largest difference, agreement."""

    signal: float = 0.0
    error: float = 0.0
    largest: float = 0.0
    samples: int = 0
    ranked: int = 0
    agree: int = 0

    def add(self, want: Array, got: Array) -> None:
        wide = want.astype(np.float64)
        apart = got.astype(np.float64) - wide
        self.signal += float(np.square(wide).sum())
        self.error += float(np.square(apart).sum())
        self.largest = max(self.largest, float(np.abs(apart).max(initial=0.0)))
        self.samples += 1
        if want.size and want.dtype.kind == "f" and sum(e > 1 for e in want.shape) == 1:
            self.ranked += 1
            self.agree += int(want.argmax() == got.argmax())

    @property
    def relative(self) -> float:
        """Power of the difference by that of the signal; 0 if there is none, infinite if there is no signal."""
        if not self.error:
            return 0.0
        return self.error / self.signal if self.signal else math.inf

    @property
    def agreement(self) -> float | None:
        """The part of the samples whose largest element is the same one; None of what is no vector."""
        return self.agree / self.ranked if self.ranked else None


def decibels(relative: float) -> float | None:
    """Signal to noise; None where it has no number: no noise, or no signal."""
    return -10.0 * math.log10(relative) if 0.0 < relative < math.inf else None
