"""BitCast: the bytes of elements as elements of another type of the same size.

>>> BitCast("i32").evaluate(np.array([1.0], np.float32))[0].tolist() == [0x3F800000]
True
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Structure, elementwise
from mccompile.ir.types import BOOL, DTYPES, TensorType
from mccompile.onnxio import dtype_name, dtype_number
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class BitCast(Op):
    """The operand's elements, byte by byte, as elements of the type ``to``."""

    name = "bit_cast"
    reads_bits = True

    to: str

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        return elementwise(types, self.infer(*types)[0])

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        to = DTYPES[self.to]
        if to.nbytes != x.dtype.nbytes:
            raise TypeRuleError(f"an element of {x} has no {to.nbytes} bytes, as one of {to} has")
        if to == BOOL and x.dtype != BOOL:
            raise TypeRuleError(f"{x} as bool may be neither 0 nor 1")
        return (TensorType(to, x.shape),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, to = np.asarray(arrays[0]), DTYPES[self.to].numpy
        if x.dtype.kind == "f":
            x = x.astype(f"f{to.itemsize}")  # evaluated in more digits than it has
        return (np.ascontiguousarray(x).view(to).reshape(x.shape),)


_SIZES = (("f32", "i32", "u32"), ("f16", "i16", "u16"), ("i64", "u64"), ("i8", "u8"))


def _sample(d: Draw) -> Case:
    one, other = (d.choice(kinds) for kinds in [d.choice(_SIZES)] * 2)
    x = d.array(d.shape(d.int(0, 3)), one, -9 if one[0] != "u" else 0, 9)
    return Case([x], {"to": dtype_number(other)}, opset=26)


@onnx_op("BitCast", sample=_sample, tolerance={})
def import_bit_cast(n: Import) -> None:
    x, to = n.input(0), dtype_name(n.required("to", int))
    if to not in DTYPES:
        raise n.error(f"BitCast to {to} is not supported")
    if to == x.dtype.name:
        n.bind(0, x)
    else:
        n.emit(BitCast(to), [x])
