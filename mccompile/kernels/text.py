"""The families of operators on text: texts are bytes with zeros behind them, n-grams numbers."""

from __future__ import annotations

from mccompile.kernels.variant import Plain


class TextFindGeneric(Plain):
    ops = ("text_find",)
    kernel = "text_find.generic"


class TextConcatGeneric(Plain):
    ops = ("text_concat",)
    kernel = "text_concat.generic"


class TextSplitGeneric(Plain):
    ops = ("text_split",)
    kernel = "text_split.generic"
    stores_rows = True


class TextKeepGeneric(Plain):
    ops = ("text_keep",)
    kernel = "text_keep.generic"


class TextMatchGeneric(Plain):
    ops = ("text_match",)
    kernel = "text_match.generic"


class CountGramsGeneric(Plain):
    ops = ("count_grams",)
    kernel = "count_grams.generic"


VARIANTS = (
    TextFindGeneric(), TextConcatGeneric(), TextSplitGeneric(), TextKeepGeneric(), TextMatchGeneric(),
    CountGramsGeneric(),
)  # fmt: skip
