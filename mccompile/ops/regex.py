r"""Regular expressions as deterministic automata over the bytes of UTF-8: one table look-up for each byte of a text.

    a+b     states 0, {0: after a, 1: after b}:  0 -a-> 1,  1 -a-> 1,  1 -b-> 2, which accepts

The expression becomes a graph of places, joined by ranges of bytes, or by nothing at all where a condition holds (^,
$, \b). A state of the automaton is the set of places where a text so far may have come to, and what kind of byte it
ended with. The syntax is that of RE2, which ONNX asks for, as far as Python's parser knows it; where the two mean
different things by the same characters, they are brought into Python's words first (`_as_python`). \w, \d, \s and \b
know ASCII.

>>> automaton(r"a+b").matches(b"aaab"), automaton(r"a+b").matches(b"ba")
(True, False)
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from re import _constants as sre  # type: ignore[attr-defined]
    from re import _parser as parser  # type: ignore[attr-defined]

MOST_STATES = 2000
MOST_PLACES = 20_000
MOST_VISITS = 5_000_000
"""Places that are looked at, over all states: what takes a few seconds."""
MOST_TURNS = 1000
"""Repetitions that RE2 counts."""
_LAST = 0x10FFFF
_LAST_CASED = 0x1FFFF
"""No character behind it has cases."""
_REFUSED_FLAGS = re.MULTILINE | re.LOCALE | re.VERBOSE

Range = tuple[int, int]
_WORD: list[Range] = [(48, 57), (65, 90), (95, 95), (97, 122)]
_CATEGORIES = {
    sre.CATEGORY_DIGIT: [(48, 57)], sre.CATEGORY_SPACE: [(9, 10), (12, 13), (32, 32)], sre.CATEGORY_WORD: _WORD,
}  # fmt: skip
_NAMED: dict[str, list[Range]] = {
    "alnum": [(48, 57), (65, 90), (97, 122)], "alpha": [(65, 90), (97, 122)], "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)], "cntrl": [(0, 31), (127, 127)], "digit": [(48, 57)], "graph": [(33, 126)],
    "lower": [(97, 122)], "print": [(32, 126)], "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)], "upper": [(65, 90)], "word": _WORD, "xdigit": [(48, 57), (65, 70), (97, 102)],
}  # fmt: skip
"""The classes of POSIX, [[:alpha:]]: unlike \\s, [[:space:]] has the vertical tab."""
_NUMBERED = re.compile(r"\\x\{([0-9A-Fa-f]{1,8})\}")
_POSIX = re.compile(r"\[:(\^?)(.*?):\]", re.DOTALL)
_OPPOSITES = {
    sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT, sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
    sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
}  # fmt: skip

START, OTHER, WORD, END = 0, 1, 2, 3
"""What lies on one side of a place: the begin of the text, a byte that is no part of a word, one that is, the end."""
_CONDITIONS = {
    sre.AT_BEGINNING: lambda before, after: before == START,
    sre.AT_BEGINNING_STRING: lambda before, after: before == START,
    sre.AT_END: lambda before, after: after == END,
    sre.AT_END_STRING: lambda before, after: after == END,
    sre.AT_BOUNDARY: lambda before, after: (before == WORD) != (after == WORD),
    sre.AT_NON_BOUNDARY: lambda before, after: (before == WORD) == (after == WORD),
}


class RegexError(ValueError):
    """An expression that no automaton is made of: why."""


@dataclass(frozen=True)
class Automaton:
    """``classes`` u8[256] of bytes that no state tells apart; ``steps`` i32[states, classes], the next state, -1
    where nothing can match any more; ``accepts``: whether a text may end in a state. The first state is 0."""

    classes: Array
    steps: Array
    accepts: Array

    def matches(self, text: bytes) -> bool:
        """Whether the whole text is one of the expression."""
        state = 0
        for byte in text:
            state = int(self.steps[state, self.classes[byte]])
            if state < 0:
                return False
        return bool(self.accepts[state])


@dataclass
class _Graph:
    """Places, and the joints from each: by a range of bytes, or by nothing under a condition (None: always)."""

    by_bytes: list[list[tuple[Range, int]]] = field(default_factory=list)
    free: list[list[tuple[Any, int]]] = field(default_factory=list)

    def place(self) -> int:
        if len(self.free) >= MOST_PLACES:
            raise RegexError(f"it has more than {MOST_PLACES} places")
        self.by_bytes.append([])
        self.free.append([])
        return len(self.free) - 1

    def reached(self, places: frozenset[int], before: int, after: int) -> set[int]:
        """All places that are joined by nothing, between bytes of two kinds."""
        seen, pending = set(places), list(places)
        while pending:
            for condition, to in self.free[pending.pop()]:
                if to not in seen and (condition is None or _CONDITIONS[condition](before, after)):
                    seen.add(to)
                    pending.append(to)
        return seen


def automaton(pattern: str) -> Automaton:
    """The automaton of an expression, for whole texts. Raises RegexError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what a class may mean to Python one day
            return _automaton(parser.parse(_as_python(pattern), re.ASCII))
    except RegexError:
        raise
    except (re.error, ValueError, OverflowError, RecursionError) as e:
        raise RegexError(str(e)) from e


def _automaton(parsed: Any) -> Automaton:
    if parsed.state.flags & _REFUSED_FLAGS:
        raise RegexError("flags within an expression are not supported, but for (?s) and (?i)")
    graph = _Graph()
    start = graph.place()
    end = _sequence(graph, parsed, start, parsed.state.flags)
    return _determined(graph, start, end)


def _as_python(pattern: str) -> str:
    r"""RE2's expression in Python's words: classes of POSIX as ranges, of {,3}, which is no repetition there, the
    characters, and what `_escape` knows.

    >>> _as_python("[[:digit:]x]a{,3}")
    '[\\U00000030-\\U00000039x]a\\{,3}'
    """
    made: list[str] = []
    i, inside = 0, False
    while i < len(pattern):
        named = _POSIX.match(pattern, i) if inside else None
        size = 1
        if pattern[i] == "\\":
            words, size = _escape(pattern, i, inside)
            made.append(words)
            i += size
            continue
        if named:
            if named[2] not in _NAMED:
                raise RegexError(f"the class {named[0]} is unknown")
            if named[1] and re.search(r"\(\?[a-z]*i", pattern):  # of which case would have to be left out before
                raise RegexError(f"the class {named[0]} is not supported beside (?i)")
            ranges = _others(_NAMED[named[2]]) if named[1] else _NAMED[named[2]]
            made += [rf"\U{low:08x}-\U{high:08x}" for low, high in ranges]
            i = named.end()
            continue
        elif inside:
            inside = pattern[i] != "]"
            made += ["\\"] * (pattern[i] == "[")  # an opening bracket is one of the characters
        elif pattern[i] == "[":
            inside = True
            size = 1 + pattern.startswith("^", i + 1)
            size += pattern.startswith("]", i + size)  # which closes nothing at the begin
        elif pattern.startswith("{,", i):
            made.append("\\")
        made.append(pattern[i : i + size])
        i += size
    return "".join(made)


def _escape(pattern: str, i: int, inside: bool) -> tuple[str, int]:
    r"""What a backslash begins, in Python's words, and how long it is: \z, \x{e9}, and \Q..\E outside of classes."""
    numbered = _NUMBERED.match(pattern, i)
    if numbered:
        return rf"\U{int(numbered[1], 16):08x}", numbered.end() - i
    if not inside and pattern.startswith(r"\z", i):
        return r"\Z", 2
    if not inside and pattern.startswith(r"\Q", i):
        text, end, _ = pattern[i + 2 :].partition(r"\E")
        return re.escape(text), 2 + len(text) + len(end)
    return pattern[i : i + 2], 2


# -- the graph ---------------------------------------------------------------------------------------------
def _sequence(g: _Graph, parsed: Any, at: int, flags: int) -> int:
    for op, argument in parsed:
        at = _part(g, op, argument, at, flags)
    return at


def _part(g: _Graph, op: Any, argument: Any, at: int, flags: int) -> int:
    """The place behind one part of an expression that begins at a place."""
    if op in (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY):
        return _characters(g, _ranges(op, argument, flags), at)
    if op is sre.AT:
        end = g.place()
        g.free[at].append((argument, end))
        return end
    if op is sre.SUBPATTERN:
        _, added, dropped, inner = argument
        if (added | dropped) & _REFUSED_FLAGS:
            raise RegexError("flags of a group are not supported, but for s and i")
        return _sequence(g, inner, at, (flags | added) & ~dropped)
    if op is sre.BRANCH:
        end = g.place()
        for inner in argument[1]:
            g.free[_sequence(g, inner, at, flags)].append((None, end))
        return end
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):  # which of them counts for what a group finds, not for whether it does
        low, high, inner = argument
        return _repeated(g, low, high, inner, at, flags)
    raise RegexError(f"{str(op).lower()} is not supported: no automaton tells it")


def _repeated(g: _Graph, low: int, high: int, inner: Any, at: int, flags: int) -> int:
    if low > MOST_TURNS or (high is not sre.MAXREPEAT and high > MOST_TURNS):
        raise RegexError(f"it repeats a part more than {MOST_TURNS} times")
    for _ in range(low):
        begin, at = at, _sequence(g, inner, at, flags)
        if at == begin:  # nothing, however often
            break
    end = g.place()
    g.free[at].append((None, end))
    if high is sre.MAXREPEAT:
        again = g.place()
        g.free[at].append((None, again))
        last = _sequence(g, inner, again, flags)
        g.free[last] += [(None, again), (None, end)]
        return end
    for _ in range(high - low):
        begin, at = at, _sequence(g, inner, at, flags)
        g.free[at].append((None, end))
        if at == begin:
            break
    return end


def _ranges(op: Any, argument: Any, flags: int) -> list[Range]:
    """The characters that a part takes."""
    any_case = bool(flags & re.IGNORECASE)
    if op is sre.LITERAL:
        return _cases([(argument, argument)], any_case)
    if op is sre.NOT_LITERAL:
        return _others(_cases([(argument, argument)], any_case))
    if op is sre.ANY:
        return [(0, _LAST)] if flags & re.DOTALL else _others([(10, 10)])
    found: list[Range] = []
    for kind, what in argument:
        if kind is sre.LITERAL:
            found.append((what, what))
        elif kind is sre.RANGE:
            found.append(what)
        elif kind is sre.CATEGORY:
            own = _CATEGORIES.get(what)
            found += _others(_cases(_CATEGORIES[_OPPOSITES[what]], any_case)) if own is None else own
    found = _cases(found, any_case)
    return _others(found) if argument[0][0] is sre.NEGATE else found


def _cases(ranges: list[Range], any_case: bool) -> list[Range]:
    """Ranges and, where case counts for nothing, the other cases of their characters, as Unicode folds them: of k the
    sign of Kelvin, too."""
    if not any_case:
        return ranges
    more = {c for group in _cased() if any(low <= c <= high for c in group for low, high in ranges) for c in group}
    return [*ranges, *((c, c) for c in sorted(more))]


@cache
def _cased() -> tuple[tuple[int, ...], ...]:
    """The groups of characters that differ in case alone. Such that become several, as the sharp s, have none but
    their own capital."""
    groups: dict[str, list[int]] = {}
    for number in range(_LAST_CASED + 1):
        char = chr(number)
        folded = next((f for f in (char.casefold(), char.lower()) if len(f) == 1), char)
        groups.setdefault(folded, []).append(number)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)


def _others(ranges: list[Range]) -> list[Range]:
    """All characters but those of ranges."""
    found, next_ = [], 0
    for low, high in sorted(ranges):
        if low > next_:
            found.append((next_, low - 1))
        next_ = max(next_, high + 1)
    return [*found, (next_, _LAST)] if next_ <= _LAST else found


def _characters(g: _Graph, ranges: list[Range], at: int) -> int:
    end = g.place()
    for low, high in ranges:
        for sequence in _utf8(low, high):
            here = at
            for byte in sequence[:-1]:
                to = g.place()
                g.by_bytes[here].append((byte, to))
                here = to
            g.by_bytes[here].append((sequence[-1], end))
    return end


def _utf8(low: int, high: int) -> Iterator[list[Range]]:
    """Ranges of bytes, one after the other, that the characters of a range are made of.

    Characters of one length whose leading bytes are equal differ in their last ones; a range is cut until that is
    all: U+007F to U+0081 is [7f] and [c2][80-81].

    >>> list(_utf8(0x7F, 0x81))
    [[(127, 127)], [(194, 194), (128, 129)]]
    """
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            yield from _utf8(low, last)
            yield from _utf8(last + 1, high)
            return
    if low <= 0xDFFF and high >= 0xD800:  # halves of pairs, which UTF-8 has not
        if low < 0xD800:
            yield from _utf8(low, 0xD7FF)
        if high > 0xDFFF:
            yield from _utf8(0xE000, high)
        return
    if high > 0x7F:
        for bits in (6, 12, 18):
            mask = (1 << bits) - 1
            if low & ~mask == high & ~mask:
                break
            if low & mask:
                yield from _utf8(low, low | mask)
                yield from _utf8((low | mask) + 1, high)
                return
            if high & mask != mask:
                yield from _utf8(low, (high & ~mask) - 1)
                yield from _utf8(high & ~mask, high)
                return
    yield list(zip(chr(low).encode(), chr(high).encode(), strict=True))


# -- the automaton -----------------------------------------------------------------------------------------
def _determined(g: _Graph, start: int, end: int) -> Automaton:
    """States by the places that may be reached, as they are found."""
    classes = _classes(g)
    samples = [int(np.flatnonzero(classes == c)[0]) for c in range(int(classes.max()) + 1)]
    numbers: dict[tuple[frozenset[int], int], int] = {(frozenset({start}), START): 0}
    steps: list[list[int]] = []
    accepts: list[bool] = []
    pending = list(numbers)
    visits = 0
    while pending:
        places, before = pending.pop(0)
        accepts.append(end in g.reached(places, before, END))
        row = []
        reached = {kind: g.reached(places, before, kind) for kind in (OTHER, WORD)}
        for byte in samples:
            kind = _kind(byte)
            here = reached[kind]
            visits += len(here)
            if visits > MOST_VISITS:
                raise RegexError("its automaton takes too long to make")
            after = frozenset(to for p in here for (low, high), to in g.by_bytes[p] if low <= byte <= high)
            key = after, kind
            if after and key not in numbers:
                if len(numbers) >= MOST_STATES:
                    raise RegexError(f"its automaton has more than {MOST_STATES} states")
                numbers[key] = len(numbers)
                pending.append(key)
            row.append(numbers[key] if after else -1)
        steps.append(row)
    return Automaton(classes, np.array(steps, np.int32), np.array(accepts))


def _kind(byte: int) -> int:
    return WORD if any(low <= byte <= high for low, high in _WORD) else OTHER


def _classes(g: _Graph) -> Array:
    """A number for each byte, equal for those that all ranges take, or leave, together."""
    cuts = {0, 256}
    for low, high in [r for joints in g.by_bytes for r, _ in joints] + _WORD:
        cuts |= {low, high + 1}
    ends = sorted(cuts)
    classes = np.zeros(256, np.uint8)
    for number, low in enumerate(ends[:-1]):
        classes[low : ends[number + 1]] = number
    return classes
