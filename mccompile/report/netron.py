"""The picture of an IR as an ONNX model to look at (Netron opens it): nodes in domain `mccompile`, not to be run."""

from __future__ import annotations

from mccompile.ir.files import IR
from mccompile.ir.scalar import Array
from mccompile.ir.types import TensorType
from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxNode, OnnxValue
from mccompile.report.picture import Box, Picture, picture

DOMAIN = "mccompile"
ROOM = 2**30
"""Bytes of initializers: a file has an end at 2 GiB. Constants beyond, and those not known, are inputs."""


def netron_model(ir: IR) -> OnnxModel:
    """A graph, kernel module or program as an ONNX model; sizes and target are in its metadata."""
    p = picture(ir)
    known = _known(p)
    inputs = [*p.inputs, *(name for name in p.constants if name not in known)]
    bounds = {*inputs, *p.outputs, *known}
    graph = OnnxGraph(
        name=p.name,
        inputs=[_value(name, p.types[name]) for name in inputs],
        outputs=[_value(name, p.types[name]) for name in p.outputs],
        nodes=[_node(i, box) for i, box in enumerate(p.boxes)],
        initializers=known,
        value_info={name: _value(name, t) for name, t in p.types.items() if name not in bounds},
    )
    return OnnxModel(graph, {DOMAIN: 1}, metadata=p.facts)


def _known(p: Picture) -> dict[str, Array]:
    """The constants that the file holds; the largest are left out first."""
    left = ROOM
    found: dict[str, Array] = {}
    for name, a in sorted(((n, a) for n, a in p.constants.items() if a is not None), key=lambda c: c[1].nbytes):
        left -= a.nbytes
        if left >= 0:
            found[name] = a
    return {name: found[name] for name in p.constants if name in found}


def _value(name: str, type_: TensorType) -> OnnxValue:
    return OnnxValue(name, type_.dtype.name, type_.shape)


def _node(index: int, box: Box) -> OnnxNode:
    return OnnxNode(box.kind, box.inputs, box.outputs, DOMAIN, box.outputs[0], dict(box.facts), index)
