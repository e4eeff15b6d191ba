"""64-bit RISC-V with vectors (RVA23, SpacemiT K1, SiFive X280 and later): at least 128 bits of every processor's."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="riscv64-v",
    summary="RV64GCV: vectors of RVV 1.0, of any width",
    machine=Machine(vector_bytes=16, registers=32, integers=26, multiply_adds=8, l1=32 * 1024, l2=512 * 1024),
    capabilities=frozenset({Capability.FMA}),
    broadcasts=0,  # vfmacc.vf takes the scalar from a register of floats
    align=16,
    flags=("-march=rv64gcv",),
    requires=("__riscv_v", "__riscv_d"),
    isa="rvv",
    machines=("riscv64",),
    features=("v",),
    triple="riscv64-linux-gnu",
    clang=17,
    emulator=("qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128,elen=64"),
    packages=("clang-19", "gcc-riscv64-linux-gnu", "libc6-dev-riscv64-cross", "qemu-user"),
    spare_memory=True,
)
