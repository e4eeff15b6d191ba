"""What pipelines of ai.onnx.ml end with, as tensors: maps of probabilities, and labels that are text.

    labels, p = TreeEnsembleClassifier(x, classlabels_strings=["cat", "dog"])      labels: 0 or 1
    maps = ZipMap(p, classlabels_strings=["cat", "dog"])                           maps: p itself, [N, 2]

A note tells which column, and which number, is which label.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from mccompile.onnxio import AttrValue, OnnxGraph, OnnxNode, OnnxValue

ML = "ai.onnx.ml"
_CLASSIFIERS = {
    "LinearClassifier": "classlabels_ints", "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}  # fmt: skip
"""Operators whose first result are labels, and the attribute for those that are numbers."""
_TEXT = "classlabels_strings"
_SHOWN = 12
"""Labels in a note; of more, the first and the last are told."""


@dataclass(frozen=True)
class Legend:
    """``labels`` of the columns of a tensor that was a map (``is_map``), or of its numbers, which were text."""

    labels: tuple[object, ...]
    is_map: bool

    def note(self, name: str) -> str:
        """What to tell the user."""
        shown = [repr(label) for label in self.labels]
        listed = ", ".join(shown if len(shown) <= _SHOWN else [*shown[: _SHOWN - 1], "..", shown[-1]])
        if self.is_map:
            return f"output {name!r}, a map, is a tensor; its columns are {listed}"
        return f"labels {name!r} are numbers, from 0 on, of {listed}"

    def applied(self, value: Any) -> np.ndarray:
        """What a runtime that has maps and text gave, as the tensor that it is here."""
        if self.is_map:
            return np.array([[row[label] for label in self.labels] for row in value], np.float32)
        return np.array([self.labels.index(label) for label in value], np.int64)


def as_tensors(graph: OnnxGraph) -> tuple[OnnxGraph, dict[str, Legend]]:
    """The graph with tensors of numbers where it has maps and text, and what these values mean."""
    nodes = []
    legends: dict[str, Legend] = {}
    for node in graph.nodes:
        if node.domain == ML and node.op_type == "ZipMap":
            labels = node.attrs.get(_TEXT) or node.attrs.get("classlabels_int64s") or ()
            assert isinstance(labels, tuple)
            legends[node.outputs[0]] = Legend(labels, True)
            node = OnnxNode("Identity", node.inputs[:1], node.outputs, "", node.name, {}, node.index)
        elif node.domain == ML and node.op_type in _CLASSIFIERS and (text := node.attrs.get(_TEXT)):
            assert isinstance(text, tuple)
            attrs: dict[str, AttrValue] = {k: v for k, v in node.attrs.items() if k != _TEXT}
            attrs[_CLASSIFIERS[node.op_type]] = tuple(range(len(text)))
            legends[node.outputs[0]] = Legend(text, False)
            node = dataclasses.replace(node, attrs=attrs)
        nodes.append(node)
    types = {name: "f32" if legend.is_map else "i64" for name, legend in legends.items()}
    outputs = [OnnxValue(v.name, types[v.name]) if v.name in types else v for v in graph.outputs]
    return dataclasses.replace(graph, nodes=nodes, outputs=outputs), legends
