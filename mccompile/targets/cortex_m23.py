"""Arm Cortex-M23: ARMv8-M baseline."""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m23",
    summary="Cortex-M23: ARMv8-M baseline, floats by a library",
    machine=Machine(integers=8, multiply_adds=0.01, loads=0.5, call=10),
    align=4,
    flags=("-mcpu=cortex-m23", "-mthumb"),
    requires=("__ARM_ARCH_8M_BASE__",),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an505",
    requant="fixed",
)
