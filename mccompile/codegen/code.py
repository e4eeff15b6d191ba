"""Expressions of C that know whether they may stand next to an operator.

What is put together says so where it is put together; nobody looks at the text later to find out:

    code("i")                            i                  a word
    form("f({0}, b)", code("i"))         f(i, b)            closed: a call
    form("{0} + b", code("i"))           i + b              open
    wrapped(form("{0} + b", code("i")))  (i + b)            closed, and `bare` opens it again

A plain string is a word, a number, or open: text of a template that is a call or an element says so (`closed`).
"""

from __future__ import annotations

import functools
from enum import IntEnum

from mccompile.codegen.c_extent import c_extent


class Bond(IntEnum):
    """How closely the parts of an expression hold together."""

    WORD = 0
    """A name, or a number without a sign: there is nothing to compute."""
    CLOSED = 1
    """A call, an element, or a group in parentheses: it may stand next to any operator."""
    OPEN = 2
    """Operators outside of parentheses, signs and casts among them."""


class Code(str):
    """An expression of C. ``inside`` is what its outer parentheses hold, if these serve only to close it."""

    __slots__ = ("bond", "inside")

    bond: Bond
    inside: str | None

    def __new__(cls, text: str, bond: Bond, inside: str | None = None) -> Code:
        made = super().__new__(cls, text)
        made.bond = bond
        made.inside = inside
        return made


def extent_name(symbol: str) -> str:
    """The C parameter of kernels, and the field of a network's struct, that hold a symbol of extents."""
    return f"dim_{symbol}"


def code(expression: str | int) -> Code:
    """What has been put together by this module as it is; of a plain string, whether it is a word or a number.

    An extent that is known at run time only is the expression of its symbols:

    >>> from mccompile.ir.dims import symbol
    >>> code(symbol("n", 1, 9) // 4 * 4)
    '4 * (dim_n / 4)'
    """
    if isinstance(expression, Code):
        return expression
    plain = c_extent(expression, extent_name) if isinstance(expression, int) else str(expression)
    word = plain.isidentifier() or plain.isdecimal()
    return Code(plain, Bond.WORD if word else Bond.OPEN)


def closed(text: str) -> Code:
    """A call, an element or a group that was put together as text."""
    return Code(text, Bond.CLOSED)


def opened(text: str) -> Code:
    """Operators and what is between them, put together as text."""
    return Code(text, Bond.OPEN)


def wrapped(text: str | int) -> Code:
    """``text`` so that it may stand next to any operator."""
    made = code(text)
    return Code(f"({made})", Bond.CLOSED, inside=made) if made.bond is Bond.OPEN else made


def bare(text: str | int) -> Code:
    """``text`` without parentheses that only close it, for where it stands alone."""
    made = code(text)
    return made if made.inside is None else opened(made.inside)


def form(pattern: str, *values: str) -> Code:
    """A pattern of C with its places ``{0} {1} ...`` filled; see `bond_of` for how it holds together."""
    if isinstance(pattern, Code):
        return pattern
    if pattern == "{0}":
        return code(values[0])
    bond, grouped = bond_of(pattern)
    return Code(pattern.format(*values), bond, pattern[1:-1].format(*values) if grouped else None)


@functools.cache
def bond_of(pattern: str) -> tuple[Bond, bool]:
    """How a pattern holds together, and whether it is a group in parentheses.

    Patterns are written down: rows of `ir/scalar.py` and `ir/vector.py`, and what templates `say`. ``f({0} - 1)`` and
    ``x[{0}]`` are closed, ``({0} ? {1} : {2})`` is a group; ``-{0}``, ``({t})({0})``, ``f({0}) + 1`` are open.
    """
    at = 0
    while at < len(pattern) and (pattern[at].isalnum() or pattern[at] == "_"):
        at += 1
    if 0 < at == len(pattern):
        return Bond.WORD, False
    if pattern[at : at + 1] not in ("(", "[") or (pattern[at] == "[" and at == 0):
        return Bond.OPEN, False
    depth = 0
    for i in range(at, len(pattern)):
        depth += (pattern[i] in "([") - (pattern[i] in ")]")
        if depth == 0:
            return (Bond.CLOSED, at == 0) if i + 1 == len(pattern) else (Bond.OPEN, False)
    return Bond.OPEN, False
