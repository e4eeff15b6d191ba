"""Inputs and outputs of types narrower than a byte, or of 8-bit floats: bytes as ONNX packs them, unpacked by nodes.

    i4[3] of -8, 0, 7      is  u8[2] of 0x08, 0x07       two in a byte, the first in its low bits
    f8e5m2[2] of 1, -2     is  u8[2] of 0x3c, 0xc0

A byte is taken apart by tables of 256 elements, one for each place in it.
"""

from __future__ import annotations

import numpy as np

from mccompile.importer.narrow import HELD_IN
from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import U8, TensorType
from mccompile.onnxio import dtype_bits, numpy_dtype
from mccompile.ops.concat import Concat
from mccompile.ops.map import Map
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice


def port_type(dtype: str, shape: tuple[int, ...]) -> TensorType:
    """What an input or output of a narrow type is in C: bytes, each full but the last.

    CompileError where an extent is known at run time only.
    """
    if varies(shape):
        raise CompileError(f"{dtype} of shape {list(shape)}, which varies, cannot be packed", hint="give one number")
    if dtype_bits(dtype) == 8:
        return TensorType(U8, shape)
    per_byte = 8 // dtype_bits(dtype)
    return TensorType(U8, (-(-TensorType(U8, shape).count // per_byte),))


def unpacked(graph: Graph, port: Value, dtype: str, shape: tuple[int, ...]) -> Value:
    """The elements of an input of a narrow type, in the type that holds them."""
    bits, name = dtype_bits(dtype), port.name
    parts = [
        _emit(graph, Map(ex.lookup(ex.var(0, U8), _table(dtype, at))), [port], f"{name}.bits{at}")
        for at in range(0, 8, bits)
    ]
    if len(parts) == 1:
        return parts[0]
    (count,) = port.shape
    columns = [_emit(graph, Reshape((count, 1)), [p], f"{p.name}.column") for p in parts]
    rows = _emit(graph, Concat(1), columns, f"{name}.rows")
    flat = _emit(graph, Reshape((count * len(parts),)), [rows], f"{name}.flat")
    wanted = TensorType(U8, shape).count
    if wanted != flat.type.count:
        flat = _emit(graph, Slice((0,), (1,), (wanted,)), [flat], f"{name}.cut")
    return flat if flat.shape == shape else _emit(graph, Reshape(shape), [flat], f"{name}.unpacked")


def packed(graph: Graph, value: Value, dtype: str, name: str) -> Value:
    """The bytes of an output of a narrow type. CompileError for types that nothing is rounded to yet."""
    bits, whole = dtype_bits(dtype), port_type(dtype, value.shape)
    if bits == 8 or np.dtype(HELD_IN[dtype]).kind == "f":
        raise CompileError(
            f"output {name!r} of {dtype} is not supported", hint="let the model cast it to a wider float"
        )
    per_byte, count = 8 // bits, value.type.count
    flat = value if len(value.shape) == 1 else _emit(graph, Reshape((count,)), [value], f"{name}.flat")
    (full,) = whole.shape
    if full * per_byte != count:
        tail = graph.constant(f"{name}.tail", np.zeros(full * per_byte - count, value.dtype.numpy))
        flat = _emit(graph, Concat(0), [flat, tail], f"{name}.filled")
    rows = _emit(graph, Reshape((full, per_byte)), [flat], f"{name}.rows")
    parts = [_emit(graph, Slice((0, i), (1, 1), (full, 1)), [rows], f"{name}.place{i}") for i in range(per_byte)]
    body: ex.Expr | None = None
    for i in range(per_byte):
        field = ex.apply("and", ex.convert(ex.var(i, value.dtype), U8), ex.num((1 << bits) - 1, U8))
        field = ex.apply("shl", field, ex.num(i * bits, U8)) if i else field
        body = field if body is None else ex.apply("or", body, field)
    assert body is not None
    column = _emit(graph, Map(body), parts, f"{name}.column")
    return _emit(graph, Reshape((full,)), [column], f"{name}.packed")


def _table(dtype: str, at: int) -> np.ndarray:
    """What stands in each of the 256 bytes from bit ``at`` on."""
    small, bits = numpy_dtype(dtype), dtype_bits(dtype)
    fields = (np.arange(256) >> at & (1 << bits) - 1).astype(np.uint8)
    # A type of fewer bits has a byte in numpy, too.
    values = fields.view(small) if dtype.startswith("f") else _integers(fields, dtype, bits)
    return values.astype(HELD_IN[dtype])


def _integers(fields: np.ndarray, dtype: str, bits: int) -> np.ndarray:
    numbers = fields.astype(np.int16)
    return np.where(numbers >= 1 << bits - 1, numbers - (1 << bits), numbers) if dtype.startswith("i") else numbers


def _emit(graph: Graph, op: Concat | Map | Reshape | Slice, operands: list[Value], name: str) -> Value:
    return graph.emit(op, operands, [name], origins=(operands[0].name,))[0]

