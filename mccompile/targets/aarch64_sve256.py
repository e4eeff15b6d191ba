"""64-bit Arm with the vectors of SVE, of 256 bits (Neoverse V1: Graviton 3).

Code for vectors of one width is wrong on others: a processor whose vectors are wider runs it if the operating system
makes them as narrow for the process (`prctl(PR_SVE_SET_VL, 32)`).
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.aarch64 import TARGET as BASE
from mccompile.targets.machine import Capability

TARGET = replace(
    BASE,
    name="aarch64-sve256",
    summary="ARMv8.2-A, vectors of SVE of 256 bits (Neoverse V1)",
    machine=replace(BASE.machine, vector_bytes=32, vectors_loaded=1, l1=64 * 1024, l2=1024 * 1024),
    capabilities=frozenset({Capability.FMA, Capability.F16_CONVERSION, Capability.LANES}),
    align=32,
    flags=("-march=armv8.2-a+sve", "-msve-vector-bits=256"),
    requires=("__aarch64__", "__ARM_FEATURE_SVE"),
    isa="sve",
    features=("sve", "sve256"),
    emulator=("qemu-aarch64", "-cpu", "max,sve256=on"),
    integer="mla",
)
