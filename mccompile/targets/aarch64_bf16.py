"""64-bit Arm with matrix products of bfloat16 (ARMv8.6-A: Cortex-X2, A510, A710, Neoverse V1, N2 and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.aarch64_fp16 import TARGET as FP16
from mccompile.targets.aarch64_i8mm import TARGET as I8MM
from mccompile.targets.machine import Capability

TARGET = replace(
    I8MM,
    name="aarch64-bf16",
    summary="ARMv8.6-A, NEON with SMMLA, FMLAL and BFMMLA: matrix products of bf16",
    capabilities=I8MM.capabilities | FP16.capabilities | {Capability.BF16},
    flags=("-march=armv8.2-a+dotprod+i8mm+fp16fml+bf16",),
    requires=(*I8MM.requires, "__ARM_FEATURE_FP16_FML", "__ARM_FEATURE_BF16_VECTOR_ARITHMETIC"),
    features=(*I8MM.features, "asimdfhm", "bf16"),
)
