"""Sums and products of C texts and numbers, without what adds or multiplies nothing.

total(scaled("b", 784), scaled("0", 12), scaled("ow * 2", 1), -3)   is   "b * 784 + ow * 2 - 3"
"""

from __future__ import annotations

from mccompile.codegen.code import Code, code, opened, wrapped
from mccompile.ir.dims import Dim


def scaled(text: str | int, factor: str | int) -> Code:
    """``text * factor``, both C texts or numbers."""
    a, b = number(text), number(factor)
    if a is not None and b is not None:
        return whole(a * b)
    if 0 in (a, b):
        return whole(0)
    if a == 1:
        return code(factor)
    if b == 1:
        return code(text)
    return opened(f"{wrapped(text)} * {wrapped(factor) if b is None else b}")


def total(*terms: str | int) -> Code:
    """The sum of C texts and numbers; the numbers are one, at the end."""
    numbers = [number(t) for t in terms]
    last = sum(n for n in numbers if n is not None)
    texts = [code(t) for t, n in zip(terms, numbers, strict=True) if n is None]
    if not texts:
        return whole(last)
    if len(texts) == 1 and not last:
        return texts[0]
    end = f" + {last}" if last > 0 else f" - {-last}" if last else ""
    return opened(" + ".join(texts) + end)


def whole(value: int) -> Code:
    """A whole number as C."""
    return code(str(value))


def number(text: str | int) -> int | None:
    """The whole number that a text is; None if it is an expression, as an extent known at run time only is."""
    if isinstance(text, Dim):
        return None
    if isinstance(text, int):
        return text
    return int(text) if text.removeprefix("-").isdecimal() else None


def is_number(text: str | int) -> bool:
    """Whether a text is a whole number, not an expression."""
    return number(text) is not None
