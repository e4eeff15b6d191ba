"""Cycles that moving the values of a node takes, whichever kernel computes it."""

from __future__ import annotations

from mccompile.ir.graph import Node
from mccompile.targets.target import Target


def moved(node: Node, target: Target) -> float:
    """Cycles of reading every operand and writing every result once; nothing where there is no cache."""
    machine = target.machine
    if not machine.l2:
        return 0.0
    nbytes = sum(v.type.nbytes for v in dict.fromkeys((*node.inputs, *node.results)))
    return nbytes / (machine.l2_rate if nbytes <= machine.l2 else machine.memory_rate)
