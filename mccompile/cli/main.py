"""The entry point: the group of commands, and what every error and every way to stop looks like.

Nothing here or in the command modules imports more than click before a command runs: `mccompile --help` has
to answer at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import click

from mccompile._version import __version__
from mccompile.cli.bench import bench
from mccompile.cli.check import check
from mccompile.cli.compile import compile_
from mccompile.cli.diff import diff
from mccompile.cli.inspect import inspect
from mccompile.cli.ops import ops
from mccompile.cli.opt import opt
from mccompile.cli.quantize import quantize
from mccompile.cli.targets import targets

INTERRUPTED = 130
BROKEN_PIPE = 141
"""128 + the signal's number, as shells report programs that a signal has ended."""


class Commands(click.Group):
    """A group whose first argument may be left out: ``mccompile model.onnx -o out/`` is ``mccompile compile``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help", "-h", "--version", "--cmake-dir"):
            _refuse_typo(args[0], list(self.commands), ctx)
            args = ["compile", *args]
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_usage(ctx.command_path, "MODEL.onnx -o OUT [OPTIONS]")
        formatter.write_usage(ctx.command_path, "COMMAND --help", prefix="       ")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        command = self.commands["compile"]
        command.format_options(click.Context(command, parent=ctx, info_name="compile"), formatter)
        self.format_commands(ctx, formatter)

    def main(self, *args: Any, **extra: Any) -> Any:
        """As click's, but errors look like ours. Exits."""
        run = super().main
        given = {**extra, "prog_name": "mccompile", "standalone_mode": False}
        sys.exit(guarded(lambda: run(*args, **given)))


def _refuse_typo(word: str, commands: list[str], ctx: click.Context) -> None:
    """A bare word that is no file was meant as a command."""
    if word.isidentifier() and not os.path.exists(word):
        import difflib

        near = difflib.get_close_matches(word, commands, 1)
        hint = f"did you mean '{near[0]}'?" if near else f"the commands are: {', '.join(commands)}"
        raise click.UsageError(f"there is neither a command nor a file '{word}'; {hint}", ctx)


def guarded(run: Callable[[], object]) -> int:
    """Run a command and say on stderr what went wrong, if anything did. Returns the exit code.

    0 done, 1 cannot be compiled or does not fit, 2 wrong usage, 3 check failed. A traceback is only shown with
    MCC_DEBUG=1, and is always a bug of the compiler.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names in models are not always printable
    try:
        code = run()
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
        _say(f"{e.format_message()}\n  hint: '{path} --help' shows how it is used")
        return 2
    except Exception as e:
        return _failed(e)


def _failed(error: Exception) -> int:
    from mccompile.ir.errors import CompileError

    if os.environ.get("MCC_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    if isinstance(error, CompileError):
        _say(str(error))
        return error.exit_code
    if isinstance(error, MemoryError):
        _say("not enough memory to compile this model")
        return 1
    _say(
        f"internal error: {type(error).__name__}: {error}\n"
        "  hint: this is a bug of mccompile; please report it with the model (MCC_DEBUG=1 shows the traceback)"
    )
    return 1


def _say(message: str) -> None:
    click.echo(f"error: {message}", err=True)


def _say_cmake_dir(ctx: click.Context, param: click.Parameter, asked: bool) -> None:
    """``-Dmccompile_DIR=$(mccompile --cmake-dir)`` is what CMake needs for ``find_package(mccompile)``."""
    if asked and not ctx.resilient_parsing:
        from mccompile._data import cmake_dir

        click.echo(cmake_dir())
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="mccompile", message="%(prog)s %(version)s")
@click.option("--cmake-dir", is_flag=True, is_eager=True, expose_value=False, callback=_say_cmake_dir, hidden=True)
def cli() -> None:
    """Compile a trained network (ONNX) into a folder of plain C99: no malloc, one static arena, one weights blob."""


for _command in (compile_, inspect, check, bench, diff, quantize, opt, ops, targets):
    cli.add_command(_command)


def main() -> None:
    """The console script."""
    cli.main()
