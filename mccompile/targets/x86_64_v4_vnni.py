"""x86-64 with AVX-512 and its products of bytes (Ice Lake, Zen 4 and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.machine import Capability
from mccompile.targets.x86_64_v4 import TARGET as V4

TARGET = replace(
    V4,
    name="x86-64-v4-vnni",
    summary="AVX-512 with VNNI: products of bytes",
    capabilities=V4.capabilities | {Capability.VNNI},
    flags=(*V4.flags, "-mavx512vnni"),
    requires=(*V4.requires, "__AVX512VNNI__"),
    features=(*V4.features, "avx512_vnni"),
)
