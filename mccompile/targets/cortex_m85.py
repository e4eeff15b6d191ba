"""Arm Cortex-M85 with Helium: ARMv8.1-M mainline.

gcc 12 does not know it by name. See `cortex_m55` for floats.
"""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m85",
    summary="Cortex-M85: ARMv8.1-M mainline, Helium, caches",
    machine=Machine(
        vector_bytes=4,
        registers=30,
        multiply_adds=1,
        latency=4,
        loads=1,
        load_bytes=4,
        line=32,
        l1=32 * 1024,
        call=10,
    ),
    capabilities=frozenset({Capability.FMA}),
    align=4,
    flags=("-march=armv8.1-m.main+mve.fp+fp.dp", "-mtune=cortex-m55", "-mthumb", "-mfloat-abi=hard"),
    requires=("__ARM_FP", "__ARM_FEATURE_MVE"),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps3-an547",
    requant="fixed",
    integer="mve",
)
