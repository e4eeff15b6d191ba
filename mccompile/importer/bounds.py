"""What bounds may be said of: loops, by the names of their nodes, and extents that a run finds out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mccompile.importer.prepare import Prepared
from mccompile.ir.dims import identifier
from mccompile.ir.errors import UsageError
from mccompile.onnxio import OnnxGraph, subgraphs


class UnknownBoundError(UsageError):
    """A bound is said of what a model has not: another one of a project may have it. ``name`` is the bound's."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no loop and no extent is named {name!r}, of which a bound is said",
            hint="an error says which bounds are asked for; leave this one out",
        )
        self.name = name


def require_known(bounds: Iterable[str], prepared: Prepared) -> None:
    """UnknownBoundError for a bound of what the model has neither in the file nor in its canonical form. Whether
    anything asks for one that it has depends on other options."""
    graphs = [inner for graph in (prepared.source, prepared.model.graph) if graph for inner in _everywhere(graph)]
    known = {name for graph in graphs for name in _names(graph)}
    known.update(e for shape in prepared.declared.values() for e in shape if isinstance(e, str))
    values = {identifier(o) for graph in graphs for node in graph.nodes for o in node.outputs}
    for name in bounds:
        value, _, axis = name.rpartition("_")
        if name not in known and not (value in values and axis.isdigit()):
            raise UnknownBoundError(name)


def _everywhere(graph: OnnxGraph) -> Iterator[OnnxGraph]:
    yield graph
    for node in graph.nodes:
        for inner in subgraphs(node):
            yield from _everywhere(inner)


def _names(graph: OnnxGraph) -> Iterator[str]:
    """Of nodes, and of extents that shapes of values state."""
    yield from (node.name for node in graph.nodes)
    for value in (*graph.outputs, *graph.value_info.values()):
        yield from (e for e in value.shape or () if isinstance(e, str))
