"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mccompile.search.options import RANDOM, REQUANT, STREAMING, Declared, declared

if TYPE_CHECKING:
    from mccompile.driver import Options

F = TypeVar("F", bound=Callable[..., Any])

LEVELS = ("0", "1", "2", "3", "s")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """Bytes: ``65536``, ``64K``, ``1.5M``; a K is 1024 bytes, ``KB`` and ``KiB`` mean the same."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        m = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?", str(value).strip(), re.IGNORECASE)
        if not m:
            self.fail(f"'{value}' is no size; give bytes or a number with K or M, such as 64K", param, ctx)
        return int(float(m[1]) * _UNITS[m[2].upper()])


class Memory(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """``name:size,name:size``: several memories, the fastest first."""

    name = "memory"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, int], ...]:
        if isinstance(value, tuple):
            return value
        found = []
        for part in str(value).split(","):
            name, colon, size = part.strip().partition(":")
            if not colon or not name:
                self.fail(f"'{part}' has to be like dtcm:64K", param, ctx)
            found.append((name, Size().convert(size, param, ctx)))
        return tuple(found)


class Factor(click.FloatRange):
    """A number of a range; not NaN, which no comparison keeps out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"'{value}' is not a number", param, ctx)
        return number


class Level(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """An optimisation level: what follows -O."""

    name = "level"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        level = str(value).removeprefix("O")
        if level not in LEVELS:
            known = ", ".join(f"-O{known}" for known in LEVELS)
            self.fail(f"unknown level '{value}'; the levels are {known}", param, ctx)
        return f"O{level}"


class Pair(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """``name=value``; the name may contain ``=`` itself."""

    name = "name=value"

    def __init__(self, example: str) -> None:
        self.example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).rpartition("=")
        if not equals or not name or not text:
            self.fail(f"'{value}' has to be like {self.example}", param, ctx)
        return name, text


class FormatOf(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """``name=type,..``: what follows the last ``=`` that no part of a format has before it."""

    name = "name=type,.."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        m = re.fullmatch(r"(.+?)=((?:[iu]\d+)(?:,.*)?)", str(value))
        if not m:
            self.fail(f"'{value}' has to be like image=u8,nhwc,mean=127.5,scale=0.0078", param, ctx)
        return m[1], m[2]


def _number(text: str) -> Any:
    """An int if it is one; anything else goes on as text, to be refused where its meaning is known."""
    return int(text) if re.fullmatch(r"-?\d+", text.strip()) else text.strip()


def _dims(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {name: _number(text) for name, text in _once(value, param)}


def _bounds(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, int]:
    found = _dims(ctx, param, value)
    wrong = [name for name, n in found.items() if not isinstance(n, int) or not 0 < n < 2**31]
    if wrong:
        raise click.BadParameter(f"the bound '{wrong[0]}' has to be a whole number of at least 1", param=param)
    return found


def _shapes(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, list[int]]:
    return {name: [_number(e) for e in text.split(",")] for name, text in _once(value, param)}


def _constants(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {name: _constant(text.strip(), param) for name, text in _once(value, param)}


def _constant(text: str, param: click.Parameter) -> Any:
    """A number, true or false, the array in a file, none, or else the name of a dim."""
    if text.endswith(".npy"):
        import numpy as np

        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as e:
            raise click.BadParameter(f"{text} cannot be read: {e}", param=param) from e
    if text.lower() == "none":
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
    except ValueError:
        return text


def _plain(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(_once(value, param))


def _once(pairs: tuple[tuple[str, str], ...], param: click.Parameter) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in pairs]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"'{twice[0]}' is given twice", param=param)
    return pairs


KINDS: dict[str, dict[str, Any]] = {
    "text": {},
    "flag": {"is_flag": True},
    "count": {"type": click.IntRange(min=1)},
    "level": {"type": Level()},
    "size": {"type": Size()},
    "path": {"type": click.Path(path_type=Path)},
    "memory": {"type": Memory()},
    "effort": {"type": click.IntRange(0, 3)},
    "factor": {"type": Factor(min=0)},
    "io": {},
    "random": {"type": click.Choice(list(RANDOM))},
    "requant": {"type": click.Choice(list(REQUANT))},
    "formats": {"type": FormatOf(), "multiple": True, "callback": _plain},
    "streaming": {"type": click.Choice(list(STREAMING))},
    "dims": {"type": Pair("batch=1"), "multiple": True, "callback": _dims},
    "bounds": {"type": Pair("count=128"), "multiple": True, "callback": _bounds},
    "shapes": {"type": Pair("x=1,3,224,224"), "multiple": True, "callback": _shapes},
    "constants": {"type": Pair("sr=16000"), "multiple": True, "callback": _constants},
    "states": {"type": Pair("h_out=h_in"), "multiple": True, "callback": _plain},
    "kernels": {"type": Pair("conv=conv.generic"), "multiple": True, "callback": _plain},
}
"""How values are read that `Declared.kind` names."""


def _click_option(name: str, told: Declared, default: Any) -> Callable[[F], F]:
    kind = KINDS[told.kind]
    more = {} if "multiple" in kind else {"default": default}
    if told.metavar:
        more["metavar"] = told.metavar
    return click.option(*told.flags, name, help=told.help, show_default=told.show_default, **more, **kind)


def _options(*groups: str) -> Callable[[F], F]:
    """A decorator that gives a command the options of some groups, in the order of their declaration."""
    chosen = [_click_option(*option) for option in declared() if option[1].group in groups]

    def decorate(command: F) -> F:
        for option in reversed(chosen):
            command = option(command)
        return command

    return decorate


model_options = _options("model")
"""How a model's open extents are bound."""
build_options = _options("model", "build")
"""How to compile."""
tune_options = _options("tune")
"""What kernels are chosen by."""
limit_options = _options("limit")
"""What the device has."""
output_options = _options("output")
"""What is written."""


MODEL = click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
def _use_plugins(ctx: click.Context, param: click.Parameter, folders: tuple[Path, ...]) -> None:
    """Before anything else is read: plugins may add targets and kernels, which other options name."""
    from mccompile import plugins

    for folder in folders:
        plugins.add(folder)


PLUGIN = click.option(
    "--plugin", type=click.Path(path_type=Path), multiple=True, metavar="DIR", is_eager=True, expose_value=False,
    callback=_use_plugins, help="Use the operators, kernels, passes and targets in this folder (repeatable).",
)  # fmt: skip
REPORT = click.option(
    "--report", "reports", type=click.Path(path_type=Path), multiple=True, metavar="OUT.html",
    help="Write a page that shows memory, steps, kernels and code; as OUT.json its data, as OUT.svg the memory map "
    "(repeatable).",
)  # fmt: skip
JSON = click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout, and nothing else.")


def make_options(build: dict[str, Any], **more: Any) -> Options:
    """`driver.Options` from the values of `build_options`. UsageError for a kernel that does not exist."""
    from mccompile.driver import Options

    options = Options(**build, **more)
    _require_kernels(options.kernels)
    return options


def tuned(
    options: Options, models: Sequence[Path], tune: bool, tuning: Path | None, at: Callable[[str], None]
) -> Options:
    """The options with the measurements of `tune_options`."""
    if not tune and tuning is None:
        return options
    from mccompile.tune.tune import apply

    return apply(options, models, tune, tuning, at)


def _require_kernels(kernels: Any) -> None:
    if not kernels:
        return
    from mccompile.ir.errors import UsageError
    from mccompile.kernels.registry import candidates
    from mccompile.ops.registry import operators

    for op, kernel in kernels.items():
        if op not in operators():
            raise UsageError(f"unknown operator {op!r}", hint=f"the operators are: {', '.join(operators())}")
        known = list(dict.fromkeys(v.kernel for v in candidates(op)))
        if kernel not in known:
            raise UsageError(f"{op} has no kernel {kernel!r}", hint=f"its kernels are: {', '.join(known)}")
