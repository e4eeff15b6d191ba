"""What a rewrite of an old operator form works with: its table row, the graph around, small builders."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import field

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.names import free_name
from mccompile.onnxio import (
    AttrValue,
    OnnxGraph,
    OnnxNode,
    OnnxValue,
    dtype_of_array,
    node_label,
    numpy_dtype,
    subgraphs,
)

EVERY_VERSION = 1 << 30


@dataclass(frozen=True)
class Rewrite:
    """One row: forms of `op` older than version `below` become `apply`'s nodes, all in newest form."""

    op: str
    below: int
    apply: Callable[[OnnxNode, Scope], list[OnnxNode]]


@dataclass
class Scope:
    """The graph a node is in, as its rewrite sees it; new constants are added to `initializers`."""

    graph: OnnxGraph
    names: set[str]
    outer: Scope | None = None
    version: int = 0
    initializers: dict[str, np.ndarray] = field(init=False)
    types: dict[str, OnnxValue] = field(init=False)
    uses: set[str] = field(init=False)

    def __post_init__(self) -> None:
        self.initializers = dict(self.graph.initializers)
        self.types = {**self.graph.value_info, **{value.name: value for value in self.graph.inputs}}
        self.uses = used_names(self.graph)

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a name that is constant here or in an outer graph."""
        if name in self.initializers:
            return self.initializers[name]
        return self.outer.constant(name) if self.outer else None

    def type_of(self, name: str) -> OnnxValue:
        """What is known of a value's type; dtype 'unknown' and no shape if nothing is."""
        constant = self.initializers.get(name)
        if constant is not None:
            return OnnxValue(name, dtype_of_array(constant), constant.shape)
        if name in self.types:
            return self.types[name]
        return self.outer.type_of(name) if self.outer else OnnxValue(name, "unknown")

    def fresh(self, base: str) -> str:
        """A value name not used anywhere in the model."""
        name = free_name(base, self.names)
        self.names.add(name)
        return name

    def add_constant(self, node: OnnxNode, role: str, array: np.ndarray) -> str:
        """A new constant of the graph, named after the node; returns its name."""
        name = self.fresh(f"{node.name or node.outputs[0]}/{role}")
        self.initializers[name] = array
        return name

    def ints(self, node: OnnxNode, role: str, values: tuple[int, ...]) -> str:
        """A new 1-D int64 constant."""
        return self.add_constant(node, role, np.array(values, dtype=np.int64))

    def scalar_like(self, node: OnnxNode, role: str, value: float, like: str) -> tuple[str, list[OnnxNode]]:
        """A scalar of the type of `like`: a constant, or a CastLike of one if that type is not known."""
        dtype = self.type_of(like).dtype
        if dtype != "unknown":
            with np.errstate(over="ignore"):
                return self.add_constant(node, role, np.array(value).astype(numpy_dtype(dtype))), []
        name = self.add_constant(node, f"{role}_f32", np.array(value, dtype=np.float32))
        cast = derived(node, "CastLike", (name, like), self.fresh(f"{node.name or node.outputs[0]}/{role}"))
        return cast.outputs[0], [cast]


def used_names(graph: OnnxGraph) -> set[str]:
    """Every name that a graph's nodes, nested graphs or outputs read."""
    names = {value.name for value in graph.outputs}
    for node in graph.nodes:
        names.update(node.inputs)
        for inner in subgraphs(node):
            names |= used_names(inner)
    return names


def derived(
    node: OnnxNode,
    op_type: str,
    inputs: tuple[str, ...],
    output: str,
    attrs: dict[str, AttrValue] | None = None,
) -> OnnxNode:
    """A new node that stems from another one, named after its output."""
    return OnnxNode(op_type, inputs, (output,), "", output, attrs or {}, node.index)


def with_attrs(node: OnnxNode, drop: tuple[str, ...] = (), **new: AttrValue) -> OnnxNode:
    """The node without some attributes and with others set."""
    attrs = {name: value for name, value in node.attrs.items() if name not in drop}
    return dataclasses.replace(node, attrs={**attrs, **new})


def with_inputs(node: OnnxNode, *inputs: str) -> OnnxNode:
    """The node with these inputs, absent ones ('') at the end cut off."""
    while inputs and not inputs[-1]:
        inputs = inputs[:-1]
    return dataclasses.replace(node, inputs=inputs)


def int_attr(node: OnnxNode, name: str, default: int) -> int:
    """An integer attribute."""
    value = node.attrs.get(name, default)
    if not isinstance(value, int):
        raise CompileError(f"attribute '{name}' is no integer", where=node_label(node))
    return value


def float_attr(node: OnnxNode, name: str, default: float) -> float:
    """A float attribute."""
    value = node.attrs.get(name, default)
    if not isinstance(value, float):
        raise CompileError(f"attribute '{name}' is no float", where=node_label(node))
    return value


def str_attr(node: OnnxNode, name: str, default: str) -> str:
    """A string attribute."""
    value = node.attrs.get(name, default)
    if not isinstance(value, str):
        raise CompileError(f"attribute '{name}' is no string", where=node_label(node))
    return value


def ints_attr(node: OnnxNode, name: str) -> tuple[int, ...] | None:
    """A list of integers; None if the attribute is absent."""
    value = node.attrs.get(name)
    if value is None:
        return None
    if not isinstance(value, tuple) or not all(isinstance(item, int) for item in value):
        raise CompileError(f"attribute '{name}' is no list of integers", where=node_label(node))
    return tuple(item for item in value if isinstance(item, int))


def required_ints(node: OnnxNode, name: str) -> tuple[int, ...]:
    """A list of integers that has to be there."""
    value = ints_attr(node, name)
    if value is None:
        raise CompileError(f"attribute '{name}' is missing", where=node_label(node))
    return value
