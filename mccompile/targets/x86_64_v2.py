"""x86-64 with SSE4.2 (Nehalem, Silvermont and later)."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="x86-64-v2",
    summary="SSE4.2",
    machine=Machine(vector_bytes=16, registers=16, multiply_adds=8, l1=32 * 1024, l2=256 * 1024),  # 2 x mul, 2 x add
    capabilities=frozenset({Capability.PAIRS}),
    broadcasts=3,  # beside the scalar, a product before it is added, and a copy: instructions overwrite an operand
    align=16,
    flags=("-march=x86-64-v2",),
    requires=("__SSE4_2__",),
    isa="sse4",
    machines=("x86_64", "AMD64"),
    features=("sse4_1", "sse4_2", "ssse3", "popcnt"),
    spare_memory=True,
    integer="madd",
    prefers="u8",
)
