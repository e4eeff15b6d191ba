"""The families of operators on text: texts are bytes with zeros behind them, n-grams numbers."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.kernels.variant import Offer, Plain, laid_out
from mccompile.targets.target import Target


class _Rows(Plain):
    """Base of these families: their templates have neither prologue nor epilogue, and operands in rows."""

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if laid_out(node):
            return f"{self.kernel} needs row-major operands"
        return super().offer(node, target, constants)


class TextFindGeneric(_Rows):
    ops = ("text_find",)
    kernel = "text_find.generic"


class TextConcatGeneric(_Rows):
    ops = ("text_concat",)
    kernel = "text_concat.generic"


class TextSplitGeneric(_Rows):
    ops = ("text_split",)
    kernel = "text_split.generic"
    stores_rows = True


class TextKeepGeneric(_Rows):
    ops = ("text_keep",)
    kernel = "text_keep.generic"


class TextMatchGeneric(_Rows):
    ops = ("text_match",)
    kernel = "text_match.generic"


class CountGramsGeneric(_Rows):
    ops = ("count_grams",)
    kernel = "count_grams.generic"


VARIANTS = (
    TextFindGeneric(), TextConcatGeneric(), TextSplitGeneric(), TextKeepGeneric(), TextMatchGeneric(),
    CountGramsGeneric(),
)  # fmt: skip
