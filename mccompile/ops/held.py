"""Types that only files have, and those in which the graph holds their values (`importer.narrow`)."""

from __future__ import annotations

import numpy as np

from mccompile.onnxio import dtype_of_array
from mccompile.ops.narrow_floats import NARROW_FLOATS
from mccompile.ops.text import encoded

HELD_IN = {
    "i4": "int8", "u4": "uint8", "i2": "int8", "u2": "uint8",
    **dict.fromkeys(NARROW_FLOATS, "float32"), "string": "uint8",
}  # fmt: skip
"""The type of files, and that which holds its values exactly."""


def held(array: np.ndarray) -> tuple[np.ndarray, str]:
    """An array in a type that the IR may have, and the name of its own type if that was narrower, else ""."""
    dtype = dtype_of_array(array)
    if dtype == "string":
        return encoded(array), dtype
    return (array.astype(HELD_IN[dtype]), dtype) if dtype in HELD_IN else (array, "")
