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
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx.defs

from mccompile.ir.errors import CompileError
from mccompile.onnxio.contrib import MICROSOFT, operands
from mccompile.onnxio.dtypes import is_dtype
from mccompile.onnxio.model import AttrValue, OnnxGraph, OnnxModel, OnnxNode, node_label, subgraphs

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
    schema = _schema(node.op_type, opset, "") if not node.domain else None
    wrong = [] if schema is None else _operands(node, schema)
    if wrong:
        raise CompileError("; ".join(wrong), where=node_label(node))


def _faults(graph: OnnxGraph, opsets: Mapping[str, int]) -> list[tuple[str, str]]:
    """Nodes, and what is wrong with them."""
    found: list[tuple[str, str]] = []
    for node in graph.nodes:
        schema = _schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        wrong = _contrib(node) if schema is None else [*_operands(node, schema), *_attributes(node, schema)]
        if wrong:
            found.append((node_label(node), "; ".join(wrong)))
        for inner in subgraphs(node):
            found += _faults(inner, opsets)
    return found


@cache
def _schema(op: str, opset: int, domain: str) -> Any:
    """An operator as a model of this opset means it; None where ONNX does not know it."""
    try:
        return onnx.defs.get_schema(op, opset, domain)
    except onnx.defs.SchemaError:
        return None


def _operands(node: OnnxNode, schema: Any) -> list[str]:
    """What is wrong with the number of inputs and outputs, and with those that are left out."""
    found: list[str] = []
    sides = (("input", node.inputs, schema.min_input, schema.max_input, schema.inputs),
             ("output", node.outputs, schema.min_output, schema.max_output, schema.outputs))  # fmt: skip
    for what, names, least, most, formal in sides:
        if len(names) > most:
            found.append(f"it has {len(names)} {what}s, the most is {most}")
        option = onnx.defs.OpSchema.FormalParameterOption
        asked = [f.option != option.Optional for f in formal]
        missing = list(range(len(names), least))
        if what == "input":
            missing += [i for i, name in enumerate(names[:most]) if not name and asked[min(i, len(formal) - 1)]]
        found += [f"{what} {i} ({formal[min(i, len(formal) - 1)].name}) is required" for i in missing]
    return found


def _contrib(node: OnnxNode) -> list[str]:
    """The same of the inputs of onnxruntime's own operators."""
    formal = operands(node.op_type) if node.domain == MICROSOFT else None
    if formal is None:
        return []
    if len(node.inputs) > len(formal) and not formal[-1].many:
        return [f"it has {len(node.inputs)} inputs, the most is {len(formal)}"]
    names = [*node.inputs, *[""] * (len(formal) - len(node.inputs))]
    asked = [formal[min(i, len(formal) - 1)].required for i in range(len(names))]
    return [f"input {i} is required" for i, name in enumerate(names) if asked[i] and not name]


def _attributes(node: OnnxNode, schema: Any) -> list[str]:
    """What is wrong with the types of attributes, and with values that ONNX's inference does not look at."""
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
