"""Arm Cortex-M33 with its floating-point unit: ARMv8-M mainline."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m33",
    summary="Cortex-M33: ARMv8-M mainline, DSP, FPv5 of single precision",
    machine=Machine(vector_bytes=4, registers=30, multiply_adds=0.5, latency=3, loads=1, load_bytes=4, call=10),
    capabilities=frozenset({Capability.FMA}),
    align=4,
    flags=("-mcpu=cortex-m33", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv5-sp-d16"),
    requires=("__ARM_ARCH_8M_MAIN__", "__ARM_FP", "__ARM_FEATURE_DSP"),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an505",
    requant="fixed",
    integer="smlad",
    prefers="u8",
)
