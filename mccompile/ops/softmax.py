"""Softmax, its logarithm, and the one-hot of the largest element (ONNX operators Softmax, LogSoftmax, Hardmax)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.same_bits import exp, log
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.softmax_bytes import SoftmaxBytes

_MODES = ("soft", "log", "hard")


@dataclass(frozen=True)
class Softmax(Op):
    """``mode`` soft: exp(x) / sum(exp(x)) along ``axis``; log: its logarithm; hard: 1 at the first maximum."""

    name = "softmax"
    kind = Kind.COMPLEX
    takes_prologue = True
    layouts = Layouts.ALIKE

    axis: int
    mode: str = "soft"

    @property
    def decides(self) -> bool:
        return self.mode == "hard"

    @property
    def makes_products(self) -> bool:
        return self.mode == "soft"

    def on_bytes(self, scale: float) -> Op | None:
        return SoftmaxBytes(self.axis, scale) if self.mode == "soft" else None

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (self.axis,), self.infer(x))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,) = ranges
        assert x is not None
        return (constant(-np.inf if self.mode == "log" else 0.0, 1.5, x.low.size),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if self.mode not in _MODES or not 0 <= self.axis < x.rank or not x.dtype.is_float:
            raise TypeRuleError(f"softmax ({self.mode}) of {x} along axis {self.axis} is not defined")
        return (x,)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        if not x.size:
            return (x,)
        if self.mode == "hard":
            largest = wide == wide.max(self.axis, keepdims=True)  # none of a row with NaN, as the kernels have it
            first = largest & (np.cumsum(largest, self.axis) == 1)
            return (first.astype(x.dtype),)
        shifted = wide - wide.max(self.axis, keepdims=True)
        power = exp(shifted)
        total = power.sum(self.axis, keepdims=True)
        y = power / total if self.mode == "soft" else shifted - log(total)
        return (y.astype(x.dtype),)


def _sample(d: Draw) -> Case:
    rank = d.int(1, 4)
    shape = list(d.shape(rank, 1, 5))
    axis = d.int(0, rank - 1)
    shape[axis] = d.choice([1, 3, 7, 64, 65, 130])
    attrs = {} if axis == rank - 1 and d.bool() else {"axis": axis - d.choice([0, rank])}
    return Case([d.array(shape, d.choice(["f32", "f32", "f16"]), -20, 20)], attrs)


def _sample_hard(d: Draw) -> Case:
    case = _sample(d)
    return Case([np.rint(np.asarray(case.inputs[0], dtype=np.float32) / 4)], case.attrs)


def _emit(n: Import, mode: str) -> None:
    x = n.input(0)
    n.emit(Softmax(n.axis(n.attr("axis", -1), len(x.shape)), mode), [x])


@onnx_op("Softmax", sample=_sample, tolerance={"f32": 1e-6, "f16": 1e-3})
def import_softmax(n: Import) -> None:
    _emit(n, "soft")


@onnx_op("LogSoftmax", sample=_sample, tolerance={"f32": 1e-6, "f16": 1e-3})
def import_log_softmax(n: Import) -> None:
    _emit(n, "log")


@onnx_op("Hardmax", sample=_sample_hard, tolerance={})
def import_hardmax(n: Import) -> None:
    _emit(n, "hard")
