"""x86-64 with AVX-512 and its products of bfloat16 (Cooper Lake, Sapphire Rapids, Zen 4 and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.machine import Capability
from mccompile.targets.x86_64_v4_vnni import TARGET as VNNI

TARGET = replace(
    VNNI,
    name="x86-64-v4-bf16",
    summary="AVX-512 with VNNI and BF16: products of bytes and of bf16",
    capabilities=VNNI.capabilities | {Capability.BF16},
    flags=(*VNNI.flags, "-mavx512bf16"),
    requires=(*VNNI.requires, "__AVX512BF16__"),
    features=(*VNNI.features, "avx512_bf16"),
)
