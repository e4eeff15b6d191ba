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

What decides on instructions stays a number, so that texts that differ in it are different forms: what is copied by
``memcpy`` or such a load, divisors, what is stored as it is, how many turns a function beside the kernel writes
out of a loop. So does what C wants constant: extents of arrays, initialisers of what is static, labels of ``case``,
arguments of ``INT64_C`` and its like and of shuffles. So does what is none of C's numbers (text in quotes, comments,
directives), and what an ``int32_t`` does not hold.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterator, Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KERNEL_NAME
from mccompile.ir.errors import InternalError

_NUMBER = re.compile(r"(?<![\w.])(?<![\w.][eEpP][-+])-?(?:0|[1-9]\d*)(?![\w.])")
_LARGEST = 2**31 - 1
"""The largest number that is a parameter: beyond, C has a constant of 64 bits for it."""
_NO_CODE = r"""/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'"""
_TO_END = rf"(?:{_NO_CODE}|[^;\"'])*+;"
_EXTENTS = r"(?:\[[^\]]*\])+"
_FIXED = re.compile(
    rf"{_NO_CODE}|#(?:\\.|[^\n])*"
    rf"|\bstatic (?:[^;(){{}}]|\([^()]*\))* = {_TO_END}|\b(?:enum|_Static_assert|MCC_STATIC_ASSERT)\b{_TO_END}"
    rf"|\w+ \**\w+{_EXTENTS}(?:, \**\w+{_EXTENTS})*(?= = |[;,)])|\(\*\w*\){_EXTENTS}|\bcase [^:]*:"
    rf"|INT\d+_C\([^)]*\)|MCC_ALIGNED\([^)]*\)"
    rf"|(?:memcpy|mcc_vload_shorts_\w+|__builtin_(?:shufflevector|prefetch))\({_TO_END}"
    r"|[/%] \d++(?!\.)|\] = -?\d+;",
    re.DOTALL,
)
"""Text whose numbers stay. What is no code comes first, as it may contain any text; then what has to be constant, and
last what decides on instructions: copies, divisors, what is stored."""
_ROWS = re.compile(r"\bmcc_\w+ \w+\[$")
"""What stands in front of the number of rows of an array of vectors, in registers as far as it is used."""
SHARED_NAME = "SHARED_"
"""What names of shared functions begin with until the first kernel that calls one gives it its own."""
_FUNCTION = re.compile(rf"\b(?:{KERNEL_NAME}|{SHARED_NAME}\d)\w*(?=\()")
_ASKING = re.compile(rf"{SHARED_NAME}\d+((?:t\d+)+)_")
"""What the name of a shared function says: after each t, which of its parameters bounds turns that it writes out."""
_WORD = re.compile(r"\w+")


_FLOAT = re.compile(r"(?<![\w.])\d+\.\d*(?:e[-+]?\d+)?f\b")

Number = int | str


@dataclass(frozen=True)
class Form:
    """A text without the numbers that may differ, and these in order, floats as C. ``pieces`` stand around them."""

    pieces: tuple[str, ...]
    numbers: tuple[Number, ...]

    @property
    def kind(self) -> tuple[str, ...]:
        """What forms of one text have in common: also where floats are, which no number of integers stands for."""
        return (*self.pieces, "".join("f" if isinstance(n, str) else "i" for n in self.numbers))


_HOT = re.compile(r"\bMCC_UNROLL\n\s*for [^{]*\{|\bfor [^{]*\{\n\s*MCC_UNROLL_FULLY\n\s*for \(int32_t step = [^{]*\{")
"""Where a loop begins that takes most of the time: it is unrolled for the number of its turns, or several steps of it
are one turn, and what it adds to addresses is part of its instructions."""
_STEP = re.compile(r"\bMCC_BARRIER\(\);")
"""Where the step of a sum begins, which ends with its block."""
_TURNS = re.compile(r"< (\d+);")
_ADDRESSED = 5
"""Places, one stride apart, that processors address by a few registers; of more the stride is to be known."""


def _hot_parts(text: str) -> list[range]:
    """The parts of a text whose numbers are worth more than the code of another function."""
    loops = [range(m.start(), closing(text, m.end(), "{}")) for m in _HOT.finditer(text)]
    steps = [range(m.end(), closing(text, m.end(), "{}")) for m in _STEP.finditer(text)]
    wide = [s for s in steps if any(int(n) > _ADDRESSED for n in _TURNS.findall(text[s.start : s.stop]))]
    return [*loops, *(s for s in wide if not any(s.start in loop for loop in loops))]


@functools.lru_cache(maxsize=1024)
def form_of(text: str, hot: bool = True, floats: bool = False, rows: bool = False) -> Form:
    """The form of a kernel's text; without ``hot``, the numbers of `_hot_parts` stay. With ``floats``,
    floats are numbers as well; with ``rows``, so is how many rows an array of vectors has.

    >>> form_of("x * 0.5f + 3", floats=True)
    Form(pieces=('x * ', ' + ', ''), numbers=('0.5f', 3))
    """
    loops = [] if hot else _hot_parts(text)
    fixed = [*(range(*m.span()) for m in _FIXED.finditer(text)), *_turns_given(text)]
    fixed = [part for part in fixed if not any(part.start in loop for loop in loops)]
    fixed = sorted([*loops, *fixed], key=lambda part: part.start)
    found = [*_NUMBER.finditer(text), *(_FLOAT.finditer(text) if floats else ())]
    pieces, numbers, end = [], list[Number](), 0
    for m in sorted(found, key=lambda m: m.start()):
        while fixed and fixed[0].stop <= m.start():
            fixed.pop(0)
        known = fixed and m.start() in fixed[0] and not (rows and _ROWS.search(text, end, m.start()))
        if known or not _is_operand(text, m):
            continue
        pieces.append(text[end : m.start()])
        numbers.append(m[0] if m[0].endswith("f") else int(m[0]))
        end = m.end()
    return Form((*pieces, text[end:]), tuple(numbers))


def _is_operand(text: str, m: re.Match[str]) -> bool:
    """Whether a number, which may have a sign, is an operand of its own, and a parameter may be what it is."""
    narrow = m[0].endswith("f") or abs(int(m[0])) <= _LARGEST
    return narrow and (not m[0].startswith("-") or text[m.start() - 1] in " (,")


@dataclass(frozen=True)
class Joined:
    """One text for several forms: its numbers are ``names``, of which each form gives its ``values``."""

    text: str
    names: tuple[str, ...]
    values: tuple[tuple[Number, ...], ...]


def joined(forms: Sequence[Form], inlined: bool = False) -> Joined:
    """The text of forms whose kinds are equal; where it is ``inlined``, its loops are written out as before. Arrays
    have the most rows of all.

    >>> forms = [form_of(f"mcc_vf acc[{n}][2]; f({n});", rows=True) for n in (6, 4)]
    >>> joined(forms).text
    'mcc_vf acc[6][2]; f(n0);'
    """
    pieces, own = forms[0].pieces, list[tuple[Number, ...]]()
    prefix = next(p for p in _PREFIXES if not re.search(rf"\b{p}\d", " ".join(pieces)))
    said = []
    for before, values in zip(pieces, zip(*(f.numbers for f in forms), strict=True), strict=False):
        said.append(str(max(values)) if _ROWS.search(before) else _said(values, own, prefix))
    text = "".join(p + s for p, s in zip(pieces, (*said, ""), strict=True))
    names = tuple(f"{prefix}{i}" for i in range(len(own)))
    text = text if inlined else _with_known_turns_written_out(text, names)
    floats = frozenset(n for n, values in zip(names, own, strict=True) if isinstance(values[0], str))
    return Joined(with_parameters(text, names, floats), names, tuple(zip(*own, strict=True)) or ((),) * len(forms))


def _with_known_turns_written_out(text: str, names: Sequence[str]) -> str:
    """The text without the demand to write out loops whose turns are a parameter: clang warns that it cannot.

    >>> _with_known_turns_written_out("MCC_UNROLL_FULLY\\nfor (i = 0; i < n0; ++i) {", ["n0"])
    'for (i = 0; i < n0; ++i) {'
    """
    if not names:
        return text
    return re.sub(rf"MCC_UNROLL_FULLY\n\s*(?=for \([^{{]*?\b(?:{'|'.join(names)})\b[^{{]*\{{)", "", text)


_PREFIXES = ("n", "number", "numeral")
"""What parameters are called, the first that a kernel has no names of its own with."""
_MULTIPLES = range(2, 65)


def _said(values: tuple[Number, ...], own: list[tuple[Number, ...]], prefix: str) -> str:
    """A number that has these values as C: the same in all, or by a parameter, which may be a new one of ``own``."""
    if len(set(values)) == 1:
        return str(values[0])
    for i, known in enumerate(own):
        if values == known:
            return f"{prefix}{i}"
    for i, known in enumerate(own):
        change = _change(values, known)
        if change:
            return f"({change.format(f'{prefix}{i}')})"
    own.append(values)
    return f"{prefix}{len(own) - 1}"


def _change(values: tuple[Number, ...], known: tuple[Number, ...]) -> str:
    """How each of the values is made of the known one, as C around it; "" if there is no way, or they are floats.

    >>> _change((6, 9), (2, 3)), _change((6, 9), (5, 8)), _change((6, 9), (5, 7)), _change((6, 9), ("0.5f", "1.0f"))
    ('3 * {}', '{} + 1', '', '')
    """
    pairs = [(v, k) for v, k in zip(values, known, strict=True) if isinstance(v, int) and isinstance(k, int)]
    if len(pairs) < len(values):
        return ""
    factor = next((v // k for v, k in pairs if k), 0)
    if factor in _MULTIPLES and all(v == factor * k for v, k in pairs):
        return f"{factor} * {{}}"
    apart = pairs[0][0] - pairs[0][1]
    if abs(apart) <= _LARGEST and all(v - k == apart for v, k in pairs):
        return f"{{}} {'-' if apart < 0 else '+'} {abs(apart)}"
    return ""


def closing(text: str, at: int, pair: str = "()") -> int:
    """Where the parenthesis that was opened in front of ``at`` is closed, or another ``pair``.

    >>> closing("f(a, (b))", 2)
    8
    """
    depth = 1
    for m in re.compile(f"[{pair}]").finditer(text, at):
        depth += 1 if m[0] == pair[0] else -1
        if not depth:
            return m.start()
    raise InternalError(f"a parenthesis is not closed: {text[at:]}")


_WRITTEN_OUT = re.compile(r"\bMCC_UNROLL_FULLY\n\s*for \(([^{]*)\{")
"""Where a loop begins all of whose turns are written out."""
_COUNT = re.compile(r"\s*int32_t (\w+)")
_LOCAL = re.compile(r"\bconst int32_t (\w+) = ([^;]*);")


def _turns_given(text: str) -> list[range]:
    """What the functions of a kernel are given to write loops out by: numbers, or the turns are none that are known.

    >>> text = '''MCC_INLINE void KERNEL_NAME_tile(float *y, int32_t pixels, int32_t at)
    ... {
    ...     MCC_UNROLL_FULLY
    ...     for (int32_t i = 0; i < pixels; ++i) {
    ...     }
    ... }
    ... static void KERNEL_NAME(float *y) { KERNEL_NAME_tile(y, 7, 24); }'''
    >>> [text[r.start : r.stop] for r in _turns_given(text)]
    [' 7']
    """
    return _turns(text)[0]


def turns_asked(text: str, name: str) -> str:
    """What the name of a function that is shared says of its parameters.

    >>> loop = "MCC_UNROLL_FULLY\\n for (i = 0; i < n; ++i) {}"
    >>> turns_asked(f"MCC_INLINE void KERNEL_NAME_a(int32_t m, int32_t n)\\n{{ {loop} }}", "KERNEL_NAME_a")
    't1'
    """
    return "".join(f"t{place}" for place in _turns(text)[1].get(name, []))


def _turns(text: str) -> tuple[list[range], dict[str, list[int]]]:
    """What bounds loops that are written out: where it is given to functions, and, by function, the places of such
    parameters."""
    if "MCC_UNROLL_FULLY" not in text and not _ASKING.search(text):
        return [], {}
    mentions, found = list(mentions_in(text)), list[range]()
    shared = {m.name: _ASKING.match(m.name) for m in mentions}
    asking = {name: [int(place) for place in m[1][1:].split("t")] for name, m in shared.items() if m}
    defined = [m for m in mentions if m.defines]
    for m, stop in zip(defined, [*(n.start for n in defined[1:]), len(text)], strict=True):
        bounding = [header[1] for header in _WRITTEN_OUT.finditer(text, m.end, stop)]
        for call in (n for n in mentions if m.end < n.start < stop and not n.defines and n.name in asking):
            given = call.given(text)
            bounding += [text[given[i].start : given[i].stop] for i in asking[call.name]]
            found += [given[i] for i in asking[call.name]]
        words = set(_WORD.findall(" ".join(bounding)))
        for local in reversed(list(_LOCAL.finditer(text, m.end, stop))):  # each may be made of those before it
            words |= set(_WORD.findall(local[2])) if local[1] in words else set()
        params = [_COUNT.fullmatch(text, p.start, p.stop) for p in m.given(text)]
        asking[m.name] = [i for i, p in enumerate(params) if p is not None and p[1] in words]
    return found, asking


@dataclass(frozen=True)
class Mention:
    """A function of a kernel where it is defined or called: its parameters end at ``end``."""

    name: str
    start: int
    end: int
    defines: bool

    def given(self, text: str) -> list[range]:
        """Where each parameter or argument stands."""
        begin, depth, found = self.start + len(self.name) + 1, 0, list[range]()
        for at in range(begin, self.end):
            depth += (text[at] in "([{") - (text[at] in ")]}")
            if text[at] == "," and not depth:
                found.append(range(begin, at))
                begin = at + 1
        return [*found, range(begin, self.end)]


def mentions_in(text: str) -> Iterator[Mention]:
    """The functions of a kernel where a text defines or calls them."""
    for m in _FUNCTION.finditer(text):
        end = closing(text, m.end() + 1)
        yield Mention(m[0], m.start(), end, re.match(r"\)\s*\{", text[end:]) is not None)


def mentioned(text: str, names: Sequence[str]) -> list[str]:
    """Those of the names that stand in the text of a kernel."""
    words = set(_WORD.findall(text))
    return [n for n in names if n in words]


def with_parameters(text: str, names: Sequence[str], floats: Container[str] = ()) -> str:
    """The text of a kernel with its functions given the numbers they mention, the kernel itself all; those of
    ``floats`` are no integers."""
    if not names:
        return text
    mentions = list(mentions_in(text))
    needed: dict[str, set[str]] = {}
    bounds = [m.end for m in mentions if m.defines] + [len(text)]
    for start, stop, m in zip(bounds, bounds[1:], (m for m in mentions if m.defines), strict=False):
        body = text[start:stop]
        needed[m.name] = set(mentioned(body, names))
        for inner in mentions:  # what is called is defined before
            if not inner.defines and start < inner.start < stop:
                needed[m.name] |= needed.get(inner.name, set())
    needed[KERNEL_NAME] = set(names)
    for m in sorted(mentions, key=lambda m: -m.end):
        given = [n for n in names if n in needed.get(m.name, ())]
        types = {n: "" if not m.defines else "float " if n in floats else "int32_t " for n in given}
        more = "".join(f", {types[n]}{n}" for n in given)
        text = text[: m.end] + more + text[m.end :]
    return text
