"""x86-64 with AVX2 and AVX-VNNI, its products of bytes (Alder Lake and later)."""

from __future__ import annotations

from dataclasses import replace

from mccompile.targets.machine import Capability
from mccompile.targets.x86_64_v3 import TARGET as V3

TARGET = replace(
    V3,
    name="x86-64-v3-vnni",
    summary="AVX2 with AVX-VNNI: products of bytes",
    capabilities=V3.capabilities | {Capability.VNNI},
    flags=(*V3.flags, "-mavxvnni"),
    requires=(*V3.requires, "__AVXVNNI__"),
    features=(*V3.features, "avx_vnni"),
)
