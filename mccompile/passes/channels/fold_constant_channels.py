"""Folds channels that have one value for every input into the bias of what reads them."""

from __future__ import annotations

from mccompile.ir.graph import Graph
from mccompile.passes.analysis.analyses import Analyses
from mccompile.passes.channels.remove_dead_channels import channels, remove
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

ROUNDS = True


def run(graph: Graph, remarks: Remarks, target: Target, analyses: Analyses) -> int:
    """Fold channels of one value for every input into the next bias, and remove them.

    Not exact for floats: what they contribute is summed first, which moves results by an ulp or two. It does all that
    `remove-dead-channels` does.
    """
    return remove(analyses.of(graph, channels), remarks, target, may_round=True)
