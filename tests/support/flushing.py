"""A thread for which denormals are zero, as audio programs, and what gcc links with -ffast-math, have it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mccompile.run.build import build_library

SOURCE = """
#if defined(__x86_64__)
#include <xmmintrin.h>
unsigned int flushing_begin(void)
{
    const unsigned int before = _mm_getcsr();
    _mm_setcsr(before | 0x8040u); /* FTZ, DAZ */
    return before;
}
void flushing_end(unsigned int before)
{
    _mm_setcsr(before);
}
#elif defined(__aarch64__)
unsigned int flushing_begin(void)
{
    unsigned long before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"(before | (1ul << 24)));
    return (unsigned int)before;
}
void flushing_end(unsigned int before)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((unsigned long)before));
}
#endif
"""


@contextmanager
def flushed_denormals(folder: Path) -> Iterator[None]:
    """What this thread computes meanwhile takes numbers below 2^-126 for zero; ``folder`` is for the C."""
    source = folder / "flushing.c"
    source.write_text(SOURCE)
    library = ctypes.CDLL(str(build_library([source], ["-O1"], folder)))
    before = library.flushing_begin()
    try:
        yield
    finally:
        library.flushing_end(before)
