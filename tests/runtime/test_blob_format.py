"""The blob writer and reader, and that code, C header and specification say the same."""

from __future__ import annotations

import dataclasses
import random
import re
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from mccompile.codegen import blob as blob_module
from mccompile.codegen.blob import (
    DTYPES,
    ENTRY_FIELDS,
    HEADER_BYTES,
    HEADER_FIELDS,
    BlobTensor,
    blob_id,
    read_blob,
    write_blob,
)
from mccompile.ir.errors import CompileError, InternalError
from tests.runtime.support import ALIGN, OFFSET_OF, ROOT, forge, sample_tensors


def doc_table(first_column: str, second_column: str) -> list[tuple[str, int, int]]:
    lines = (ROOT / "docs" / "blob-format.md").read_text(encoding="utf-8").splitlines()
    tables = []
    for i, line in enumerate(lines):
        if line.startswith(f"| {first_column} | {second_column} |"):
            rows = []
            for row in lines[i + 2 :]:
                match = re.match(r"\| `(\w+)` \| (\d+) \| (\d+) \|", row)
                if not match:
                    break
                rows.append((match[1], int(match[2]), int(match[3])))
            tables += rows
    return tables


def test_specification_has_the_offsets_of_the_writer() -> None:
    assert doc_table("field", "offset") == [*HEADER_FIELDS, *ENTRY_FIELDS]
    assert doc_table("dtype", "code") == [(name, *row) for name, row in DTYPES.items()]


def test_c_header_has_the_offsets_of_the_writer(header_numbers: dict[str, int]) -> None:
    in_c = {name: n for name, n in header_numbers.items() if name.startswith("MCC_BLOB_OFF_")}
    assert in_c == {f"MCC_BLOB_OFF_{name.upper()}": offset for name, offset, _ in HEADER_FIELDS}
    assert header_numbers["MCC_BLOB_HEADER_BYTES"] == HEADER_BYTES
    for name, (code, _) in DTYPES.items():
        assert header_numbers[f"MCC_{name.upper()}"] == code


@pytest.mark.parametrize("fields", [HEADER_FIELDS, ENTRY_FIELDS])
def test_fields_leave_no_gap(fields: tuple[tuple[str, int, int], ...]) -> None:
    ends = [0, *(offset + nbytes for _, offset, nbytes in fields)]
    assert [offset for _, offset, _ in fields] == ends[:-1]


def test_bytes_of_a_small_blob_by_hand() -> None:
    """An independent rendering of the specification, so that writer and reader cannot err together."""
    got = bytes(write_blob(b"\x01\x02\x03\x04\x05", [BlobTensor("ab", "u8", (5,), 0, 5)], bytes(range(16)), 16))
    body = b"\x01\x02\x03\x04\x05\0\0\0"
    body += b"\0\0\0\0\x05\0\0\0\x05\x01\x02\0\x05\0\0\0ab\0\0"
    head = b"MCCB\x01\0\0\0\x04\x03\x02\x01\x40\0\0\0\x5c\0\0\0\x10\0\0\0"
    head += b"\x40\0\0\0\x05\0\0\0\x48\0\0\0\x14\0\0\0" + bytes(range(16))
    head += struct.pack("<I", zlib.crc32(body))
    assert got == head + struct.pack("<I", zlib.crc32(head)) + body


@pytest.mark.parametrize("align", [4, 8, 64, 4096])
@pytest.mark.parametrize("payload_bytes", [0, 1, 4, 63, 200])
def test_round_trip(align: int, payload_bytes: int) -> None:
    payload = bytes(range(payload_bytes))
    tensors = [BlobTensor("x" * n, "u8", (payload_bytes,), 0, payload_bytes) for n in range(6)]
    data = bytes(write_blob(payload, tensors, bytes(16), align))
    back = read_blob(data)
    assert (back.payload, back.tensors, back.program_id, back.align) == (
        payload,
        tuple(tensors),
        bytes(16),
        align,
    )
    assert struct.unpack_from("<I", data, OFFSET_OF["payload_offset"])[0] % align == 0
    assert len(data) % 4 == 0


def test_pieces_are_the_whole_and_copied_once() -> None:
    whole = np.random.default_rng(0).integers(0, 256, 3_000_001, np.uint8).tobytes()
    pieces = [memoryview(whole)[:5], b"", memoryview(whole)[5:2_000_000], whole[2_000_000:]]
    tensors = [BlobTensor("w", "u8", (len(whole),), 0, len(whole))]
    tracemalloc.start()
    data = bytes(write_blob(pieces, tensors, bytes(16), 64))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert data == bytes(write_blob(whole, tensors, bytes(16), 64))
    assert peak < 1.1 * len(whole)


def test_round_trip_of_the_sample(blob: bytes, payload: bytes, program_id: bytes) -> None:
    back = read_blob(blob)
    assert back.tensors == sample_tensors()
    assert (back.payload, back.program_id, back.align) == (payload, program_id, ALIGN)


def test_reader_refuses_every_truncation_and_every_flipped_bit(blob: bytes) -> None:
    for length in range(len(blob)):
        with pytest.raises(CompileError):
            read_blob(blob[:length])
    with pytest.raises(CompileError, match="says"):
        read_blob(blob + b"\0")
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CompileError):
            read_blob(bytes(damaged))


@pytest.mark.parametrize(
    "fields",
    [
        {"format_version": 2},
        {"endian_mark": 0x04030201},
        {"header_bytes": 60},
        {"blob_bytes": 64},
        {"alignment": 0},
        {"alignment": 48},
        {"alignment": 128},
        {"payload_offset": 60},
        {"payload_offset": 68},
        {"payload_bytes": 1 << 31},
        {"directory_offset": 65},
        {"directory_offset": 1 << 31},
        {"directory_bytes": 1 << 31},
    ],
)
def test_reader_refuses_contradictions_under_a_right_crc(blob: bytes, fields: dict[str, int]) -> None:
    read_blob(forge(blob))
    with pytest.raises(CompileError):
        read_blob(forge(blob, **fields))


def test_reader_survives_random_directories(blob: bytes) -> None:
    rng = random.Random(20)
    directory_at = struct.unpack_from("<I", blob, OFFSET_OF["directory_offset"])[0]
    refused = 0
    for _ in range(3000):
        damaged = bytearray(blob)
        for _ in range(rng.randrange(1, 4)):
            damaged[rng.randrange(directory_at, len(blob))] = rng.choice(
                (0, 1, 4, 127, 255, rng.randrange(256))
            )
        try:
            read_blob(forge(bytes(damaged)))
        except CompileError:
            refused += 1
    assert 300 < refused < 3000


def test_id_depends_on_program_and_every_part_of_the_section_table() -> None:
    base = ("program", sample_tensors(), 40, 64)
    first = sample_tensors()[0]
    changes: list[dict[str, object]] = [
        {"name": "v"},
        {"dtype": "u8"},
        {"shape": (3, 4)},
        {"offset": 4},
        {"nbytes": 12},
    ]
    ids = {blob_id(*base), blob_id("program2", *base[1:]), blob_id("program", base[1][1:], 40, 64)}
    ids |= {blob_id("program", base[1], 41, 64), blob_id("program", base[1], 40, 32)}
    ids |= {blob_id("program", (dataclasses.replace(first, **c), *base[1][1:]), 40, 64) for c in changes}  # type: ignore[arg-type]
    assert len(ids) == 5 + len(changes)
    assert blob_id(*base) == blob_id(*base)
    assert {len(i) for i in ids} == {16}


@pytest.mark.parametrize(
    ("tensor", "error"),
    [
        (BlobTensor("a\0b", "u8", (1,), 0, 1), CompileError),
        (BlobTensor("n" * 65536, "u8", (1,), 0, 1), CompileError),
        (BlobTensor("a", "u8", (1,) * 256, 0, 1), CompileError),
        (BlobTensor("a", "u8", (0, 1 << 32), 0, 0), CompileError),
        (BlobTensor("a", "q4", (1,), 0, 1), InternalError),
        (BlobTensor("a", "f32", (2,), 4, 8), InternalError),
        (BlobTensor("a", "f32", (1,), 2, 4), InternalError),
        (BlobTensor("a", "f32", (2,), 0, 4), InternalError),
        (BlobTensor("a", "u8", (1,), -1, 1), InternalError),
    ],
)
def test_writer_refuses(tensor: BlobTensor, error: type[Exception]) -> None:
    with pytest.raises(error):
        write_blob(bytes(8), [tensor], bytes(16), 4)


def test_writer_refuses_bad_alignment_id_and_size() -> None:
    for align in (0, 2, 3, 48, 8192, -4):
        with pytest.raises(InternalError):
            write_blob(b"", [], bytes(16), align)
    with pytest.raises(InternalError):
        write_blob(b"", [], bytes(15), 4)
    with pytest.raises(CompileError, match="at most"):
        blob_id("", [BlobTensor("big", "u8", (1 << 31, 2), 0, 1 << 32)], 1 << 32, 4)


def test_a_blob_of_more_bytes_than_the_header_can_say_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The payload alone would fit: header and directory do not."""
    wanted = (bytes(160), [BlobTensor("w", "u8", (160,), 0, 160)], bytes(16), 16)
    size = len(write_blob(*wanted))
    monkeypatch.setattr(blob_module, "MAX_BLOB_BYTES", size)
    assert len(write_blob(*wanted)) == size
    monkeypatch.setattr(blob_module, "MAX_BLOB_BYTES", size - 1)
    with pytest.raises(CompileError, match=f"{size} bytes, a blob holds at most {size - 1}"):
        write_blob(*wanted)
