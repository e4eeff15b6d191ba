"""A low-pass filter along time, com.acme:LowPass: an operator that no standard one is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, over_axes
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op


@dataclass(frozen=True)
class LowPass(Op):
    """Along the last axis: ``y[0] = x[0]``, then ``y[t] = y[t - 1] + share * (x[t] - y[t - 1])``."""

    name = "low_pass"

    share: float

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        return over_axes(x, (x.rank - 1,), x)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        return (x,)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        y = x.copy()
        for t in range(1, x.shape[-1]):
            y[..., t] = y[..., t - 1] + np.float32(self.share) * (x[..., t] - y[..., t - 1])
        return (y,)


@onnx_op("LowPass", domain="com.acme")
def import_low_pass(n: Import) -> None:
    n.emit(LowPass(float(n.attr("share", 0.5))), [n.input(0)])
