"""The least and the largest elements over any set of axes, found in one pass; made of two reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import span
from mccompile.ir.op import Layouts, Op, TypeRuleError, has_axes
from mccompile.ir.ranges import Range, anything
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType


@dataclass(frozen=True)
class Extremes(Op):
    """Results: what `Reduce` of modes min and max gives over ``axes``, which stay with extent 1."""

    name = "extremes"
    layouts = Layouts.ALIKE

    axes: tuple[int, ...]

    @property
    def selects(self) -> bool:
        return True

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, self.axes, self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,), (found,) = types, ranges
        assert x is not None
        assert found is not None
        return (extreme_range(x, self.axes, found),) * 2

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (reduced(x, self.axes),) * 2

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        return extreme("min", x, self.axes), extreme("max", x, self.axes)


def reduced(x: TensorType, axes: Sequence[int]) -> TensorType:
    """The type of what is reduced over axes that stay with extent 1. Raises TypeRuleError."""
    if not has_axes(x, axes):
        raise TypeRuleError(f"{x} cannot be reduced over axes {list(axes)}")
    return TensorType(x.dtype, tuple(1 if a in axes else e for a, e in enumerate(x.shape)))


def extreme_range(x: TensorType, axes: Sequence[int], found: Range) -> Range:
    """The range of the least or the largest elements of what has the range ``found``."""
    if span(math.prod(x.shape[a] for a in axes))[0] == 0:  # of nothing, an end of the type
        return anything(x.dtype, found.low.size)
    return found


def extreme(mode: str, x: Array, axes: tuple[int, ...]) -> Array:
    """The least (``mode`` min) or the largest (max) elements over axes."""
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    begin = {} if wide.size else {"initial": _end(mode, wide.dtype)}
    find = np.max if mode == "max" else np.min
    return np.asarray(find(wide, axis=axes, keepdims=True, **begin)).astype(x.dtype)


def _end(mode: str, dtype: np.dtype[Any]) -> Any:
    """What max and min of no element are: the end of the type that any element replaces."""
    if dtype.kind == "f":
        return -np.inf if mode == "max" else np.inf
    if dtype.kind == "b":
        return mode == "min"
    info = np.iinfo(dtype)
    return info.min if mode == "max" else info.max
