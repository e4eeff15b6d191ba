"""Expand operators that ONNX defines as functions of other operators."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import onnx
import onnx.defs
import onnx.helper

from mccompile.ir.errors import CompileError
from mccompile.ir.names import Names
from mccompile.onnxio.model import KEPT, AttrValue, OnnxGraph, OnnxNode, OnnxValue, node_label
from mccompile.onnxio.nested import all_graphs, all_nodes, inner_nodes
from mccompile.onnxio.proto import GraphReader, node_to_proto, normal_domain, type_to_proto
from mccompile.onnxio.schema import means_the_same, newest_opset, versions


def expand_function(
    node: OnnxNode, opset: int, input_types: Sequence[OnnxValue | None], taken: Names | None = None
) -> list[OnnxNode] | None:
    """The nodes that ONNX defines a node to mean, or None if its operator is no function.

    Args:
        node: a node in canonical form, of ai.onnx or another domain that ONNX itself defines.
        opset: the canonical opset (`newest_opset()`).
        input_types: element type (and shape as far as known) of each input; None for absent ones. Functions
            that depend on their context need them (Clip, LayerNormalization, ...).
        taken: names that inner values may not have; they are added to them.

    Returns:
        Nodes from the node's own inputs to its own outputs, in topological order; inner names and node names
        begin with the node's name. Functions among them are left alone. Constant nodes among them are to be
        folded.

    Raises:
        CompileError: the function exists but cannot be built for these types.
    """
    known = versions(node.op_type, node.domain)
    if not known:
        return None
    version = known[-1] if node.domain else opset
    schema: Any = onnx.defs.get_schema(node.op_type, version, node.domain)  # onnx's stubs lack much of it
    body = _function_body(schema, node, input_types)
    return None if body is None else _instantiate(body, schema, node, taken or Names())


def _function_body(
    schema: Any, node: OnnxNode, input_types: Sequence[OnnxValue | None]
) -> onnx.FunctionProto | None:
    plain = [v for v in schema.function_opset_versions if v <= newest_opset()] if schema.has_function else []
    body = onnx.FunctionProto()
    if plain:
        body.ParseFromString(schema.get_function_with_opset_version(max(plain)))
        return body
    if not schema.has_context_dependent_function:
        return None
    types = [
        b"" if v is None or v.dtype == "unknown" else type_to_proto(v).SerializeToString()
        for v in input_types
    ]
    proto = node_to_proto(node).SerializeToString()
    for version in sorted(schema.context_dependent_function_opset_versions, reverse=True):
        try:
            found = schema.get_context_dependent_function_with_opset_version(version, proto, types)
        except Exception as error:
            raise CompileError(
                f"ONNX's definition of {node.op_type} does not apply: {error}", where=node_label(node)
            ) from error
        if found:
            body.ParseFromString(found)
            if body.node:
                return body
    raise CompileError(
        f"ONNX's definition of {node.op_type} does not apply to these inputs", where=node_label(node)
    )


def _instantiate(
    body: onnx.FunctionProto, schema: onnx.defs.OpSchema, node: OnnxNode, taken: Names
) -> list[OnnxNode]:
    prefix = node.name or f"{node.op_type}_{node.index}"
    names = {"": ""}
    for formal, actual in zip(body.input, node.inputs + ("",) * len(body.input), strict=False):
        names[formal] = actual
    for formal, actual in zip(body.output, node.outputs + ("",) * len(body.output), strict=False):
        if actual:
            names[formal] = actual
    reader = FunctionReader(_attributes(body, schema, node), Path(), "ONNX function")
    nodes = [reader.node(proto, node.index) for proto in body.node]
    renamer = _Renamer(taken, node.index)
    return [renamer.node(inner, f"{prefix}/{i}", names, prefix) for i, inner in enumerate(nodes)]


def _attributes(
    body: onnx.FunctionProto, schema: onnx.defs.OpSchema, node: OnnxNode
) -> dict[str, onnx.AttributeProto]:
    """What `ref_attr_name` refers to: the node's own attributes over the defaults of function and schema."""
    found = {name: a.default_value for name, a in schema.attributes.items() if a.default_value.type}
    found.update({proto.name: proto for proto in body.attribute_proto})
    found.update({proto.name: proto for proto in node_to_proto(node).attribute})
    return found


def with_defaults(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model whose calls of its own functions state what the function has defaults for: ONNX's inliner leaves an
    attribute out of the body that the call leaves out.

    A call that leaves out what the body passes on to other functions is one of a variant without these references, so
    that the defaults of those are stated there.
    """
    if not any(f.attribute_proto for f in proto.functions):
        return proto
    stated = onnx.ModelProto()
    stated.CopyFrom(proto)
    functions = {_called(f.domain, f.name, f.overload): f for f in stated.functions}
    waiting = [all_nodes(stated.graph), *(inner_nodes(f.node) for f in stated.functions)]
    while waiting:
        for node in waiting.pop():
            function = functions.get(_called(node.domain, node.op_type, node.overload))
            if function is None:
                continue
            given = {a.name for a in node.attribute}
            node.attribute.extend(a for a in function.attribute_proto if a.name not in given)
            absent = sorted(set(function.attribute) - given)
            if not _passed_on(function, absent, functions):
                continue
            node.op_type = f"{function.name} without {', '.join(absent)}"
            key = _called(node.domain, node.op_type, node.overload)
            if key not in functions:
                functions[key] = stated.functions.add()
                _leave_out(absent, function, functions[key])
                functions[key].name = node.op_type
                waiting.append(inner_nodes(functions[key].node))
    return stated


def _passed_on(function: onnx.FunctionProto, names: Collection[str], functions: Container[_Called]) -> bool:
    """Whether a function refers to some of its attributes in calls of others."""
    calls = (n for n in inner_nodes(function.node) if _called(n.domain, n.op_type, n.overload) in functions)
    return any(a.ref_attr_name in names for node in calls for a in node.attribute if a.ref_attr_name)


def _leave_out(names: Collection[str], function: onnx.FunctionProto, variant: onnx.FunctionProto) -> None:
    """Make ``variant`` the function where these attributes are absent."""
    variant.CopyFrom(function)
    for node in inner_nodes(variant.node):
        kept = [a for a in node.attribute if a.ref_attr_name not in names]
        del node.attribute[:]
        node.attribute.extend(kept)


def in_opset(proto: onnx.ModelProto, opset: int, oldest: int) -> onnx.ModelProto:
    """A model whose functions import its opset: nothing is to be converted then. Nodes that are others in it tell by
    their domain (`KEPT`) which opset they are of; canonicalization rewrites them by that.

    ONNX's inliner would convert them, for which it asks for the types of all that a call reads, and takes some for
    others: Resize of opset 10 for one that shifts coordinates, Hardmax of a negative axis for one along it.
    Functions below ``oldest``, which no rewrite knows, and those of models below it are left to it, unless all of
    their nodes are the same.
    """
    restated = onnx.ModelProto()
    restated.CopyFrom(proto)
    for function in restated.functions:
        nodes = [n for n in inner_nodes(function.node) if not normal_domain(n.domain)]
        for entry in [o for o in function.opset_import if not normal_domain(o.domain)]:
            found = int(entry.version)
            others = [n for n in nodes if n.op_type != "Constant" and not means_the_same(n.op_type, found, opset)]
            if others and min(found, opset) < oldest:
                continue
            entry.version = opset
            if not others:
                continue
            for holder in (function, restated):
                holder.opset_import.add(domain=f"{KEPT}{found}", version=found)
            for node in others:
                node.domain = f"{KEPT}{found}"
    return restated


def with_types_of_constants(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model that states the types of its initializers, which ONNX infers for results alone: its inliner asks for
    those of operands, where it converts a function to another opset."""
    stated = onnx.ModelProto()
    stated.CopyFrom(proto)
    for graph in all_graphs(stated.graph):
        known = {v.name for v in (*graph.input, *graph.output, *graph.value_info)}
        graph.value_info.extend(
            onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims)
            for t in graph.initializer
            if t.name not in known
        )
    return stated


_Called: TypeAlias = "tuple[str, str, str]"


def _called(domain: str, name: str, overload: str) -> _Called:
    return normal_domain(domain), name, overload


class FunctionReader(GraphReader):
    """A reader that also resolves references to the attributes of the function's call, or leaves out those that are
    not there."""

    def __init__(self, attributes: Mapping[str, onnx.AttributeProto], folder: Path, where: str) -> None:
        super().__init__(folder, where)
        self.attributes = attributes

    def nodes(self, of: onnx.FunctionProto | onnx.GraphProto) -> list[OnnxNode]:
        """The nodes of a function or graph, as they are written."""
        return [self.node(proto, i) for i, proto in enumerate(of.node)]

    def node(self, proto: onnx.NodeProto, index: int) -> OnnxNode:
        resolved = onnx.NodeProto()
        resolved.CopyFrom(proto)
        del resolved.attribute[:]
        for attribute in proto.attribute:
            if not attribute.ref_attr_name:
                resolved.attribute.append(attribute)
            elif attribute.ref_attr_name in self.attributes:
                actual = resolved.attribute.add()
                actual.CopyFrom(self.attributes[attribute.ref_attr_name])
                actual.name = attribute.name
        return super().node(resolved, index)


class _Renamer:
    """Gives what is defined inside of a function names of its own, which are added to those that are ``taken``."""

    def __init__(self, taken: Names, index: int) -> None:
        self._taken, self._index = taken, index

    def node(self, node: OnnxNode, name: str, names: dict[str, str], prefix: str) -> OnnxNode:
        """A node called ``name`` that reads and defines ``names``, to which those of its results are added."""
        captured = [n for n in node.inputs if n not in names]
        if captured:
            raise CompileError(
                f"a graph in it reads {captured[0]!r} of the graph around it, which ONNX's definition does not know",
                where=f"node {self._index} {prefix!r}", hint="make it a constant of that graph",
            )  # fmt: skip
        inputs = tuple(names[n] for n in node.inputs)
        for n in node.outputs:
            if n not in names:
                names[n] = self._taken.fresh(f"{prefix}/{n}")
        attrs: dict[str, AttrValue] = {
            key: self._graph(value, f"{name}/{key}", names) if isinstance(value, OnnxGraph) else value
            for key, value in node.attrs.items()
        }
        outputs = tuple(names[n] for n in node.outputs)
        return OnnxNode(node.op_type, inputs, outputs, node.domain, f"{name}_{node.op_type}", attrs, self._index)

    def _graph(self, graph: OnnxGraph, prefix: str, outer: Mapping[str, str]) -> OnnxGraph:
        names = dict(outer)
        for own in (*(v.name for v in graph.inputs), *graph.initializers):
            names[own] = self._taken.fresh(f"{prefix}/{own}")
        nodes = [self.node(n, f"{prefix}/{i}", names, prefix) for i, n in enumerate(graph.nodes)]
        return OnnxGraph(
            name=f"{prefix}/{graph.name}",
            inputs=[dataclasses.replace(v, name=names[v.name]) for v in graph.inputs],
            outputs=[dataclasses.replace(v, name=names[v.name]) for v in graph.outputs],
            nodes=nodes,
            initializers={names[name]: array for name, array in graph.initializers.items()},
        )
