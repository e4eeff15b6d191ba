"""Inputs and outputs of types that C has not: bytes as ONNX packs them, unpacked by nodes.

    i4[3] of -8, 0, 7      is  u8[2] of 0x08, 0x07       two in a byte, the first in its low bits
    f8e5m2[2] of 1, -2     is  u8[2] of 0x3c, 0xc0
    bf16[2] of 1, -2       is  u16[2] of 0x3f80, 0xc000
    text[1] of "on"        is  u8[1,4] of 6f 6e 00 00    of 4 bytes, zeros behind the last

A byte is taken apart by tables of 256 elements, one for each place in it.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import U8, U16, TensorType
from mccompile.onnxio import dtype_bits
from mccompile.ops.concat import Concat
from mccompile.ops.held import HELD_IN
from mccompile.ops.map import Map
from mccompile.ops.narrow_floats import NARROW_FLOATS
from mccompile.ops.narrow_floats import bits as float_bits
from mccompile.ops.narrow_floats import value as float_of
from mccompile.ops.narrow_floats import values as float_values
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice


def port_type(dtype: str, shape: tuple[int, ...], text_bytes: int = 0) -> TensorType:
    """What an input or output of a narrow type is in C: an unsigned number for each element, or bytes that are each
    full but the last; ``text_bytes`` bytes for each element that is text.

    CompileError where elements share bytes and an extent is known at run time only, or where they have 6 bits.
    """
    if dtype == "string":
        return TensorType(U8, (*shape, text_bytes))
    if dtype_bits(dtype) >= 8:
        return TensorType(U8 if dtype_bits(dtype) == 8 else U16, shape)
    if varies(shape):
        raise CompileError(f"{dtype} of shape {list(shape)}, which varies, cannot be packed", hint="give one number")
    if 8 % dtype_bits(dtype):
        raise CompileError(f"an input or output of {dtype} is not supported", hint="cast it inside the network")
    per_byte = 8 // dtype_bits(dtype)
    return TensorType(U8, (-(-TensorType(U8, shape).count // per_byte),))


def unpacked(graph: Graph, port: Value, dtype: str, shape: tuple[int, ...]) -> Value:
    """The elements of an input of a narrow type, in the type that holds them."""
    bits, name = dtype_bits(dtype), port.name
    if dtype == "string":
        return port
    if dtype == "bf16":
        return _emit(graph, Map(float_of(ex.var(0, U16), dtype)), [port], f"{name}.f32")
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
    """What `port_type` says of an output of a narrow type: floats are rounded to it."""
    if dtype == "string":
        return value
    bits, whole = dtype_bits(dtype), port_type(dtype, value.shape)
    if dtype in NARROW_FLOATS:
        # Those of 8 bits and fewer are numbers of their type already: 2^-127 is the number below itself of f8e8m0.
        stored = float_bits(ex.var(0, value.dtype), dtype, saturate=False, round_mode="down")
        value = _emit(graph, Map(stored), [value], f"{name}.bits")
    if bits >= 8:
        return value
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
    bits = dtype_bits(dtype)
    fields = (np.arange(256) >> at & (1 << bits) - 1).astype(np.uint8)
    values = float_values(fields, dtype) if dtype in NARROW_FLOATS else _integers(fields, dtype, bits)
    return values.astype(HELD_IN[dtype])


def _integers(fields: np.ndarray, dtype: str, bits: int) -> np.ndarray:
    numbers = fields.astype(np.int16)
    return np.where(numbers >= 1 << bits - 1, numbers - (1 << bits), numbers) if dtype.startswith("i") else numbers


def _emit(graph: Graph, op: Concat | Map | Reshape | Slice, operands: list[Value], name: str) -> Value:
    return graph.emit(op, operands, [name], origins=(operands[0].name,))[0]

