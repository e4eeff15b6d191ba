"""Arm Cortex-M0+ (and M0, M1): ARMv6-M."""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m0plus",
    summary="Cortex-M0, M0+, M1: ARMv6-M, floats by a library",
    machine=Machine(integers=8, multiply_adds=0.01, loads=0.5, call=10),
    align=4,
    flags=("-mcpu=cortex-m0plus", "-mthumb"),
    requires=("__ARM_ARCH_6M__",),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an385",
    requant="fixed",
)
