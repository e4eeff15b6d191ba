"""Takes the means of planes with few channels, and of lines, in steps that fill vectors: `passes.rewrite.pools`."""

from __future__ import annotations

from collections.abc import Mapping

from mccompile.ir.graph import Graph, Node
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.analysis.steps import has_to_be_exact, stepped
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import apply_rules
from mccompile.passes.rewrite.pools import LEAST_LANES, rules
from mccompile.targets.target import Target

ROUNDS = True


def run(
    graph: Graph, remarks: Remarks, target: Target, kernels: Mapping[str, str], whole: Graph, analyses: Analyses
) -> int:
    """Compute the mean over windows of planes with few channels as one of columns of the means of rows, and over
    those of a line as one of shorter windows. May change rounding: sums are taken in another order."""
    if target.lanes < LEAST_LANES or not target.spare_memory:
        remarks.miss("separate averages", f"target {target.name} has no wide vectors, or no memory to turn planes")
        return 0
    steps = analyses.of_whole(whole, stepped)

    def exact(node: Node) -> bool:
        return has_to_be_exact(node, steps)

    return apply_rules(graph, remarks, rules(("average", "sum"), target.lanes, exact), kernels)
