"""The functions of `mccompile`: each is a command, on models that may be in memory, with options as arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from mccompile.api.options import read, takes
from mccompile.api.words import in_python, python_words, speak_python

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np

    from mccompile.api.arguments import BuildOptions, CompileOptions, InspectOptions
    from mccompile.bench.bench import BenchResult
    from mccompile.check.result import CheckResult
    from mccompile.driver import Artifacts, Compilation, Options
    from mccompile.inspection.inspect import Inspection
    from mccompile.onnxio.source import ModelLike
    from mccompile.run.network import Network

    Arrays = Mapping[str, Any] | np.ndarray[Any, Any]

BUILD = ("model", "build", "tune")
COMPILE = (*BUILD, "limit", "output", "golden")
INSPECT = ("model", "build", "limit")


@takes(*COMPILE)
def compile(model: ModelLike, out_dir: str | PathLike[str], **options: Unpack[CompileOptions]) -> Artifacts:
    """Compile an ONNX model into a folder of C99.

    Args:
        model: path of the .onnx file, its bytes, or an `onnx.ModelProto`.
        out_dir: folder to write; written completely or not at all.
        {options}

    Raises:
        mccompile.CompileError: the model cannot be compiled or does not fit; says where, which rule, what to do.
        mccompile.UsageError: an argument is wrong.
    """
    with _read("compile", COMPILE, model, options) as (path, chosen, more):
        from mccompile import driver
        from mccompile.check.data import inputs_of
        from mccompile.check.golden import GoldenFolder
        from mccompile.codegen.folder import require_writable
        from mccompile.ir.errors import UsageError
        from mccompile.report.limits import require_fit

        if more["inputs"] is not None and more["golden"] is None:
            raise UsageError("--inputs is of use only with --golden")
        for folder in (out_dir, more["golden"]):
            if folder is not None:
                require_writable(Path(folder))
        tests = GoldenFolder(more["golden"], Path(out_dir))

        def extra(c: Compilation) -> dict[str, bytes]:
            require_fit(c, chosen.ram, more["flash"])
            inputs = more["inputs"]
            return tests.extra(path, c, None if inputs is None else inputs_of(c.graph, inputs))

        made = driver.compile(path, Path(out_dir), chosen, extra=extra)
        tests.write()
    return made.with_notes(in_python(note) for note in made.notes)


def load(out_dir: str | PathLike[str], model: str = "", threads: int = 0) -> Network:
    """Build the C of a folder made by `compile` (cached by content) and load it.

    ``model`` is the name of one, where the folder holds several. ``threads`` work at a run; by default as many as it
    was compiled for.

    Raises:
        mccompile.CompileError: no C compiler, or the C does not build.
        mccompile.UsageError: the folder holds no compiled model.
    """
    from mccompile.run.network import Network

    with python_words():
        return Network(Path(out_dir), model=model, threads=threads)


@takes(*BUILD)
def check(
    model: ModelLike, *, inputs: Arrays | None = None, expect: Arrays | None = None,
    labels: Sequence[int] | np.ndarray[Any, Any] | None = None, rtol: float | None = None,
    atol: float | None = None, per_layer: bool = False, seed: int = 0, **options: Unpack[BuildOptions],
) -> CheckResult:  # fmt: skip
    """Compile a model into a temporary folder, build and run its C, and compare it with the reference.

    The reference is onnxruntime if it is installed, else onnx.reference.

    Args:
        model: path of the .onnx file, its bytes, or an `onnx.ModelProto`.
        inputs: arrays by name, or the array of the only input; of one run, or of many samples along the first axis
            or stacked. Open dims are as large as theirs. Random numbers if absent.
        expect: expected outputs, as many as samples, instead of the reference's.
        labels: the right class of each sample: the accuracy of the first output is counted.
        rtol, atol: allow errors of atol + rtol * abs(reference), instead of the rule of `check/compare.py`.
        per_layer: also compare inner values.
        seed: of random inputs.
        {options}

    Raises:
        mccompile.CompileError: the model cannot be compiled, or the C cannot be built or run.
        mccompile.UsageError: an argument is wrong.
    """
    with _read("check", BUILD, model, options) as (path, chosen, more):
        from mccompile.check.check import check as run
        from mccompile.check.compare import tolerance_of

        found = run(
            path, chosen, inputs=inputs, expect=expect, labels=labels, tolerance=tolerance_of(rtol, atol),
            per_layer=per_layer, seed=seed, max_error=more["max_error"],
        )  # fmt: skip
    return replace(found, notes=tuple(map(in_python, found.notes)))


@takes(*BUILD)
def bench(
    model: ModelLike, *, inputs: Arrays | None = None, per_layer: bool = False, rounds: int = 11, against: str = "",
    **options: Unpack[BuildOptions],
) -> BenchResult:  # fmt: skip
    """Compile a model into a temporary folder, build its C and measure it on this machine.

    Args:
        model: path of the .onnx file, its bytes, or an `onnx.ModelProto`.
        inputs: arrays by name, or the array of the only input; random numbers if absent.
        per_layer: also time each step.
        rounds: in which everything that is measured has its turn.
        against: another engine to measure beside it: ``onnxruntime``.
        {options}

    Raises:
        mccompile.CompileError: the model cannot be compiled, or the C cannot be built or run here.
        mccompile.UsageError: an argument is wrong.
    """
    with _read("bench", BUILD, model, options) as (path, chosen, _):
        from mccompile.bench.bench import bench as run

        return run(path, chosen, inputs=inputs, per_layer=per_layer, rounds=rounds, against=against)


@takes(*INSPECT)
def inspect(model: ModelLike, *, stack: bool = False, **options: Unpack[InspectOptions]) -> Inspection:
    """Say what is in a model, whether it can be compiled, and what it needs. Nothing is written.

    That a model cannot be compiled is an answer, no exception: see `Inspection.error`.

    Args:
        model: path of the .onnx file, its bytes, or an `onnx.ModelProto`.
        stack: also say what a run takes of the stack: needs the target's C compiler.
        {options}

    Raises:
        mccompile.CompileError: the file is no model that can be read.
        mccompile.UsageError: an argument is wrong.
    """
    with _read("inspect", INSPECT, model, options) as (path, chosen, more):
        from mccompile.inspection.inspect import inspect as run

        found = run(path, chosen, flash=more["flash"], stack=stack)
    if found.error is not None:
        speak_python(found.error)
    return found


@contextmanager
def _read(
    function: str, groups: tuple[str, ...], model: ModelLike, given: Mapping[str, Any]
) -> Iterator[tuple[Path, Options, dict[str, Any]]]:
    """The path of a model, and what is asked of it; errors speak of arguments as long as the context lasts, and
    Python looks for garbage rarely."""
    from mccompile._process import collecting_rarely
    from mccompile.ir.limits import limited
    from mccompile.onnxio.source import as_file

    with python_words(), collecting_rarely():
        options, more = read(function, groups, given)
        with as_file(model, options.name) as path, limited(options.limits):
            if "data" in more and "auto" in (*options.weights.values(), *options.precision.values()):
                from mccompile.check.narrowing import apply as narrow

                options = narrow(options, [path], more["data"], more["max_error"])
            if more.get("tune") or more.get("tuning") is not None:
                from mccompile.tune.tune import apply

                options = apply(options, [path], more["tune"], more["tuning"])
            yield path, options, more


FUNCTIONS: Mapping[str, Callable[..., Any]] = {"check": check, "bench": bench}
"""Functions that are called like packages: see `mccompile._callable`."""
