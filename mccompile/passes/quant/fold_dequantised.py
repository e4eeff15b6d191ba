"""Computes at compile time the floats that integers stand for, where nothing took the integers.

Constant bytes beside another byte stay bytes where both are rounded to one: positions that are added, masks. A pair
of bytes is scaled by integers that are tried on all pairs, whatever its elements (`requantise`)::

    %p = map(%q) {expr={(f32(x0) * 0.5)}} : f32[50,64]
    %y = map(%x, %p) {expr={i8(rne(((f32(x0) * 0.25) + x1)))}} : i8[8,50,64]
    %y = map(%x, %q) {expr={i8(rne(((f32(x0) * 0.25) + (f32(x1) * 0.5))))}} : i8[8,50,64]
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.passes.analysis.byte_pairs import ATOM, BYTES, is_of_elements, with_atoms
from mccompile.passes.clean.fold_constants import is_dequantised
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute the floats that constants of integers stand for: their readers multiply floats. Exact."""
    changes = _keep_bytes(graph, remarks, target)
    kept = []
    outputs = set(graph.outputs)
    for node in graph.nodes:
        if any(v not in graph.constants for v in node.inputs) or not is_dequantised(node):
            kept.append(node)
            continue
        if node.result in outputs:
            remarks.miss(f"folded {node.where}", "its result is an output")
            kept.append(node)
            continue
        (array,) = node.evaluate({v: graph.array(v) for v in node.inputs})
        graph.constants[node.result] = np.ascontiguousarray(array).reshape(node.result.shape)
        remarks.hit(f"folded {node.where}: {node.result.type.nbytes} bytes")
    changes += len(graph.nodes) - len(kept)
    graph.nodes = kept
    return changes


def _keep_bytes(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Let roundings of pairs read the bytes of constants, and scale these themselves."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        own = node.op.elementwise if not node.post and not node.pre else None
        if own is None or not is_dequantised(node) or len(node.inputs) != 1 or r.is_output(node.result):
            continue
        (x,) = node.inputs
        if x not in graph.constants or not is_of_elements(x.type, target):
            continue
        for reader in r.users(node.result):
            if _rounds_pair(graph, reader, node.result):
                _inline(r, reader, node.result, x, own)
                remarks.hit(f"kept the bytes {x.name} of {reader.where}")
                changes += 1
        if not r.users(node.result):
            r.erase(node)
    r.finish()
    return changes


def _body(node: Node) -> tuple[ex.Expr | None, list[Value | None]]:
    """The expression of a node that may round bytes, and its variables; None of one that has none, or more."""
    own = node.op.elementwise
    if len(node.results) != 1 or (node.pre and own is not None):
        return None, []
    return (own, node.operands) if not node.post else (node.post.get(0), [*node.extras])


def _rounds_pair(graph: Graph, node: Node, value: Value) -> bool:
    """Whether a node reads a value only where it rounds a number that is made of this, constants and one byte."""
    body, operands = _body(node)
    places = {i for i, v in enumerate(operands) if v is value}
    if body is None or node.inputs.count(value) != 1 or any(places & set(ex.variables(e)) for e in node.pre.values()):
        return False

    def is_known(i: int) -> bool:
        return 0 <= i < ATOM and operands[i] in graph.constants

    for e in ex.distinct(body):
        if not places & set(ex.variables(e)) or not isinstance(e, ex.Convert) or e.dtype.name not in BYTES:
            continue
        atoms: dict[ex.Expr, ex.Var] = {}
        others = {i for i in ex.variables(with_atoms(e, is_known, atoms)) if i < ATOM and not is_known(i)}
        if len(atoms) == 1 and others == places:
            return True
    return False


def _inline(r: Rewriter, reader: Node, value: Value, x: Value, own: ex.Expr) -> None:
    """Let a node read the bytes ``x`` that a value of floats is made of by an expression."""
    body, operands = _body(reader)
    assert body is not None
    place = next(i for i, v in enumerate(operands) if v is value)
    floats = ex.substitute(own, lambda v: ex.var(place, v.dtype))
    whole = ex.substitute(body, lambda v: floats if v.index == place else v)
    given = [x if v is value else v for v in operands]
    if reader.post:
        reader.post[0] = whole
        r.rewire(reader, extras=[v for v in given if v is not None])
    else:
        reader.op = reader.op.with_elementwise(whole)
        r.rewire(reader, given)
