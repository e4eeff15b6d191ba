"""Graphs of tests as compiled C: a `Built` that `CaseLibrary` can compile and run."""

from __future__ import annotations

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph import Graph
from mccompile.ops.sampling import Case
from mccompile.targets.target import resolve
from tests.support.opcases import Built


def compiled_graph(graph: Graph, level: str, name: str, seed: int = 0, target: str = "generic") -> Built:
    """``graph`` (which the passes change) compiled in memory under the C prefix ``name``."""
    graph.name = name
    c = Compilation(name, "0" * 64, Options(target=target, opt_level=level), resolve(target), graph, [])
    return Built(seed, Case([]), [], c, compile_program(c))
