"""Arm Cortex-M7 with its floating-point unit: ARMv7E-M."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m7",
    summary="Cortex-M7: ARMv7E-M, FPv5 of double precision, caches",
    machine=Machine(
        vector_bytes=4,
        registers=30,
        multiply_adds=1,
        latency=3,
        loads=1,
        load_bytes=4,
        line=32,
        l1=16 * 1024,
        call=10,
    ),
    capabilities=frozenset({Capability.FMA}),
    align=4,
    flags=("-mcpu=cortex-m7", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
    requires=("__ARM_ARCH_7EM__", "__ARM_FP", "__ARM_FEATURE_DSP"),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an500",
    requant="fixed",
    integer="smlad",
    prefers="u8",
)
