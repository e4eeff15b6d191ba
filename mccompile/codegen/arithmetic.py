"""Sums and products of C texts and numbers, without what adds or multiplies nothing.

total(scaled("b", 784), scaled("0", 12), scaled("ow * 2", 1), -3)   is   "b * 784 + ow * 2 - 3"
"""

from __future__ import annotations

import re

from mccompile.codegen.c_expr import wrapped

_NUMBER = re.compile(r"-?\d+")


def scaled(text: str | int, factor: str | int) -> str:
    """``text * factor``, both C texts or numbers."""
    if is_number(text) and is_number(factor):
        return str(int(text) * int(factor))
    if "0" in (str(text), str(factor)):
        return "0"
    if str(text) == "1":
        return str(factor)
    by = str(factor) if is_number(factor) else wrapped(str(factor))
    return str(text) if by == "1" else f"{wrapped(str(text))} * {by}"


def total(*terms: str | int) -> str:
    """The sum of C texts and numbers; the numbers are one, at the end."""
    number = sum(int(t) for t in terms if is_number(t))
    texts = [str(t) for t in terms if not is_number(t)]
    if not texts:
        return str(number)
    end = f" + {number}" if number > 0 else f" - {-number}" if number else ""
    return " + ".join(texts) + end


def is_number(text: str | int) -> bool:
    """Whether a text is a whole number, not an expression."""
    return _NUMBER.fullmatch(str(text)) is not None
