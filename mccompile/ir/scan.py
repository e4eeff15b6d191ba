"""The scanner the text forms of all IRs share: names, literals, comments, and errors with line numbers."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any

from mccompile.ir import dims_text
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.op import TypeRuleError

_PLAIN = re.compile(r"[A-Za-z0-9_./]+\Z")
_NO_NUMBER = re.compile(r"(?:invalid literal for (int).*? base 10|could not convert string to float): (.*)", re.S)
_OTHER_COUNT = re.compile(r"(not enough|too many) values to unpack \(expected (?:at least )?(\d+)")
_COUNTS = {"not enough": "there are fewer", "too many": "there are more"}
_OUTSIDE = re.compile(r"index (-?\d+) is out of bounds for axis \d+ with size (\d+)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


MALFORMED = (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError, InternalError, TypeRuleError)
"""What parts of a malformed text make constructors and verifiers raise; parsers add the line."""


def reason(error: BaseException) -> str:
    """The message of an exception, without the quotes that KeyError puts around it; Python's own, of text that is no
    number and of too few or too many, in our words."""
    if type(error) is IndexError and (outside := _OUTSIDE.match(str(error))):
        return f"index {outside[1]} is outside of an axis of extent {outside[2]}"
    if type(error) is IndexError:
        return "there are fewer axes, operands or numbers than what is said of them"
    if "could not be broadcast together" in str(error):
        return "shapes do not fit"
    if re.match(r"'(int|float|bool|str|tuple)' object is not (iterable|subscriptable)", str(error)):
        return "one thing is given where there are to be several"
    if "'NoneType'" in str(error):
        return "an operand that it needs is not there"
    text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    if count := _OTHER_COUNT.match(text):
        return f"where {count[2]} {'is' if count[2] == '1' else 'are'} due, {_COUNTS[count[1]]}"
    number = _NO_NUMBER.match(text)
    return text if number is None else f"{number[2]} is no {'number' if number[1] is None else 'whole number'}"


def name_text(name: str) -> str:
    """A name as the grammars write it: plain, or a JSON string if it has other characters."""
    return name if _PLAIN.match(name) else json.dumps(name)


def origins_text(origins: tuple[str, ...]) -> str:
    return " ; " + "+".join(map(name_text, origins)) if origins else ""


class Scanner:
    """Reads one text from left to right; every failure is a CompileError with the line."""

    def __init__(self, source: str, path: str = "<text>") -> None:
        self.source = source
        self.path = path
        self.at = 0
        self.extents: dict[str, int] = {}
        """The symbols that the text declares, as extents."""

    def error(self, rule: str) -> CompileError:
        line = self.source.count("\n", 0, self.at) + 1
        return CompileError(rule, where=f"{self.path}:{line}")

    def skip(self, newlines: bool = True) -> None:
        """Skip blanks and ``//`` comments."""
        blank = r"(?:\s+|//[^\n]*)*" if newlines else r"[ \t]*"
        m = re.compile(blank).match(self.source, self.at)
        self.at = m.end() if m else self.at

    def accept(self, literal: str, newlines: bool = True) -> bool:
        """Take ``literal`` if it is next; a word only if it ends there."""
        self.skip(newlines)
        end = self.at + len(literal)
        if not self.source.startswith(literal, self.at):
            return False
        follower = self.source[end : end + 1]
        if literal[-1].isalnum() and (follower.isalpha() or follower == "_"):
            return False
        self.at = end
        return True

    def expect(self, literal: str) -> None:
        if not self.accept(literal):
            found = self.source[self.at : self.at + 20].split("\n")[0]
            raise self.error(f"expected {literal!r} but found {found!r}")

    def pattern(self, regex: str, what: str) -> str:
        """Take the next match of ``regex``; ``what`` names it in the error."""
        self.skip()
        m = re.compile(regex).match(self.source, self.at)
        if not m:
            found = self.source[self.at : self.at + 20].split("\n")[0]
            raise self.error(f"expected {what} but found {found!r}")
        self.at = m.end()
        return m[0]

    def name(self) -> str:
        self.skip()
        if self.source.startswith('"', self.at):
            quoted = self.pattern(r'"(?:[^"\\\n]|\\.)*"', "a name")
            try:
                return str(json.loads(quoted))
            except ValueError as e:
                raise self.error(f"{quoted} is no JSON string") from e
        return self.pattern(r"[A-Za-z0-9_./]+", "a name")

    def declared_extents(self) -> None:
        """Take the ``extents(...)`` of a head, if it is there."""
        if self.accept("extents"):
            start = self.at
            try:
                self.extents = dims_text.parse_declaration(self.balanced("("))
            except ValueError as e:
                self.at = start
                raise self.error(str(e)) from e

    def numbers(self, source: str) -> tuple[int, ...]:
        """Whole numbers and extents between commas. Raises ValueError."""
        return tuple(self.number(n) for n in source.split(",")) if source.strip() else ()

    def number(self, source: str) -> int:
        """A whole number, or an extent of the declared symbols. Raises ValueError."""
        return dims_text.parse(source.strip(), self.extents) if self.extents else int(source)

    def integer(self) -> int:
        return int(self.pattern(r"-?\d+", "an integer"))

    def balanced(self, opening: str) -> str:
        """The text between ``opening`` and its partner, which are consumed; strings are respected."""
        self.expect(opening)
        start, depth = self.at, 1
        quoted = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
        while self.at < len(self.source):
            m = quoted.match(self.source, self.at)
            if m:
                self.at = m.end()
                continue
            c = self.source[self.at]
            depth += (c == opening) - (c == _CLOSING[opening])
            self.at += 1
            if depth == 0:
                return self.source[start : self.at - 1]
        self.at = start
        raise self.error(f"{opening!r} is never closed")

    def origins(self) -> tuple[str, ...]:
        """The ``; a+b`` after a node, if it is there on this line."""
        if not self.accept(";", newlines=False):
            return ()
        names = [self.name()]
        while self.accept("+", newlines=False):
            names.append(self.name())
        return tuple(names)


def split_items(source: str) -> list[str]:
    """Split ``key=value, key=value`` at the commas outside of brackets and strings."""
    items, depth, start, at = [], 0, 0, 0
    quote = ""
    while at < len(source):
        c = source[at]
        if quote:
            at += c == "\\"
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            items.append(source[start:at])
            start = at + 1
        at += 1
    items.append(source[start:])
    return [i.strip() for i in items if i.strip()]


def literal(source: str, extents: Mapping[str, int] | None = None) -> Any:
    """A Python literal; ``inf`` and ``nan`` are numbers, ``extents`` the names that may stand in it.

    Raises ValueError.
    """
    try:
        return ast.literal_eval(source)
    except (ValueError, SyntaxError):
        if extents and source.startswith("(") and source.endswith(",)"):
            return (dims_text.parse(source[1:-2], extents),)
        if extents and source.startswith("("):
            return tuple(dims_text.parse(part.strip(), extents) for part in split_items(source[1:-1]))
        if extents:
            return dims_text.parse(source, extents)
        if re.fullmatch(r"-?(inf|nan)", source):
            return float(source)
        raise ValueError(f"{source!r} is no literal") from None
