"""Cycles that moving the values of a node takes, whichever kernel computes it."""

from __future__ import annotations

from mccompile.ir.graph import Node
from mccompile.targets.target import Target

CACHE_BYTES = 32
"""Bytes per cycle between a core and its second cache (Zen 4)."""
DRAM_BYTES = 8
"""Bytes per cycle between a core and memory."""


def moved(node: Node, target: Target) -> float:
    """Cycles of reading every operand and writing every result once; nothing where there is no cache."""
    if not target.l2:
        return 0.0
    nbytes = sum(v.type.nbytes for v in dict.fromkeys((*node.inputs, *node.results)))
    return nbytes / (CACHE_BYTES if nbytes <= target.l2 else DRAM_BYTES)
