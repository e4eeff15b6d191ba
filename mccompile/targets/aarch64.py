"""64-bit Arm: every processor of ARMv8-A has NEON."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="aarch64",
    summary="ARMv8-A, NEON (Cortex-A53 and later)",
    # Multiply-adds and loads of four pipes; a Cortex-A53 has a fourth of both: the same tiles are best.
    machine=Machine(vector_bytes=16, registers=32, vectors_loaded=4, l1=32 * 1024, l2=512 * 1024),
    capabilities=frozenset({Capability.FMA, Capability.F16_CONVERSION, Capability.LANES, Capability.A64}),
    broadcasts=0,  # scalars are lanes of vectors: gcc loads those of four steps at once
    align=16,
    flags=("-march=armv8-a",),
    requires=("__aarch64__", "__ARM_NEON"),
    isa="neon",
    machines=("aarch64", "arm64"),
    triple="aarch64-linux-gnu",
    emulator=("qemu-aarch64", "-cpu", "cortex-a53"),
    packages=("gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross", "qemu-user"),
    spare_memory=True,
    integer="smlal",
)
