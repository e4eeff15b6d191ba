"""Memory for networks that run in this process: aligned, or ending where the next byte may not be touched."""

from __future__ import annotations

import ctypes
import gc
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from mccompile.ir.errors import InternalError

Array = np.ndarray[Any, np.dtype[Any]]

Allocate = Callable[[int, int], Array]
"""(bytes, alignment) -> bytes that live as long as the array or a view of it."""

_PROT_NONE = 0


def aligned_bytes(count: int, align: int) -> Array:
    """``count`` zero bytes whose first is at a multiple of ``align``."""
    raw = np.zeros(count + align, dtype=np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + count]


def give_back() -> None:
    """Free what nothing refers to but itself, and give it to the system where the C library keeps it: glibc does, of
    arrays of up to 32 MB, and finds no use for it when larger ones are asked for."""
    gc.collect()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none
        if trim is not None:
            trim(0)


FENCE_BYTES = 64 * 1024
_FENCE = np.array([0xA5, 0xA5, 0xF5, 0x7F], np.uint8)
"""What stands there again and again: no number as a float of 32 or 64 bits, and every other time as one of 16, so
that what is made of it tells of reading it."""


class Fences:
    """Allocates like `aligned_bytes` between two stretches of known bytes, which tell of writes past either end."""

    def __init__(self) -> None:
        self._fences: list[tuple[Array, Array]] = []

    def allocate(self, count: int, align: int) -> Array:
        whole = aligned_bytes(count + 2 * FENCE_BYTES, align)
        for fence in (whole[:FENCE_BYTES], whole[FENCE_BYTES + count :]):
            fence[:] = known = np.resize(np.roll(_FENCE, -fence.ctypes.data), FENCE_BYTES)
            self._fences.append((fence, known))
        return whole[FENCE_BYTES : FENCE_BYTES + count]

    def intact(self) -> bool:
        """False if anything was written beside the memory given out."""
        return all(np.array_equal(fence, known) for fence, known in self._fences)


def guarded_bytes(count: int, align: int) -> Array:
    """As `aligned_bytes`, but close before a page without access: reading past the end ends the process.

    Fewer than ``align`` bytes lie between, none if ``count`` is a multiple of it. POSIX only.
    """
    page = mmap.PAGESIZE
    used = -(-(count + align) // page) * page
    memory = mmap.mmap(-1, used + page)
    raw = np.frombuffer(memory, dtype=np.uint8)
    base = raw.ctypes.data
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(base + used), ctypes.c_size_t(page), _PROT_NONE):
        raise InternalError(f"mprotect failed with errno {ctypes.get_errno()}")
    start = used - count
    start -= (base + start) % align
    return raw[start : start + count]
