"""Parts of functions that do nothing but compute sums, as inlined functions that several have: the C of long programs
is shorter, the machine code is what it was.

Worked example: tiles of two kernels, one of which adds a bias, begin with

    mcc_vf acc[6][2] = { { { 0.0f } } };
    for (int32_t i = 0; i < 64; ++i) {                  and                 for (int32_t i = 0; i < 32; ++i) {
        acc[0][0] += w[i];                                                      acc[0][0] += w[i];
    }                                                                       }

The loops differ in a number alone. There is one, which both have inlined with theirs, before they store what they do:

    MCC_INLINE void SHARED_0_sums0(mcc_vf (*acc)[2], const float *w, int32_t n0)
    { for (int32_t i = 0; i < n0; ++i) { acc[0][0] += w[i]; } }

    mcc_vf acc[6][2] = { { { 0.0f } } };
    SHARED_0_sums0(acc, w, 64);

What a part is given are the variables of its function that it mentions; it changes none that is mentioned behind it.
Loops that take the steps of a sum come first, then what is around these: all lines of a window, say.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KERNEL_NAME
from mccompile.codegen.shared_functions import Shared, with_changes
from mccompile.codegen.shared_numbers import (
    SHARED_NAME,
    Form,
    Number,
    closing,
    form_of,
    joined,
    mentions_in,
    turns_asked,
)
from mccompile.ir.c_words import COMMENT

SHORTEST = 150
"""Letters of a part that may be a function."""
LEAST = 300
"""Letters that parts save together."""
MOST_GIVEN = 100
"""Variables and numbers that a part is given."""
_MARK = re.compile(r"""/\*.*?\*/|"(?:\\.|[^"\\])*"|[(){};]""", re.DOTALL)
"""What tells where statements end."""
_DECLARATION = re.compile(
    r"(?P<type>(?:const )?[a-z]\w* \**)(?:MCC_RESTRICT )?(?P<name>\w+)(?P<extents>(?:\[[^\]]*\])*)(?= = |;|$)"
)
_ARRAYS = re.compile(r"(?P<type>mcc_\w+ )\(\*(?P<name>\w+)\)(?P<extents>(?:\[[^\]]*\])+)$")
"""A parameter that points to arrays."""
_COUNTED = re.compile(r"for \((int32_t) (\w+) =")
_LOOP = re.compile(r"(?:MCC_\w+\s+)?(?:for|while) \(")
_GOES_ON = re.compile(r"\s*(?:else\b|;)")
"""What follows a brace that ends no statement."""
_OWN = re.compile(rf"\b(?:y\d|e\d|{KERNEL_NAME}\w*|MCC_IN_MEMORY|sizeof|break|continue|goto|return|\w*store\w*)\b")
"""What is no part of sums alone: results and where they go, what leaves the part, an array as a whole."""
_STEP = re.compile(r"\bMCC_(?:BARRIER|FENCE)\(\);")
_NUMBER = r"\b(?:n|number|numeral)\d+\b"
_GIVEN = re.compile(rf"(?<!\w)(?<!if )(?<!while )\((?:\d+ \* {_NUMBER}|{_NUMBER} [-+] \d+)\)|{_NUMBER}")
"""A number that a function is given as it is one for several, or what `shared_numbers` makes of it."""
_WORD = re.compile(r"[A-Za-z_]\w*")
_VARIABLE = re.compile(r"(?<![.\w])(?!(?:const|else|float|mcc_\w+|\w+_t)\b)[a-z]\w*\b(?! *\()")
"""A word that is no type, macro, function or member."""


@dataclass(frozen=True)
class _Variable:
    """One that a function has in a ``block``: ``type`` is that of a parameter which stands for it."""

    name: str
    type: str
    is_sums: bool
    block: range

    @property
    def is_number(self) -> bool:
        """Whether it is one that a function is given as it is one for several (`shared_numbers`)."""
        return self.type == "int32_t " and re.fullmatch(_NUMBER, self.name) is not None

    @property
    def parameter(self) -> str:
        return self.type.replace("@", self.name) if "@" in self.type else f"{self.type}{self.name}"


class _Named(int):
    """A number that is known by a name: no other number is a multiple of it, or near to it."""

    name: str

    @classmethod
    def of(cls, name: str, place: int) -> _Named:
        made = cls((FAR + place) << 40)
        made.name = name
        return made

    def __str__(self) -> str:
        return self.name


FAR = 1 << 30
"""More than there are named numbers in a program."""
FIRST = 2**31 - 1 - MOST_GIVEN
"""What stands for the first named number of a part while its numbers are looked for."""
_Scope = Mapping[str, _Variable]


@dataclass(frozen=True)
class _Part:
    """Statements of a text from ``start`` to ``end`` that mention sums and ``given`` variables."""

    text: str
    start: int
    end: int
    body: str
    """The statements without what nesting makes of them."""
    given: tuple[_Variable, ...]

    def holds(self, other: _Part) -> bool:
        """Whether another part of the same text is within it."""
        return self is not other and self.start <= other.start and other.end <= self.end

    def form(self, place: int) -> Form | None:
        """The form of its function, in which numbers that its own function is given are numbers; ``place`` is another
        one for each part. None where C wants such a number to be constant."""
        numbers = {v.name for v in self.given if v.is_number}
        said = dict.fromkeys(m[0] for m in _GIVEN.finditer(self.body))
        names = [name for name in said if numbers.intersection(_WORD.findall(name))]
        stand_in = {name: str(FIRST + i) for i, name in enumerate(names)}
        body = _GIVEN.sub(lambda m: stand_in.get(m[0], m[0]), self.body)
        parameters = ", ".join(v.parameter for v in self.given if not v.is_number)
        text = f"MCC_PLACE_CODE\nMCC_INLINE void {KERNEL_NAME}_sums({parameters})\n{{\n{body}\n}}"
        form = form_of(text, floats=True, rows=True)
        if len(names) > MOST_GIVEN or any(n in p for n in stand_in.values() for p in (self.body, *form.pieces)):
            return None
        named: dict[Number, Number] = {FIRST + i: _Named.of(name, place + i) for i, name in enumerate(names)}
        return Form(form.pieces, tuple(named.get(n, n) for n in form.numbers))

    def call(self, name: str, values: Sequence[Number]) -> str:
        variables = (v.name for v in self.given if not v.is_number)
        return f"{name}({', '.join([*variables, *map(str, values)])});"


def with_common_sums(shared: Shared, inlined: bool = False) -> Shared:
    """The same with one text for parts that differ in numbers alone: those of functions that are ``inlined``, which
    may still be shared, or of all."""
    refused, places = set[tuple[str, ...]](), itertools.count(step=MOST_GIVEN)
    while True:
        texts = list(dict.fromkeys([*shared.texts.values(), *shared.functions.values()]))
        kinds: dict[tuple[str, ...], list[tuple[_Part, Form]]] = {}
        for text in texts:
            for part, form in _inner_parts(text, inlined, refused, places):
                kinds.setdefault(form.kind, []).append((part, form))
        if not kinds:
            return shared
        made, changes = dict(shared.functions), dict[str, list[tuple[int, int, str]]]()
        for kind, same in kinds.items():
            one = joined([form for _, form in same], inlined=True)
            asked = turns_asked(one.text, f"{KERNEL_NAME}_sums") if inlined else ""
            name = f"{SHARED_NAME}{len(made)}{asked}_sums{len(made)}"
            calls = [part.call(name, values) for (part, _), values in zip(same, one.values, strict=True)]
            saved = sum(len(part.body) - len(c) for (part, _), c in zip(same, calls, strict=True)) - len(one.text)
            if len(same) == 1 or saved < LEAST:
                refused.add(kind)
                continue
            made[name] = one.text.replace(f"{KERNEL_NAME}_sums(", f"{name}(")
            for (part, _), call in zip(same, calls, strict=True):
                changes.setdefault(part.text, []).append((part.start, part.end, call))
        now = {text: with_changes(text, changes.get(text, [])) for text in [*texts, *made.values()]}
        shared = replace(
            shared,
            texts={before: now[text] for before, text in shared.texts.items()},
            functions={name: now[text] for name, text in made.items()},
        )


def _inner_parts(
    text: str, inlined: bool, refused: set[tuple[str, ...]], places: Iterator[int]
) -> list[tuple[_Part, Form]]:
    """The parts of a text that have no other part within them, but for those that are ``refused``."""
    forms = ((part, part.form(next(places))) for part in _parts_of_functions(text, inlined))
    found = [(part, form) for part, form in forms if form is not None and form.kind not in refused]
    return [(p, f) for p, f in found if not any(p.holds(q) for q, _ in found)]


def _parts_of_functions(text: str, inlined: bool) -> Iterator[_Part]:
    """The parts of functions that are not one as a whole."""
    for m in mentions_in(text):
        if m.defines and (not inlined or text.endswith("MCC_INLINE void ", 0, m.start)):
            begin = text.index("{", m.end) + 1
            body = range(begin, closing(text, begin, "{}"))
            parameters = [_parameter(text[p.start : p.stop].strip(), body) for p in m.given(text)]
            scope = {v.name: v for v in parameters if v is not None}
            whole = text[body.start : body.stop].strip()
            yield from (p for p in _parts(text, body, scope, ()) if text[p.start : p.end] != whole)


def _parameter(text: str, body: range) -> _Variable | None:
    """What a function is given, unless that is nothing."""
    if m := _ARRAYS.match(text):
        return _Variable(m["name"], f"{m['type']}(*@){m['extents']}", True, body)
    return _variable(m, body) if (m := _DECLARATION.match(text)) else None


def _variable(declared: re.Match[str], block: range) -> _Variable:
    kind, name, extents = declared["type"], declared["name"], re.findall(r"\[[^\]]*\]", declared["extents"])
    points = "*" in kind
    if not extents:
        own = kind if points else kind.removeprefix("const ")
        return _Variable(name, own, points and kind.startswith("mcc_"), block)
    inner = f"{kind}(*@){''.join(extents[1:])}" if extents[1:] else f"{kind}*"
    return _Variable(name, inner, kind.startswith("mcc_"), block)


def _parts(text: str, block: range, scope: _Scope, loops: tuple[range, ...]) -> Iterator[_Part]:
    """The parts of a block, which is in these loops, and of the blocks within."""
    scope, run = dict(scope), list[range]()
    for own in [*_statements(text, block), range(block.stop, block.stop)]:
        statement = text[own.start : own.stop]
        declared = _DECLARATION.match(statement)
        if declared is None and _is_of_sums(statement, scope):
            run.append(own)
        else:
            yield from _part(text, run, scope, loops)
            run = []
        if declared is not None:
            scope[declared["name"]] = _variable(declared, block)
        elif not statement.startswith("MCC_UNROLL_FULLY") and not _STEP.search(_without_blocks(statement)):
            inner_loops = (*loops, own) if _LOOP.match(statement) else loops
            head = statement.partition("{")[0]
            for inner in _blocks(text, own):
                counted = {m[2]: _Variable(m[2], f"{m[1]} ", False, inner) for m in _COUNTED.finditer(head)}
                yield from _parts(text, inner, {**scope, **counted}, inner_loops)


def _is_of_sums(statement: str, scope: _Scope) -> bool:
    words = set(_WORD.findall(statement))
    return any(w in words for w, v in scope.items() if v.is_sums) and not _OWN.search(statement)


def _part(text: str, run: Sequence[range], scope: _Scope, loops: Sequence[range]) -> Iterator[_Part]:
    """The part that statements are, if they are worth it and change nothing that is mentioned elsewhere."""
    if not run:
        return
    start, end = run[0].start, run[-1].stop
    body = "\n".join(line for line in map(str.strip, text[start:end].splitlines()) if line)
    words = dict.fromkeys(_VARIABLE.findall(COMMENT.sub("", body)))
    inner = {m["name"] for m in _DECLARATION.finditer(body)} | {m[2] for m in _COUNTED.finditer(body)}
    given = tuple(scope[w] for w in words if w in scope)
    is_known = all((w in scope) != (w in inner) for w in words)
    if not is_known or len(body) < SHORTEST or "for (" not in body or len(given) > MOST_GIVEN:
        return
    if not any(_changes(body, v.name) and _is_mentioned_again(text, v, end, loops) for v in given):
        yield _Part(text, start, end, body, given)


def _is_mentioned_again(text: str, v: _Variable, end: int, loops: Sequence[range]) -> bool:
    """Whether a variable is mentioned behind a part that ends there, or is known in another turn of a loop."""
    outlived = any(v.block.start <= loop.start and loop.stop <= v.block.stop for loop in loops)
    return outlived or re.search(rf"\b{v.name}\b", text[end : v.block.stop]) is not None


def _changes(text: str, name: str) -> bool:
    """Whether a text may change a variable that is no array."""
    changed = rf"\b{name} (?:[-+*/|&^]|<<|>>)?=(?!=)|(?:\+\+|--|&){name}\b(?!\[)|\b{name}(?:\+\+|--)"
    return re.search(changed, text) is not None


# -- statements ------------------------------------------------------------------------------------------------
def _statements(text: str, block: range) -> Iterator[range]:
    """Where the statements of a block stand, without comments before them; one with a block is a whole."""
    begin, depth = block.start, 0
    for m in _MARK.finditer(text, block.start, block.stop):
        depth += (m[0] in "({") - (m[0] in ")}")
        before = text[begin : m.start()]
        if m[0].startswith("/*") and not before.strip():
            begin = m.end()
        elif depth == 0 and (m[0] == ";" or (m[0] == "}" and not _GOES_ON.match(text, m.end()))):
            yield range(begin + len(before) - len(before.lstrip()), m.end())
            begin = m.end()


def _blocks(text: str, statement: range) -> Iterator[range]:
    """The blocks of a statement: what is between their braces."""
    at = statement.start
    while (brace := text.find("{", at, statement.stop)) >= 0:
        last = closing(text, brace + 1, "{}")
        yield range(brace + 1, last)
        at = last + 1


def _without_blocks(statement: str) -> str:
    """What stands directly in the block of a statement, not in those within."""
    left = statement.partition("{")[2].rpartition("}")[0]
    while (less := re.sub(r"\{[^{}]*\}", "", left)) != left:
        left = less
    return left
