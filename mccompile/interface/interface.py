"""What options say of inputs and outputs, done to an imported graph."""

from __future__ import annotations

from collections.abc import Mapping

from mccompile.interface.borders import Kept, find_quantised, keep_quantised
from mccompile.interface.formats import apply_formats
from mccompile.interface.tensors import Interface
from mccompile.ir.graph import Graph


def make_interface(graph: Graph, formats: Mapping[str, str], keep: bool, notes: list[str]) -> Interface:
    """Change the inputs and outputs of an imported graph, and say how they stand for the model's.

    Args:
        graph: as imported.
        formats: of inputs, by name (`formats.apply_formats`).
        keep: leave quantised inputs and outputs as bytes (`borders.keep_quantised`).
        notes: takes what is to be told.

    Raises:
        UsageError: a format that does not fit the model.
    """
    kept = keep_quantised(graph, formats) if keep else Kept()
    notes += kept.notes
    quantised = {**find_quantised(graph), **kept.quantised}
    given = apply_formats(graph, formats)
    return Interface({n: q for n, q in quantised.items() if n not in given}, kept.types, given)
