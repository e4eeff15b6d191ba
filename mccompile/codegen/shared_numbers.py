"""Kernels whose texts differ only in numbers, as one text with those numbers as C parameters.

Worked example: two calls are rendered as

    static void KERNEL_NAME(int8_t *y0)                 static void KERNEL_NAME(int8_t *y0)
    { for (int32_t i = 0; i < 48; ++i) y0[i * 8] = 1; } { for (int32_t i = 0; i < 24; ++i) y0[i * 16] = 1; }

Their forms are equal: what is left when numbers are taken out. The numbers in which they differ, 48 and 24, 8 and 16,
become ``n0`` and ``n1``; one function of (y0, n0, n1) is called with 48, 8 and with 24, 16. A number that is a
multiple of another one in all of the texts, or larger by as much, is printed as that. Functions beside the kernel
(``KERNEL_NAME_stage``) get the numbers that they, or what they call, mention.

>>> texts = [f"static void KERNEL_NAME(int8_t *y0)\\n{{ y0[{i}] = y0[{3 * i}] + 5; }}" for i in (7, 8)]
>>> one = joined([form_of(t) for t in texts])
>>> print(one.text, one.values)
static void KERNEL_NAME(int8_t *y0, int32_t n0)
{ y0[n0] = y0[(3 * n0)] + 5; } ((7,), (8,))

What decides on instructions stays a number, so that texts that differ in it are different forms: extents of arrays,
what is copied by ``memcpy``, divisors, what is stored as it is. So do arguments of ``INT64_C`` and its like, which
have to be numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mccompile.codegen.binding import KERNEL_NAME
from mccompile.ir.errors import InternalError

_NUMBER = re.compile(r"(?<![\w.])(?<!e-)-?\d+(?![\w.])")
_FIXED = re.compile(
    r"/\*.*?\*/|#[^\n]*|memcpy\([^;]*;|[/%] \d+|\w+ \w+(?:\[[^\]]*\])+(?= = |;)|\] = -?\d+;|INT\d+_C\(-?\d+\)",
    re.DOTALL,
)
"""Text whose numbers stay: comments, directives, copies, divisors, arrays that are declared, constants that are
stored, constants of a width."""
_FUNCTION = re.compile(rf"\b{KERNEL_NAME}\w*(?=\()")


@dataclass(frozen=True)
class Form:
    """A text without the numbers that may differ, and these in order. ``pieces`` stand around them."""

    pieces: tuple[str, ...]
    numbers: tuple[int, ...]


def form_of(text: str) -> Form:
    """The form of a kernel's text."""
    fixed = [range(*m.span()) for m in _FIXED.finditer(text)]
    pieces, numbers, end = [], [], 0
    for m in _NUMBER.finditer(text):
        while fixed and fixed[0].stop <= m.start():
            fixed.pop(0)
        if (fixed and m.start() in fixed[0]) or not _at_operand(text, m):
            continue
        pieces.append(text[end : m.start()])
        numbers.append(int(m[0]))
        end = m.end()
    return Form((*pieces, text[end:]), tuple(numbers))


def _at_operand(text: str, m: re.Match[str]) -> bool:
    """Whether a number, which may have a sign, is an operand of its own."""
    return not m[0].startswith("-") or text[m.start() - 1] in " (,"


@dataclass(frozen=True)
class Joined:
    """One text for several forms: its numbers are ``names``, of which each form gives its ``values``."""

    text: str
    names: tuple[str, ...]
    values: tuple[tuple[int, ...], ...]


def joined(forms: Sequence[Form]) -> Joined:
    """The text of forms whose pieces are equal."""
    pieces, own = forms[0].pieces, list[tuple[int, ...]]()
    prefix = next(p for p in _PREFIXES if not re.search(rf"\b{p}\d", " ".join(pieces)))
    said = [_said(values, own, prefix) for values in zip(*(f.numbers for f in forms), strict=True)]
    text = "".join(p + s for p, s in zip(pieces, (*said, ""), strict=True))
    names = tuple(f"{prefix}{i}" for i in range(len(own)))
    return Joined(with_parameters(text, names), names, tuple(zip(*own, strict=True)) or ((),) * len(forms))


_PREFIXES = ("n", "number", "numeral")
"""What parameters are called, the first that a kernel has no names of its own with."""
_MULTIPLES = range(2, 65)


def _said(values: tuple[int, ...], own: list[tuple[int, ...]], prefix: str) -> str:
    """A number that has these values as C: the same in all, or by a parameter, which may be a new one of ``own``."""
    if len(set(values)) == 1:
        return str(values[0])
    for i, known in enumerate(own):
        if values == known:
            return f"{prefix}{i}"
    for i, known in enumerate(own):
        factor = next((v // k for v, k in zip(values, known, strict=True) if k), 0)
        if factor in _MULTIPLES and all(v == factor * k for v, k in zip(values, known, strict=True)):
            return f"({factor} * {prefix}{i})"
        apart = values[0] - known[0]
        if all(v - k == apart for v, k in zip(values, known, strict=True)):
            return f"({prefix}{i} {'-' if apart < 0 else '+'} {abs(apart)})"
    own.append(values)
    return f"{prefix}{len(own) - 1}"


def _closing(text: str, at: int) -> int:
    """Where the parenthesis at ``at`` is closed."""
    depth = 0
    for m in re.compile(r"[()]").finditer(text, at):
        depth += 1 if m[0] == "(" else -1
        if not depth:
            return m.start()
    raise InternalError(f"a parenthesis is not closed: {text[at:]}")


@dataclass(frozen=True)
class _Mention:
    """A function of a kernel where it is defined or called: its parameters end at ``end``."""

    name: str
    start: int
    end: int
    defines: bool


def _mentions(text: str) -> Iterator[_Mention]:
    for m in _FUNCTION.finditer(text):
        end = _closing(text, m.end())
        yield _Mention(m[0], m.start(), end, re.match(r"\)\s*\{", text[end:]) is not None)


def mentioned(text: str, names: Sequence[str]) -> list[str]:
    """Those of the names that stand in the text of a kernel."""
    return [n for n in names if re.search(rf"\b{n}\b", text)]


def with_parameters(text: str, names: Sequence[str]) -> str:
    """The text of a kernel with its functions given the numbers they mention, the kernel itself all."""
    if not names:
        return text
    mentions = list(_mentions(text))
    needed: dict[str, set[str]] = {}
    bounds = [m.end for m in mentions if m.defines] + [len(text)]
    for start, stop, m in zip(bounds, bounds[1:], (m for m in mentions if m.defines), strict=False):
        body = text[start:stop]
        needed[m.name] = set(mentioned(body, names))
        for inner in mentions:  # what is called is defined before
            if not inner.defines and start < inner.start < stop:
                needed[m.name] |= needed[inner.name]
    needed[KERNEL_NAME] = set(names)
    for m in sorted(mentions, key=lambda m: -m.end):
        given = [n for n in names if n in needed[m.name]]
        more = "".join(f", {'int32_t ' if m.defines else ''}{n}" for n in given)
        text = text[: m.end] + more + text[m.end :]
    return text
