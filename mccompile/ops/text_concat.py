"""StringConcat: texts of two tensors end to end.

    ["a", "b"] and [".c"]      is      ["a.c", "b.c"]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import U8, TensorType, broadcast_shapes
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT, encoded, strings_of


@dataclass(frozen=True)
class TextConcat(Op):
    """Operands u8[..., n] and u8[..., m] of equal axes before the last; the result u8[..., n + m]."""

    name = "text_concat"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        a, b = types
        assert a is not None
        assert b is not None
        if a.dtype != U8 or b.dtype != U8 or a.shape[:-1] != b.shape[:-1] or not a.shape:
            raise TypeRuleError(f"texts {a} and {b} do not stand in pairs")
        return (TensorType(U8, (*a.shape[:-1], a.shape[-1] + b.shape[-1])),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        a, b = (np.asarray(x) for x in arrays)
        joined = np.array([p + q for p, q in zip(strings_of(a), strings_of(b), strict=True)], dtype=object)
        return (encoded(joined, a.shape[-1] + b.shape[-1]).reshape(*a.shape[:-1], -1),)


@onnx_op("StringConcat", domain=TEXT, tolerance={})
def import_string_concat(n: Import) -> None:
    a, b = n.input(0), n.input(1)
    shape = broadcast_shapes(a.shape[:-1], b.shape[:-1])
    pair = [_spread(n, v, shape, suffix) for v, suffix in ((a, "a"), (b, "b"))]
    n.narrow_result = "string"
    n.emit(TextConcat(), pair)


def _spread(n: Import, x: Value, shape: Sequence[int], suffix: str) -> Value:
    """The texts of ``x`` once for each element of a shape."""
    whole = (*shape, x.shape[-1])
    return x if x.shape == whole else n.inner(Expand(whole), [x], suffix)
