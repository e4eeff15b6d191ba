"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

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


def _number(text: str) -> Any:
    """An int if it is one; anything else goes on as text, to be refused where its meaning is known."""
    return int(text) if re.fullmatch(r"-?\d+", text.strip()) else text.strip()


def _dims(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {name: _number(text) for name, text in _once(value, param)}


def _shapes(
    ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]
) -> dict[str, list[int]]:
    return {name: [_number(e) for e in text.split(",")] for name, text in _once(value, param)}


def _constants(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {name: _constant(text.strip(), param) for name, text in _once(value, param)}


def _constant(text: str, param: click.Parameter) -> Any:
    """A number, true or false, or the array in a file."""
    if text.endswith(".npy"):
        import numpy as np

        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as e:
            raise click.BadParameter(f"{text} cannot be read: {e}", param=param) from e
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
    except ValueError:
        raise click.BadParameter(f"'{text}' is neither a number nor an .npy file", param=param) from None


def _plain(ctx: click.Context, param: click.Parameter, value: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return dict(_once(value, param))


def _once(pairs: tuple[tuple[str, str], ...], param: click.Parameter) -> tuple[tuple[str, str], ...]:
    names = [name for name, _ in pairs]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise click.BadParameter(f"'{twice[0]}' is given twice", param=param)
    return pairs


def model_options(command: F) -> F:
    """How a model's open extents are bound."""
    for option in reversed(
        (
            click.option("--dim", "dims", metavar="NAME=VALUE", type=Pair("batch=1"), multiple=True, callback=_dims,
                         help="Extent of a symbolic dimension (repeatable)."),
            click.option("--input-shape", "input_shapes", metavar="NAME=D0,D1,..", type=Pair("x=1,3,224,224"),
                         multiple=True, callback=_shapes, help="Whole shape of an input (repeatable)."),
            click.option("--constant", "constants", metavar="NAME=VALUE", type=Pair("sr=16000"), multiple=True,
                         callback=_constants,
                         help="Fix an input to a number, or to the array in an .npy file (repeatable)."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def build_options(command: F) -> F:
    """How to compile."""
    for option in reversed(
        (
            click.option("--target", default="native", metavar="NAME", show_default=True,
                         help="What the C is for: see 'mccompile targets'."),
            click.option("-O", "--opt-level", "opt_level", type=Level(), default="2", metavar="LEVEL",
                         help="0, 1, 2, 3, or s for size.  [default: 2]"),
            model_options,
            click.option("--keep-inputs", is_flag=True,
                         help="Do not reuse the memory of inputs: run may be repeated on them."),
            click.option("--memory", type=Memory(), default=(), metavar="NAME:SIZE,..",
                         help="Put the arena in several memories, fastest first: dtcm:64K,sram:256K."),
            click.option("--plan-effort", type=click.IntRange(0, 3), default=1, metavar="0..3", show_default=True,
                         help="How long to search for a smaller arena: each 8 times as long as the one before."),
            click.option("--stream-rows", "stream_rows", type=click.Choice(["auto", "never", "always"]),
                         default="auto", show_default=True,
                         help="Compute convolutions strip by strip of rows, so that of what lies between them a few "
                         "rows exist: where it is faster, or --ram is too small otherwise; never; or always where "
                         "the arena gets smaller."),
            click.option("--exact", is_flag=True,
                         help="Leave out every optimisation that may change how a result is rounded."),
            click.option("--max-blob-growth", type=Factor(min=0), default=4.0, metavar="FACTOR",
                         show_default=True, help="By what factor the weights may grow for faster kernels (Winograd "
                         "convolution, at -O2 and -O3 on hosted targets); 0: not at all."),
            click.option("--kernel", "kernels", metavar="OP=KERNEL", type=Pair("conv=conv.generic"), multiple=True,
                         callback=_plain, help="Use this kernel for an operator where it can be used (repeatable)."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def tune_options(command: F) -> F:
    """What kernels are chosen by."""
    for option in reversed(
        (
            click.option("--tune", is_flag=True,
                         help="Measure the kernels that each node could have on this machine; take the fastest."),
            click.option("--tuning", type=click.Path(path_type=Path), metavar="FILE",
                         help="Choose kernels by these measurements; with --tune, where they are kept."
                              "  [default of --tune: the user's cache]"),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def limit_options(command: F) -> F:
    """What the device has."""
    for option in reversed(
        (
            click.option("--ram", type=Size(), metavar="SIZE",
                         help="Try harder, then fail, if the arena needs more, such as 64K."),
            click.option("--flash", type=Size(), metavar="SIZE", help="Fail if the weights need more."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


MODEL = click.argument("model", type=click.Path(path_type=Path), metavar="MODEL")
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
