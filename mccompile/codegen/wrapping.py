"""Lines of C that are too long, broken where a reader would break them.

The commas of the outermost call come first, then operators, then what lies deeper:

    static void k0_conv(const float *x0, const float *MCC_RESTRICT x1, ...
becomes
    static void k0_conv(const float *x0, const float *MCC_RESTRICT x1,
        const float *MCC_RESTRICT e0, float *y0)
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

COLUMNS = 120
"""No line of a generated file is longer."""
STEP = 4
"""A line that goes on stands so much further in."""

_OPERATOR = re.compile(r"(?:[-+*/%&|^<>?:]|&&|\|\||<<|>>|==|!=|<=|>=) ")
_TOKEN = re.compile(rf'"(?:[^"\\]|\\.)*"|/\*.*?\*/|[(\[{{]|[)\]}}]|, | (?={_OPERATOR.pattern})|= | ')
_TRAILING = re.compile(r"\s*(/\*(?:(?!\*/).)*\*/)$")


def wrap_comment(text: str, indent: int = 0) -> str:
    """``text`` as a C comment of lines that are no longer than `COLUMNS`, each of which begins behind ``indent``."""
    pad = " " * indent
    words = list(_pieces(text.split(), COLUMNS - indent - len(" *  */")))
    lines = [pad + "/*"]
    for word in words:
        if len(lines[-1]) + 1 + len(word) + len(" */") > COLUMNS:
            lines.append(pad + " *")
        lines[-1] += " " + word
    return "\n".join(lines) + " */"


def _pieces(words: list[str], room: int) -> Iterator[str]:
    """Words, cut where one alone is too long."""
    for word in words:
        yield from (word[i : i + room] for i in range(0, len(word), room))


def wrapped_line(line: str) -> list[str]:
    """A line of C with its indentation, as lines of at most `COLUMNS` where it can be broken."""
    if len(line) <= COLUMNS:
        return [line]
    code = line.lstrip()
    indent = len(line) - len(code)
    if code.startswith("#"):
        return _directive(line)
    if code.startswith("/*") and code.endswith("*/"):
        return wrap_comment(code[2:-2], indent).split("\n")
    if found := _TRAILING.search(line):
        at = len(line[: found.start()]) + 1
        if at <= COLUMNS * 2 // 3:
            about = wrap_comment(found[1][2:-2], at).split("\n")
            return [line[: found.start()] + about[0][at - 1 :], *about[1:]]
        return [*wrap_comment(found[1][2:-2], indent).split("\n"), *wrapped_line(line[: found.start()])]
    return _broken(line, indent + STEP)


def wrapped_text(line: str) -> list[str]:
    """A line from the inside of a comment, broken at its words."""
    if len(line) <= COLUMNS:
        return [line]
    found = re.match(r"( *\*? *)", line)
    assert found is not None
    lead = found[1]
    lines = [lead]
    for word in _pieces(line[len(lead) :].split(" "), COLUMNS - len(lead) - STEP):
        if len(lines[-1]) + 1 + len(word) > COLUMNS and lines[-1].strip(" *"):
            lines.append(lead + " " * STEP)
        lines[-1] += word if not lines[-1].strip(" *") else " " + word
    return [text.rstrip() for text in lines]


def _broken(line: str, indent: int) -> list[str]:
    out = []
    while len(line) > COLUMNS:
        at = _break(line)
        if at is None:
            break
        out.append(line[:at].rstrip())
        line = " " * indent + line[at:].lstrip()
    return [*out, line]


def _break(line: str) -> int | None:
    """Where a line is broken: at the place of least depth in its last two thirds, the last of these."""
    first = len(line) - len(line.lstrip()) + STEP
    within = itertools.takewhile(lambda place: place[1] <= COLUMNS, _places(line))  # the rest is not looked at
    places = [(depth, at) for depth, at in within if first < at]
    if not places:
        return None
    late = [p for p in places if p[1] > COLUMNS // 3] or places
    least = min(depth for depth, _ in late)
    return max(at for depth, at in late if depth == least)


def _places(line: str) -> Iterator[tuple[float, int]]:
    """Where a line may be broken, and how deep in parentheses; an operator counts as half a level deeper."""
    depth = 0
    start = len(line) - len(line.lstrip())
    for m in _TOKEN.finditer(line, start):
        token = m[0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
        elif token == ", ":
            yield depth, m.end()
        elif token == "= ":
            yield depth + 0.75, m.end()
        elif token == " " and line[m.end()] == '"' and line[m.start() - 1] == '"':
            yield depth + 1, m.end()
        elif token == " " and _OPERATOR.match(line, m.end()):
            yield depth + 0.5, m.end()


def _directive(line: str) -> list[str]:
    """A directive goes on behind a backslash."""
    out = []
    while len(line) > COLUMNS and (at := line.rfind(" ", STEP, COLUMNS - 2)) > 0:
        out.append(line[:at] + " \\")
        line = " " * STEP + line[at + 1 :]
    return [*out, line]
