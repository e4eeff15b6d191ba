"""Holds in f32 what is stored as f16 between input and output, where memory is plenty and vectors are of f32."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F16, F32
from mccompile.ops.map import Map
from mccompile.passes.analysis.movement import moves
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.bodies import KEEPING, is_half, reads_halves
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True


def run(graph: Graph, remarks: Remarks, target: Target, whole: Graph) -> int:
    """Store intermediate values and weights of f16 as f32 on targets with vectors and memory to spare: they are
    computed as f32 anyway, in graphs inside of nodes, too. Results are no more rounded to f16 in between, but where
    another type is cast to f16 and back, or f16 to another type, or where a step depends on it: 2048 + 1 is 2048 in
    f16, which whole numbers, comparisons and places tell from 2049."""
    if graph is not whole:  # what a node with graphs inside takes and gives changes with these
        return 0
    if not target.spare_memory or not target.lanes:
        remarks.miss("stored f16 as f32", f"target {target.name} is small, or has no vectors")
        return 0
    if any(node.op.reads_bits and _has_halves(node) for node, _ in graph.everywhere()):
        remarks.miss("stored f16 as f32", "a node reads or makes the bits of halves")
        return 0
    rewriters = [Rewriter(g) for g in (graph, *graph.all_regions())]
    casts = {node for r in rewriters for node in r.nodes() if _rounds_on_purpose(r, node)}
    for r in rewriters:
        _round_before_readers(r, casts, inside=r.graph is not whole)
    _widen_interface(rewriters[0])
    changes = sum(_widen(r, casts, inside=r.graph is not whole) for r in rewriters)
    if changes:
        remarks.hit(f"stored {changes} values of f16 as f32")
    return changes


def _has_halves(node: Node) -> bool:
    return F16 in {v.dtype for v in (*node.inputs, *node.results)}


def _widen_interface(r: Rewriter) -> None:
    """Let inputs of f16 be widened before they are read, and outputs be rounded copies."""
    for v in r.graph.inputs:
        if v.dtype == F16:
            _widen_input(r, v)
    for v in r.graph.outputs:
        producer = r.producer(v)
        if v.dtype == F16 and producer is not None:
            _narrow_output(r, v, producer)


def _widen(r: Rewriter, casts: set[Node], inside: bool) -> int:
    """Let all values of a graph be f32, ``inside`` of a node also those that it takes and gives. Returns how many."""
    graph = r.graph
    made = [v for node in r.nodes() for v in node.results]
    for node in r.nodes():
        if isinstance(node.op, Map) and node.op.storage:
            body = ex.apply("round_f16", node.op.expr) if node in casts else node.op.expr
            node.op = replace(node.op, expr=body, storage="")
        named = {f.name: wide for f in fields(node.op) if (wide := _wide(old := getattr(node.op, f.name))) != old}
        node.op = replace(node.op, **named) if named else node.op  # what has no operands says its type itself
    for v, array in list(graph.constants.items()):
        if v.dtype != F16:
            continue
        if isinstance(array, np.ndarray) and (inside or not r.is_output(v)):
            graph.constants[v] = array.astype(np.float32)
            v.type = v.type.with_dtype(F32)
        else:
            _widen_input(r, v)
    halves = [v for v in (*(graph.inputs if inside else ()), *made) if v.dtype == F16]
    for v in halves:
        v.type = v.type.with_dtype(F32)
    r.finish()
    return len(halves)


def _wide(attribute: object) -> object:
    """An attribute of an operator that says f32 where it said f16."""
    if isinstance(attribute, tuple):
        return tuple(F32.name if part == F16.name else part for part in attribute)
    return F32.name if attribute == F16.name else attribute


def _rounds_on_purpose(r: Rewriter, node: Node) -> bool:
    """Whether another type goes through f16 into a wider float: a cast to round, not the storage of a computation."""
    if not isinstance(node.op, Map) or node.op.storage != "f16" or any(v.dtype == F16 for v in node.inputs):
        return False
    pending, seen = [node.result], {node.result}
    while pending:
        for reader in r.users(pending.pop()):
            if any(v.dtype.is_float and v.dtype != F16 for v in reader.results):
                return True
            if _keeps_numbers(reader):
                found = [v for v in reader.results if v.dtype == F16 and v not in seen]
                seen.update(found)
                pending += found
    return False


def _keeps_numbers(node: Node) -> bool:
    """Whether the results of a node are numbers that it reads, or their opposites: what was rounded stays so."""
    if node.op.elementwise is not None:
        return ex.functions(node.op.elementwise) <= KEEPING
    return moves(node.op) or node.op.selects


def _round_before_readers(r: Rewriter, casts: set[Node], inside: bool) -> None:
    """Round what nodes read that need numbers of f16, unless it is one anyway: what a graph ``inside`` of a node is
    given may be none."""
    for node in list(r.nodes()):
        if node.regions:  # nodes inside ask for it themselves
            continue
        rounded: dict[Value, Value] = {}
        for v in [node.operands[i] for i in sorted(reads_halves(node))]:
            if v is not None and v not in rounded and not _is_rounded(r, v, casts, inside):
                rounded[v] = r.insert(node, Map(ex.apply("round_f16", ex.var(0, F32))), [v], f"{v.name}.rounded")
        if rounded:
            r.rewire(node, [v if v is None else rounded.get(v, v) for v in node.operands])


def _is_rounded(r: Rewriter, v: Value, casts: set[Node], inside: bool) -> bool:
    """Whether a value is an input, a constant or rounded on purpose, or chosen among such."""
    pending, seen = [v], {v}
    while pending:
        source = pending.pop()
        if source.dtype.is_float and source.dtype != F16:
            return False
        producer = r.producer(source)
        if producer is None and inside and source not in r.graph.constants:
            return False
        if producer is None or producer in casts:
            continue
        body = producer.op.elementwise
        if not (is_half(body, lambda _: True) if body else moves(producer.op)):
            return False
        sources = [s for s in producer.inputs if s not in seen]
        seen.update(sources)
        pending += sources
    return True


def _widen_input(r: Rewriter, v: Value) -> None:
    users = r.users(v)
    if not users:
        return
    wide = r.insert(users[0], Map(ex.var(0, F32)), [v], f"{v.name}.f32")
    for node in users:
        r.rewire(node, [wide if w is v else w for w in node.operands], [wide if w is v else w for w in node.extras])


def _narrow_output(r: Rewriter, v: Value, producer: Node) -> None:
    """Let an inner value take the place of an output, which becomes a rounded copy of it."""
    inner = r.graph.value(f"{v.name}.f32", v.type)
    r.replace(v, inner)
    r.set_results(producer, [inner if w is v else w for w in producer.results])
    r.insert_after(producer, Node(Map(ex.var(0, F32), "f16"), [inner], [v], origins=producer.origins))
