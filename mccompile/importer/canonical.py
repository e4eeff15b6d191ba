"""Rewrite every ai.onnx node from its model's opset to the newest form, by the rows of the `opset_*` modules.

The versions that need no rewriting are listed in `reviewed.py`.
"""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from functools import cache

import mccompile.importer as package
from mccompile.importer.rewriting import Rewrite, Scope
from mccompile.ir.errors import InternalError
from mccompile.onnxio import (
    KEPT,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    as_meant,
    newest_opset,
    since_version,
    subgraphs,
    value_names,
)


@cache
def rewrites() -> dict[str, Rewrite]:
    """All rows, by operator, found by listing the package's `opset_*` modules."""
    table: dict[str, Rewrite] = {}
    for module in sorted(found.name for found in pkgutil.iter_modules(package.__path__)):
        if not module.startswith("opset_"):
            continue
        for row in importlib.import_module(f"{package.__name__}.{module}").REWRITES:
            if row.op in table:
                raise InternalError(f"two rewrites for {row.op}")
            table[row.op] = row
    return table


def canonicalize(model: OnnxModel) -> OnnxModel:
    """The model with every ai.onnx node, in nested graphs too, in its newest form.

    Those of functions may be of another opset than the model (`as_meant`).
    Nodes of other domains stay as they are, and so do nodes that ONNX does not know (they are reported where
    operators are looked up). Constants have to be initializers (`prepare.lift_constants`) to be seen as
    constants. Types in `value_info` are used where a form depends on them; where they are missing the result
    is right but longer.
    """
    names = value_names(model.graph)
    opsets = {domain: version for domain, version in model.opsets.items() if not domain.startswith(KEPT)}
    graph = _canonical_graph(model.graph, model.opsets.get("", newest_opset()), names, None)
    return dataclasses.replace(model, graph=graph, opsets={**opsets, "": newest_opset()})


def canonicalize_nodes(nodes: list[OnnxNode], scope: Scope, opset: int) -> list[OnnxNode]:
    """Nodes of one graph in their newest forms; `scope` collects the constants they need."""
    done: list[OnnxNode] = []
    for given in nodes:
        node, own = as_meant(_with_nested(given, opset, scope), opset)
        version = None if node.domain else since_version(node.op_type, own)
        row = rewrites().get(node.op_type)
        if version is None or row is None or version >= row.below:
            done.append(node)
            continue
        scope.version = version
        done.extend(row.apply(node, scope))
    return done


def _canonical_graph(graph: OnnxGraph, opset: int, names: set[str], outer: Scope | None) -> OnnxGraph:
    scope = Scope(graph, names, outer)
    nodes = canonicalize_nodes(graph.nodes, scope, opset)
    return dataclasses.replace(graph, nodes=nodes, initializers=scope.initializers)


def _with_nested(node: OnnxNode, opset: int, scope: Scope) -> OnnxNode:
    if not subgraphs(node):
        return node
    attrs = {
        key: _canonical_graph(value, opset, scope.names, scope) if isinstance(value, OnnxGraph) else value
        for key, value in node.attrs.items()
    }
    return dataclasses.replace(node, attrs=attrs)
