"""What options say of inputs and outputs, done to an imported graph."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from mccompile.interface.borders import Kept, find_quantised, keep_quantised
from mccompile.interface.formats import apply_formats
from mccompile.interface.state import keep_state
from mccompile.interface.tensors import Interface
from mccompile.ir.graph import Graph


def make_interface(
    graph: Graph, formats: Mapping[str, str], keep: bool, notes: list[str], state: Mapping[str, str] | None = None,
    packed: Mapping[str, str] = MappingProxyType({}),
) -> Interface:  # fmt: skip
    """Change the inputs and outputs of an imported graph, and say how they stand for the model's.

    Args:
        graph: as imported.
        formats: of inputs, by name (`formats.apply_formats`).
        keep: leave quantised inputs and outputs as bytes (`borders.keep_quantised`).
        notes: takes what is to be told.
        state: outputs that are inputs of the next run (`state.keep_state`).
        packed: the types of the model's inputs that are stored as bits (`importer.ports`), by name.

    Raises:
        UsageError: a format or state that does not fit the model.
    """
    keep_state(graph, state or {}, formats, notes)
    held = {*graph.state, *graph.state.values()}
    kept = keep_quantised(graph, {*formats, *held}) if keep else Kept()
    notes += kept.notes
    quantised = {**find_quantised(graph), **kept.quantised}
    given = apply_formats(graph, formats, packed)
    return Interface({n: q for n, q in quantised.items() if n not in given}, kept.types, given)
