"""The C checks of mcc.c, called through cffi: which status for which damage."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any

import cffi
import pytest

from mccompile.codegen.blob import DTYPES, HEADER_BYTES, write_blob
from tests._skips import needs_tool
from tests.runtime.support import ALIGN, OFFSET_OF, RUNTIME, forge, run, sample_tensors

CDEF = """
typedef struct { uint8_t id[16]; uint32_t payload_bytes; uint32_t align; } mcc_blob_expect;
typedef struct { const char *name; const void *data; uint32_t offset; uint32_t bytes; uint32_t rank;
                 int dtype; const uint8_t *dims; } mcc_blob_tensor;
typedef struct { const uint8_t *blob; uint32_t next; uint32_t end; } mcc_blob_dir;
int mcc_blob_check(const void *blob, size_t bytes, const mcc_blob_expect *expect, const void **payload);
int mcc_blob_verify(const void *blob, size_t bytes);
uint32_t mcc_crc32(uint32_t crc, const void *data, size_t bytes);
int mcc_pointer_check(const void *p, uint32_t align);
int mcc_blob_dir_open(const void *blob, size_t bytes, mcc_blob_dir *dir);
int mcc_blob_dir_next(mcc_blob_dir *dir, mcc_blob_tensor *t);
uint32_t mcc_blob_dim(const mcc_blob_tensor *t, uint32_t axis);
const char *mcc_status_text(int status);
"""


class Runtime:
    """mcc.c as a shared library, with a place for blobs whose alignment is known."""

    def __init__(self, library: Path, program_id: bytes, payload_bytes: int) -> None:
        self.ffi: Any = cffi.FFI()
        self.ffi.cdef(CDEF)
        self.lib: Any = self.ffi.dlopen(str(library))
        self._memory = self.ffi.new("uint8_t[]", 3 * 4096)
        at = int(self.ffi.cast("uintptr_t", self._memory))
        self.page = self._memory + (-at) % 4096  # a multiple of 4096
        self.out = self.ffi.new("const void **")
        self.expect = self.expecting(program_id, payload_bytes, ALIGN)

    def expecting(self, program_id: bytes, payload_bytes: int, align: int) -> Any:
        return self.ffi.new("mcc_blob_expect *", (list(program_id), payload_bytes, align))

    def place(self, data: bytes, shift: int = 0) -> Any:
        self.ffi.memmove(self.page + shift, data, len(data))
        return self.page + shift

    def check(self, data: bytes, *, shift: int = 0, nbytes: int | None = None, expect: Any = None) -> int:
        self.out[0] = self.page
        at = self.place(data, shift)
        size = len(data) if nbytes is None else nbytes
        status = int(self.lib.mcc_blob_check(at, size, expect or self.expect, self.out))
        assert (self.out[0] == self.ffi.NULL) == (status != 0)
        return status

    def verify(self, data: bytes, shift: int = 0) -> int:
        return int(self.lib.mcc_blob_verify(self.place(data, shift), len(data)))


@pytest.fixture(scope="module")
def rt(tmp_path_factory: pytest.TempPathFactory, program_id: bytes, payload: bytes) -> Runtime:
    library = tmp_path_factory.mktemp("mcc") / "libmcc.so"
    run([needs_tool("gcc"), "-std=c99", "-O2", "-shared", "-fPIC", RUNTIME / "mcc.c", "-o", library])
    return Runtime(library, program_id, len(payload))


def test_a_sound_blob_is_accepted_and_its_payload_found(rt: Runtime, blob: bytes, payload: bytes) -> None:
    assert rt.check(blob) == 0
    assert bytes(rt.ffi.buffer(rt.out[0], len(payload))) == payload
    assert int(rt.ffi.cast("uintptr_t", rt.out[0])) % ALIGN == 0
    assert rt.verify(blob) == 0
    assert rt.check(blob, nbytes=len(blob) + 1000) == 0


def test_every_truncation(rt: Runtime, blob: bytes, header_numbers: dict[str, int]) -> None:
    for length in range(len(blob)):
        assert rt.check(blob, nbytes=length) == header_numbers["MCC_E_SIZE"]
        assert rt.verify(blob[:length]) == header_numbers["MCC_E_SIZE"]


def test_every_flipped_bit(rt: Runtime, blob: bytes, header_numbers: dict[str, int]) -> None:
    by_field = {0: "MCC_E_MAGIC", 1: "MCC_E_VERSION", 2: "MCC_E_ENDIAN"}
    for bit in range(8 * len(blob)):
        damaged = bytearray(blob)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit < 8 * HEADER_BYTES:
            wanted = header_numbers[by_field.get(bit // 32, "MCC_E_HEADER")]
            assert (rt.check(damaged), rt.verify(damaged)) == (wanted, wanted), bit
        else:
            assert (rt.check(damaged), rt.verify(damaged)) == (0, header_numbers["MCC_E_PAYLOAD"]), bit


def test_erased_flash(rt: Runtime, header_numbers: dict[str, int]) -> None:
    for value in (b"\x00", b"\xff"):
        assert rt.check(value * 200) == header_numbers["MCC_E_MAGIC"]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"endian_mark": 0x04030201}, "MCC_E_ENDIAN"),
        ({"header_bytes": 60}, "MCC_E_SIZE"),
        ({"header_bytes": 68}, "MCC_E_SIZE"),
        ({"blob_bytes": 0}, "MCC_E_SIZE"),
        ({"blob_bytes": 64}, "MCC_E_SIZE"),
        ({"blob_bytes": 0xFFFFFFFC}, "MCC_E_SIZE"),
        ({"payload_offset": 0}, "MCC_E_SIZE"),
        ({"payload_offset": 63}, "MCC_E_SIZE"),
        ({"payload_offset": 0xFFFFFFC0}, "MCC_E_SIZE"),
        ({"payload_offset": 96}, "MCC_E_ALIGN"),
        ({"payload_bytes": 36}, "MCC_E_SIZE"),
        ({"payload_bytes": 0xFFFFFFFF}, "MCC_E_SIZE"),
        ({"directory_offset": 60}, "MCC_E_SIZE"),
        ({"directory_offset": 0xFFFFFFFC}, "MCC_E_SIZE"),
        ({"directory_bytes": 0xFFFFFFFC}, "MCC_E_SIZE"),
    ],
)
def test_contradictions_under_a_right_crc(
    rt: Runtime, blob: bytes, header_numbers: dict[str, int], fields: dict[str, int], status: str
) -> None:
    assert rt.check(forge(blob)) == 0
    assert rt.check(forge(blob, **fields)) == header_numbers[status]


def test_another_program_is_refused(
    rt: Runtime, blob: bytes, payload: bytes, program_id: bytes, header_numbers: dict[str, int]
) -> None:
    for bit in range(128):
        other = bytearray(program_id)
        other[bit // 8] ^= 1 << bit % 8
        assert (
            rt.check(blob, expect=rt.expecting(bytes(other), len(payload), ALIGN))
            == header_numbers["MCC_E_ID"]
        )
        swapped = bytes(write_blob(payload, sample_tensors(), bytes(other), ALIGN))
        assert rt.check(swapped) == header_numbers["MCC_E_ID"]
        assert rt.verify(swapped) == 0
    for nbytes in (0, len(payload) - 1, len(payload) + 1):
        assert rt.check(blob, expect=rt.expecting(program_id, nbytes, ALIGN)) == header_numbers["MCC_E_SIZE"]


def test_alignment_is_exactly_what_is_declared(
    rt: Runtime, blob: bytes, header_numbers: dict[str, int]
) -> None:
    assert rt.check(blob, shift=ALIGN) == 0  # a multiple of 64 and of nothing more
    for shift in (1, 2, 4, 8, 16, 32, 65):
        assert rt.check(blob, shift=shift) == header_numbers["MCC_E_ALIGN"]
        assert rt.verify(blob, shift) == 0
    assert rt.lib.mcc_pointer_check(rt.page + 4, 4) == 0
    assert rt.lib.mcc_pointer_check(rt.page + 4, 8) == header_numbers["MCC_E_ALIGN"]
    assert rt.lib.mcc_pointer_check(rt.page + 1, 1) == 0


def test_null_pointers(rt: Runtime, blob: bytes, header_numbers: dict[str, int]) -> None:
    null, lib = rt.ffi.NULL, rt.lib
    at = rt.place(blob)
    directory, tensor = rt.ffi.new("mcc_blob_dir *"), rt.ffi.new("mcc_blob_tensor *")
    answers = [
        lib.mcc_blob_check(null, len(blob), rt.expect, rt.out),
        lib.mcc_blob_check(at, len(blob), null, rt.out),
        lib.mcc_blob_check(at, len(blob), rt.expect, null),
        lib.mcc_blob_verify(null, len(blob)),
        lib.mcc_pointer_check(null, 1),
        lib.mcc_blob_dir_open(null, len(blob), directory),
        lib.mcc_blob_dir_open(at, len(blob), null),
        lib.mcc_blob_dir_next(null, tensor),
        lib.mcc_blob_dir_next(directory, null),
    ]
    assert answers == [header_numbers["MCC_E_NULL"]] * len(answers)


def test_directory_gives_the_tensors(
    rt: Runtime, blob: bytes, payload: bytes, header_numbers: dict[str, int]
) -> None:
    directory, t = rt.ffi.new("mcc_blob_dir *"), rt.ffi.new("mcc_blob_tensor *")
    for shift in (0, 1):
        assert rt.lib.mcc_blob_dir_open(rt.place(blob, shift), len(blob), directory) == 0
        for wanted in sample_tensors():
            assert rt.lib.mcc_blob_dir_next(directory, t) == 0
            assert rt.ffi.string(t.name).decode() == wanted.name
            assert tuple(rt.lib.mcc_blob_dim(t, axis) for axis in range(t.rank)) == wanted.shape
            assert rt.lib.mcc_blob_dim(t, t.rank) == 1
            assert (t.offset, t.bytes, t.dtype) == (wanted.offset, wanted.nbytes, DTYPES[wanted.dtype][0])
            data = bytes(rt.ffi.buffer(t.data, t.bytes))
            assert data == payload[wanted.offset : wanted.offset + wanted.nbytes]
        assert rt.lib.mcc_blob_dir_next(directory, t) == header_numbers["MCC_END"]
        assert rt.lib.mcc_blob_dir_next(directory, t) == header_numbers["MCC_END"]


def test_blob_without_weights_and_directory(rt: Runtime, header_numbers: dict[str, int]) -> None:
    data = bytes(write_blob(b"", [], bytes(16), ALIGN))
    assert rt.check(data, expect=rt.expecting(bytes(16), 0, ALIGN)) == 0
    assert rt.verify(data) == 0
    directory = rt.ffi.new("mcc_blob_dir *")
    assert rt.lib.mcc_blob_dir_open(rt.place(data), len(data), directory) == 0
    assert rt.lib.mcc_blob_dir_next(directory, rt.ffi.new("mcc_blob_tensor *")) == header_numbers["MCC_END"]


@pytest.mark.parametrize(
    ("at", "value"),
    [(0, 38), (3, 0x80), (4, 38), (7, 0xFF), (8, 0), (8, 13), (9, 255), (10, 4), (11, 255)],
)
def test_malformed_directory_entries(
    rt: Runtime, blob: bytes, header_numbers: dict[str, int], at: int, value: int
) -> None:
    damaged = bytearray(blob)
    first = int.from_bytes(blob[OFFSET_OF["directory_offset"] :][:4], "little")
    damaged[first + at] = value
    damaged = bytearray(forge(bytes(damaged)))
    directory, t = rt.ffi.new("mcc_blob_dir *"), rt.ffi.new("mcc_blob_tensor *")
    assert rt.verify(damaged) == 0
    assert rt.lib.mcc_blob_dir_open(rt.place(damaged), len(damaged), directory) == 0
    for _ in range(2):  # and it stays refused
        assert rt.lib.mcc_blob_dir_next(directory, t) == header_numbers["MCC_E_DIRECTORY"]


def test_crc_is_that_of_zlib_also_in_pieces(rt: Runtime) -> None:
    assert rt.lib.mcc_crc32(0, b"123456789", 9) == 0xCBF43926
    assert rt.lib.mcc_crc32(0x1234, rt.ffi.NULL, 0) == 0x1234
    rng = random.Random(3)
    for _ in range(200):
        data = rng.randbytes(rng.randrange(300))
        cut = rng.randrange(len(data) + 1)
        crc = rt.lib.mcc_crc32(0, data[:cut], cut)
        assert rt.lib.mcc_crc32(crc, data[cut:], len(data) - cut) == zlib.crc32(data)


def test_status_texts_are_distinct_and_any_number_has_one(
    rt: Runtime, header_numbers: dict[str, int]
) -> None:
    statuses = {
        n: v for n, v in header_numbers.items() if n in ("MCC_OK", "MCC_END") or n.startswith("MCC_E_")
    }
    assert sorted(statuses.values()) == list(range(16))
    texts = {n: rt.ffi.string(rt.lib.mcc_status_text(v)).decode() for n, v in statuses.items()}
    assert len(set(texts.values())) == 16
    assert (texts["MCC_OK"], texts["MCC_E_MAGIC"], texts["MCC_END"]) == ("ok", "not a blob", "end")
    for number in (16, 17, 255, 1 << 30, -1, -(1 << 31)):
        assert rt.ffi.string(rt.lib.mcc_status_text(number)) == b"unknown"
