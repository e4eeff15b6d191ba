"""A model compiled as a setting says: one program, or several.

Example: ``targets=("generic", "x86-64-v2")`` makes one folder with the programs ``drawn_generic`` and
``drawn_x86_64_v2``; ``threads=3`` one with a program in parts, and beside it another without, whose bits it gives.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest import mock

import onnx

import mccompile
from mccompile import driver, projects
from mccompile.api.options import read
from mccompile.check.narrowing import apply
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.search.options import Options
from mccompile.tune.table import TuningFile
from mccompile.tune.tune import apply as tuned
from mccompile.tune.tune import conditions, tune
from tests.support.compose.definite import Arrays
from tests.support.fuzz.setting import Setting
from tests.support.strict_extents import strict_extents

BOUND = 24
"""What is given where a bound is asked for: loops have at most 20 turns."""


@dataclass(frozen=True)
class Program:
    """A program of a folder: ``model`` is its name, where the folder has several.

    Attributes:
        graph: what it is made of, where weights or products are in fewer bits; the C has to compute this.
        single: the folder of the program without threads, which gives the same bits.
    """

    folder: Path
    model: str = ""
    graph: Graph | None = None
    single: Path | None = None


def compiled(path: Path, out: Path, setting: Setting, inputs: Arrays, given: Arrays) -> list[Program]:
    """The programs of a model. Fixed are some of the first run's ``inputs``; what the application has ``given`` is
    data to judge by. CompileError; a bound that is asked for is given."""
    bounds: dict[str, int] = {}
    further = setting.further
    arguments = {**setting.arguments, "constants": {n: inputs[n] for n in further.fixed if n in inputs}}
    if "max_error" in arguments:
        arguments["data"] = dict(given)
    while True:
        try:
            with strict_extents():
                return _compiled(path, out, setting, {**arguments, "bounds": dict(bounds)})
        except CompileError as e:
            asked = re.search(r"--bound (\S+?)=|bounds=\{'(.+?)'", str(e))
            if asked is None or (name := asked[1] or asked[2]) in bounds:
                raise
            bounds[name] = BOUND


def options_of(arguments: Mapping[str, object]) -> tuple[Options, dict[str, Any]]:
    """Arguments of `mccompile.compile` as the compiler's options, and those that are none of these."""
    return read("compile", ("model", "build", "tune", "limit", "output", "golden"), arguments)


def _compiled(path: Path, out: Path, setting: Setting, arguments: dict[str, object]) -> list[Program]:
    options, more = options_of(arguments)
    options = apply(options, [path], more["data"], more["max_error"])
    if setting.further.tuned:
        tuning = _drawn_measurements(path, options, setting.further.tuned, out.with_name("tuning.json"))
        arguments, options = {**arguments, "tuning": tuning}, tuned(options, [path], False, tuning)
    if setting.targets:
        made = projects.compile_choice(path, out, replace(options, target="native", targets=setting.targets))
        return [Program(out, name) for name in made.report["models"]]
    if setting.project:
        mate = path.with_name("mate.onnx")
        mate.write_bytes(_with_one_output(path.read_bytes()))
        shared = replace(options, project="both", share_arena=setting.project == "shared")
        made = projects.compile_project([path, mate], out, shared)
        return [Program(out, name) for name in made.report["models"]]
    with cut_everywhere() if options.threads > 1 else mock.patch.dict({}):
        mccompile.compile(path, out, **arguments)
    graph = _graph(path, options) if options.weights or options.precision else None
    if options.threads == 1:
        return [Program(out, graph=graph)]
    single = out.with_name("single")
    mccompile.compile(path, single, **{**arguments, "threads": 1})
    return [Program(out, graph=graph, single=single)]


@dataclass(frozen=True)
class _DrawnTimer:
    """Draws what candidates take: any of them may be the fastest."""

    random: random.Random

    def measure(self, folders: Mapping[str, Path]) -> dict[str, float]:
        return {label: round(self.random.uniform(1, 1000), 1) for label in sorted(folders)}


def _drawn_measurements(path: Path, options: Options, seed: int, file: Path) -> Path:
    """A file as --tune makes it, of candidates with parameters that no model of cycles prefers, too."""
    c = driver.open_model(path, options)
    driver.optimize(c)
    with mock.patch("mccompile.tune.tune.HOPELESS", 1e9):
        tune(c, TuningFile(conditions(c)), _DrawnTimer(random.Random(seed))).save(file)
    return file


def _graph(path: Path, options: Options) -> Graph:
    c = driver.import_graph(path, options)
    driver.optimize(c)
    return c.graph


def _with_one_output(model: bytes) -> bytes:
    """The network of the first output alone: it has some kernels of the whole one, and others."""
    made = onnx.load_from_string(model)
    del made.graph.output[1:]
    return made.SerializeToString()


@contextmanager
def cut_everywhere() -> Iterator[None]:
    """Compile steps in parts, however little work they are."""

    def always(cycles: float, threads: int, target: object) -> int:
        return threads

    with mock.patch("mccompile.kernel_passes.split_calls.worth", always):
        yield
