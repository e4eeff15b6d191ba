"""Recognises recurrent cells that were written out turn by turn, or as the body of a loop."""

from __future__ import annotations

from mccompile.ir.graph import Graph, Node
from mccompile.passes.manager import Remarks
from mccompile.passes.recognize.cell_chains import recognise_chain
from mccompile.passes.recognize.cell_loops import recognise_loop

ROUNDS = True


def run(graph: Graph, remarks: Remarks) -> int:
    """Make LSTM, GRU and RNN of loops whose turns compute such a cell, and of turns that were written out.

    A turn is known by what its states become as expressions of what it reads, of the states and of products with
    constant weights, whatever nodes, order of gates and forms of sums it was written with. What is read from outside
    is multiplied for all turns at once. May change rounding: sums are taken in another order.
    """
    changes = 0
    refused: set[Node] = set()
    while recognise_loop(graph, remarks, refused) or recognise_chain(graph, remarks):
        changes += 1
    return changes
