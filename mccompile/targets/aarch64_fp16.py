"""64-bit Arm with products of f16 that are added up in f32 (Cortex-A75 and A76 have it not, A78C and X1C do)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.aarch64_dotprod import TARGET as DOTPROD
from mccompile.targets.machine import Capability

TARGET = replace(
    DOTPROD,
    name="aarch64-fp16",
    summary="ARMv8.2-A, NEON with SDOT and FMLAL: products of f16, sums of f32",
    capabilities=DOTPROD.capabilities | {Capability.FHM},
    flags=("-march=armv8.2-a+dotprod+fp16fml",),
    requires=(*DOTPROD.requires, "__ARM_FEATURE_FP16_FML"),
    features=(*DOTPROD.features, "asimdfhm"),
    emulator=("qemu-aarch64", "-cpu", "max"),
)
