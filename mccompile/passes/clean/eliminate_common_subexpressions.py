"""Computes equal nodes once."""

from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.graph_text import print_graph
from mccompile.ir.op import attributes
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter

_BEGIN = 64
"""Elements that tell most constants apart."""


def run(graph: Graph, remarks: Remarks) -> int:
    """Compute nodes of equal operator, operands and bodies once; store equal constants once. Exact."""
    r = Rewriter(graph)
    changes = _merge_constants(r)
    seen: dict[object, Node] = {}
    for node in r.nodes():
        twin = seen.setdefault(_key(node), node)
        if twin is node:
            continue
        if any(r.is_output(v) for v in node.results):
            remarks.miss(f"computed {node.where} by {twin.where}", "its result is an output")
            continue
        for old, new in zip(node.results, twin.results, strict=True):
            r.replace(old, new)
        if node.op.weights is not None:  # what options say of its name is said of the twin
            twin.origins = tuple(dict.fromkeys(twin.origins + node.origins))
        r.erase(node)
        remarks.hit(f"{node.where} is computed by {twin.where}")
        changes += 1
    r.finish()
    return changes


def _key(node: Node) -> object:
    """What equal nodes agree in. Attributes are compared by text: 0.0 equals -0.0 and 1, but says something else."""
    attrs = tuple(v if isinstance(v, ex.Expr) else repr(v) for v in attributes(node.op).values())
    return (
        type(node.op), attrs, tuple(node.operands), tuple(node.extras),
        tuple(sorted(node.pre.items())), tuple(sorted(node.post.items())), tuple(r.type for r in node.results),
        tuple(map(print_graph, node.regions)),
    )  # fmt: skip


def _merge_constants(r: Rewriter) -> int:
    constants = list(r.graph.constants.items())
    begins = [(v.type, d.flat[:_BEGIN].tobytes() if isinstance(d, np.ndarray) else d) for v, d in constants]
    alike = Counter(begins)
    seen: dict[object, Value] = {}
    changes = 0
    for (value, data), begin in zip(constants, begins, strict=True):
        whole = isinstance(data, np.ndarray) and data.size > _BEGIN and alike[begin] > 1
        digest = hashlib.sha256(np.ascontiguousarray(data).data).digest() if whole else b""
        twin = seen.setdefault((begin, digest), value)
        if twin is not value and not r.is_output(value):
            r.replace(value, twin)
            del r.graph.constants[value]
            changes += 1
    return changes
