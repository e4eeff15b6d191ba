"""32-bit Arm with NEON and fused multiply-add.

NEON of 32 bits flushes denormals to zero, so gcc keeps vectors out of it, lane by lane, unless unsafe mathematics are
allowed. The flags allow just that: what changes the order of operations, zeros' signs or divisions stays forbidden.
No flag forbids that two functions of the C library become one, as exp(log(x)) becomes x, which is no NaN where x is
negative; so gcc is not to know one of each such pair. That divisions may trap is said for gcc 12, which would
multiply by the inverse of what is the same in all turns of a loop: 41 / 41 would be less than 1. clang does not, and
has no need to be warned that it does not know traps there.
"""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

UNKNOWN = ("cos", "exp", "pow", "sinh", "sqrt", "tan")
"""Functions that gcc 12 joins with another, or with one of their own kind."""

TARGET = Target(
    name="armv7-neon",
    summary="ARMv7-A, NEON and VFPv4 (Cortex-A7, A15 and later)",
    machine=Machine(vector_bytes=16, registers=16, l1=32 * 1024, l2=512 * 1024),
    capabilities=frozenset({Capability.FMA}),
    broadcasts=3,
    denormals=False,
    align=16,
    flags=(
        "-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard",
        "-funsafe-math-optimizations", "-fno-associative-math", "-fno-reciprocal-math", "-fsigned-zeros",
        "-ftrapping-math", *(f"-fno-builtin-{name}{f}" for name in UNKNOWN for f in ("", "f")),
        "-Wno-unsupported-floating-point-opt",
    ),
    requires=("__ARM_NEON", "__ARM_FEATURE_FMA"),
    isa="neon",
    machines=("armv7l", "armv8l"),
    features=("neon", "vfpv4"),
    triple="arm-linux-gnueabihf",
    emulator=("qemu-arm", "-cpu", "cortex-a7"),
    packages=("gcc-arm-linux-gnueabihf", "libc6-dev-armhf-cross", "qemu-user"),
    spare_memory=True,
    integer="smlal",
)  # fmt: skip
