"""x86-64 with AVX-512 (Skylake-X, Zen 4 and later)."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target
from mccompile.targets.x86_64_v3 import TARGET as V3

TARGET = Target(
    name="x86-64-v4",
    summary="AVX-512 (F, BW, CD, DQ, VL)",
    # Zen 5: a product of one row by 8 vectors, four steps to a turn, took 1.15 of the time of one with two steps.
    machine=Machine(vector_bytes=64, registers=32, followed=16, l1=32 * 1024, l2=1024 * 1024),
    capabilities=frozenset({Capability.FMA, Capability.F16_CONVERSION, Capability.PAIRS, Capability.MASKED_STORES}),
    align=64,
    flags=("-march=x86-64-v4",),
    requires=("__AVX512F__", "__AVX512VL__"),
    isa="avx512",
    machines=("x86_64", "AMD64"),
    features=(*V3.features, "avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512cd"),
    spare_memory=True,
    integer="madd",
    prefers="u8",
)
