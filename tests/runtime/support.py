"""Shared by the tests of the C runtime: compilers and flags, a sample directory, forged blobs."""

from __future__ import annotations

import struct
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

from mccompile.codegen.blob import HEADER_BYTES, HEADER_FIELDS, BlobTensor

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "runtime_c"
ALIGN = 64
OFFSET_OF = {name: offset for name, offset, _ in HEADER_FIELDS}

_STRICT = (
    *(
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wconversion",
        "-Wsign-conversion",
        "-Wdouble-promotion",
        "-Wshadow",
    ),
    *("-Wvla", "-Wundef", "-Wcast-qual", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror"),
)


def strict_flags(compiler: str) -> list[str]:
    """The design's warnings; clang 14 has the strict form of -Wcast-align under the plain name."""
    return [*_STRICT, "-Wcast-align" if "clang" in compiler else "-Wcast-align=strict"]


def run(command: Sequence[str | Path]) -> str:
    """Output of a command that has to succeed."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}"
    return done.stdout


def sample_tensors() -> tuple[BlobTensor, ...]:
    """Every rank from 0 to 4, shared bytes, padded packing, names of all lengths modulo 4."""
    return (
        BlobTensor("w", "i8", (3, 1, 2, 2), 0, 16),
        BlobTensor("b0", "i32", (3,), 16, 12),
        BlobTensor("größe/µ", "f32", (), 28, 4),
        BlobTensor("b_0", "u16", (2, 3), 16, 12),
        BlobTensor("msk", "bool", (5,), 32, 5),
    )


def forge(blob: bytes, **fields: int) -> bytes:
    """The blob with header fields replaced and both CRCs right again: damage that only the checks can see."""
    data = bytearray(blob)
    for name, value in fields.items():
        struct.pack_into("<I", data, OFFSET_OF[name], value)
    struct.pack_into("<I", data, OFFSET_OF["payload_crc"], zlib.crc32(bytes(data[HEADER_BYTES:])))
    struct.pack_into("<I", data, OFFSET_OF["header_crc"], zlib.crc32(bytes(data[: OFFSET_OF["header_crc"]])))
    return bytes(data)
