"""Bytes of four vectors of results, packed and stored at once.

Worked example: a tile of two rows by two vectors of eight lanes of 32 bits. One by one, each vector takes the halving
of its lanes twice, and a store of 8 bytes. Together, a and b become 16 shorts, c and d others, and all of these 32
bytes: one instruction for each halving instead of two, and a row is one store of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mccompile._dataclass import dataclass
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.code import bare
from mccompile.codegen.vector_emitter import Primitives
from mccompile.ir.types import I8, U8, DType
from mccompile.targets.target import Target

_FOURS = {1: (0, 0, 0, 0), 2: (0, 1, 0, 1), 3: (0, 1, 2, 2), 4: (0, 1, 2, 3)}
"""Which four vectors are packed where there are fewer: halves that are equal are computed once."""


@dataclass(frozen=True)
class Final:
    """What an epilogue makes of lanes: statements, and a value of which, with a ``zero``, the nearest whole numbers
    are stored, that added and saturated."""

    lines: tuple[str, ...]
    value: str
    zero: int | None = None


@dataclass(frozen=True)
class Part:
    """Vector ``place`` of a row of results: its first ``count`` lanes, which lie at ``at``."""

    value: str
    count: int
    at: tuple[str, ...]
    row: int
    place: int

    def follows(self, before: Part) -> bool:
        """Whether it begins where another one ends."""
        return self.row == before.row and self.place == before.place + 1


def packs(target: Target, dtype: DType) -> bool:
    """Whether a target stores results of a type from four vectors at once."""
    return target.isa in ("avx2", "avx512") and dtype in (I8, U8)


def woven(y: BoundView, of: Primitives, parts: Sequence[tuple[Part, Final]]) -> str:
    """Statements that store a row of two or four vectors of bytes, whose lanes are woven."""
    values = [bare(f.value if f.zero is None else of.whole(bare(f.value))) for _, f in parts]
    lines = [line for _, f in parts for line in f.lines]
    first, final = parts[0]
    lines.append(f"const {of.uses.use('mcc_vi')} bytes = {of.woven(values, final.zero or 0, y.dtype)};")
    lines.append(of.store_woven(f"&{y.name}[{y.index(*first.at)}]", "bytes", len(parts)))
    return "\n".join(["{", *lines, "}"])


def packed(y: BoundView, of: Primitives, parts: Sequence[tuple[Part, Final]]) -> str:
    """Statements that store up to four vectors of bytes: neighbours in one half of a vector of these together."""
    values = [f.value if f.zero is None else of.whole(bare(f.value)) for _, f in parts]
    four = [bare(values[i]) for i in _FOURS[len(values)]]
    lines = [line for _, f in parts for line in f.lines]
    lines.append(f"const {of.uses.use('mcc_vi')} bytes = {of.packed(four, parts[0][1].zero or 0, y.dtype)};")
    if _is_whole_run(parts, of.vector.lanes):
        place = f"&{y.name}[{y.index(*parts[0][0].at)}]"
        lines.append(of.store_bytes(place, "bytes", 0, len(parts) * of.vector.lanes))
        return "\n".join(["{", *lines, "}"])
    for i, (part, _) in enumerate(parts):
        count = part.count
        if i % 2 and part.follows(parts[i - 1][0]):
            continue
        if not i % 2 and i + 1 < len(parts) and parts[i + 1][0].follows(part):
            count += parts[i + 1][0].count
        place = f"&{y.name}[{y.index(*part.at)}]"
        lines.append(of.store_bytes(place, "bytes", i * of.vector.lanes, count))
    return "\n".join(["{", *lines, "}"])


def _is_whole_run(parts: Sequence[tuple[Part, Final]], lanes: int) -> bool:
    """Whether they are four whole vectors, each behind the one before."""
    follow = all(b.follows(a) for (a, _), (b, _) in pairwise(parts))
    return len(parts) == 4 and follow and all(part.count == lanes for part, _ in parts)
