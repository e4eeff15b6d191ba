"""The sections of a 32-bit program file (ELF, little-endian): their sizes and bytes."""

from __future__ import annotations

import struct
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError

_NOTHING_IN_FILE = 8  # SHT_NOBITS


@dataclass(frozen=True)
class Section:
    """A section: its address in memory, its size there, and its bytes (none where it only takes room)."""

    address: int
    size: int
    data: bytes


def sections(path: Path) -> dict[str, Section]:
    """The sections of a program by name. CompileError where it is no such program."""
    raw = path.read_bytes()
    if raw[:6] != b"\x7fELF\x01\x01":
        raise CompileError(f"{path} is no program of 32 bits")
    (table,) = struct.unpack_from("<I", raw, 0x20)
    entry_bytes, count, names_at = struct.unpack_from("<3H", raw, 0x2E)
    headers = [struct.unpack_from("<6I", raw, table + i * entry_bytes) for i in range(count)]
    names = headers[names_at][4]
    found = {}
    for name_at, kind, _, address, offset, size in headers:
        start = names + name_at
        name = raw[start : raw.index(b"\0", start)].decode()
        found[name] = Section(address, size, b"" if kind == _NOTHING_IN_FILE else raw[offset : offset + size])
    return found
