"""64-bit Arm with matrix products of bytes (Cortex-A510, X2, Neoverse V1 and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.aarch64_dotprod import TARGET as DOTPROD
from mccompile.targets.machine import Capability

TARGET = replace(
    DOTPROD,
    name="aarch64-i8mm",
    summary="ARMv8.2-A, NEON with SDOT and SMMLA: matrix products of bytes",
    capabilities=DOTPROD.capabilities | {Capability.I8MM},
    flags=("-march=armv8.2-a+dotprod+i8mm",),
    requires=(*DOTPROD.requires, "__ARM_FEATURE_MATMUL_INT8"),
    features=(*DOTPROD.features, "i8mm"),
    emulator=("qemu-aarch64", "-cpu", "max"),
)
