"""x86-64 with AVX2 and FMA (Haswell, Zen and later)."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="x86-64-v3",
    summary="AVX2 and FMA",
    machine=Machine(vector_bytes=32, registers=16, l1=32 * 1024, l2=512 * 1024),
    capabilities=frozenset({Capability.FMA, Capability.F16_CONVERSION, Capability.PAIRS}),
    align=32,
    flags=("-march=x86-64-v3",),
    requires=("__AVX2__", "__FMA__"),
    isa="avx2",
    machines=("x86_64", "AMD64"),
    features=("avx2", "fma", "f16c", "bmi1", "bmi2", "abm", "movbe"),
    spare_memory=True,
    integer="madd",
    prefers="u8",
)
