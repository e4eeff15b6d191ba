"""Which ONNX operators are supported and how, found out from the registries and from what front ends emit."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer import control, labels, sequences
from mccompile.importer.fold import fold_node
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.op import Op
from mccompile.ir.types import DTYPES, TensorType
from mccompile.kernels.registry import candidates
from mccompile.onnxio import (
    DRAWING,
    OnnxNode,
    OnnxValue,
    dtype_of_array,
    expand_function,
    has_reference,
    is_function,
    newest_opset,
    op_names,
)
from mccompile.ops.draw import SeededDraw
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.movement import Movement
from mccompile.ops.registry import FrontEnd, front_ends, operators
from mccompile.ops.sampling import Case
from mccompile.ops.text import TEXT

DRAWS = 16
"""Cases drawn of each front end's sample to see what it emits."""

MAX_FORMALS = 7
"""Inputs an operator is given when its function is looked at."""

ALWAYS_FOLDED = ("Constant", "Shape", "Size")


class Status(Enum):
    """What happens to an operator."""

    SUPPORTED = "supported"
    EXPANDED = "expanded"
    FOLDED = "folded"
    NO = "no"


LEGEND = {
    Status.SUPPORTED: "has a front end and is compiled",
    Status.EXPANDED: "is replaced by the operators of its definition, which are supported",
    Status.FOLDED: "is computed at compile time, so its inputs have to be constants or shapes",
    Status.NO: "is not supported",
}


@dataclass(frozen=True)
class Row:
    """One ONNX operator. ``how`` says what it is compiled to, or what is missing."""

    op: str
    status: Status
    how: str
    dtypes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {"op": self.op, "status": self.status.value, "how": self.how, "dtypes": list(self.dtypes)}


@functools.cache
def support_table() -> tuple[Row, ...]:
    """A row for each operator of the newest ai.onnx opset, then those of other domains that are supported."""
    names = [("", name) for name in op_names()]
    others = [key for key in (*front_ends(), labels.ZIP_MAP) if key not in names and key[0] != TEXT]
    return tuple(support_of(domain, name) for domain, name in [*names, *others])


@functools.cache
def support_of(domain: str, name: str) -> Row:
    """The row of one operator in its newest form."""
    label = f"{domain}:{name}" if domain else name
    if not domain and name in ALWAYS_FOLDED:
        return Row(label, Status.FOLDED, "always known at compile time")
    if not domain and name in control.KEPT:
        return Row(label, Status.SUPPORTED, control.KEPT[name])
    if not domain and name in control.OPERATORS:
        return Row(label, Status.FOLDED, "unrolled: its sequences have to have known lengths")
    if not domain and name in sequences.OPERATORS:
        return Row(label, Status.FOLDED, "its sequence has to have a known length")
    if not domain and name in DRAWING:
        return Row(label, Status.SUPPORTED, "an input of the network, with --random input")
    if (domain, name) == labels.ZIP_MAP:
        return Row(label, Status.SUPPORTED, "the tensor of its columns")
    found, of_text = front_ends().get((domain, name)), front_ends().get((TEXT, name))
    if found is None and of_text is not None:
        return Row(label, Status.SUPPORTED, f"{_own_kernels(of_text) or 'map'}, of text")
    if found is not None:
        how, dtypes = _observed(found)
        if not how and not domain:
            how = _own_kernels(found)
        inner = _expansion(found)
        if inner:
            return Row(label, Status.EXPANDED, f"as {', '.join(sorted(inner))}", dtypes)
        if not how and domain and found.sample is None:
            return Row(label, Status.SUPPORTED, "no onnxruntime to compare with")
        if not how:
            return Row(label, Status.FOLDED, "known at compile time", dtypes)
        return Row(label, Status.SUPPORTED, how, dtypes)
    if domain:
        return Row(label, Status.NO, "unknown domain")
    body = function_body(name)
    missing = sorted(op for op in body if not _usable(op))
    if body and not missing:
        return Row(label, Status.EXPANDED, f"as {', '.join(sorted(body))}")
    if has_reference(name):
        return Row(label, Status.FOLDED, f"its function needs {', '.join(missing)}" if missing else "")
    return Row(label, Status.NO, f"its function needs {', '.join(missing)}" if missing else "")


def _usable(name: str) -> bool:
    """Whether an operator in a function's body is no obstacle: its constants come from the function itself."""
    row = support_of("", name)
    constants = ("ConstantOfShape", "Range", "EyeLike")
    return row.status in (Status.SUPPORTED, Status.EXPANDED) or name in (*ALWAYS_FOLDED, *constants)


@functools.cache
def function_body(name: str) -> frozenset[str]:
    """The operators of the function ONNX defines an operator by; empty if there is none to be had."""
    if not is_function(name):
        return frozenset()
    for count in range(1, MAX_FORMALS + 1):
        inputs = tuple(f"x{i}" for i in range(count))
        node = OnnxNode(name, inputs, ("y",), name="node", index=0)
        try:
            body = expand_function(node, newest_opset(), [OnnxValue(i, "f32", (2, 3, 4)) for i in inputs])
        except CompileError:
            continue
        if body:
            return frozenset(n.op_type for n in body)
    return frozenset()


_FREE = ("map", "movement", "view")
"""Words for what has no kernel family of its own."""


# -- what front ends emit ------------------------------------------------------------------------------------
def _observed(front_end: FrontEnd) -> tuple[str, tuple[str, ...]]:
    """What the operator is compiled to, and the element types of its first input, over drawn cases."""
    emitted: set[str] = set()
    dtypes: set[str] = set()
    for case in _cases(front_end):
        first = case.inputs[0] if case.inputs else None
        if first is not None:
            dtypes.add(dtype_of_array(np.asarray(first)))
        emitted.update(_emitted(front_end, case))
    found = {_how(operators()[name]) for name in emitted}
    parts = [*sorted(found - set(_FREE)), *(word for word in _FREE if word in found)]
    return ", ".join(parts), tuple(d for d in DTYPES if d in dtypes)


def _own_kernels(front_end: FrontEnd) -> str:
    """The kernels of the operators that stand beside a front end without cases; empty if there are none."""
    module = sys.modules[front_end.convert.__module__]
    own = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    return ", ".join(_how(v) for v in own if issubclass(v, Op))


def _expansion(front_end: FrontEnd) -> frozenset[str]:
    """The operators that stand for one, over drawn cases; empty if its front end emits nodes of its own."""
    return frozenset(n.op_type for case in _cases(front_end) for n in _viewed(front_end, case).expansion)


def _cases(front_end: FrontEnd) -> Iterator[Case]:
    if front_end.sample is not None:
        for seed in range(DRAWS):
            yield front_end.sample(SeededDraw(seed))


def _emitted(front_end: FrontEnd, case: Case) -> list[str]:
    """The names of the operators that one case becomes; none if its results are known or it is refused."""
    view = _viewed(front_end, case)
    passed = any(v is not None and v not in view.graph.constants for v in view.outputs)
    return [n.op.name for n in view.graph.nodes] or (["reshape"] if passed else [])


def _viewed(front_end: FrontEnd, case: Case) -> Import:
    """The front end's view of a case after it was converted; without results if they are known or it is refused."""
    graph = Graph("case")
    inputs: list[Value | None] = []
    for i, array in enumerate(case.inputs):
        if array is None:
            inputs.append(None)
        elif i in case.constant:
            inputs.append(graph.constant(f"x{i}", np.asarray(array)))
        else:
            dtype = DTYPES[dtype_of_array(np.asarray(array))]
            inputs.append(graph.value(f"x{i}", TensorType(dtype, np.asarray(array).shape)))
    names = tuple("" if v is None else v.name for v in inputs)
    attrs = {k: tuple(v) if isinstance(v, list) else v for k, v in case.attrs.items()}
    outputs = tuple(f"y{i}" for i in range(case.outputs))
    node = OnnxNode(front_end.op_type, names, outputs, front_end.domain, "node", attrs, 0)
    view = Import(graph, node, inputs)
    try:
        if fold_node(graph, node, inputs) is None:
            front_end.convert(view)
    except CompileError:
        return Import(Graph("refused"), node, ())
    return view


def _how(op: type[Op]) -> str:
    if op is Map:
        return "map"
    if op.name == "reshape":
        return "view"
    if issubclass(op, Movement):
        return "movement"
    return " or ".join(dict.fromkeys(v.kernel for v in candidates(op.name)))
