"""The picture of an IR as an ONNX model to look at (Netron opens it): nodes in domain `mccompile`, not to be run."""

from __future__ import annotations

from mccompile.ir.files import IR
from mccompile.ir.types import TensorType
from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxNode, OnnxValue
from mccompile.report.picture import Box, picture

DOMAIN = "mccompile"
SMALL = 1024
"""Constants of at most this many elements are initializers; of larger ones the file states the type only."""


def netron_model(ir: IR) -> OnnxModel:
    """A graph, kernel module or program as an ONNX model; sizes and target are in its metadata."""
    p = picture(ir)
    small = {name: a for name, a in p.constants.items() if a is not None and a.size <= SMALL}
    bounds = {*p.inputs, *p.outputs, *small}
    graph = OnnxGraph(
        name=p.name,
        inputs=[_value(name, p.types[name]) for name in p.inputs],
        outputs=[_value(name, p.types[name]) for name in p.outputs],
        nodes=[_node(i, box) for i, box in enumerate(p.boxes)],
        initializers=small,
        value_info={name: _value(name, t) for name, t in p.types.items() if name not in bounds},
    )
    return OnnxModel(graph, {DOMAIN: 1}, metadata=p.facts)


def _value(name: str, type_: TensorType) -> OnnxValue:
    return OnnxValue(name, type_.dtype.name, type_.shape)


def _node(index: int, box: Box) -> OnnxNode:
    return OnnxNode(box.kind, box.inputs, box.outputs, DOMAIN, box.outputs[0], dict(box.facts), index)
