"""Graphs given as text, compiled and run: for tests of what no ONNX model says, such as layouts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from mccompile.codegen.model import model_facts
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.ops.sampling import Case
from mccompile.plan.plan import plan
from mccompile.report.compilation import Compilation, Options
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.opcases import Built, CaseLibrary


def parse(text: str, data: dict[str, np.ndarray[Any, Any]] | None = None) -> Graph:
    return parse_graph(text, lookup, data)


def compile_graph(graph: Graph, target: str = "generic", kernels: dict[str, str] | None = None) -> Built:
    """A graph through lowering, planner and code generation, with no passes."""
    t = resolve(target)
    c = Compilation(graph.name, "", Options(target), t, graph, [])
    c.lowered = lower(graph, t, kernels or {})
    c.program = plan(c.lowered.module)
    c.facts = model_facts(c.program, t, graph.name, "", False)
    return Built(0, Case([]), [], c, c.facts)


def run_graph(built: Built, folder: Path, inputs: dict[str, np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """Build with strict warnings and run on a poisoned arena."""
    flags = [*built.compilation.target.c_flags, *STRICT_WARNINGS]
    return CaseLibrary(folder, [built], flags).build().run(built, inputs)
