"""What a node has to be before ONNX's own code looks at it: its operands are there, its attributes of their types.

ONNX's shape inference takes that for granted. It reads beside what a node has where that is not so: it ends the
process (EyeLike without its input, GatherND with batch_dims=-9), or asks for all memory there is (Split into 2**31
parts). And what folds constants would pass over an attribute of another type in silence.

    GatherND {batch_dims: -9}       attribute 'batch_dims' is -9, but it may not be negative
    Shape {start: 1.0}              attribute 'start' = 1.0 is no int
    EyeLike()                       input 0 (input) is required
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.defs

from mccompile.ir.errors import CompileError
from mccompile.onnxio.contrib import Operand
from mccompile.onnxio.dtypes import is_dtype
from mccompile.onnxio.model import AttrValue, OnnxGraph, OnnxModel, OnnxNode, as_meant, node_label, subgraphs
from mccompile.onnxio.schema import schema_of, sides, too_new

_Kinds = onnx.defs.OpSchema.AttrType
_KINDS: Mapping[Any, tuple[str, type]] = {
    _Kinds.INT: ("int", int),
    _Kinds.FLOAT: ("float", float),
    _Kinds.STRING: ("string", str),
    _Kinds.TENSOR: ("tensor", np.ndarray),
    _Kinds.GRAPH: ("graph", OnnxGraph),
}
_LISTS: Mapping[Any, tuple[str, type]] = {
    _Kinds.INTS: ("list of ints", int),
    _Kinds.FLOATS: ("list of floats", float),
    _Kinds.STRINGS: ("list of strings", str),
    _Kinds.GRAPHS: ("list of graphs", OnnxGraph),
}


def require_wellformed(model: OnnxModel) -> None:
    """CompileError that names every node, in nested graphs too, without the form that its operator has in ONNX.

    Operators and attributes that ONNX does not know are left to whoever looks them up.
    """
    faults = _faults(model.graph, model.opsets)
    if not faults:
        return
    hint = "onnx.checker.check_model(path, full_check=True) tells more"
    if len(faults) == 1:
        where, rule = faults[0]
        raise CompileError(rule, where=where, hint=hint)
    lines = "".join(f"\n  {where}: {rule}" for where, rule in dict.fromkeys(faults))
    raise CompileError(f"nodes are not what their operators take:{lines}", hint=hint)


def require_operands(node: OnnxNode, opset: int) -> None:
    """CompileError for a node without an operand that its operator asks for: what is written for a definition takes
    over what the file left out."""
    wrong = [] if node.domain else _operands(node, opset)
    if wrong:
        raise CompileError("; ".join(wrong), where=node_label(node))


def _faults(graph: OnnxGraph, opsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """Nodes, and what is wrong with them."""
    found: list[tuple[str, str]] = []
    for given in graph.nodes:
        node, opset = as_meant(given, opsets.get(given.domain, 1))
        wrong = _too_new(node, opset) or [*_operands(node, opset), *_attributes(node, opset)]
        if wrong:
            found.append((node_label(node), "; ".join(wrong)))
        for inner in subgraphs(node):
            found += _faults(inner, opsets)
    return found


def _too_new(node: OnnxNode, opset: int) -> list[str]:
    """That its operator came later than the model says: no opset tells which of its forms is meant."""
    first = too_new(node.op_type, node.domain, opset)
    return [f"opset {opset} has no {node.op_type}, which came with opset {first}"] if first else []


def _operands(node: OnnxNode, opset: int) -> list[str]:
    """What is wrong with the number of inputs and outputs, and with those that are left out."""
    found: list[str] = []
    for what, names, side in zip(
        ("input", "output"), (node.inputs, node.outputs), sides(node.op_type, node.domain, opset) or (), strict=False
    ):
        if side is None:
            continue
        if len(names) > side.most:
            found.append(f"it has {len(names)} {what}s, the most is {side.most}")
        missing = list(range(len(names), side.least))
        if what == "input":
            missing += [i for i, name in enumerate(names[: side.most]) if not name and side.at(i).required]
        found += [f"{what} {i}{_named(side.at(i))} is required" for i in sorted(missing)]
    return found


def _named(operand: Operand) -> str:
    return f" ({operand.name})" if operand.name else ""


def _attributes(node: OnnxNode, opset: int) -> list[str]:
    """What is wrong with the types of attributes, and with values that ONNX's inference does not look at."""
    schema = schema_of(node.op_type, node.domain, opset)
    if schema is None:
        return []
    known = {name: value for name, value in node.attrs.items() if name in schema.attributes}
    found = [
        f"attribute {name!r}{_shown(value)} is no {kind}"
        for name, value in known.items()
        if (kind := _other_kind(value, schema.attributes[name].type))
    ]
    return found or _odd_values(node)


def _other_kind(value: AttrValue, wanted: Any) -> str:
    """What an attribute should be, if it is something else. A whole number may stand for a float."""
    if wanted in _KINDS:
        kind, python = _KINDS[wanted]
        return "" if isinstance(value, (int, float) if python is float else python) else kind
    if wanted in _LISTS:
        kind, python = _LISTS[wanted]
        allowed = (int, float) if python is float else python
        return "" if isinstance(value, tuple) and all(isinstance(item, allowed) for item in value) else kind
    return ""


def _odd_values(node: OnnxNode) -> list[str]:
    batch, parts = node.attrs.get("batch_dims", 0), node.attrs.get("num_outputs")
    if node.op_type == "GatherND" and isinstance(batch, int) and batch < 0:
        return [f"attribute 'batch_dims' is {batch}, but it may not be negative"]
    if node.op_type == "Split" and isinstance(parts, int) and parts != len(node.outputs):
        return [f"attribute 'num_outputs' is {parts}, but there are {len(node.outputs)} outputs"]
    types = [(name, value) for name in ("to", "dtype") if isinstance(value := node.attrs.get(name), int)]
    return [f"attribute {name!r} = {value} is no element type" for name, value in types if not is_dtype(value)]


def _shown(value: AttrValue) -> str:
    return f" = {value!r}" if isinstance(value, int | float | str) else ""
