"""The entry point: the group of commands, and what every error and every way to stop looks like.

Nothing here or in the command modules imports more than click before a command runs: `mccompile --help` has
to answer at once.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from mccompile._process import collect_rarely, leave
from mccompile._version import version_text
from mccompile.cli import options as o
from mccompile.cli.bench import bench
from mccompile.cli.check import check
from mccompile.cli.compile import compile_
from mccompile.cli.diff import diff
from mccompile.cli.inspect import inspect
from mccompile.cli.ops import ops
from mccompile.cli.opt import opt
from mccompile.cli.quantize import quantize
from mccompile.cli.targets import targets
from mccompile.ir.errors import CompileError, UsageError

INTERNAL = 70
"""EX_SOFTWARE of sysexits.h."""
INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + the signal's number, as shells report programs that a signal has ended."""

OF_THE_SYSTEM = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EIO)
"""What the system says of a name, a folder or a disk: the user's business, whoever of us has asked."""

REPORT_IT = "this is a bug of mccompile; please report it with the model (MCC_DEBUG=1 shows the traceback)"

EXAMPLES = (
    "mccompile net.onnx -o out/                               # for this machine",
    "mccompile net.onnx -o out/ --target cortex-m4 --embed    # for a microcontroller, weights as a C array",
    "mccompile inspect net.onnx --ram 96K --flash 512K        # would it fit?",
    "mccompile check net.onnx                                 # build, run, compare with onnxruntime",
    "mccompile bench net.onnx --per-layer                     # how fast, and what takes the time",
)


class Commands(click.Group):
    """A group whose first argument may be left out: ``mccompile model.onnx -o out/`` is ``mccompile compile``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = ("--help", "-h", "--version", "-V", "--cmake-dir")
        if args and args[0] not in self.commands and args[0] not in own:
            _refuse_typo(args[0], list(self.commands), ctx)
            args = ["compile", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "MODEL.onnx -o OUT [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND --help", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        command = self.commands["compile"]
        o.write_sections(command, click.Context(command, parent=ctx, info_name="compile"), formatter)
        self.format_commands(ctx, formatter)
        with formatter.section("About"):
            formatter.write_dl([record for p in self.get_params(ctx) if (record := p.get_help_record(ctx))])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        o.write_examples(EXAMPLES, formatter)

    def main(self, args: Sequence[str] | None = None, *more: Any, **extra: Any) -> Any:
        """As click's, but errors look like ours. Exits."""
        run = super().main
        words = list(sys.argv[1:] if args is None else args)
        given: dict[str, Any] = {**extra, "prog_name": "mccompile", "standalone_mode": False}
        sys.exit(guarded(lambda: run(words, *more, **given), as_json="--json" in words))


def _refuse_typo(word: str, commands: list[str], ctx: click.Context) -> None:
    """A bare word that is no file was meant as a command."""
    if word.isidentifier() and not os.path.exists(word):
        import difflib

        near = difflib.get_close_matches(word, commands, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"the commands are: {', '.join(commands)}"
        raise click.UsageError(f"there is neither a command nor a file '{word}'; {hint}", ctx)


def guarded(run: Callable[[], object], as_json: bool = False) -> int:
    """Run a command and say on stderr what went wrong, if anything did, and with ``as_json`` on stdout as an object.
    Returns the exit code.

    0 done, 1 cannot be compiled or does not fit, 2 wrong usage, 3 check failed, 70 a bug of the compiler. A traceback
    is only shown with MCC_DEBUG=1.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names in models are not always printable
    try:
        code = run()
        if sys.stdout is not None:  # closed by who has called us
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as e:
        return e.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except (BrokenPipeError, SystemExit):  # click exits by itself where stdout is closed, and nowhere else
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter complains at its end
        return BROKEN_PIPE
    except click.ClickException as e:
        if type(e).__name__ == "NoArgsIsHelpError":  # click 8.2 and newer
            click.echo(e.format_message(), err=True)
            return 2
        context = getattr(e, "ctx", None)
        path = context.command_path if context is not None else "mccompile"
        hint = f"'{path} --help' shows how it is used"
        _say(f"{e.format_message()}\n  hint: {hint}")
        return _told(UsageError(e.format_message(), hint=hint), as_json)
    except Exception as e:
        return _failed(e, as_json)


def _failed(error: Exception, as_json: bool) -> int:
    if os.environ.get("MCC_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    known = _as_known(error)
    _say(str(known))
    return _told(known, as_json)


def _as_known(error: Exception) -> CompileError:
    """An error as users are told of it."""
    if isinstance(error, CompileError):
        return error
    if isinstance(error, MemoryError):
        return CompileError("not enough memory to compile this model", code="out-of-memory")
    if isinstance(error, OSError) and error.errno in OF_THE_SYSTEM:
        where = "" if error.filename is None else f"'{os.fsdecode(error.filename)}': "
        return CompileError(f"{where}{error.strerror}", code="no-file")
    return BugError(f"internal error: {type(error).__name__}: {error}", hint=REPORT_IT)


class BugError(CompileError):
    """An error that nobody foresaw, as users see it."""

    exit_code = INTERNAL
    usual_code = "internal"


def _told(error: CompileError, as_json: bool) -> int:
    """The exit code of an error, which is printed as data if that is what is asked for."""
    if as_json:
        click.echo(json.dumps({"error": error.to_json()}, indent=1))
    return error.exit_code


def _say(message: str) -> None:
    click.echo(f"error: {message}", err=True)


def _say_cmake_dir(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """``-Dmccompile_DIR=$(mccompile --cmake-dir)`` is what CMake needs for ``find_package(mccompile)``."""
    if asked and not ctx.resilient_parsing:
        from mccompile._data import cmake_dir

        click.echo(cmake_dir())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(version_text(), "-V", "--version", prog_name="mccompile", message="%(prog)s %(version)s")
@click.option("--cmake-dir", is_flag=True, is_eager=True, expose_value=False, callback=_say_cmake_dir, hidden=True)
def cli() -> None:
    """Compile a trained network (ONNX) into a folder of plain C99: no malloc, one static arena, one weights blob."""


for _command in (compile_, inspect, check, bench, diff, quantize, opt, ops, targets):
    cli.add_command(_command)


def main() -> None:
    """The console script."""
    collect_rarely()
    try:
        cli.main()
    except SystemExit as end:
        if isinstance(end.code, int):
            leave(end.code)
        raise
