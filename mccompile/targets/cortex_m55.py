"""Arm Cortex-M55 with Helium: ARMv8.1-M mainline.

Floats go one by one for now: gcc 12 makes no fused multiply-adds of vectors of floats.
"""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m55",
    summary="Cortex-M55: ARMv8.1-M mainline, Helium",
    machine=Machine(vector_bytes=4, registers=30, multiply_adds=1, latency=4, loads=1, load_bytes=4, call=10),
    capabilities=frozenset({Capability.FMA}),
    align=4,
    flags=("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    requires=("__ARM_FP", "__ARM_FEATURE_MVE"),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps3-an547",
    requant="fixed",
    integer="mve",
)
