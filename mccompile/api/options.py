"""Options of Python's functions, by their declaration: which there are, what they may be, how docs say them."""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import operator
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeVar

from mccompile.ir.errors import UsageError
from mccompile.search.options import (
    MORE,
    PRECISION,
    Declared,
    Options,
    declared,
    forms_of,
    level_of,
    require_kernels,
    size_of,
)

if TYPE_CHECKING:
    from pathlib import Path

F = TypeVar("F", bound=Callable[..., Any])

ARGUMENTS = "        {options}\n"
"""The line of a docstring where the options are to stand."""

WIDTH = 118

TYPES = {
    "text": "str",
    "flag": "bool",
    "count": "int",
    "level": "str | int",
    "size": "int | str | None",
    "path": "str | PathLike[str] | None",
    "targets": "Sequence[str]",
    "memory": "Mapping[str, int | str]",
    "effort": "int",
    "factor": "float | None",
    "io": "str",
    "random": "str",
    "requant": "str",
    "formats": "Mapping[str, str]",
    "streaming": "str",
    "dims": "Mapping[str, int | str]",
    "bounds": "Mapping[str, int]",
    "limits": "Mapping[str, int]",
    "shapes": "Mapping[str, Sequence[int | str]]",
    "constants": "Mapping[str, Any]",
    "states": "Mapping[str, str]",
    "weights": "str | Mapping[str, str]",
    "precision": "str | Mapping[str, str]",
    "kernels": "Mapping[str, str]",
}
"""The types of `Declared.kind` in Python."""

OWN_TYPES = {
    "inputs": "Mapping[str, Any] | Any",
    "data": "Mapping[str, Any] | Any",
    "max_error": "float | None",
}
"""Of options that are files on the command line, and arrays in Python."""


def type_of(name: str, told: Declared) -> str:
    """The type of an option, as annotations say it."""
    return OWN_TYPES.get(name, TYPES[told.kind])


def options_in(*groups: str) -> Iterator[tuple[str, Declared, Any]]:
    """The options that a function of Python has: those of some groups."""
    return (o for o in declared() if o[1].in_python and o[1].group in groups)


def takes(*groups: str) -> Callable[[F], F]:
    """A decorator: the function's ``**options`` are those of some groups, and its signature and docstring say so."""

    def decorate(function: F) -> F:
        own = inspect.signature(function)
        fixed = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=type_of(name, told))
            for name, told, default in options_in(*groups)
        ]
        function.__signature__ = own.replace(parameters=[*fixed, *keywords])  # type: ignore[attr-defined]
        function.__doc__ = (function.__doc__ or "").replace(ARGUMENTS, argument_lines(*groups))
        return function

    return decorate


def argument_lines(*groups: str) -> str:
    """The lines of a docstring that say what each option is."""
    lines: list[str] = []
    for name, told, _ in options_in(*groups):
        text = f"{name}: {told.text}"
        lines += textwrap.wrap(text, WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 12)
    return "".join(f"{line}\n" for line in lines)


def read(function: str, groups: tuple[str, ...], given: Mapping[str, Any]) -> tuple[Options, dict[str, Any]]:
    """What a function was given: `Options`, and what a compilation does not know (`MORE`), by name.

    Raises:
        TypeError: an option that does not exist.
        UsageError: a value that it cannot have.
    """
    known = {name: (told, default) for name, told, default in options_in(*groups)}
    strange = [name for name in given if name not in known]
    if strange:
        near = difflib.get_close_matches(strange[0], known, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise TypeError(f"{function}() has no option {strange[0]!r}{hint}")
    values = {name: _value(name, known[name][0], value) for name, value in given.items() if value is not None}
    more = {name: values.get(name, default) for name, (_, default) in known.items() if name in MORE}
    fields = {f.name for f in dataclasses.fields(Options)}
    return Options(**{name: value for name, value in values.items() if name in fields}), more


def _value(name: str, told: Declared, value: Any) -> Any:
    """The value of an option as `Options` has it."""
    _require_kind(name, TYPES[told.kind], value)
    match told.kind:
        case "level":
            return level_of(str(value))
        case "flag":
            return _flag(name, value)
        case "count":
            return _whole(name, value, 1)
        case "effort":
            return _whole(name, value, 0, 3)
        case "factor":
            return _factor(name, value)
        case "kernels":
            require_kernels(value)
        case "bounds":
            return {key: _whole(f"{name}[{key!r}]", n, 1) for key, n in value.items()}
        case "shapes":
            return {key: _shape(f"{name}[{key!r}]", shape) for key, shape in value.items()}
        case "size":
            return _bytes(name, value)
        case "weights" if isinstance(value, str):
            return _forms(name, value, forms_of(value), "of weights", "i8,classifier=f32")
        case "precision" if isinstance(value, str):
            return _forms(name, value, forms_of(value, rf"{PRECISION}|auto"), "of floats", "bf16,classifier=f32")
        case "memory":
            return tuple((region, _bytes(name, size)) for region, size in dict(value).items())
        case "path" if name not in OWN_TYPES:
            return _path(name, value)
    return value


def _require_kind(name: str, kind: str, value: Any) -> None:
    """UsageError for what is no text or no mapping, of text where that is wanted, though it has to be."""
    may_be_text = kind.startswith("str")
    if kind == "str" and not isinstance(value, str):
        raise UsageError(f"{name}={value!r} is no text")
    if "Mapping" not in kind or (may_be_text and isinstance(value, str)):
        return
    if not isinstance(value, Mapping):
        what = "neither text nor a mapping" if may_be_text else "no mapping"
        raise UsageError(f"{name}={value!r} is {what}", hint=f"give a dict: {name}={{...}}")
    for key, own in value.items():
        if not isinstance(key, str):
            raise UsageError(f"{name} is given for {key!r}, which is no name")
        if kind.endswith("Mapping[str, str]") and not isinstance(own, str):
            raise UsageError(f"{name}[{key!r}]={own!r} is no text")


def _forms(name: str, value: str, found: dict[str, str] | None, what: str, such: str) -> dict[str, str]:
    if found is None:
        raise UsageError(f"{name}={value!r} says no form {what}", hint=f"such as '{such}'")
    return found


def _whole(name: str, value: Any, least: int, most: int = 2**31 - 1) -> int:
    """A number as the command line takes it."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not least <= value <= most:
        raise UsageError(f"{name}={value!r} is no whole number from {least} to {most}")
    return operator.index(value)


def _flag(name: str, value: Any) -> bool:
    """True or False, of Python or of numpy: what counts as one of these may be meant as the other, as 'no' is."""
    if type(value).__name__ not in ("bool", "bool_"):
        raise UsageError(f"{name}={value!r} is neither True nor False")
    return bool(value)


def _factor(name: str, value: Any) -> float:
    number = float(value) if isinstance(value, Real) else math.nan
    if not number >= 0:
        raise UsageError(f"{name}={value!r} is no number of at least 0")
    return number


def _shape(name: str, value: Any) -> list[int | str]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise UsageError(f"{name}={value!r} is no shape", hint="give a list of its extents")
    return list(value)


def _bytes(name: str, value: Any) -> int:
    size = size_of(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise UsageError(f"{name}={value!r} is no size", hint="give bytes, or text such as '64K'")
    return size


def _path(name: str, value: Any) -> Path:
    from pathlib import Path

    try:
        return Path(value)
    except TypeError as e:
        raise UsageError(f"{name}={value!r} is no path") from e
