"""Arm Cortex-M4 with its floating-point unit: ARMv7E-M.

VFMA takes three cycles, VMUL and VADD one each.
"""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="cortex-m4",
    summary="Cortex-M4F: ARMv7E-M, FPv4 of single precision",
    machine=Machine(
        vector_bytes=4, registers=30, multiply_adds=0.5, slow_fma=True, latency=1, loads=1, load_bytes=4, call=10
    ),
    broadcasts=3,  # beside the scalar, a product before it is added, and one that is loaded early
    align=4,
    flags=("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    requires=("__ARM_ARCH_7EM__", "__ARM_FP", "__ARM_FEATURE_DSP"),
    triple="arm-none-eabi",
    packages=("gcc-arm-none-eabi", "libnewlib-arm-none-eabi", "qemu-system-arm"),
    hosted=False,
    board="mps2-an386",
    requant="fixed",
    integer="smlad",
    prefers="u8",
)
