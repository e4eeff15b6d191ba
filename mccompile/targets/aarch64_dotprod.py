"""64-bit Arm with products of four bytes (Cortex-A55, A75, Neoverse N1 and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.aarch64 import TARGET as BASE
from mccompile.targets.machine import Capability

TARGET = replace(
    BASE,
    name="aarch64-dotprod",
    summary="ARMv8.2-A, NEON with SDOT: products of bytes",
    capabilities=BASE.capabilities | {Capability.DOTPROD},
    flags=("-march=armv8.2-a+dotprod",),
    requires=(*BASE.requires, "__ARM_FEATURE_DOTPROD"),
    features=("asimddp",),
    emulator=("qemu-aarch64", "-cpu", "cortex-a76"),
)
