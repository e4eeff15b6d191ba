"""Text in tensors: UTF-8 in a last axis of as many bytes as it may take, zeros behind a shorter one.

    ["on", "off"], of 4 bytes each      is      u8[2,4] of 6f 6e 00 00, 6f 66 66 00

The operators of ONNX that take text have front ends here and in ``text_*``, under a domain of their own.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.errors import UsageError
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, U8
from mccompile.ops.concat import Concat
from mccompile.ops.filled import filled
from mccompile.ops.frontend import Import
from mccompile.ops.reduce import Reduce
from mccompile.ops.registry import onnx_op

TEXT = "mccompile.text"
"""The domain of front ends of operators whose first input is text."""

TEXT_BYTES = 64
"""Bytes of an element of an input, where nothing else is said (``--string-bytes``)."""


def encoded(strings: Array | Iterable[str], capacity: int = 0) -> Array:
    """Text as bytes, u8[..., capacity]; by default as many as the longest takes.

    UsageError for what does not fit, has a zero byte, or halves of pairs, which UTF-8 has not.

    >>> encoded(["on", "off"]).tolist()
    [[111, 110, 0], [111, 102, 102]]
    """
    given = np.asarray(strings if isinstance(strings, np.ndarray) else list(strings), dtype=object)
    try:
        flat = [s if isinstance(s, bytes) else str(s).encode() for s in given.reshape(-1)]
    except UnicodeEncodeError as e:
        raise UsageError(f"text that has no UTF-8 is not supported: {e.reason}") from e
    longest = max(map(len, flat), default=0)
    capacity = capacity or max(longest, 1)
    if longest > capacity:
        raise UsageError(
            f"text of {longest} bytes does not fit into {capacity}", hint=f"compile with --string-bytes {longest}"
        )
    if any(b"\0" in s for s in flat):
        raise UsageError("text with a zero byte is not supported")
    joined = b"".join(s.ljust(capacity, b"\0") for s in flat)
    return np.frombuffer(joined, np.uint8).reshape(*given.shape, capacity).copy()


def decoded(array: Array) -> Array:
    """The inverse of `encoded`: objects of type str."""
    flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
    found = np.empty(flat.shape[0], dtype=object)
    found[:] = [row.tobytes().rstrip(b"\0").decode("utf-8", "replace") for row in flat]
    return found.reshape(array.shape[:-1])


def strings_of(array: Array) -> list[bytes]:
    """The text of each element in row-major order."""
    flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
    return [row.tobytes().rstrip(b"\0") for row in flat]


def widened(n: Import, x: Value, capacity: int, suffix: str) -> Value:
    """``x`` with room for more bytes."""
    missing = capacity - x.shape[-1]
    if missing <= 0:
        return x
    zeros = filled(n, 0, U8, (*x.shape[:-1], missing), f"{suffix}.zeros")
    return n.inner(Concat(len(x.shape) - 1), [x, zeros], f"{suffix}.widened")


@onnx_op("Identity", domain=TEXT, tolerance={})
def import_identity(n: Import) -> None:
    n.narrow_result = "string"
    n.bind(0, n.input(0))


@onnx_op("Equal", domain=TEXT, tolerance={})
def import_equal(n: Import) -> None:
    """Texts are equal where all their bytes are."""
    a, b = n.input(0), n.input(1)
    capacity = max(a.shape[-1], b.shape[-1])
    a, b = widened(n, a, capacity, "a"), widened(n, b, capacity, "b")
    alike = ex.apply("select", ex.apply("eq", ex.var(0, U8), ex.var(1, U8)), ex.num(1, U8), ex.num(0, U8))
    same = n.map(alike, [a, b], "bytes")
    kept = n.inner(Reduce("min", (len(same.shape) - 1,)), [same], "kept")
    n.bind(0, n.map(ex.convert(ex.var(0, U8), BOOL), [n.reshape(kept, kept.shape[:-1], "all")], "equal"))
