"""What a model file says, whether it can be compiled or not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.canonical import rewrites
from mccompile.ir.errors import Culprit
from mccompile.onnxio import KEPT, OnnxGraph, OnnxModel, OnnxNode, OnnxValue, as_meant, op_names, subgraphs
from mccompile.report.support import support_of

REWRITTEN, MISSING = "rewritten", "no"


@dataclass(frozen=True)
class Port:
    """An input or output; ``shape`` has names and "?" for extents that the file leaves open, and is None where it
    states no rank."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None

    def text(self) -> str:
        shape = " of unknown rank" if self.shape is None else f"[{','.join(map(str, self.shape))}]"
        return f"{self.name}  {self.dtype}{shape}"


@dataclass(frozen=True)
class OperatorUse:
    """An operator of the file: how many nodes, and what becomes of it (`report.support.Status`, or rewritten)."""

    op: str
    count: int
    status: str


@dataclass(frozen=True)
class Contents:
    """What a file says.

    Attributes:
        ir_version, opsets, producer: of the file.
        inputs, outputs: without initializers.
        nodes: with those of nested graphs.
        parameters, parameter_bytes: the elements of all constants.
        operators: those in use, by name.
        missing: the nodes whose operator has no support whatever its operands are.
    """

    ir_version: int
    opsets: dict[str, int]
    producer: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    nodes: int
    parameters: int
    parameter_bytes: int
    operators: tuple[OperatorUse, ...]
    missing: tuple[Culprit, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain data for `json.dumps`, without what is missing."""
        facts = asdict(self)
        del facts["missing"]
        return facts


def contents_of(model: OnnxModel) -> Contents:
    """What a model says of itself."""
    graph = model.graph
    counts = Counter((n.domain, n.op_type) for n in _nodes(graph))
    status = {key: _status(*key) for key in counts}
    arrays = list(_constants(graph))
    return Contents(
        ir_version=model.ir_version,
        opsets={d or "ai.onnx": version for d, version in model.opsets.items() if not d.startswith(KEPT)},
        producer=model.producer,
        inputs=tuple(_port(v) for v in graph.inputs if v.name not in graph.initializers),
        outputs=tuple(map(_port, graph.outputs)),
        nodes=sum(counts.values()),
        parameters=sum(int(a.size) for a in arrays),
        parameter_bytes=sum(int(a.nbytes) for a in arrays),
        operators=tuple(OperatorUse(_full_name(*key), n, status[key]) for key, n in sorted(counts.items())),
        missing=tuple(
            Culprit(n.index, n.name, _full_name(n.domain, n.op_type))
            for n in _nodes(graph)
            if status[n.domain, n.op_type] == MISSING
        ),
    )


def _full_name(domain: str, name: str) -> str:
    return f"{domain}:{name}" if domain else name


def _nodes(graph: OnnxGraph) -> Iterator[OnnxNode]:
    for node in graph.nodes:
        yield as_meant(node, 0)[0]
        for inner in subgraphs(node):
            yield from _nodes(inner)


def _constants(graph: OnnxGraph) -> Iterator[np.ndarray[Any, Any]]:
    """Every constant of a graph: initializers and tensors of Constant nodes, nested graphs included."""
    yield from graph.initializers.values()
    for node in graph.nodes:
        if node.op_type == "Constant":
            yield from (a for a in node.attrs.values() if isinstance(a, np.ndarray))
        for inner in subgraphs(node):
            yield from _constants(inner)


def _port(value: OnnxValue) -> Port:
    shape = None if value.shape is None else tuple("?" if e is None else e for e in value.shape)
    return Port(value.name, value.dtype, shape)


def _status(domain: str, name: str) -> str:
    """Of the operator as it is in the file: old names are rewritten at import."""
    if not domain and name not in op_names() and name in rewrites():
        return REWRITTEN
    return str(support_of(domain, name).status.value)
