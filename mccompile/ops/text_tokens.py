"""Tokenizer of com.microsoft, as sklearn-onnx writes for CountVectorizer and TfidfVectorizer: the words of each text.

    ["a cat", "cats, 2"] by [a-z]+      is      [["a", "cat"], ["cats", "#"]], where "#" stands for no word

A word is a run of bytes of a class: all others are made white space, between which StringSplit finds the words; or
each character is one.
"""

from __future__ import annotations

import re

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.types import U8
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.slice import Slice
from mccompile.ops.text import TEXT
from mccompile.ops.text_split import TextSplit

_SPACE = b" \t\n\v\f\r"
_WORDS = re.compile(r"(\[(?:[^\]\\]|\\.)+\]|\\[wd])\+")
"""Expressions that say of what bytes a word is made: a class, and ``+``."""


@onnx_op("Tokenizer", domain=TEXT, tolerance={})
def import_tokenizer(n: Import) -> None:
    x = n.input(0)
    separators: tuple[str, ...] = n.attr("separators", (), str)
    pad, pattern = n.required("pad_value", str).encode(), n.attr("tokenexp", "")
    if n.attr("mark", 0) or n.required("mincharnum", int) > 1 or (separators and pattern):
        raise n.error("marks, and words of at least so many characters, are not supported", "mark=0 and mincharnum=1")
    if pattern == "." or separators == ("",):
        count = n.counted("words", x.shape[-1])
        op, operand = TextSplit(count, characters=True), x
    else:
        count = n.counted("words", (x.shape[-1] + 1) // 2)
        table = _separating(n, separators, pattern)
        op, operand = TextSplit(count), n.inner(Map(ex.lookup(ex.var(0, U8), table)), [x], "spaced")
    words, _, total = n.inners(op, [operand], ["found", "counts", "longest"])
    n.count(count, total)
    n.narrow_result = "string"
    if not pad:
        n.bind(0, words)
        return
    if len(pad) > x.shape[-1]:
        raise n.error(f"pad_value {pad!r} is longer than a text may be", f"--string-bytes {len(pad)}")
    rank = len(words.shape)
    first = n.inner(Slice((0,) * rank, (1,) * rank, (*words.shape[:-1], 1)), [words], "first")
    absent = n.constant("pad", np.frombuffer(pad.ljust(x.shape[-1], b"\0"), np.uint8).copy())
    none = ex.apply("eq", ex.var(1, U8), ex.num(0, U8))
    n.bind(0, n.map(ex.apply("select", none, ex.var(2, U8), ex.var(0, U8)), [words, first, absent], "words"))


def _separating(n: Import, separators: tuple[str, ...], pattern: str) -> np.ndarray:
    """For each byte itself, or a space where it stands between words. What is behind a text stays 0."""
    every = bytes(range(1, 256))
    if pattern:
        whole = _WORDS.fullmatch(pattern)
        if whole is None or not pattern.isascii():  # other characters are several bytes
            raise n.error(
                f"words that are {pattern!r} are not supported",
                "a class of characters and '+' are, such as token_pattern='[a-zA-Z0-9_]+'",
            )
        inside = set(b"".join(re.findall(whole[1].encode(), every, re.DOTALL)))
    else:
        if any(len(s.encode()) != 1 for s in separators) or not separators:
            raise n.error(f"separators {list(separators)} are not supported", "such of one byte are, or tokenexp")
        inside = set(every) - {s.encode()[0] for s in separators}
    if inside & set(_SPACE):
        raise n.error("words with white space in them are not supported")
    return np.array([b if b in inside or b == 0 else _SPACE[0] for b in range(256)], np.uint8)
