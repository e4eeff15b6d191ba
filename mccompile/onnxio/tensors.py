"""Decode tensors of a model file, including external data, with every size checked before memory is taken."""

from __future__ import annotations

import math
import os
import sys
from io import FileIO
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from mccompile.ir.errors import CompileError
from mccompile.ir.limits import require
from mccompile.onnxio.dtypes import dtype_bits, dtype_name, numpy_dtype
from mccompile.onnxio.wire import OWN

_AS_STORED = frozenset("f32 f64 f16 bool i8 i16 i32 i64 u8 u16 u32 u64".split())
"""Element types that numpy reads as files hold them: weights are most of a model, and not copied once more."""


def decode_tensor(tensor: onnx.TensorProto, folder: Path, where: str) -> np.ndarray:
    """A tensor's values as an array of its own type (`ml_dtypes` for bf16, i4 and their like).

    Args:
        tensor: inside the file or external.
        folder: the model's own folder: external data lies there or below.
        where: what error messages begin with.
    """
    label = f"{where}: tensor '{tensor.name}'"
    dtype = dtype_name(tensor.data_type) if tensor.data_type else ""
    if not dtype:
        raise CompileError("the tensor states no element type", where=label)
    want = _payload_bytes(tuple(tensor.dims), dtype, label)
    external = tensor.data_location == onnx.TensorProto.EXTERNAL
    raw: bytes | memoryview | None = _read_external(tensor, folder, want, label) if external else None
    if raw is None and tensor.HasField("raw_data"):
        raw = tensor.raw_data  # a copy each time it is asked for
    if raw is not None and len(raw) != want:
        raise CompileError(f"holds {len(raw)} bytes, its shape needs {want}", where=label)
    if raw is not None and dtype in _AS_STORED and sys.byteorder == "little" and not tensor.HasField("segment"):
        return np.frombuffer(raw, dtype=numpy_dtype(dtype)).reshape(tuple(tensor.dims))
    if external and raw is not None:
        loaded = onnx.TensorProto()
        loaded.CopyFrom(tensor)
        del loaded.external_data[:]
        loaded.data_location = onnx.TensorProto.DEFAULT
        loaded.raw_data = bytes(raw)
        tensor = loaded
    try:
        return np.asarray(numpy_helper.to_array(tensor))
    except Exception as error:
        raise CompileError(f"cannot be decoded: {error}", where=label) from error


def decode_sparse(sparse: onnx.SparseTensorProto, folder: Path, where: str) -> np.ndarray:
    """A sparse tensor as a dense array (SparseTensorProto: indices linear, or a row of coordinates each)."""
    values = decode_tensor(sparse.values, folder, where)
    indices = decode_tensor(sparse.indices, folder, where)
    label = f"{where}: sparse tensor '{sparse.values.name}'"
    dims = tuple(sparse.dims)
    _payload_bytes(dims, dtype_name(sparse.values.data_type), label)
    dense = np.zeros(dims, dtype=values.dtype)
    if values.ndim != 1 or indices.shape not in ((len(values),), (len(values), len(dims))):
        raise CompileError("values and indices do not fit together", where=label)
    if indices.ndim == 2:
        if np.any(indices < 0) or np.any(indices >= np.array(dims, dtype=np.int64)):
            raise CompileError("an index is outside of the shape", where=label)
        dense[tuple(indices.T)] = values
    else:
        if np.any(indices < 0) or np.any(indices >= dense.size):
            raise CompileError("an index is outside of the shape", where=label)
        dense.reshape(-1)[indices] = values
    return dense


def _payload_bytes(dims: tuple[int, ...], dtype: str, label: str) -> int:
    if any(extent < 0 for extent in dims):
        raise CompileError(f"negative extent in shape {dims}", where=label)
    size = (math.prod(dims) * dtype_bits(dtype) + 7) // 8
    require("stored-bytes", size, f"shape {dims}", label)
    return size


def _read_external(tensor: onnx.TensorProto, folder: Path, want: int, label: str) -> memoryview:
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        offset = int(entries.get("offset", "0"))
        length = int(entries.get("length", str(want)))
    except ValueError as error:
        raise CompileError("external data with an offset or length that is no number", where=label) from error
    location = entries.get("location", "")
    if not isinstance(location, str):
        raise CompileError(f"external data location {location!r} is not UTF-8 text", where=label)
    own = location.startswith(OWN)
    if offset < 0 or length != want:
        held = f"holds {length} bytes" if own else f"external data of {length} bytes at {offset}"
        raise CompileError(f"{held}, its shape needs {want}", where=label)
    path = folder / location.removeprefix(OWN) if own else _inside(location, folder, label)
    data = np.empty(length, np.uint8)  # numpy asks for memory in large pages
    try:
        with FileIO(path) as file:
            file.seek(offset)
            read = _read_into(data, file)
    except (OSError, OverflowError) as error:  # an offset beyond 64 bits
        why = getattr(error, "strerror", None) or f"there is nothing at {offset}"
        raise CompileError(f"external data file '{path.name}' cannot be read: {why}", where=label) from error
    if read != length:
        raise CompileError(
            f"external data file '{path.name}' ends early: {read} of {length} bytes at {offset}",
            where=label,
        )
    return data.data.toreadonly()


def _read_into(data: np.ndarray, file: FileIO) -> int:
    """Fill an array of bytes from a file: how many there were. One call of the system gives at most 2 GiB."""
    filled = 0
    while filled < len(data) and (more := file.readinto(data[filled:].data)):
        filled += more
    return filled


def _inside(location: str, folder: Path, label: str) -> Path:
    """The file a location names, if it is a regular file in the model's folder after following links."""
    parts = location.replace("\\", "/").split("/")
    if not location or "\0" in location or os.path.isabs(location) or ".." in parts or ":" in parts[0]:
        raise CompileError(
            f"external data location '{location}' is not a path inside the model's folder", where=label
        )
    root = folder.resolve()
    try:
        path = (root / location).resolve()
        is_file = path.is_file()
    except (OSError, RuntimeError) as error:  # too long a name; links that lead to themselves
        raise CompileError(f"external data location '{location}' is no path: {error}", where=label) from error
    if not path.is_relative_to(root):
        raise CompileError(
            f"external data location '{location}' leads out of the model's folder", where=label
        )
    if not is_file:
        raise CompileError(
            f"external data file '{location}' is missing",
            where=label,
            hint="it belongs into the folder of the .onnx file",
        )
    return path
