"""The weights blob: writing, reading and embedding the format that docs/blob-format.md specifies."""

from __future__ import annotations

import functools
import hashlib
import math
import struct
import zlib
from collections.abc import Sequence
from typing import Final

from mccompile._dataclass import dataclass
from mccompile.codegen.pieces import Bytes, Pieces
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.views import MAX_ALIGN

FORMAT_VERSION: Final = 1
MAGIC: Final = b"MCCB"
ENDIAN_MARK: Final = 0x01020304
HEADER_BYTES: Final = 64
ID_BYTES: Final = 16
MIN_ALIGN: Final = 4
MAX_RANK: Final = 255
MAX_BLOB_BYTES: Final = (1 << 32) - 1

# (name, offset, bytes) of each field. Tests hold docs/blob-format.md and mcc.h to these two tables.
HEADER_FIELDS: Final[tuple[tuple[str, int, int], ...]] = (
    ("magic", 0, 4),
    ("format_version", 4, 4),
    ("endian_mark", 8, 4),
    ("header_bytes", 12, 4),
    ("blob_bytes", 16, 4),
    ("alignment", 20, 4),
    ("payload_offset", 24, 4),
    ("payload_bytes", 28, 4),
    ("directory_offset", 32, 4),
    ("directory_bytes", 36, 4),
    ("id", 40, 16),
    ("payload_crc", 56, 4),
    ("header_crc", 60, 4),
)
ENTRY_FIELDS: Final[tuple[tuple[str, int, int], ...]] = (
    ("offset", 0, 4),
    ("bytes", 4, 4),
    ("dtype", 8, 1),
    ("rank", 9, 1),
    ("name_bytes", 10, 2),
)
_HEADER: Final = struct.Struct("<4s9I16sI")
_HEADER_CRC: Final = struct.Struct("<I")
_ENTRY: Final = struct.Struct("<IIBBH")

# dtype -> (code in the directory, bytes per element)
DTYPES: Final[dict[str, tuple[int, int]]] = {
    "f32": (1, 4),
    "f16": (2, 2),
    "f64": (3, 8),
    "i8": (4, 1),
    "u8": (5, 1),
    "i16": (6, 2),
    "u16": (7, 2),
    "i32": (8, 4),
    "u32": (9, 4),
    "i64": (10, 8),
    "u64": (11, 8),
    "bool": (12, 1),
}
_DTYPE_OF_CODE: Final = {code: name for name, (code, _) in DTYPES.items()}


@dataclass(frozen=True)
class BlobTensor:
    """One section of the payload.

    Args:
        name: ONNX name, or a name derived from it; UTF-8, without NUL.
        dtype: a key of DTYPES.
        shape: stored extents, outermost first; they may hold fewer elements than are stored, as packing pads.
        offset: first byte, from the beginning of the payload; a multiple of the element's size.
        nbytes: bytes stored, padding included.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True)
class Blob:
    """A blob taken apart: payload bytes, directory, id (16 bytes) and alignment in bytes."""

    payload: bytes
    tensors: tuple[BlobTensor, ...]
    program_id: bytes
    align: int


@dataclass(frozen=True)
class _Header:
    blob_bytes: int
    align: int
    payload_offset: int
    payload_bytes: int
    directory_offset: int
    directory_bytes: int
    program_id: bytes
    payload_crc: int

    def pack(self) -> bytes:
        head = _HEADER.pack(
            MAGIC,
            FORMAT_VERSION,
            ENDIAN_MARK,
            HEADER_BYTES,
            self.blob_bytes,
            self.align,
            self.payload_offset,
            self.payload_bytes,
            self.directory_offset,
            self.directory_bytes,
            self.program_id,
            self.payload_crc,
        )
        return head + _HEADER_CRC.pack(zlib.crc32(head))


def blob_id(program_text: str, tensors: Sequence[BlobTensor], payload_bytes: int, align: int) -> bytes:
    """Hash (16 bytes) of a program and its section table: blobs of equal id may be exchanged in the field.

    `program_text` must not hold the weights' values, else retrained weights would no longer fit the firmware.
    """
    sections = b"".join(_entry(t) for t in tensors)
    text = program_text.encode("utf-8")
    # Lengths go first so that no two different inputs give one byte string.
    lengths = struct.pack("<IIQQQ", FORMAT_VERSION, align, payload_bytes, len(text), len(sections))
    return hashlib.sha256(lengths + text + sections).digest()[:ID_BYTES]


def write_blob(
    payload: bytes | Sequence[bytes | memoryview], tensors: Sequence[BlobTensor], program_id: bytes, align: int
) -> Pieces:
    """The blob: header, padding, payload at a multiple of `align`, directory.

    Args:
        payload: little-endian image of the generated `<model>_weights` struct, or its pieces, one behind the other.
        tensors: the directory, may be empty; entries may share bytes.
        program_id: 16 bytes from `blob_id`.
        align: bytes, a power of two from 4 to 4096.

    Raises:
        CompileError: larger than 4 GiB, or a tensor's name or rank cannot be stored.
        InternalError: arguments that contradict each other.
    """
    if align & (align - 1) or not MIN_ALIGN <= align <= MAX_ALIGN:
        raise InternalError(f"blob alignment {align} is not a power of two from {MIN_ALIGN} to {MAX_ALIGN}")
    if len(program_id) != ID_BYTES:
        raise InternalError(f"blob id has {len(program_id)} bytes, not {ID_BYTES}")
    pieces = [payload] if isinstance(payload, bytes) else payload
    payload_bytes = sum(map(len, pieces))
    for t in tensors:
        _check_section(t, payload_bytes)
    directory = b"".join(_entry(t) for t in tensors)
    payload_offset = _round_up(HEADER_BYTES, align)
    directory_offset = payload_offset + _round_up(payload_bytes, 4)
    blob_bytes = directory_offset + len(directory)
    if blob_bytes > MAX_BLOB_BYTES:
        raise _too_big(blob_bytes)
    gaps = bytes(payload_offset - HEADER_BYTES), bytes(directory_offset - payload_offset - payload_bytes)
    body = (gaps[0], *pieces, gaps[1], directory)
    header = _Header(
        blob_bytes=blob_bytes,
        align=align,
        payload_offset=payload_offset,
        payload_bytes=payload_bytes,
        directory_offset=directory_offset,
        directory_bytes=len(directory),
        program_id=program_id,
        payload_crc=functools.reduce(lambda crc, part: zlib.crc32(part, crc), body, 0),
    )
    return Pieces((header.pack(), *body))


def payload_offset(data: bytes) -> int:
    """Where the payload of a blob begins. CompileError for what is none."""
    return _read_header(data).payload_offset


def read_blob(data: bytes) -> Blob:
    """Takes a blob file apart, checking all that the format promises.

    Raises:
        CompileError: damaged, truncated, of another version, or not a blob.
    """
    header = _read_header(data)
    if zlib.crc32(data[HEADER_BYTES:]) != header.payload_crc:
        raise _bad("the bytes behind the header do not fit their CRC", "the file is damaged; write it again")
    payload = data[header.payload_offset : header.payload_offset + header.payload_bytes]
    directory = data[header.directory_offset : header.directory_offset + header.directory_bytes]
    return Blob(payload, _read_directory(directory, len(payload)), header.program_id, header.align)


def declare_c(name: str, blob: Bytes) -> str:
    """C declarations (include "mcc.h" first) of the array that `embed_c` defines, and its size as a macro."""
    return f"#define {name.upper()}_BYTES {len(blob)}u\nextern const uint32_t {name}[{len(blob) // 4}];\n"


def embed_c(name: str, blob: Bytes) -> str:
    """A C file defining `const uint32_t <name>[]`: the blob as words, aligned as it asks for.

    The words read as the blob on little-endian processors, the only ones that blobs are for.
    """
    data = bytes(blob)
    words = struct.unpack(f"<{len(data) // 4}I", data)
    lines = [
        "    " + ", ".join(f"0x{word:08X}u" for word in words[i : i + 8]) for i in range(0, len(words), 8)
    ]
    return (
        "/* SPDX-License-Identifier: 0BSD\n"
        f" * {name}: weights blob, {len(data)} bytes; format: mcc.h. Written by mccompile. */\n"
        '#include "mcc.h"\n\n' + declare_c(name, data) + "\n"
        f"MCC_PLACE_BLOB MCC_ALIGNED({_read_header(data).align}) const uint32_t {name}[{len(words)}] = {{\n"
        + ",\n".join(lines)
        + "};\n"
    )


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _bad(rule: str, hint: str = "") -> CompileError:
    return CompileError(rule, where="weights blob", hint=hint)


def _too_big(nbytes: int) -> CompileError:
    return _bad(
        f"{nbytes} bytes, a blob holds at most {MAX_BLOB_BYTES}", "quantise the weights or split the model"
    )


def _entry(t: BlobTensor) -> bytes:
    name = t.name.encode("utf-8")
    if b"\0" in name or len(name) > 0xFFFF:
        raise _bad("a tensor's name must have at most 65535 bytes and no NUL", "rename it in the model")
    if len(t.shape) > MAX_RANK or any(not 0 <= d < 1 << 32 for d in t.shape):
        raise _bad(f"tensor {t.name!r} has more than {MAX_RANK} axes or an extent that exceeds 32 bits")
    if t.offset + t.nbytes > MAX_BLOB_BYTES:
        raise _too_big(t.offset + t.nbytes)
    head = _ENTRY.pack(t.offset, t.nbytes, DTYPES[t.dtype][0], len(t.shape), len(name))
    dims = struct.pack(f"<{len(t.shape)}I", *t.shape)
    return head + dims + name + bytes(4 - len(name) % 4)


def _check_section(t: BlobTensor, payload_bytes: int) -> None:
    if t.dtype not in DTYPES:
        raise InternalError(f"blob tensor {t.name!r}: unknown dtype {t.dtype!r}")
    size = DTYPES[t.dtype][1]
    if t.offset < 0 or t.nbytes < 0 or t.offset + t.nbytes > payload_bytes:
        raise InternalError(f"blob tensor {t.name!r}: [{t.offset}, {t.offset + t.nbytes}) leaves the payload")
    if t.offset % size or t.nbytes % size or math.prod(t.shape) * size > t.nbytes:
        what = f"{t.shape} {t.dtype}"
        raise InternalError(f"blob tensor {t.name!r}: {t.nbytes} bytes at {t.offset} cannot hold {what}")


def _read_header(data: bytes) -> _Header:
    if len(data) < HEADER_BYTES:
        raise _bad(f"{len(data)} bytes are fewer than a header's {HEADER_BYTES}", "the file was cut short")
    magic, version, mark, header_bytes, *numbers, program_id, payload_crc = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _bad(f"it begins with {magic!r}, not {MAGIC!r}", "is this a .mcb file?")
    if version != FORMAT_VERSION:
        raise _bad(f"format version {version}, supported is {FORMAT_VERSION}", "compile the model again")
    if mark != ENDIAN_MARK:
        raise _bad(f"endian mark 0x{mark:08X}, expected 0x{ENDIAN_MARK:08X}")
    if zlib.crc32(data[: _HEADER.size]) != _HEADER_CRC.unpack_from(data, _HEADER.size)[0]:
        raise _bad("the header does not fit its CRC", "the file is damaged; write it again")
    blob_bytes, align, payload_offset, payload_bytes, directory_offset, directory_bytes = numbers
    header = _Header(
        blob_bytes=blob_bytes,
        align=align,
        payload_offset=payload_offset,
        payload_bytes=payload_bytes,
        directory_offset=directory_offset,
        directory_bytes=directory_bytes,
        program_id=program_id,
        payload_crc=payload_crc,
    )
    if blob_bytes != len(data):
        raise _bad(
            f"the header says {blob_bytes} bytes, there are {len(data)}", "the file was cut or appended to"
        )
    sections = (
        (header.payload_offset, header.payload_bytes),
        (header.directory_offset, header.directory_bytes),
    )
    inside = all(o >= HEADER_BYTES and o + n <= len(data) for o, n in sections)
    power_of_two = header.align >= MIN_ALIGN and header.align & (header.align - 1) == 0
    if header_bytes != HEADER_BYTES or len(data) % 4 or not inside or not power_of_two:
        raise _bad("the header's sizes and offsets contradict each other")
    if header.payload_offset % header.align or header.directory_offset % 4:
        raise _bad("the header's offsets are misaligned")
    return header


def _read_directory(directory: bytes, payload_bytes: int) -> tuple[BlobTensor, ...]:
    tensors: list[BlobTensor] = []
    at = 0
    while at < len(directory):
        where = f"directory entry {len(tensors)}"
        if at + _ENTRY.size > len(directory):
            raise _bad(f"{where} is cut short")
        offset, nbytes, code, rank, name_bytes = _ENTRY.unpack_from(directory, at)
        name_at = at + _ENTRY.size + 4 * rank
        end = name_at + name_bytes + 4 - name_bytes % 4
        if end > len(directory) or any(directory[name_at + name_bytes : end]):
            raise _bad(f"{where} is cut short or its name has no end")
        if code not in _DTYPE_OF_CODE:
            raise _bad(f"{where} has the unknown element type {code}")
        if offset + nbytes > payload_bytes:
            raise _bad(f"{where} leaves the payload")
        try:
            name = directory[name_at : name_at + name_bytes].decode("utf-8")
        except UnicodeDecodeError as error:
            raise _bad(f"{where} has a name that is not UTF-8") from error
        if "\0" in name:
            raise _bad(f"{where} has a name with a NUL")
        shape = struct.unpack_from(f"<{rank}I", directory, at + _ENTRY.size)
        tensors.append(BlobTensor(name, _DTYPE_OF_CODE[code], shape, offset, nbytes))
        at = end
    return tuple(tensors)
