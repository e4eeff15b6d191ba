"""Removes nodes and constants that no output depends on."""

from __future__ import annotations

from mccompile.ir.graph import Graph
from mccompile.passes.manager import Remarks


def run(graph: Graph, remarks: Remarks) -> int:
    """Remove nodes and constants that no output depends on."""
    return graph.remove_dead()
