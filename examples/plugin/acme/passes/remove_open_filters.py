"""A filter that lets everything through does nothing: ``low_pass {share = 1} (x)`` is ``x``."""

from __future__ import annotations

from mccompile.ir.graph import Graph
from mccompile.passes.manager import Remarks

AFTER = "canonicalize"


def run(g: Graph, remarks: Remarks) -> int:
    """Remove filters whose share is 1."""
    open_filters = [n for n in g.nodes if n.op.name == "low_pass" and getattr(n.op, "share", 0) == 1]
    for n in open_filters:
        (x,) = n.operands
        g.replace(n.results[0], x)
        remarks.hit(f"{n.results[0].name} is its operand")
    return len(open_filters)
