"""RISC-V of 32 bits with floats of single precision."""

from __future__ import annotations

from mccompile.targets.machine import Capability, Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="riscv32imafc",
    summary="RV32IMAFC: floats of single precision",
    machine=Machine(
        vector_bytes=4, registers=30, integers=28, multiply_adds=0.5, latency=3, loads=1, load_bytes=4, call=10
    ),
    capabilities=frozenset({Capability.FMA}),
    align=4,
    flags=("-march=rv32imafc", "-mabi=ilp32f"),
    requires=("__riscv_mul", "__riscv_flen", "__riscv_compressed"),
    triple="riscv64-unknown-elf",
    packages=("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc"),
    hosted=False,
    board="virt-rv32",
    requant="fixed",
)
