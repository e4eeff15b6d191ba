"""Tokens per second of decoders beside what the memory's bandwidth allows: prints a table.

usage: decoders.py [--layers N] [--rounds N]

Each token reads all weights once, and the keys and values of the tokens before. A loop that only reads as many bytes
is measured in turn with the network; onnxruntime (one thread) is too. Models are made here
(`tests.support.decoders`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import onnx
import onnxruntime as ort

import mccompile
from mccompile.bench.timing import interleave
from mccompile.run.build import build_library
from mccompile.run.memory import aligned_bytes
from tests.support.decoders import LARGE, Sizes, grouped, standard, state

READER = """
#include <stddef.h>
#include <stdint.h>
typedef uint32_t vec __attribute__((vector_size(32)));
uint32_t read_all(const vec *x, size_t vectors);
uint32_t read_all(const vec *x, size_t vectors)
{
    vec a = { 0 }, b = { 0 }, c = { 0 }, d = { 0 };
    for (size_t i = 0; i + 4 <= vectors; i += 4) {
        a ^= x[i];
        b ^= x[i + 1];
        c ^= x[i + 2];
        d ^= x[i + 3];
    }
    a ^= b ^ c ^ d;
    return a[0] ^ a[1] ^ a[2] ^ a[3] ^ a[4] ^ a[5] ^ a[6] ^ a[7];
}
"""
FORMS: dict[str, Callable[[Sizes], onnx.ModelProto]] = {
    "standard, f32": standard,
    "grouped, f32": grouped,
    "grouped, 8 bits": lambda s: grouped(s, 8),
    "grouped, 4 bits": lambda s: grouped(s, 4),
}


def reader(folder: Path, nbytes: int) -> Callable[[], object]:
    """A loop that reads so many bytes."""
    source = folder / "reader.c"
    source.write_text(READER)
    ffi = cffi.FFI()
    ffi.cdef("uint32_t read_all(const void *, size_t);")
    lib: Any = ffi.dlopen(str(build_library([source], ["-O2", "-mavx2"], folder)))
    memory = aligned_bytes(nbytes, 64)
    memory[:] = 1
    at = ffi.cast("void *", memory.ctypes.data)
    return lambda: (memory, lib.read_all(at, nbytes // 32))


def theirs(path: Path, sizes: Sizes, past: int) -> Callable[[], object]:
    """One token of onnxruntime, behind ``past`` others."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    shapes = {v.name: [past if e == "past" else e for e in v.shape] for v in session.get_inputs()}
    feeds = {name: np.zeros(shape, np.float32) for name, shape in shapes.items() if name != "ids"}
    feeds["ids"] = np.ones((1, 1), np.int64)
    return lambda: session.run(["logits"], feeds)


def measured(name: str, sizes: Sizes, past: int, rounds: int, folder: Path) -> str:
    """A row of the table."""
    path = folder / "decoder.onnx"
    onnx.save(FORMS[name](sizes), path)
    dims = {"past": f"0..{sizes.room - 1}"}
    made = mccompile.compile(path, folder / "out", "native", dims=dims, keep_inputs=True, state=state(sizes))
    network = mccompile.load(folder / "out")
    network.set_inputs({"ids": np.ones((1, 1), np.int64)})

    def token() -> None:
        network.set_extents({"past": past})
        network.invoke()

    tables = 4 * sizes.width * (sizes.vocabulary + (sizes.room if name.startswith("standard") else 0))
    kept = made.report["memory"]["state_bytes"] * (past + 1) // sizes.room
    nbytes = made.report["weights_bytes"] - tables + kept
    things = {"ours": token, "read": reader(folder, nbytes), "theirs": theirs(path, sizes, past)}
    found = interleave(things, rounds, 0.3)
    ours, read = found.spread("ours").median, found.spread("read").median
    share = found.ratio("read", "ours")
    return (f"| {name} | {past} | {nbytes / 1e6:.1f} | {1 / ours:.0f} | {nbytes / read / 1e9:.1f} | {share:.0%} | "
            f"{found.ratio('theirs', 'ours'):.2f} |")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--layers", type=int, default=LARGE.layers)
    parser.add_argument("--rounds", type=int, default=7)
    asked = parser.parse_args()
    sizes = replace(LARGE, layers=asked.layers)
    print("| weights | tokens before | MB a token | tokens/s | GB/s of a read loop | of what these allow "
          "| onnxruntime takes as long, times |\n|---|---|---|---|---|---|---|")  # fmt: skip
    for name in FORMS:
        for past in (16, sizes.room - 1):
            with tempfile.TemporaryDirectory(prefix="decoders-") as folder:
                print(measured(name, sizes, past, asked.rounds, Path(folder)), flush=True)


if __name__ == "__main__":
    main()
