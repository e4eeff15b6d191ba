"""Whether the C computes its graph, layer by layer on its own tensors: a sum of floats that falls to the other side
of a tie moves all that follows, and no change drawn at random need find that tie.

    u8(rne(x)), x = 2.49999 in the graph, 2.50001 in C: 2 and 3; the layer behind it is judged on 3, which C has
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import limits
from mccompile.check.reals import real_results
from mccompile.check.reference import Expected
from mccompile.check.rounding import TIE
from mccompile.check.ties import judge_layers
from mccompile.check.trace import capture, writers
from mccompile.ir.dims import symbols
from mccompile.ir.graph import Graph
from mccompile.run.memory import Array
from mccompile.run.network import Network


@dataclass(frozen=True)
class _Known:
    """What the C has computed, as a judge."""

    tensors: Mapping[str, Array]

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        return Expected(dict(self.tensors), {})


def wrong_layers(graph: Graph, traced: Network, inputs: Mapping[str, Array], few: float = 0.0) -> tuple[str, ...]:
    """The layers of the C that do not round what they are given as their ``graph`` does, one line for each; see
    `outputs_follow`."""
    return _wrong(graph, _tensors(graph, traced, inputs), inputs, few)


def _wrong(graph: Graph, tensors: Mapping[str, Array], inputs: Mapping[str, Array], few: float) -> tuple[str, ...]:
    """As `wrong_layers`, of ``tensors`` that are known already."""
    return judge_layers(graph, graph, _Known(tensors), inputs, far=TIE, few=few, whose="").wrong if tensors else ()


def _tensors(graph: Graph, traced: Network, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """What the C has computed in a run, as far as the graph has it; of extents that a run is given nothing."""
    values = {v.name: v for n, _ in graph.everywhere() for v in n.results}
    if any(symbols(*v.shape) for v in values.values()):
        return {}
    kept = capture(traced, inputs, [name for name in writers(traced.report) if name in values])
    return {name: k.array for name, k in kept.items() if k.array.shape == values[name].shape}


def outputs_follow(
    graph: Graph, traced: Network, inputs: Mapping[str, Array], got: Mapping[str, Array], names: Sequence[str],
    factor: float, few: float = 0.0,
) -> bool:  # fmt: skip
    """Whether each layer of the C rounds what it is given as its ``graph`` does, but for ties, and the outputs of
    these ``names``, which it has ``got``, are made of that. Of extents that a run is given nothing is told.

    Args:
        traced: the C, built with `TRACE_HOOKS`.
        factor: how many times the noise of floats the outputs may be off.
        few: of which share of its elements nothing is asked of a layer: a node may round several times, and be at a
            tie that its result does not show.
    """
    tensors = _tensors(graph, traced, inputs)
    if not tensors or _wrong(graph, tensors, inputs, few):
        return False
    wide, narrow = (real_results(graph, tensors, inputs, wide=w).outputs for w in (True, False))
    # Ties that the last layer rounds within move elements, each by itself.
    noise = {name: np.abs(np.asarray(wide[name], np.float64) - narrow[name]) + limits(narrow[name]) for name in names}
    expected = Expected({name: np.asarray(narrow[name], got[name].dtype) for name in names}, {}, decided=noise)
    return all(expected.compared(name, got[name], factor).ok for name in names)
