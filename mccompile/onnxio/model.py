"""An ONNX model as plain Python data: what the importer works on, free of `onnx`."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from typing import TypeAlias

import numpy as np

from mccompile._dataclass import dataclass

AttrValue: TypeAlias = (
    "int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]"
    " | np.ndarray | OnnxGraph | tuple[OnnxGraph, ...]"
)


@dataclass(frozen=True)
class OnnxValue:
    """A typed name.

    Attributes:
        name: the value's name.
        dtype: 'f32', 'f16', 'i8', 'bool', 'string', ...; 'sequence', 'optional', 'map', 'sparse' or 'opaque'
            for what is no dense tensor; 'unknown' where the file states no type.
        shape: one entry per axis: an extent, a symbol, or None if unknown; None altogether if the rank is
            unknown.
        of: the element type of the tensors that a sequence or an optional value has; of an optional sequence
            "sequence " and that.
    """

    name: str
    dtype: str
    shape: tuple[int | str | None, ...] | None = None
    of: str = ""


@dataclass(frozen=True)
class OnnxNode:
    """One node. `inputs` and `outputs` hold '' for absent optional ones; `index` is its position in the file.

    Attributes that state an element type (Cast `to`, EyeLike `dtype`) stay ONNX numbers: see
    `onnxio.dtype_name`.
    """

    op_type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    domain: str = ""
    name: str = ""
    attrs: dict[str, AttrValue] = field(default_factory=dict)
    index: int = -1


@dataclass(frozen=True)
class OnnxGraph:
    """A graph. `value_info` holds what the file states, or inference knows, of inner values."""

    name: str
    inputs: list[OnnxValue]
    outputs: list[OnnxValue]
    nodes: list[OnnxNode]
    initializers: dict[str, np.ndarray] = field(default_factory=dict)
    value_info: dict[str, OnnxValue] = field(default_factory=dict)


@dataclass(frozen=True)
class OnnxModel:
    """A model. `opsets` maps a domain ('' = ai.onnx) to its version; `sha256` is of the .onnx file alone."""

    graph: OnnxGraph
    opsets: dict[str, int]
    path: str = ""
    sha256: str = ""
    ir_version: int = 0
    producer: str = ""
    metadata: dict[str, str] = field(default_factory=dict)


PRIVATE = "__"
"""What names of attributes begin with that are an exporter's own, which nobody reads. Nodes that we make of others
have some."""

KEPT = "mccompile.opset."
"""The domain of ai.onnx nodes of another opset than the model's, which follows: they were in a function of it."""


def as_meant(node: OnnxNode, opset: int) -> tuple[OnnxNode, int]:
    """The node without the mark of another opset (`KEPT`), and the opset of ai.onnx that it is of."""
    if not node.domain.startswith(KEPT):
        return node, opset
    return dataclasses.replace(node, domain=""), int(node.domain.removeprefix(KEPT))


def node_label(node: OnnxNode) -> str:
    """How error messages name a node: its position, name and operator."""
    op = f"{node.domain}:{node.op_type}" if node.domain and not node.domain.startswith(KEPT) else node.op_type
    position = f"node {node.index} " if node.index >= 0 else "node "
    return f"{position}'{node.name}' ({op})" if node.name else f"{position}({op})"


def value_names(graph: OnnxGraph) -> set[str]:
    """Every name of a value that stands anywhere in a graph, nested graphs included."""
    names = {value.name for value in (*graph.inputs, *graph.outputs)}
    names.update(graph.initializers, graph.value_info)
    for node in graph.nodes:
        names.update(node.inputs, node.outputs)
        for inner in subgraphs(node):
            names |= value_names(inner)
    return names


def subgraphs(node: OnnxNode) -> list[OnnxGraph]:
    """The graphs nested in a node's attributes (If branches, Loop and Scan bodies), in attribute order."""
    found: list[OnnxGraph] = []
    for value in node.attrs.values():
        if isinstance(value, OnnxGraph):
            found.append(value)
        elif isinstance(value, tuple):
            found.extend(item for item in value if isinstance(item, OnnxGraph))
    return found
