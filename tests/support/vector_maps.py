"""Element-wise operators by vectors, held against their own evaluation, bit by bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from mccompile.driver import Compilation, Options, compile_program
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ops.sampling import Case
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import needs_target, quick


def check_exact(
    graphs: Sequence[Graph], given: Sequence[Mapping[str, Array]], target: str, folder: Path,
    kernel: str = "map.vector",
) -> None:  # fmt: skip
    """Each graph is one map of ``y``; it is computed by ``kernel`` for its inputs in ``given``."""
    to = resolve(needs_target(target))
    built = []
    for number, graph in enumerate(graphs):
        graph.name = f"net{number}"
        options = Options(target=target, opt_level="O0", kernels={"map": kernel})
        c = Compilation(graph.name, "0" * 64, options, to, graph, [])
        built.append(Built(number, Case([]), [], c, compile_program(c)))
        assert c.program is not None
        assert {s.kernel for s in c.program.body.linear() if isinstance(s, Call)} == {kernel}, graph
    library = CaseLibrary(folder, built, [*to.c_flags, *STRICT_WARNINGS, *quick(target)]).build()
    for graph, b, values in zip(graphs, built, given, strict=True):
        with np.errstate(all="ignore"):
            want = graph.evaluate(values)["y"]
        (got,) = library.run(b, dict(values))
        assert got.dtype == want.dtype
        assert np.array_equal(got, want), graph
