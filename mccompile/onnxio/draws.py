"""Nodes that draw random numbers as nodes that take them: the network is a function of its inputs then.

    y = RandomNormalLike(x, mean=1, scale=2)     is     y = 2 * y.normal + 1      for a further input y.normal
    y = RandomUniformLike(x, low=-1, high=1)            y = 2 * y.uniform + -1
    y = Bernoulli(p)                                    y = y.uniform < p
    y = Multinomial(x)                                  y = the greatest of x - log(-log(y.uniform)) in each row

The last is Gumbel's way to draw from the distribution that softmax(x) is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.names import Names
from mccompile.onnxio.dtypes import dtype_number
from mccompile.onnxio.model import AttrValue, OnnxNode, OnnxValue
from mccompile.onnxio.nested import value_names
from mccompile.onnxio.proto import GraphReader, node_to_proto, value_to_proto
from mccompile.onnxio.untyped import inlined
from mccompile.onnxio.write import serialize

KINDS = {
    "RandomNormal": "normal", "RandomNormalLike": "normal", "RandomUniform": "uniform",
    "RandomUniformLike": "uniform", "Bernoulli": "uniform", "Multinomial": "uniform",
}  # fmt: skip
"""The operators that draw, and the distribution: normal of mean 0 and deviation 1, or uniform from 0 to below 1."""


@dataclass(frozen=True)
class Draw:
    """An input of draws, f32 of ``rank``, of that ``name``: ``output`` is the result of the node that they are for,
    of type ``dtype``; ``kind`` is their distribution.

    Of a ``cut`` one the node takes as many as its operand has elements, from the first of each axis on.
    """

    name: str
    output: str
    kind: str
    rank: int
    dtype: str
    cut: bool = False


def taking(node: OnnxNode, draw: Draw, taken: Names) -> list[OnnxNode]:
    """The nodes, in any opset from 11 on, that make of draws what a node makes of its own. Names of what is between
    are added to those that are ``taken``."""
    made = _Chain(node, draw.name, taken)
    if draw.cut:
        made.add("Shape", node.inputs[0])
        made.add("Slice", draw.name, np.zeros(draw.rank, np.int64), made.last)
    attrs = node.attrs
    if node.op_type in ("RandomNormal", "RandomNormalLike"):
        made.affine(_float(attrs, "scale", 1.0), _float(attrs, "mean", 0.0))
    elif node.op_type in ("RandomUniform", "RandomUniformLike"):
        low, high = _float(attrs, "low", 0.0), _float(attrs, "high", 1.0)
        made.affine(float(np.float32(high) - np.float32(low)), low)
    elif node.op_type == "Bernoulli":
        uniform = made.last
        made.add("Cast", node.inputs[0], to=dtype_number("f32"))
        made.add("Less", uniform, made.last)
    else:
        for op_type in ("Log", "Neg", "Log"):
            made.add(op_type, made.last)
        gumbel = made.last
        made.add("Cast", node.inputs[0], to=dtype_number("f32"))
        made.add("Reshape", made.last, np.array([0, 1, -1]))
        made.add("Sub", made.last, gumbel)
        made.add("ArgMax", made.last, axis=2, keepdims=0)
    return made.ending(draw.dtype)


class _Chain:
    """Nodes one after the other, each named after the result that they make."""

    def __init__(self, node: OnnxNode, start: str, taken: Names) -> None:
        self.node, self.last, self.taken = node, start, taken
        self.nodes: list[OnnxNode] = []

    def add(self, op_type: str, *operands: str | np.ndarray, **attrs: Any) -> None:
        """A node of ``operands``, names or constants; its result is the `last` one then."""
        names = [self._constant(o) if isinstance(o, np.ndarray) else o for o in operands]
        self.last = self._fresh()
        self._append(op_type, names, self.last, attrs)

    def affine(self, scale: float, shift: float) -> None:
        """``last * scale + shift``; what changes nothing is left out."""
        if scale != 1.0:
            self.add("Mul", self.last, np.array(scale, np.float32))
        if shift != 0.0:
            self.add("Add", self.last, np.array(shift, np.float32))

    def ending(self, dtype: str) -> list[OnnxNode]:
        """All nodes; the last gives the node's result, of that type."""
        self._append("Cast", [self.last], self.node.outputs[0], {"to": dtype_number(dtype)})
        return self.nodes

    def _constant(self, array: np.ndarray) -> str:
        name = self._fresh()
        self._append("Constant", [], name, {"value": array})
        return name

    def _fresh(self) -> str:
        return self.taken.fresh(f"{self.node.outputs[0]}.drawn{len(self.nodes)}")

    def _append(self, op_type: str, inputs: Sequence[str], output: str, attrs: Mapping[str, AttrValue]) -> None:
        name = f"{self.node.outputs[0]}/{op_type}{len(self.nodes)}"
        made = OnnxNode(op_type, tuple(inputs), (output,), name=name, attrs=dict(attrs), index=self.node.index)
        self.nodes.append(made)


def _float(attrs: Mapping[str, AttrValue], name: str, default: float) -> float:
    value = attrs.get(name, default)
    assert isinstance(value, int | float)
    return float(value)


def with_draws(model: bytes, draws: Iterable[Draw]) -> bytes:
    """A model file's bytes with draws as inputs, after its own. CompileError where no node gives such an output."""
    proto = inlined(onnx.ModelProto.FromString(model))
    wanted = {draw.output: draw for draw in draws}
    found = _replace(proto.graph, wanted, Names(value_names(proto.graph)))
    missing = [name for name in wanted if name not in found]
    if missing:
        raise CompileError(f"no reference can be given draws for {', '.join(missing)}: no node of the file has it")
    for draw in wanted.values():
        proto.graph.input.append(value_to_proto(OnnxValue(draw.name, "f32", (None,) * draw.rank)))
    return serialize(proto)


def _replace(graph: onnx.GraphProto, wanted: Mapping[str, Draw], taken: Names) -> set[str]:
    """Let the nodes of a graph, and of those inside, take their draws; the outputs of those that do."""
    reader, found = GraphReader(Path(), ""), set()
    nodes: list[onnx.NodeProto] = []
    for i, node in enumerate(graph.node):
        draw = wanted.get(node.output[0]) if node.op_type in KINDS and not node.domain else None
        if draw is None:
            nodes.append(node)
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    found |= _replace(attribute.g, wanted, taken)
        else:
            nodes += map(node_to_proto, taking(reader.node(node, i), draw, taken))
            found.add(draw.output)
    made = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(made)
    return found
