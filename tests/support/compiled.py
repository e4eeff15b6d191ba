"""Graphs of tests as compiled C: a `Built` that `CaseLibrary` can compile and run."""

from __future__ import annotations

from dataclasses import replace

from mccompile.driver import Compilation, Options, compile_program, optimize
from mccompile.ir.graph import Graph, Node
from mccompile.ir.op import Layouts
from mccompile.ir.types import channels_last
from mccompile.ops.relayout import Relayout
from mccompile.ops.sampling import Case
from mccompile.passes.pipeline import PIPELINES
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import at_level, resolve
from tests.support.opcases import Built


def compiled_graph(graph: Graph, level: str, name: str, seed: int = 0, target: str = "generic") -> Built:
    """``graph`` (which the passes change) compiled in memory under the C prefix ``name``."""
    graph.name = name
    options, made_for = Options(target=target, opt_level=level), at_level(resolve(target), level)
    c = Compilation(name, "0" * 64, options, made_for, graph, [])
    return Built(seed, Case([]), [], c, compile_program(c))


def keep_layouts(c: Compilation) -> None:
    """Leave every value stored as the network has it, and convolutions as they are, for whose kernels it asks."""
    passes = tuple(p for p in PIPELINES[c.options.opt_level] if p not in ("choose-layouts", "col2im"))
    c.options = replace(c.options, passes=passes)


def store_channels_last(c: Compilation) -> None:
    """Optimise a graph, and store every value of at least three axes between its kernels channels-last."""
    keep_layouts(c)
    optimize(c)
    c.options = replace(c.options, passes=())
    r = Rewriter(c.graph)
    for node in list(r.nodes()):
        assert node.op.layouts is not Layouts.FIXED, f"{node.where} wants rows"
        for v in [v for v in node.results if len(v.shape) >= 3]:
            inner = v
            if r.is_output(v):
                inner = c.graph.value(f"{v.name}.stored", v.type)
                r.replace(v, inner)
                r.set_results(node, [inner if w is v else w for w in node.results])
                r.insert_after(node, Node(Relayout(), [inner], [v], origins=node.origins))
            inner.type = replace(v.type, layout=channels_last(len(v.shape)))
    r.finish()
