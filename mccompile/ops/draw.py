"""Draws of operator samples from a seed: the same seed gives the same case on every machine."""

from __future__ import annotations

import builtins
import random
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from mccompile.ir.types import DTYPES

T = TypeVar("T")


class SeededDraw:
    """A `mccompile.ops.sampling.Draw` of a seeded generator."""

    def __init__(self, seed: builtins.int) -> None:
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)

    def int(self, low: builtins.int, high: builtins.int) -> builtins.int:
        return self.random.randint(low, high)

    def bool(self) -> builtins.bool:
        return self.random.random() < 0.5

    def choice(self, options: Sequence[T]) -> T:
        return self.random.choice(list(options))

    def shape(self, rank: builtins.int, low: builtins.int = 1, high: builtins.int = 5) -> tuple[builtins.int, ...]:
        return tuple(self.random.randint(low, high) for _ in range(rank))

    def permutation(self, n: builtins.int) -> tuple[builtins.int, ...]:
        return tuple(self.random.sample(range(n), n))

    def broadcastable(self, shape: Sequence[builtins.int]) -> tuple[builtins.int, ...]:
        kept = tuple(shape)[self.random.randint(0, len(shape)) if self.bool() else 0 :]
        return tuple(1 if self.random.random() < 0.25 else e for e in kept)

    def array(
        self, shape: Sequence[builtins.int], dtype: str = "f32", low: float = -2, high: float = 2
    ) -> np.ndarray[Any, Any]:
        target = DTYPES[dtype].numpy
        if dtype == "bool":
            return self.numpy.random(tuple(shape)) < 0.5
        values = self.numpy.uniform(low, high, tuple(shape))
        return (np.rint(values) if target.kind in "iu" else values).astype(target)

    def special(self, shape: Sequence[builtins.int], dtype: str = "f32") -> np.ndarray[Any, Any]:
        values = self.array(shape, dtype)
        target = DTYPES[dtype].numpy
        if target.kind == "f":
            pool = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0]
        elif target.kind in "iu":
            info = np.iinfo(target.name)
            pool = [info.min, info.max, 0, 1]
        else:
            return values
        flat = values.reshape(-1)
        for i in range(flat.size):
            if self.bool():
                flat[i] = self.choice(pool)
        return flat.reshape(values.shape)
