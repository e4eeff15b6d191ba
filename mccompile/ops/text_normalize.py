"""StringNormalizer: a row of texts without those that are stop words, in one case. How many stay, a kernel counts.

    ["Monday", "the", "Tuesday"] without "the", LOWER      is      ["monday", "tuesday"]

Cases are those of ASCII; other characters stay as they are. A text is left out if all of it is a stop word.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.ranges import Range, anything, constant
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, U8, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT
from mccompile.ops.text_find import emit_find


@dataclass(frozen=True)
class TextKeep(Op):
    """Operands x u8[n, bytes] and found i64[n]; results: the rows whose ``found`` is negative, u8[count, bytes], an
    empty one if there is none, and the count."""

    name = "text_keep"

    count: int

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, found = types
        assert x is not None
        if x.dtype != U8 or x.rank != 2 or found != TensorType(I64, x.shape[:1]):
            raise TypeRuleError(f"{x} is no row of texts, or {found} does not belong to it")
        return (TensorType(U8, (self.count, x.shape[1])), TensorType(I32, ()))

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        return (anything(U8, 1), constant(1, max(int(self.count), 1), 1))

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, found = (np.asarray(a) for a in arrays)
        kept = x[found < 0] if (found < 0).any() else np.zeros((1, x.shape[1]), np.uint8)
        return kept, np.array(len(kept), np.int32)


def _cased(action: str) -> Array:
    """What a case makes of each byte."""
    table = np.arange(256, dtype=np.uint8)
    first, shift = {"LOWER": (ord("A"), 32), "UPPER": (ord("a"), -32)}[action]
    table[first : first + 26] += np.uint8(shift % 256)
    return table


@onnx_op("StringNormalizer", domain=TEXT, tolerance={}, without_effect=("locale",))
def import_string_normalizer(n: Import) -> None:
    x, action = n.input(0), n.attr("case_change_action", "NONE")
    stopwords: tuple[str, ...] = n.attr("stopwords") or ()
    sensitive = n.flag("is_case_sensitive")
    if action not in ("NONE", "LOWER", "UPPER"):
        raise n.error(f"case_change_action {action!r} is unknown", "NONE, LOWER and UPPER are known")
    if len(x.shape) not in (2, 3) or (len(x.shape) == 3 and x.shape[0] != 1):
        raise n.error(f"texts of shape {list(x.shape[:-1])} are no row")
    rows = n.reshape(x, x.shape[-2:], "row")
    n.narrow_result = "string"
    change = Map(ex.lookup(ex.var(0, U8), _cased("LOWER" if action == "NONE" else action)))
    changed = n.inner(change, [rows], "cased")
    made = rows if action == "NONE" else changed
    if not stopwords:
        n.bind(0, n.reshape(made, x.shape, "shaped"))
        return
    # Those of bytes, too, are cases of ASCII.
    cased = bytes.upper if action == "UPPER" else bytes.lower
    words = [w if sensitive else cased(w.encode()).decode() for w in stopwords]
    found, _ = emit_find(n, rows if sensitive else changed, words, "stopwords")
    count = n.counted("kept", max(int(rows.shape[0]), 1))
    kept, total = n.inners(TextKeep(count), [made, found], ["kept", "count"])
    n.count(count, total)
    n.bind(0, n.reshape(kept, (*x.shape[:-2], count, x.shape[-1]), "shaped"))
