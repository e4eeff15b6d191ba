"""How far results are from a reference over many samples: signal to noise, and whether the same class wins.

    reference [0.1, 0.9], result [0.2, 0.8]     signal 0.82, error 0.02: 16.1 dB, and both say class 1
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass

Array = np.ndarray[Any, np.dtype[Any]]


def distance(a: Array, b: Array) -> Array:
    """|a - b| in float64: 0 where both are NaN or the same infinity, infinite where only one is, or their signs
    differ."""
    first, second = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(invalid="ignore"):
        apart = np.abs(first - second)
    same = (first == second) | (np.isnan(first) & np.isnan(second))
    return np.where(same, 0.0, np.where(np.isfinite(apart), apart, np.inf))


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
        """One more sample. NaN and infinities are no signal; on one side alone they are an infinite difference, as
        another shape is."""
        wide = want.astype(np.float64)
        alike = got.shape == want.shape
        apart = distance(got, want) if alike else np.array([np.inf])
        self.signal += float(np.square(wide[np.isfinite(wide)]).sum())
        self.error += float(np.square(apart).sum())
        self.largest = max(self.largest, float(apart.max(initial=0.0)))
        self.samples += 1
        if alike and want.size and want.dtype.kind == "f" and sum(e > 1 for e in want.shape) == 1:
            self.ranked += 1
            self.agree += int(want.argmax() == got.argmax())

    def add_exact(self, want: Array, got: Array) -> None:
        """One more sample of what is the same or not: each element is a signal of 1, and of another an error of 1."""
        self.signal += want.size
        self.error += float(np.sum(want != got)) if want.shape == got.shape else np.inf
        self.samples += 1

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


def json_number(value: float) -> float | str:
    """``value``, or the text of what JSON cannot say: nan, inf, -inf."""
    return value if math.isfinite(value) else str(value)
