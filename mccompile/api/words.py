"""Errors and notes in the words of whoever asked: options are flags on the command line, and arguments in Python.

>>> in_python("pass --dim seq=N --input-shape x=N,N,3, or leave --keep-inputs out")
"pass dims={'seq': N} input_shapes={'x': [N, N, 3]}, or leave keep_inputs=True out"
>>> in_python("--dim h=N --dim w=1..8")
"dims={'h': N, 'w': '1..8'}"
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mccompile.ir.errors import CompileError
from mccompile.search.options import Declared, declared

VALUE = r"(?:[ =]((?:'[^']*'|[^\s;`'()])*[^\s;:,.`'()]))?"
"""What follows a flag, up to the punctuation of the sentence."""


_TWICE = re.compile(r"\b(\w+)=\{([^{}]*)\},? \1=\{")
"""Two arguments of one name, which are one mapping."""


@contextmanager
def python_words() -> Iterator[None]:
    """Errors that are raised inside speak of arguments, not of flags."""
    try:
        yield
    except CompileError as e:
        speak_python(e)
        raise


def speak_python(e: CompileError) -> None:
    """Put an error into Python's words."""
    e.rule, e.hint = in_python(e.rule), in_python(e.hint)
    e.args = (e.rule,)


def in_python(text: str) -> str:
    """A text with each flag that is an argument in Python as that argument, and the value behind it as its value."""
    if "--" not in text:
        return text
    text = _pattern().sub(_argument, text)
    while (merged := _TWICE.sub(r"\1={\2, ", text)) != text:
        text = merged
    return text


@functools.cache
def _flags() -> dict[str, tuple[str, Declared]]:
    return {flag: (name, told) for name, told, _ in declared() for flag in told.flags if told.in_python}


@functools.cache
def _pattern() -> re.Pattern[str]:
    flags = sorted((f for f in _flags() if f.startswith("--")), key=len, reverse=True)
    return re.compile(rf"({'|'.join(map(re.escape, flags))})(?![\w-]){VALUE}")


def _argument(found: re.Match[str]) -> str:
    name, told = _flags()[found[1]]
    value = found[2]
    if told.kind == "flag":
        return f"{name}=True" + found[0][len(found[1]) :]
    if value is None:
        return name
    how = _VALUES.get(told.kind)
    if how is not None and "=" in value:
        key, _, what = value.rpartition("=")
        return f"{name}={{{_text(key)}: {how(what)}}}"
    if how is not None or (told.kind in ("text", "io") and not re.fullmatch(r"[a-z0-9_,-]+", value)):
        return name + found[0][len(found[1]) :]  # a sentence goes on behind the flag
    if not _is_value(told, value):
        return name + found[0][len(found[1]) :]
    return f"{name}={_number(value)}"


def _is_value(told: Declared, value: str) -> bool:
    """Whether a word behind a flag is its value, and not the sentence going on, as in ``with --tuning where``."""
    if told.kind in ("size", "count", "effort", "factor"):
        return re.fullmatch(r"[\d.]+[KMG]?|N|SIZE", value) is not None
    return told.kind not in ("path", "text", "memory") and value not in ("is", "or", "and", "of", "to", "for")


def _text(word: str) -> str:
    """The name that a flag gives, which may stand in quotes; a word in capitals stands for what is not known."""
    return word if re.fullmatch(r"[A-Z]{2,}", word) else repr(word.strip("'"))


def _number(word: str) -> str:
    return word if re.fullmatch(r"-?\d+(\.\d+)?|[A-Z]+|\.\.\.", word) else repr(word)


def _shape(text: str) -> str:
    return f"[{', '.join(_number(e) for e in text.split(','))}]"


def _constant(text: str) -> str:
    return "None" if text == "none" else _number(text)


_VALUES: dict[str, Callable[[str], str]] = {
    "dims": _number,
    "bounds": _number,
    "limits": _number,
    "shapes": _shape,
    "constants": _constant,
    "states": _text,
    "kernels": _text,
    "formats": _text,
}
"""How the values of options that are given by name are written, by `Declared.kind`."""
