"""What pipelines of ai.onnx.ml end with, as tensors: maps of probabilities, and labels that are text.

    labels, p = TreeEnsembleClassifier(x, classlabels_strings=["cat", "dog"])      labels: 0 or 1
    maps = ZipMap(p, classlabels_strings=["cat", "dog"])                           maps: p itself, [N, 2]
    label = ArrayFeatureExtractor(["cat", "dog"], place)                           label: the place

A note tells which column, and which number, is which label. Text that is only moved about stays numbers.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.rewriting import used_names
from mccompile.ir.errors import CompileError
from mccompile.ir.names import Names
from mccompile.onnxio import AttrValue, OnnxGraph, OnnxNode, OnnxValue, node_label, subgraphs, value_names

ML = "ai.onnx.ml"
ZIP_MAP = (ML, "ZipMap")
_CLASSIFIERS = {
    "LinearClassifier": "classlabels_ints", "SVMClassifier": "classlabels_ints",
    "TreeEnsembleClassifier": "classlabels_int64s",
}  # fmt: skip
"""Operators whose first result are labels, and the attribute for those that are numbers."""
_TEXT = "classlabels_strings"
_MOVES = frozenset({
    (ML, "ArrayFeatureExtractor"), ("", "Flatten"), ("", "Gather"), ("", "Identity"), ("", "Reshape"),
    ("", "Squeeze"), ("", "Unsqueeze"),
})  # fmt: skip
"""Operators that move the elements of their first operand about, whatever they are."""
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
            rows = [[row[label] for label in self.labels] for row in value]
            return np.array(rows, np.float32).reshape(len(rows), len(self.labels))
        places = [self.labels.index(label) for label in np.ravel(value)]
        return np.array(places, np.int64).reshape(np.shape(value))


def _labels(node: OnnxNode, attribute: str) -> tuple[object, ...]:
    """What an attribute lists; CompileError if it is no list."""
    listed = node.attrs.get(attribute, ())
    if not isinstance(listed, tuple):
        raise CompileError(f"attribute {attribute!r} is no list", where=node_label(node))
    return listed


def as_tensors(graph: OnnxGraph) -> tuple[OnnxGraph, dict[str, Legend]]:
    """The graph with tensors of numbers where it has maps and text, and what its outputs of that kind mean."""
    texts = _read_as_text(graph)
    initializers, legends = _numbered(graph, texts)
    nodes = []
    taken = Names(value_names(graph))
    for node in graph.nodes:
        if (node.domain, node.op_type) == ZIP_MAP:
            labels = _labels(node, _TEXT) or _labels(node, "classlabels_int64s")
            legends[node.outputs[0]] = Legend(labels, True)
            node = OnnxNode("Identity", node.inputs[:1], node.outputs, "", node.name, {}, node.index)
        elif node.domain == ML and node.op_type in _CLASSIFIERS and (text := _labels(node, _TEXT)):
            attrs: dict[str, AttrValue] = {k: v for k, v in node.attrs.items() if k != _TEXT}
            attrs[_CLASSIFIERS[node.op_type]] = tuple(range(len(text)))
            node = dataclasses.replace(node, attrs=attrs)
            if node.outputs[0] in texts:
                nodes += _looked_up(node, tuple(map(str, text)), taken)
                continue
            legends[node.outputs[0]] = Legend(text, False)
        elif _moves(node) and node.inputs[0] in legends:
            legends[node.outputs[0]] = legends[node.inputs[0]]
        nodes.append(node)
    types = {name: "f32" if legend.is_map else "i64" for name, legend in legends.items()}
    # The shape of what was a map is not known to the file.
    outputs = [
        OnnxValue(v.name, types[v.name], None if legends[v.name].is_map else v.shape) if v.name in types else v
        for v in graph.outputs
    ]
    value_info = {name: v for name, v in graph.value_info.items() if name not in types}
    changed = dataclasses.replace(
        graph, nodes=nodes, outputs=outputs, initializers=initializers, value_info=value_info
    )
    return changed, {v.name: legends[v.name] for v in graph.outputs if v.name in legends}


def _looked_up(node: OnnxNode, labels: tuple[str, ...], taken: Names) -> list[OnnxNode]:
    """A classifier of numbers, and the text of these for those who read it."""
    label, *scores = node.outputs
    number = taken.fresh(f"{label}.number")
    encoding: dict[str, AttrValue] = {"keys_int64s": tuple(range(len(labels))), "values_strings": labels}
    encoder = OnnxNode("LabelEncoder", (number,), (label,), ML, f"{node.name}.labels", encoding, node.index)
    return [dataclasses.replace(node, outputs=(number, *scores)), encoder]


def _moves(node: OnnxNode) -> bool:
    return (node.domain, node.op_type) in _MOVES and bool(node.inputs)


def _numbered(graph: OnnxGraph, texts: set[str]) -> tuple[dict[str, np.ndarray], dict[str, Legend]]:
    """The initializers, with numbers in the place of text that is moved about and nothing else, and its legends."""
    initializers, legends = dict(graph.initializers), {}
    for name, array in graph.initializers.items():
        if array.dtype == object and name not in texts:
            labels, places = np.unique(array.astype(str), return_inverse=True)
            initializers[name] = places.astype(np.int64).reshape(array.shape)
            legends[name] = Legend(tuple(labels.tolist()), False)
    return initializers, legends


def _read_as_text(graph: OnnxGraph) -> set[str]:
    """The values that an operator reads for what they are, or that another value is moved out of which is."""
    found: set[str] = set()
    for node in reversed(graph.nodes):
        moved = _moves(node) and not found.intersection(node.outputs)
        found.update(node.inputs[1:] if moved else node.inputs)
        for inner in subgraphs(node):
            found |= used_names(inner)
    return found
