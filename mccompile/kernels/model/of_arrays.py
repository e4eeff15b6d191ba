"""Answers about arrays, which are asked for many times while a graph is looked at: each is found once.

>>> import numpy as np
>>> asked = []
>>> largest = OfArrays(lambda array, sign: asked.append(sign) or (sign * array).max())
>>> weights = np.array([1.0, -3.0])
>>> float(largest(weights, -1)), float(largest(weights, -1)), asked
(3.0, 3.0, [-1])
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from mccompile.ir.scalar import Array

T = TypeVar("T")


class OfArrays(Generic[T]):
    """A function of an array and of what is hashable; an answer is kept as long as the array, which nobody changes.
    """

    def __init__(self, function: Callable[..., T]) -> None:
        self.function = function
        self.kept: dict[int, dict[Hashable, T]] = {}

    def __call__(self, array: Array, *more: Hashable) -> T:
        key = id(array)
        if key not in self.kept:
            self.kept[key] = {}
            weakref.finalize(array, self.kept.pop, key)
        answers = self.kept[key]
        if more not in answers:
            answers[more] = self.function(array, *more)
        return answers[more]
