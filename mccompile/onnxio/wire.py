"""A model's file without its large tensors, which are read from where they lie.

Protobuf wants a file whole, copies what it parses, and copies a tensor's bytes once more when they are asked for: a
network of 500 MB takes 1.5 GB, and longer than all that is done with it. So the file is read around them:

    graph { node {..} initializer { dims: 1000 dims: 4096 data_type: 1 raw_data: 16,384,000 bytes } }
    graph { node {..} initializer { dims: 1000 dims: 4096 data_type: 1 data_location: EXTERNAL
            external_data { location: "<OWN>net.onnx" offset: 1220 length: 16384000 } } }

As in the second line, which names the model's own file, the tensor is decoded like any whose data are external.
Source: the encoding of Protocol Buffers, and the numbers of fields in onnx.proto.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple

import onnx

LARGE_FILE = 8 << 20
"""Bytes from which on a file is read so."""

LARGE = 64 << 10
"""Bytes of a tensor that stay in the file."""

MOST_FIELDS = 200_000
"""Fields that are looked at: a file of more, as one of a million tiny ones, is faster read by protobuf."""

MOST_DEEP = 100
"""Messages inside of one another: protobuf reads no more."""

OWN = f"{secrets.token_hex(8)}:"
"""Begins the location of data that are in the model's own file, which may be a link to anywhere: no file may say so
itself, so it is another in each process."""

_INSIDE: Mapping[type, Mapping[int, type]] = {
    onnx.ModelProto: {7: onnx.GraphProto},
    onnx.GraphProto: {1: onnx.NodeProto, 5: onnx.TensorProto},
    onnx.NodeProto: {5: onnx.AttributeProto},
    onnx.AttributeProto: {5: onnx.TensorProto, 6: onnx.GraphProto},
}
"""In which fields of a message there are tensors, or messages that have some."""

_RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 9, 13, 14
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED = {_FIXED64: 8, _FIXED32: 4}


class _OddError(Exception):
    """The file is not as expected; protobuf, given all of it, says whether it is right."""


class _Field(NamedTuple):
    """Where a field of a message lies in the file: all of it, and its contents."""

    number: int
    kind: int
    begin: int
    content: int
    end: int


def read_around(path: Path) -> bytes:
    """The protobuf of a model file, with large tensors in the file itself as external data; all of the file if it is
    small, or no protobuf.

    Raises OSError if it cannot be read.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size >= LARGE_FILE:
            try:
                return _Reader(file, path.name).around(onnx.ModelProto, 0, size)
            except (_OddError, UnicodeEncodeError):  # a file's name that is no text
                file.seek(0)
        return file.read()


class _Reader:
    """Reads messages that lie at [begin, end) of a file."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.left = MOST_FIELDS

    def around(self, message: type, begin: int, end: int, depth: int = 0) -> bytes:
        """A message without what is large; it is ``depth`` messages deep in others."""
        if depth > MOST_DEEP:
            raise _OddError
        if message is onnx.TensorProto:
            return self._tensor(begin, end)
        parts = []
        for field in self._fields(begin, end):
            inner = _INSIDE[message].get(field.number)
            if inner is not None and field.kind == _BYTES and field.end - field.content >= LARGE:
                body = self.around(inner, field.content, field.end, depth + 1)
                parts.append(_varint(field.number << 3 | _BYTES) + _varint(len(body)) + body)
            else:
                parts.append(self._bytes(field.begin, field.end))
        return b"".join(parts)

    def _tensor(self, begin: int, end: int) -> bytes:
        """A TensorProto; its data stay in the file if they are large, raw, and stated once."""
        fields = list(self._fields(begin, end))
        raw = [f for f in fields if f.number == _RAW_DATA]
        elsewhere = any(f.number in (_EXTERNAL_DATA, _DATA_LOCATION) for f in fields)
        if elsewhere or len(raw) != 1 or raw[0].kind != _BYTES or raw[0].end - raw[0].content < LARGE:
            return self._bytes(begin, end)
        place = onnx.TensorProto(data_location=onnx.TensorProto.EXTERNAL)
        length = raw[0].end - raw[0].content
        for key, value in (("location", OWN + self.name), ("offset", raw[0].content), ("length", length)):
            place.external_data.add(key=key, value=str(value))
        others = [self._bytes(f.begin, f.end) for f in fields if f.number != _RAW_DATA]
        return b"".join([*others, place.SerializeToString()])

    def _fields(self, begin: int, end: int) -> Iterator[_Field]:
        """The fields of a message."""
        at = begin
        while at < end:
            self.left -= 1
            self.file.seek(at)
            key, size = self._number()
            content = at + size
            number, kind = key >> 3, key & 7
            if kind == _BYTES:
                length, size = self._number()
                content += size
            elif kind == _VARINT:
                length = self._number()[1]
            else:
                length = _FIXED.get(kind, -1)
            if number == 0 or length < 0 or content + length > end or self.left < 0:
                raise _OddError
            yield _Field(number, kind, at, content, content + length)
            at = content + length

    def _number(self) -> tuple[int, int]:
        """The number at the file's position, and its bytes there."""
        value = 0
        for size in range(1, 11):
            byte = self.file.read(1)
            if not byte:
                break
            value |= (byte[0] & 0x7F) << 7 * (size - 1)
            if byte[0] < 0x80:
                return value, size
        raise _OddError

    def _bytes(self, begin: int, end: int) -> bytes:
        self.file.seek(begin)
        found = self.file.read(end - begin)
        if len(found) != end - begin:
            raise _OddError
        return found


def _varint(value: int) -> bytes:
    """A number as protobuf writes it.

    >>> _varint(300).hex()
    'ac02'
    """
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])
