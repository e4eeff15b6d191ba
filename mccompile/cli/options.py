"""Options that several commands have, and the types of their values."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mccompile.passes.pipeline import PIPELINES
from mccompile.search.options import (
    MORE,
    OUTPUT,
    PRECISION,
    RANDOM,
    REQUANT,
    SECTIONS,
    STREAMING,
    WEIGHTS,
    Declared,
    declared,
    forms_of,
    level_of,
    size_of,
)

if TYPE_CHECKING:
    from mccompile.driver import Options
    from mccompile.ir.graph import Graph
    from mccompile.run.samples import Array

F = TypeVar("F", bound=Callable[..., Any])

_READ = f"{__name__}.read"
"""Of a command's context: `read_for_options`."""
_ARRAY = ".npy"

CHECK_FAILED = 3
"""The exit code where results differ from the reference."""


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """Bytes, as `size_of` reads them."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        size = size_of(str(value))
        if size is None:
            self.fail(f"'{value}' is no size; give bytes or a number with K or M, such as 64K", param, ctx)
        return size


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


class Names(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """``name,name``: several names."""

    name = "names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(part.strip() for part in str(value).split(","))


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
        level = level_of(str(value))
        if level not in PIPELINES:
            known = ", ".join(f"-{known}" for known in PIPELINES)
            self.fail(f"unknown level '{value}'; the levels are {known}", param, ctx)
        return level


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


class Forms(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """``form`` or ``node=form``, several with commas between."""

    def __init__(self, name: str, known: str) -> None:
        self.name, self.known = name, known

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        found = value if isinstance(value, dict) else forms_of(str(value), self.known)
        if found is None:
            form = self.known.split("|")[1]
            self.fail(f"'{value}' has to be like {form}, or classifier=f16, or {form},classifier=f32", param, ctx)
        return found


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
    texts = {name: text.strip() for name, text in _once(value, param)}
    ctx.meta[_READ] = [Path(text) for text in texts.values() if text.endswith(_ARRAY)]
    return {name: _constant(text, param) for name, text in texts.items()}


def read_for_options() -> list[Path]:
    """The files that values of the current command's options were read from."""
    found: list[Path] = click.get_current_context().meta.get(_READ, [])
    return found


def _constant(text: str, param: click.Parameter) -> Any:
    """A number, true or false, the array in a file, none, or else the name of a dim."""
    if text.endswith(_ARRAY):
        from mccompile.ir.errors import CompileError
        from mccompile.ir.files import read_inputs

        try:
            return read_inputs(Path(text))
        except CompileError as e:
            raise click.BadParameter(f"{text} cannot be read: {e.rule}", param=param) from e
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


def _merged(ctx: click.Context, param: click.Parameter, value: tuple[dict[str, str], ...]) -> dict[str, str]:
    return {name: form for part in value for name, form in part.items()}


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
    "targets": {"type": Names()},
    "effort": {"type": click.IntRange(0, 3)},
    "factor": {"type": Factor(min=0)},
    "io": {},
    "random": {"type": click.Choice(list(RANDOM))},
    "requant": {"type": click.Choice(list(REQUANT))},
    "formats": {"type": FormatOf(), "multiple": True, "callback": _plain},
    "streaming": {"type": click.Choice(list(STREAMING))},
    "dims": {"type": Pair("batch=1"), "multiple": True, "callback": _dims},
    "bounds": {"type": Pair("count=128"), "multiple": True, "callback": _bounds},
    "limits": {"type": Pair("tensor-elements=400000000"), "multiple": True, "callback": _dims},
    "shapes": {"type": Pair("x=1,3,224,224"), "multiple": True, "callback": _shapes},
    "constants": {"type": Pair("sr=16000"), "multiple": True, "callback": _constants},
    "states": {"type": Pair("h_out=h_in"), "multiple": True, "callback": _plain},
    "weights": {"type": Forms("weights", rf"{WEIGHTS}|auto"), "multiple": True, "callback": _merged},
    "precision": {"type": Forms("precision", rf"{PRECISION}|auto"), "multiple": True, "callback": _merged},
    "kernels": {"type": Pair("conv=conv.generic"), "multiple": True, "callback": _plain},
}
"""How values are read that `Declared.kind` names."""


class Sectioned(click.Option):
    """An option that knows where the help has it: in a section of `SECTIONS`, or in one of the command's own."""

    def __init__(self, *args: Any, section: str = OUTPUT, **more: Any) -> None:
        super().__init__(*args, **more)
        self.section = section


class Command(click.Command):
    """A command whose help shows options by section, and examples below."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*args, **more)
        self.examples = examples

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_sections(self, ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(self.examples, formatter)


def write_sections(command: click.Command, ctx: click.Context, formatter: click.HelpFormatter) -> None:
    """The options of a command, its own sections first."""
    rows: dict[str, list[tuple[str, str]]] = {}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
        if record is not None:
            rows.setdefault(getattr(param, "section", OUTPUT), []).append(record)
    for section in [*(s for s in rows if s not in SECTIONS), *(s for s in SECTIONS if s in rows)]:
        with formatter.section(section):
            formatter.write_dl(rows[section])


def write_examples(examples: Sequence[str], formatter: click.HelpFormatter) -> None:
    if examples:
        with formatter.section("Examples"):
            formatter.write("".join(f"{'':{formatter.current_indent}}{line}\n" for line in examples))


def command(name: str | None = None, **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """`click.command` for a `Command`."""
    return click.command(name, cls=Command, **more)


def option(*flags: str, section: str = OUTPUT, **more: Any) -> Callable[[F], F]:
    """`click.option` with a section."""
    return click.option(*flags, cls=Sectioned, section=section, **more)


def _click_option(name: str, told: Declared, default: Any) -> Callable[[F], F]:
    kind = KINDS[told.kind]
    more = {} if "multiple" in kind else {"default": default}
    if told.metavar:
        more["metavar"] = told.metavar
    return option(
        *told.flags, name, help=told.help, show_default=told.show_default, section=told.section, **more, **kind
    )


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
output_options = _options("output", "golden")
"""What is written."""


class ModelFile(click.Path):
    """The path of a model; ``-`` is an .onnx file on stdin, which becomes a temporary one for as long as the command
    runs."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value != "-" or ctx is None:
            return super().convert(value, param, ctx)
        from mccompile.onnxio.source import as_file

        if sys.stdin is None:
            self.fail("stdin is closed, from which '-' reads a model", param, ctx)
        return ctx.with_resource(as_file(sys.stdin.buffer.read()))


MODEL = click.argument("model", type=ModelFile(), metavar="MODEL")
MODELS = click.argument("models", type=ModelFile(), nargs=-1, required=True, metavar="MODEL...")


def _use_plugins(ctx: click.Context, param: click.Parameter, folders: tuple[Path, ...]) -> None:
    """Before anything else is read: plugins may add targets and kernels, which other options name."""
    from mccompile import plugins

    for folder in folders:
        plugins.add(folder)


def _use_functions(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> None:
    from mccompile import plugins

    for text in given:
        plugins.add_function(text)


_FUNCTION = option(
    "--custom-op", section=SECTIONS[0], multiple=True, metavar="DOMAIN:OP=HEADER.h", is_eager=True,
    expose_value=False, callback=_use_functions,
    help="Compute an operator by the function of C that a header declares and is named after (repeatable).",
)  # fmt: skip
_PLUGIN = option(
    "--plugin", type=click.Path(path_type=Path), section=SECTIONS[0], multiple=True, metavar="DIR",
    is_eager=True, expose_value=False,
    callback=_use_plugins, help="Use the operators, kernels, passes and targets in this folder (repeatable).",
)  # fmt: skip


def PLUGIN(command: F) -> F:  # noqa: N802  # a decorator as those beside it
    """What adds operators from outside."""
    return _PLUGIN(_FUNCTION(command))


REPORT = option(
    "--report", "reports", type=click.Path(path_type=Path), multiple=True, metavar="OUT.html",
    help="Write a page that shows memory, steps, kernels and code; as OUT.json its data, as OUT.svg the memory map "
    "(repeatable).",
)  # fmt: skip
JSON = option("--json", "as_json", is_flag=True, help="Print the answer as JSON on stdout, and nothing else.")


def make_options(
    given: Mapping[str, Any], models: Sequence[Path], at: Callable[[str], None] = lambda text: None
) -> Options:
    """`driver.Options` from the values of declared options, with the measurements that ``--tune`` makes for
    ``models``. UsageError for a kernel that does not exist."""
    from mccompile.driver import Options
    from mccompile.ir.limits import limited
    from mccompile.search.options import require_kernels

    options = Options(**{name: value for name, value in given.items() if name not in MORE})
    click.get_current_context().with_resource(limited(options.limits))  # until the command ends
    require_kernels(options.kernels)
    if "data" in given and "auto" in (*options.weights.values(), *options.precision.values()):
        options = _narrowed(options, models, given["data"], given["max_error"])
    tune, tuning = given.get("tune", False), given.get("tuning")
    if not tune and tuning is None:
        return options
    from mccompile.tune.tune import apply

    return apply(options, models, tune, tuning, at)


def _narrowed(options: Options, models: Sequence[Path], data: Path | None, most: float | None) -> Options:
    """The options with the forms that ``--weights auto`` or ``--precision auto`` finds, which are said."""
    from mccompile.check.narrowing import apply, asked
    from mccompile.ir.files import read_inputs

    found = apply(options, models, None if data is None else read_inputs(data), most)
    option = asked(options)
    said = ",".join(f"{name}={form}" for name, form in getattr(found, option).items()) or "f32"
    if not click.get_current_context().params.get("quiet"):
        click.echo(f"note: --{option} auto found --{option} '{said}'", err=True)
    return found


def inputs_of(file: Path | None, graph: Graph) -> dict[str, Array] | None:
    """The arrays of a file as the inputs of a run; None without a file."""
    from mccompile.check.data import inputs_of as inputs
    from mccompile.ir.files import read_inputs

    return None if file is None else inputs(graph, read_inputs(file))
