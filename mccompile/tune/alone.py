"""A node by itself: a graph in which nothing else costs anything that cannot be told from it."""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import TensorType
from mccompile.ops.map import Map

NAME = "tuned"
BESIDE = "beside"
"""The ONNX name that what is not the node bears."""


def alone(node: Node, graph: Graph) -> Graph:
    """A graph of a node of ``graph`` that reads what other kernels have written, as in its network.

    A copy before each operand that is no constant gives it its layout, its place in the cache, and the halo that a
    candidate wants; a copy behind each result takes it from its layout. They originate from `BESIDE`.
    """
    new = Graph(NAME)
    values: dict[Value, Value] = {}
    for v in dict.fromkeys(node.inputs):
        if v in graph.constants:
            values[v] = Value(f"c{len(values)}", v.type)
            new.constants[values[v]] = graph.constants[v]
        else:
            given = Value(f"x{len(values)}", TensorType(v.dtype, v.shape))
            new.inputs.append(given)
            values[v] = _copied(new, given, f"a{len(values)}", v.type)
    results = [Value(f"r{i}", r.type) for i, r in enumerate(node.results)]
    operands = [None if v is None else values[v] for v in node.operands]
    extras = [values[v] for v in node.extras]
    new.nodes.append(Node(node.op, operands, results, extras, dict(node.pre), dict(node.post), node.origins))
    new.outputs = [_copied(new, r, f"y{i}", TensorType(r.dtype, r.shape)) for i, r in enumerate(results)]
    new.verify()
    return new


def _copied(graph: Graph, value: Value, name: str, type_: TensorType) -> Value:
    """A copy of a value, stored as ``type_`` says."""
    copy = Value(name, type_)
    dtype = value.dtype
    storage = dtype.name if dtype.compute != dtype else ""
    graph.nodes.append(Node(Map(ex.var(0, dtype), storage), [value], [copy], origins=(BESIDE,)))
    return copy
