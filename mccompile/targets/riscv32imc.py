"""RISC-V of 32 bits with multiplications and short instructions."""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="riscv32imc",
    summary="RV32IMC (ESP32-C3): floats by a library",
    machine=Machine(integers=28, multiply_adds=0.01, loads=0.5, call=10),
    align=4,
    flags=("-march=rv32imc", "-mabi=ilp32"),
    requires=("__riscv_mul", "__riscv_compressed"),
    triple="riscv64-unknown-elf",
    packages=("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc"),
    hosted=False,
    board="virt-rv32",
    requant="fixed",
)
