"""What ONNX calls one input or output, as the arrays of a network's ports, and back.

    x = [a, b], a sequence of two tensors      is      ports x_0 = a and x_1 = b
    x of int4, [-8, 0, 7]                      is      port x of u8, [0x08, 0x07]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.ir.errors import UsageError
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxValue, dtype_bits, dtype_of_array, numpy_dtype
from mccompile.ops.text import TEXT_BYTES, decoded, encoded
from mccompile.run.memory import Array


def spread(names: Sequence[str], values: Sequence[Any]) -> dict[str, Array]:
    """The arrays of ports by name: a sequence is one port for each tensor, and what is absent (None) has none.

    UsageError if there are not as many values as names.
    """
    if len(names) != len(values):
        raise UsageError(f"{len(values)} inputs given, {len(names)} expected: {', '.join(names)}")
    ports: dict[str, Array] = {}
    for name, value in zip(names, values, strict=True):
        if isinstance(value, list | tuple):
            ports.update({item_name(name, i): np.asarray(item) for i, item in enumerate(value)})
        elif value is not None:
            ports[name] = np.asarray(value)
    return ports


def gather(outputs: Sequence[OnnxValue], ports: Mapping[str, Array]) -> list[Any]:
    """The value of each output by the arrays of ports; the inverse of `spread` and `stored`."""
    values: list[Any] = []
    for output in outputs:
        if output.name in ports:
            values.append(_meant(output, ports[output.name]))
            continue
        items: list[Array] = []
        while item_name(output.name, len(items)) in ports:
            items.append(ports[item_name(output.name, len(items))])
        values.append(items)
    return values


def item_name(name: str, i: int) -> str:
    """What the port of tensor ``i`` of a sequence is called."""
    return f"{name}_{i}"


def stored(array: Array, text_bytes: int = TEXT_BYTES) -> Array:
    """An array as its port has it: of a type that C has not, the bytes as ONNX packs them; of text, ``text_bytes``
    for each element. UsageError where it is longer."""
    dtype = dtype_of_array(array)
    if dtype in DTYPES:
        return array
    if dtype == "string":
        return encoded(array, text_bytes)
    bits = dtype_bits(dtype)
    if bits >= 8:
        return array.view(np.uint8 if bits == 8 else np.uint16)
    per_byte = 8 // bits
    fields = array.reshape(-1).view(np.uint8) & (1 << bits) - 1
    fields = np.pad(fields, (0, -fields.size % per_byte)).reshape(-1, per_byte)
    packed: Array = np.bitwise_or.reduce(fields << np.arange(0, 8, bits, dtype=np.uint8), axis=1)
    return packed


def _meant(output: OnnxValue, array: Array) -> Array:
    """The array of a port as what the model calls it; the bytes where its shape is not known."""
    shape = output.shape
    if output.dtype == "string":
        return decoded(array)
    if output.dtype in (*DTYPES, "unknown") or array.dtype not in (np.uint8, np.uint16):
        return array
    bits, extents = dtype_bits(output.dtype), [e for e in shape or () if isinstance(e, int)]
    if bits >= 8:
        return array.view(numpy_dtype(output.dtype))
    if shape is None or len(extents) < len(shape):
        return array
    fields = (array[:, None] >> np.arange(0, 8, bits, dtype=np.uint8) & (1 << bits) - 1).reshape(-1)
    fields = fields[: math.prod(extents)].astype(np.int16)
    if output.dtype.startswith("i"):
        fields = np.where(fields >= 1 << bits - 1, fields - (1 << bits), fields)
    if output.dtype.startswith("f"):
        return fields.astype(np.uint8).view(numpy_dtype(output.dtype)).reshape(extents)
    return fields.astype(numpy_dtype(output.dtype)).reshape(extents)
