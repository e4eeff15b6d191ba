"""Takes the maxima of planes with few channels, and of lines, in steps that fill vectors: `passes.rewrite.pools`."""

from __future__ import annotations

from collections.abc import Mapping

from mccompile.ir.graph import Graph
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import apply_rules
from mccompile.passes.rewrite.pools import LEAST_LANES, rules
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target, kernels: Mapping[str, str]) -> int:
    """Compute the maximum over windows of planes with few channels as one of columns of the maxima of rows, and over
    those of a line as one of shorter windows. Exact."""
    if target.lanes < LEAST_LANES or not target.spare_memory:
        remarks.miss("separate pools", f"target {target.name} has no wide vectors, or no memory to turn planes")
        return 0
    return apply_rules(graph, remarks, rules(("max",), target.lanes), kernels)
