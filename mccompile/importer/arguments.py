"""Nodes whose arguments are computed at run time: one of few readings holds (`ops.readings`), and each is converted
as if its arguments were constants.

Worked example: the axis of CumSum(x[2, 3], axis) has two readings, so that the node becomes::

    which = 0 where axis is 0 or -2, 1 where it is 1 or -1, else the program ends
    if (which == 0) y = CumSum(x, 0) else y = CumSum(x, 1)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Protocol

from mccompile.importer.sequences import Known
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import BOOL, I32
from mccompile.onnxio import OnnxGraph, OnnxNode, OnnxValue
from mccompile.onnxio.model import AttrValue
from mccompile.ops.elements import Elements, Whole
from mccompile.ops.frontend import Import
from mccompile.ops.readings import Reading, readings
from mccompile.ops.stated import Shape, Stated

_ELEMENTWISE = frozenset(
    "Abs Acos Asin Atan Cast CastLike Ceil Cos Cosh Erf Exp Floor Identity Log Neg Not Reciprocal Relu Round Sigmoid "
    "Sign Sin Sinh Softplus Sqrt Tan Tanh".split()
)
"""What has the shape of its first operand."""


def declared_shapes(graph: OnnxGraph) -> dict[str, Shape]:
    """The shapes that a model states for results, and those that follow for operands of element-wise nodes.

    Models state wrong ones: who uses them has them checked when the program runs."""
    found = {v.name: v.shape for v in (*graph.value_info.values(), *graph.outputs) if v.shape is not None}
    for node in reversed(graph.nodes):
        if not node.domain and node.op_type in _ELEMENTWISE and node.inputs and node.outputs[0] in found:
            found.setdefault(node.inputs[0], found[node.outputs[0]])
    return found


class Walker(Protocol):
    """What the importer offers: its table of names, and the walk over nodes."""

    graph: Graph
    values: dict[str, Known]
    stated: Stated

    def run_node(self, node: OnnxNode, depth: int) -> None: ...


def read_arguments(w: Walker, n: Import, depth: int) -> bool:
    """Convert a node whose arguments have few readings. False if it has none that is known at run time only."""
    elements = Elements(n)
    found = readings(n, elements)
    if found is None:
        return False
    if not found:
        raise n.error(
            f"no arguments give the shape that the model states for its result, {list(n.declared() or ())}",
            "correct the shape, or leave it out",
        )
    which = Whole.of(-1)
    for i, reading in reversed(list(enumerate(found))):
        which = reading.holds.otherwise(i, which)
    if len(found) == 1:
        elements.require(found[0].holds)
        w.run_node(_with_constants(w, n, found[0]), depth)
    else:
        named = cache(n.names.fresh)  # the branches of a choice in a branch may have the names of those around it
        w.run_node(_choice(w, n, elements.held("reading", which, 0, len(found) - 1), found, named), depth)
    return True


def _with_constants(w: Walker, n: Import, reading: Reading) -> OnnxNode:
    """The node with constants for arguments."""
    inputs = list(n.node.inputs)
    for i, array in reading.values.items():
        constant = n.constant(f"argument{i}", array)
        inputs[i] = n.names.fresh(f"{constant.name} of {n.node.name}")
        w.values[inputs[i]] = constant
    return dataclasses.replace(n.node, inputs=tuple(inputs))


def _choice(
    w: Walker, n: Import, which: Value, found: list[Reading], named: Callable[[str], str], first: int = 0
) -> OnnxNode:
    """An If of the first reading and of all others."""
    test = ex.apply("eq", ex.var(0, I32), ex.num(first, I32))
    condition = n.names.fresh(f"{n.node.name}.reading{first}")
    w.values[condition] = n.map(test, [which], f"is{first}")
    assert test.dtype == BOOL
    yes = _body(w, n, _constant_body(n, found[first], first), f"{first}", named)
    if first + 2 == len(found):
        no = _body(w, n, _constant_body(n, found[first + 1], first + 1), f"{first + 1}", named)
    else:
        no = _body(w, n, (_choice(w, n, which, found, named, first + 1), {}), f"{first + 1}", named)
    name = f"{n.node.name}.readings{first}" if first else n.node.name
    attrs: dict[str, AttrValue] = {"then_branch": yes, "else_branch": no}
    return OnnxNode("If", (condition,), n.node.outputs, name=name, attrs=attrs, index=n.node.index)


_Body = tuple[OnnxNode, dict[str, Array]]


def _constant_body(n: Import, reading: Reading, number: int) -> _Body:
    inputs, initializers = list(n.node.inputs), {}
    for i, array in reading.values.items():
        inputs[i] = n.names.fresh(f"{n.node.name}.{number}.argument{i}")
        initializers[inputs[i]] = array
    return dataclasses.replace(n.node, inputs=tuple(inputs), name=f"{n.node.name}.{number}"), initializers


def _body(w: Walker, n: Import, body: _Body, suffix: str, named: Callable[[str], str]) -> OnnxGraph:
    """A nested graph of one node, whose results have names of their own."""
    node, initializers = body
    names = tuple(named(f"{o}.{suffix}") if o else "" for o in n.node.outputs)
    shapes = w.stated.shapes
    shapes.update({new: shapes[old] for old, new in zip(n.node.outputs, names, strict=True) if old in shapes})
    outputs = [OnnxValue(name, "unknown") for name in names if name]
    return OnnxGraph(f"{n.node.name}.{suffix}", [], outputs, [dataclasses.replace(node, outputs=names)], initializers)
