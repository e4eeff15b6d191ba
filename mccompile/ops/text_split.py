"""StringSplit: the parts of each text between delimiters. How many the longest row has, a kernel counts.

    ["a-b", "c"] by "-"      is      [["a", "b"], ["c", ""]] and the counts [2, 1]

Without a delimiter the parts are what stands between white space (of ASCII), of which none is left: not behind the
last part, either, where ``maxsplit`` ends the splitting.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, anything, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, U8, TensorType
from mccompile.ops.filled import filled
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT, encoded, strings_of


@dataclass(frozen=True)
class TextSplit(Op):
    """Operand u8[..., bytes]; results: parts u8[..., count, bytes], how many i64[...], and ``count``, i32[].

    ``delimiter`` is UTF-8 in hexadecimal digits, "" for white space; at most ``splits`` of it count, if not negative.
    ``characters``: each character is a part.
    """

    name = "text_split"

    count: int
    delimiter: str = ""
    splits: int = -1
    characters: bool = False

    @property
    def between(self) -> bytes:
        return bytes.fromhex(self.delimiter)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if x.dtype != U8 or not x.shape:
            raise TypeRuleError(f"{x} is no text")
        parts = TensorType(U8, (*x.shape[:-1], self.count, x.shape[-1]))
        return (parts, TensorType(I64, x.shape[:-1]), TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        most = int(self.count)
        return (anything(U8, 1), constant(0, most, 1), constant(0, most, 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        rows = [self._parts(text) for text in strings_of(x)]
        longest = max(map(len, rows), default=0)
        parts = np.empty((len(rows), longest), dtype=object)
        for i, row in enumerate(rows):
            parts[i] = row + [b""] * (longest - len(row))
        shape = x.shape[:-1]
        counts = np.array([len(row) for row in rows], np.int64).reshape(shape)
        return encoded(parts, x.shape[-1]).reshape(*shape, longest, -1), counts, np.array(longest, np.int32)

    def _parts(self, text: bytes) -> list[bytes]:
        if not self.characters:
            return text.split(self.between, self.splits) if self.between else text.rstrip().split(None, self.splits)
        found: list[bytes] = []
        for i, value in enumerate(text):
            if found and value & 0xC0 == 0x80:  # a character goes on
                found[-1] += text[i : i + 1]
            else:
                found.append(text[i : i + 1])
        return found


@onnx_op("StringSplit", domain=TEXT, tolerance={})
def import_string_split(n: Import) -> None:
    x, delimiter = n.input(0), n.attr("delimiter", "")
    splits = n.attr("maxsplit")
    capacity = x.shape[-1]
    # White space parts texts of one byte; n delimiters part n + 1 texts, of no bytes perhaps.
    most = capacity // len(delimiter.encode()) + 1 if delimiter else (capacity + 1) // 2
    if splits is not None and splits >= 0:
        most = min(most, splits + 1)
    if x.type.count == 0:
        n.narrow_result = "string"
        n.bind(0, filled(n, 0, U8, (*x.shape[:-1], 0, capacity), "parts"))
        if len(n.outputs) > 1:
            n.bind(1, filled(n, 0, I64, x.shape[:-1], "counts"))
        return
    count = n.counted("parts", most)
    op = TextSplit(count, delimiter.encode().hex(), -1 if splits is None else splits)
    parts, counts, total = n.inners(op, [x], ["parts", "counts", "longest"])
    n.count(count, total)
    n.narrow_result = "string"
    n.bind(0, parts)
    if len(n.outputs) > 1:
        n.bind(1, counts)
