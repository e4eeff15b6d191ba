"""The families of operators on text: texts are bytes with zeros behind them, n-grams numbers."""

from __future__ import annotations

from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.kernels.variant import Offer, Variant
from mccompile.targets.target import Target


class _Plain(Variant):
    """Base of these families: their templates have neither prologue nor epilogue, and operands in rows."""

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return f"{self.kernel} carries no prologue or epilogue"
        if any(v.type.layout is not None for v in (*node.inputs, *node.results)):
            return f"{self.kernel} needs row-major operands"
        return super().offer(node, target, constants)


class TextFindGeneric(_Plain):
    ops = ("text_find",)
    kernel = "text_find.generic"


class TextConcatGeneric(_Plain):
    ops = ("text_concat",)
    kernel = "text_concat.generic"


class TextSplitGeneric(_Plain):
    ops = ("text_split",)
    kernel = "text_split.generic"


class TextKeepGeneric(_Plain):
    ops = ("text_keep",)
    kernel = "text_keep.generic"


class TextMatchGeneric(_Plain):
    ops = ("text_match",)
    kernel = "text_match.generic"


class CountGramsGeneric(_Plain):
    ops = ("count_grams",)
    kernel = "count_grams.generic"


VARIANTS = (
    TextFindGeneric(), TextConcatGeneric(), TextSplitGeneric(), TextKeepGeneric(), TextMatchGeneric(),
    CountGramsGeneric(),
)  # fmt: skip
