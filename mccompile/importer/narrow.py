"""Values of types that only files have, held in the next wider type: 4-bit integers as bytes, 8-bit floats as f32.

    i4[3] of -8, 0, 7  is  i8[3] of -8, 0, 7             what it means is the same wherever it is read as a number

Activations may have such a type between QuantizeLinear, which saturates to its integers, and DequantizeLinear.
Operators that ask more of it are refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mccompile.importer.sequences import Known
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.onnxio import OnnxNode, dtype_of_array

HELD_IN = {
    "i4": "int8", "u4": "uint8", "i2": "int8", "u2": "uint8",
    **dict.fromkeys(("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1", "f8e8m0"), "float32"),
}  # fmt: skip
"""The type of files, and that which holds its values exactly."""

_MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result has the type of input 0, and its elements."""

_READERS: dict[str, tuple[int, ...]] = {
    "DequantizeLinear": (0, 2), "Cast": (0,), "CastLike": (0, 1), "QuantizeLinear": (2,), "Shape": (0,), "Size": (0,),
    **dict.fromkeys(_MOVES, (0,)),
}  # fmt: skip
"""Operators that may read such a value, and as which inputs."""


def held(array: np.ndarray) -> tuple[np.ndarray, str]:
    """An array in a type that the IR may have, and the name of its own type if that was narrower, else ""."""
    dtype = dtype_of_array(array)
    return (array.astype(HELD_IN[dtype]), dtype) if dtype in HELD_IN else (array, "")


def require_readable(node: OnnxNode, inputs: Sequence[Known | None], narrow: Mapping[Value, str]) -> None:
    """CompileError if a node asks more of a narrow value than its numbers."""
    allowed = () if node.domain else _READERS.get(node.op_type, ())
    for i, value in enumerate(inputs):
        if isinstance(value, Value) and value in narrow and i not in allowed:
            raise CompileError(
                f"{node.op_type} of {narrow[value]} is not supported",
                where=f"node {node.index} {node.name!r}",
                hint=f"{narrow[value]} may go into DequantizeLinear, Cast, and what moves elements",
            )


def keeps_type(node: OnnxNode) -> bool:
    """Whether the node's result has the narrow type of its input 0."""
    return not node.domain and node.op_type in _MOVES
