"""WebAssembly with its vectors of 128 bits, in browsers and run-times of WASI. Relaxed SIMD is not assumed: there is
no fused multiply-add."""

from __future__ import annotations

from mccompile.targets.machine import Machine
from mccompile.targets.target import Target

TARGET = Target(
    name="wasm32-simd",
    summary="WebAssembly with its vectors (not the relaxed ones)",
    # Most run where x86-64-v2 does: what it becomes has the registers of that.
    machine=Machine(vector_bytes=16, registers=16, multiply_adds=8, l1=32 * 1024, l2=256 * 1024),
    broadcasts=3,
    align=16,
    flags=("-msimd128",),
    requires=("__wasm__", "__wasm_simd128__"),
    isa="wasm",
    machines=("wasm32",),
    features=("simd128",),
    triple="wasm32-wasi",
    clang=17,
    link=("-Wl,-z,stack-size=1048576", "-Wl,--stack-first"),
    emulator=("wasmtime",),
    packages=("clang-19", "lld-19", "wasi-libc", "libclang-rt-19-dev-wasm32"),
    spare_memory=True,
)
