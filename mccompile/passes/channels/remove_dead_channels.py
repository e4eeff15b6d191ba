"""Removes channels that are zero for every input, and channels that nothing depends on."""

from __future__ import annotations

from mccompile.ir.graph import Graph
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.channels.flow import Analysis, analyse, solve
from mccompile.passes.channels.rules import follow
from mccompile.passes.channels.shrink_channels import apply, unremoved
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target, analyses: Analyses) -> int:
    """Remove channels that are zero for every input, or that nothing reads, from tensors and weights.

    A term 0 * x of a sum goes: exact for finite x and finite weights; an infinity or NaN in x would have made the
    sum NaN, and a sum of zeros may have another sign. A kernel that adds up in several lanes may group the terms that
    are left in another way. Integer graphs lose constant channels of any value: exact. On targets with vectors values
    keep as many channels as fill those.
    """
    return remove(analyses.of(graph, channels), remarks, target, may_round=False)


def channels(graph: Graph) -> Analysis:
    """What is known of channels, whether constants may become part of a bias or not."""
    return analyse(graph, follow)


def remove(analysis: Analysis, remarks: Remarks, target: Target, may_round: bool) -> int:
    """Remove channels; with ``may_round`` constants other than 0 become part of a bias, which is summed up in another
    order then. Returns the number of nodes that have fewer channels."""
    kept = solve(analysis, may_round, _whole(target))
    producer = analysis.graph.producers()
    stuck = unremoved(analysis, kept)
    done = [] if kept.needed[kept.label].all() else apply(analysis, kept)
    for _, what in done:
        remarks.hit(f"removed {what}")
    for value, what, reason in stuck:
        remarks.miss(f"removed {what} of {producer[value].where}", reason)
    return len(done)


def _whole(target: Target) -> int:
    """Channels that kernels compute at a time: a vector, half of one where it is wide."""
    return max(1, target.lanes // 2 if target.lanes >= 8 else target.lanes)
