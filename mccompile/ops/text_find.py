"""`text_find`: which of the texts of a table each element is. Tables are sorted, so that few of them are compared.

    text_find(["b", "x"], ["a", "b", "c"])      is      [1, -1]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Value
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I64, U8, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.text import encoded, strings_of


@dataclass(frozen=True)
class TextFind(Op):
    """Operands x u8[..., bytes] and a rising table u8[count, bytes]; the result i64[...]: a place in it, or -1."""

    name = "text_find"

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, table = types
        assert x is not None
        assert table is not None
        if x.dtype != U8 or table.dtype != U8 or x.rank < 1 or table.rank != 2:
            raise TypeRuleError(f"{x} and {table} are no text and no table of it")
        return (TensorType(I64, x.shape[:-1]),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        table = types[1]
        assert table is not None
        return (constant(-1, table.shape[0] - 1, 1),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, table = (np.asarray(a) for a in arrays)
        places = {text: i for i, text in enumerate(strings_of(table))}
        found = [places.get(text, -1) for text in strings_of(x)]
        return (np.array(found, np.int64).reshape(x.shape[:-1]),)


def emit_find(n: Import, x: Value, texts: Iterable[str], suffix: str) -> tuple[Value, dict[str, int]]:
    """Which of some texts each element of ``x`` is, and the number that each text has."""
    table = sorted(set(texts), key=str.encode)
    found = n.inner(TextFind(), [x, n.constant(f"{suffix}.table", encoded(table))], suffix)
    return found, {text: i for i, text in enumerate(table)}
