"""What a golden test expects of the compiled graph, once the reference has judged that this is right.

Worked example: onnxruntime gives the bytes [7, 120, 3], and the graph behind our passes gives

    [7, 120, 3]     right, and to be expected to the bit, but for sums of floats that are ties
    [7, 122, 3]     right if each layer is, of the reference's own tensors (`ties`): then 122 is expected, for the C
                    falls to the side of the graph, and no tolerance has to allow what follows a tie
                    wrong if not: a pass has gone wrong, and there is no test to be written
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.precision import is_narrow, unrounded
from mccompile.check.reference import Expected, Judge, judge_of
from mccompile.check.streams import OfGraph, Stream, stream_of_c
from mccompile.check.ties import explained, imported_graph
from mccompile.check.verdict import Verdict
from mccompile.driver import Compilation
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph

Array = np.ndarray[Any, np.dtype[Any]]


WRONG = "the optimised graph does not compute what"
"""How the error begins where the reference does not agree."""


def judged_stream(model: Path, c: Compilation) -> Stream:
    """As `stream_of_c`; where that is the graph, the reference judges it in each run."""
    imported = imported_graph(model, c)
    stream = stream_of_c(model, c, imported)
    return Judged(stream.judge, c.graph, model, c, imported) if isinstance(stream.judge, OfGraph) else stream


@dataclass
class Judged(Stream):
    """What a graph computes, in runs on which the reference agrees.

    Where weights or products are of fewer bits, the same graph with all of them in f32 is judged: what fewer bits
    cost is for the user to say.
    """

    model: Path
    compilation: Compilation
    imported: Graph
    reference: Judge = field(init=False)
    judged: OfGraph = field(init=False)
    expects: str = field(init=False, default="the graph that it was made of, which the reference has judged")

    def __post_init__(self) -> None:
        super().__post_init__()
        c = self.compilation
        self.reference = judge_of(self.model, c)
        self.judged = OfGraph(unrounded(self.model, c) if is_narrow(c) else c)

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """CompileError where the reference does not agree; a note where there is none that can run the model."""
        given = {**inputs, **self.held}
        found = super().run(inputs)
        c = self.judged.compilation
        try:
            expected = self.reference.run(given)
        except CompileError as e:
            self.expects = "the graph that it was made of, which nothing has judged"
            note = f"the golden test expects what the optimised graph computes, which nothing has judged: {e.rule}"
            self.compilation.notes += [note] if note not in self.compilation.notes else []
            return found
        got = found.values if c is self.compilation else self.judged.meant(given)
        if fault := fault_of(self.model, c, self.reference, given, expected, got, self.imported):
            raise CompileError(
                f"{WRONG} {self.reference.engine} computes: {fault}",
                where=c.source,
                hint="a pass is wrong, and so would be the test; `mccompile check --per-layer` compares layers",
            )
        return found


def fault_of(
    model: Path, c: Compilation, judge: Judge | OfGraph, inputs: Mapping[str, Array], expected: Expected,
    got: Mapping[str, Array], imported: Graph | None = None,
) -> str:  # fmt: skip
    """What is wrong with what the graph of a compilation computes, where the judge says what is ``expected``; empty
    if nothing is.

    The judge's noise says nothing where it falls to the other side of ties itself: layers are asked first.
    """
    verdict = Verdict(c.graph)
    plainly = replace(expected, noise={n: a for n, a in expected.noise.items() if n in expected.halves})
    if verdict.run("", plainly, got).ok:
        return ""
    ties = explained(model, c, [inputs], imported)
    if ties is not None:
        return "" if ties.ok else ties.text()
    run = verdict.run("", expected, got)
    if verdict.is_unsure(run):
        run = verdict.run("", judge.surer().run(inputs), got)
    return next((f"{o.name}: {o.text()}" for o in run.comparisons if not o.ok), "")
