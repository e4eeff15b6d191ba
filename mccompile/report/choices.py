"""What the report says about the kernel of each node: its cycles, where they come from, what others would take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph, Node
from mccompile.lower.select import Candidate, Choice
from mccompile.targets.target import Target


def choices(graph: Graph, made: Mapping[str, Choice], target: Target) -> dict[str, Any]:
    """By the name of the node's first result, each time it is computed (in so many ``turns`` of a loop, at most).
    ``of_peak`` is against the multiply-adds of floats of a core of this kind; None where bytes are multiplied."""
    nodes = {n.results[0].name: (n, times) for n, times in graph.everywhere()}
    macs = {name: macs_of(n) for name, (n, _) in nodes.items()}
    floats = {name: _of_floats(n) for name, (n, _) in nodes.items()}
    origins = {name: list(n.origins) for name, (n, _) in nodes.items()}
    turns = {name: {"turns": times} for name, (_, times) in nodes.items() if times > 1}
    return {
        name: {"onnx": origins.get(name, [])}
        | _candidate(choice.best)
        | turns.get(name, {})
        | _rate(macs.get(name, 0), choice.best, target.machine.multiply_adds if floats.get(name, True) else None)
        | {"others": [_candidate(c) for c in choice.others], "rejected": [list(r) for r in choice.rejected]}
        for name, choice in made.items()
    }


def estimate(graph: Graph, made: Mapping[str, Any], macs: int | None, target: Target) -> dict[str, Any] | None:
    """The cycles of the longest run by `choices`, and the rate; None without vectors: scalar code has no model."""
    if not target.lanes or not macs:
        return None

    def cycles_of(node: Node) -> int:
        """A node with graphs inside takes none itself; one of them may have a value of its name."""
        return 0 if node.regions else int(made.get(node.results[0].name, {"cycles": 0})["cycles"])

    cycles = max(in_a_run(graph, cycles_of), 1)
    in_bytes = any(choice.get("of_peak", 0) is None for choice in made.values())
    return {
        "cycles": cycles,
        "flop_per_cycle": round(2 * macs / cycles, 2),
        "of_peak": None if in_bytes else round(macs / cycles / target.machine.multiply_adds, 4),
        "tuned": sum(choice["from"] == "tuned" for choice in made.values()),
    }


def _candidate(c: Candidate) -> dict[str, Any]:
    estimate = {} if c.measured is None else {"estimate": round(c.offer.cycles)}
    memory = {"note": "its halo takes memory"} if c.halo else {}
    source = "model" if c.measured is None else "tuned"
    return {"kernel": c.offer.label, "cycles": round(c.cycles), "from": source} | estimate | memory


def in_a_run(graph: Graph, of: Callable[[Node], int]) -> int:
    """What the nodes of the longest run have together, in all turns of loops; of the graphs in a node of which one is
    computed, the one that has the most."""
    inside = [max((in_a_run(g, of) for g in n.regions), default=0) * n.op.turns_inside() for n in graph.nodes]
    return sum(map(of, graph.nodes)) + sum(inside)


def macs_of(node: Node) -> int:
    """Multiply-adds of a node in the longest run."""
    return bound(node.op.macs(node.operand_types(), [r.type for r in node.results]))


def _of_floats(node: Node) -> bool:
    """Whether what a node multiplies are floats."""
    first = next(iter(node.operand_types()), None)
    return first is None or first.dtype.is_float


def _rate(macs: int, c: Candidate, peak: float | None) -> dict[str, Any]:
    """FLOP per cycle, and the part it is of the peak, if one is known; nothing for nodes without multiply-adds."""
    if not macs:
        return {"macs": 0}
    per_cycle = macs / max(c.cycles, 1.0)
    return {
        "macs": macs,
        "flop_per_cycle": round(2 * per_cycle, 2),
        "of_peak": None if peak is None else round(per_cycle / peak, 4),
    }
