"""Names of ONNX element types: our short names, the ONNX numbers, numpy dtypes, bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from mccompile.ir.errors import CompileError

_BY_ENUM = {
    "FLOAT": ("f32", 32),
    "UINT8": ("u8", 8),
    "INT8": ("i8", 8),
    "UINT16": ("u16", 16),
    "INT16": ("i16", 16),
    "INT32": ("i32", 32),
    "INT64": ("i64", 64),
    "STRING": ("string", 0),
    "BOOL": ("bool", 8),
    "FLOAT16": ("f16", 16),
    "DOUBLE": ("f64", 64),
    "UINT32": ("u32", 32),
    "UINT64": ("u64", 64),
    "COMPLEX64": ("c64", 64),
    "COMPLEX128": ("c128", 128),
    "BFLOAT16": ("bf16", 16),
    "FLOAT8E4M3FN": ("f8e4m3fn", 8),
    "FLOAT8E4M3FNUZ": ("f8e4m3fnuz", 8),
    "FLOAT8E5M2": ("f8e5m2", 8),
    "FLOAT8E5M2FNUZ": ("f8e5m2fnuz", 8),
    "FLOAT8E8M0": ("f8e8m0", 8),
    "FLOAT6E2M3": ("f6e2m3", 6),
    "FLOAT6E3M2": ("f6e3m2", 6),
    "FLOAT4E2M1": ("f4e2m1", 4),
    "UINT4": ("u4", 4),
    "INT4": ("i4", 4),
    "UINT2": ("u2", 2),
    "INT2": ("i2", 2),
}

_NAME: dict[int, str] = {}
_NUMBER: dict[str, int] = {}
_BITS: dict[str, int] = {}
_NUMPY: dict[str, np.dtype[Any]] = {}
_FROM_NUMPY: dict[np.dtype[Any], str] = {}
BY_SCHEMA: dict[str, str] = {}
"""Our name of what the schemas of operators call tensor(float)."""
for _enum, (_name, _bits) in _BY_ENUM.items():
    # An older onnx may lack the newest small types; a model it can read cannot hold them either.
    if _enum not in onnx.TensorProto.DataType.keys():  # noqa: SIM118 (an enum wrapper, not a dict)
        continue
    _number = onnx.TensorProto.DataType.Value(_enum)
    _NAME[_number] = _name
    _NUMBER[_name] = _number
    _BITS[_name] = _bits
    _NUMPY[_name] = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(_number))
    _FROM_NUMPY[_NUMPY[_name]] = _name
    BY_SCHEMA[f"tensor({_enum.lower()})"] = _name


def dtype_name(number: int) -> str:
    """Our name ('f32', 'i8', ...) of an ONNX element type number (as in Cast's `to`)."""
    if number not in _NAME:
        raise CompileError(f"unknown ONNX element type {number}")
    return _NAME[number]


def is_dtype(number: int) -> bool:
    """Whether ONNX knows an element type of this number."""
    return number in _NAME


def dtype_number(name: str) -> int:
    """The ONNX element type number of our name; the inverse of `dtype_name`."""
    if name not in _NUMBER:
        raise CompileError(f"'{name}' is not an ONNX element type")
    return _NUMBER[name]


def dtype_bits(name: str) -> int:
    """Bits of one stored element in an ONNX file (4 for i4); 0 for strings."""
    return _BITS[name]


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of our name, from the `ml_dtypes` package for bf16, f8*, f6*, f4*, i4, u4, i2, u2."""
    if name not in _NUMPY:
        raise CompileError(f"'{name}' is not an ONNX element type")
    return _NUMPY[name]


def dtype_of_array(array: np.ndarray) -> str:
    """Our name of an array's element type; any numpy string or object type is 'string'."""
    if array.dtype.kind in "USO":
        return "string"
    name = _FROM_NUMPY.get(array.dtype.newbyteorder("="))
    if name is None:
        raise CompileError(f"numpy type {array.dtype} is not an ONNX element type")
    return name
