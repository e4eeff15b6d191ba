"""Arm Cortex-M3: ARMv7-M."""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m3",
    summary="Cortex-M3: ARMv7-M, floats by a library",
    machine=Machine(multiply_adds=0.01, loads=0.5, call=10),
    align=4,
    flags=("-mcpu=cortex-m3", "-mthumb"),
    requires=("__thumb2__",),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an385",
    requant="fixed",
)
