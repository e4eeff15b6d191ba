"""64-bit RISC-V whose vectors have at least 256 bits (SpacemiT K1, and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.riscv64_v import TARGET as V

TARGET = replace(
    V,
    name="riscv64-v256",
    summary="RV64GCV whose vectors have 256 bits or more",
    machine=replace(V.machine, vector_bytes=32, multiply_adds=16),
    align=32,
    flags=("-march=rv64gcv_zvl256b",),
    requires=(*V.requires, "__riscv_zvl256b"),
    features=(*V.features, "zvl256b"),
    emulator=("qemu-riscv64", "-cpu", "rv64,v=true,vext_spec=v1.0,vlen=256,elen=64"),
)
