"""Evaluate a node or a model in canonical (newest) form, by ONNX's own reference implementation, which is imported
when something is to be evaluated: it takes as long as all the rest of `onnx`, and few networks need it."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from mccompile.ir.errors import CompileError
from mccompile.ir.indices import checked, grid_along
from mccompile.ir.scan import reason as in_our_words
from mccompile.onnxio.dtypes import dtype_name, dtype_of_array, numpy_dtype
from mccompile.onnxio.model import OnnxModel, OnnxNode, OnnxValue, node_label
from mccompile.onnxio.proto import node_to_proto, value_from_proto, value_to_proto
from mccompile.onnxio.schema import newest_opset
from mccompile.onnxio.write import model_to_bytes
from mccompile.plugins import Function, functions

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


FEW = 64
"""Elements of what may say a shape."""


def evaluate_node(
    node: OnnxNode,
    inputs: Sequence[np.ndarray | None],
    opset: int | None = None,
    captures: Mapping[str, np.ndarray] | None = None,
) -> list[np.ndarray]:
    """The node's results for these inputs.

    Args:
        node: in the form of `opset`; the reference implementation is only trusted on the newest forms.
        inputs: one array per node input, None for an absent one.
        opset: of ai.onnx; the newest if not given.
        captures: for If, Loop, Scan: the outer values that their graphs use, by name.

    Returns:
        One C-contiguous array per node output, with the element type ONNX states for it; those of outputs
        named '' are arrays of size 0.

    Raises:
        CompileError: naming the node, if it cannot be evaluated.
    """
    from onnx.reference import ReferenceEvaluator

    single, feeds = _apart(node, inputs)
    outer = {**(captures or {}), **feeds}
    try:
        model = _single_node_model(single, outer, opset or newest_opset())
        if (nothing := _without_elements(model, feeds)) is not None:
            return nothing
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            results = ReferenceEvaluator(model, new_ops=[_gather_elements()]).run(None, outer)
        wanted = _output_dtypes(model)
        found = dict(zip([name for name in single.outputs if name], results, strict=True))
        return [
            _as_array(found[name], wanted.get(name)) if name else np.zeros(0, np.float32) for name in single.outputs
        ]
    except Exception as error:
        shapes = ", ".join("absent" if a is None else f"{a.dtype}{list(a.shape)}" for a in inputs)
        kind = "" if isinstance(error, CompileError | IndexError) else f"{type(error).__name__}: "
        if not node.domain and not onnx.defs.has(node.op_type):
            raise CompileError(f"operator {node.op_type} is not supported", where=node_label(node),
                               hint="`mccompile ops` lists what is") from error  # fmt: skip
        reason = broken_rule(node, inputs, opset) or f"{kind}{in_our_words(_first(error))}"
        raise CompileError(f"cannot be evaluated on ({shapes}): {reason}", where=node_label(node)) from error


def _first(error: Exception) -> BaseException:
    """What the reference hides behind a list of Python's types."""
    hidden = str(error).startswith("Issues with types") and error.__cause__
    return hidden or error


def _without_elements(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
    """The results of a node that reads what has no elements, if they have none either: the reference does not take
    all of that (Resize). None where shape inference does not know."""
    if all(a.size for a in feeds.values()):
        return None
    found = []
    for value in _inferred(model, feeds):
        shape = [e for e in value.shape or () if isinstance(e, int)]
        if 0 not in shape or len(shape) != len(value.shape or ()) or value.dtype in ("unknown", "string"):
            return None
        found.append(np.zeros(shape, numpy_dtype(value.dtype)))
    return found if len(found) == len(model.graph.node[0].output) else None


def _inferred(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[OnnxValue]:
    """The outputs of a model by ONNX's shape inference, which is told the elements of inputs that have few."""
    known = onnx.ModelProto()
    known.CopyFrom(model)
    few = {n: a for n, a in feeds.items() if a.size <= FEW and a.dtype.kind in "iuf"}
    known.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in few.items())
    return [value_from_proto(v) for v in onnx.shape_inference.infer_shapes(known).graph.output]


def result_bytes(node: OnnxNode, inputs: Sequence[np.ndarray | None], opset: int) -> int | None:
    """The bytes of a node's results by ONNX's shape inference; None where that does not know."""
    single, feeds = _apart(node, inputs)
    try:
        inferred = _inferred(_single_node_model(single, feeds, opset), feeds)
    except Exception:
        return None
    total = 0
    for value in inferred:
        if value.shape is None or not all(isinstance(e, int) for e in value.shape) or value.dtype == "unknown":
            return None
        total += math.prod(e for e in value.shape if isinstance(e, int)) * numpy_dtype(value.dtype).itemsize
    return total


def broken_rule(node: OnnxNode, inputs: Sequence[np.ndarray | None], opset: int | None = None) -> str:
    """What ONNX's shape inference has against a node with inputs of these types; empty where it knows of nothing."""
    single, feeds = _apart(node, inputs)
    try:
        onnx.shape_inference.infer_shapes(
            _single_node_model(single, feeds, opset or newest_opset()), strict_mode=True
        )
    except onnx.shape_inference.InferenceError as error:
        return str(error).rpartition("Error] ")[2].strip()
    except Exception:  # such types are not written
        return ""
    return ""


def _apart(node: OnnxNode, inputs: Sequence[np.ndarray | None]) -> tuple[OnnxNode, dict[str, np.ndarray]]:
    """A node with operands of its own, and these by name."""
    feeds = {f"//in{i}": array for i, array in enumerate(inputs) if array is not None}
    renamed = tuple(f"//in{i}" if array is not None else "" for i, array in enumerate(inputs))
    outputs = tuple(f"//out{i}" if name else "" for i, name in enumerate(node.outputs))
    return OnnxNode(node.op_type, renamed, outputs, node.domain, node.name, node.attrs), feeds


def _twins() -> list[type[OpRun]]:
    """The operators that functions of C compute, by their twins in Python."""
    return [_twin(f) for f in functions().values()]


def _twin(function: Function) -> type[OpRun]:
    from onnx.reference.op_run import OpRun

    def run(self: OpRun, *inputs: np.ndarray, **attributes: Any) -> tuple[np.ndarray, ...]:
        given = {a.name: helper.get_attribute_value(a) for a in self.onnx_node.attribute}
        given = {n: v.decode() if isinstance(v, bytes) else v for n, v in given.items()}
        return tuple(function.evaluate(inputs, given))

    return type(function.op_type, (OpRun,), {"op_domain": function.domain, "_run": run})


def _gather_elements() -> type[OpRun]:
    """GatherElements in place of the reference's own, which takes an index outside of an axis for one inside by going
    around it, one turn after the other: 2^40 for minutes."""
    from onnx.reference.op_run import OpRun

    def run(self: OpRun, data: np.ndarray, indices: np.ndarray, axis: int = 0) -> tuple[np.ndarray]:
        return (data[grid_along(checked(indices, data.shape[axis]), axis)],)

    return type("GatherElements", (OpRun,), {"op_domain": "", "_run": run})


def evaluate_model(
    model: OnnxModel, inputs: Mapping[str, np.ndarray], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """Values of a model's main graph by name.

    Args:
        model: of the newest opset; the reference implementation is only trusted on the newest forms.
        inputs: one array per graph input, by name.
        names: graph outputs or values that nodes of the main graph compute.

    Raises:
        CompileError: if the reference implementation cannot evaluate the model.
    """
    from onnx.reference import ReferenceEvaluator

    info = model.graph.value_info
    wanted = [info.get(name, OnnxValue(name, "unknown")) for name in dict.fromkeys(names)]
    changed = dataclasses.replace(model, graph=dataclasses.replace(model.graph, outputs=wanted))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            proto = onnx.ModelProto.FromString(model_to_bytes(changed))
            results = ReferenceEvaluator(proto, new_ops=[_gather_elements(), *_twins()]).run(None, dict(inputs))
        found = zip(wanted, results, strict=True)
        return {v.name: _as_array(r, None if v.dtype == "unknown" else v.dtype) for v, r in found}
    except Exception as error:
        raise CompileError(
            f"onnx.reference cannot evaluate the model: {type(error).__name__}: {error}", where=model.path
        ) from error


def _single_node_model(node: OnnxNode, outer: Mapping[str, np.ndarray], opset: int) -> onnx.ModelProto:
    inputs = [value_to_proto(OnnxValue(k, dtype_of_array(a), a.shape)) for k, a in outer.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.outputs if name]
    graph = helper.make_graph([node_to_proto(node)], "one_node", inputs, outputs)
    opsets = [helper.make_opsetid("", opset)]
    if node.domain:
        opsets.append(helper.make_opsetid(node.domain, 1))
    return helper.make_model(graph, opset_imports=opsets, ir_version=onnx.IR_VERSION)


def _output_dtypes(model: onnx.ModelProto) -> dict[str, str]:
    inferred = onnx.shape_inference.infer_shapes(model)
    found: dict[str, str] = {}
    for value in inferred.graph.output:
        if value.type.tensor_type.elem_type:
            found[value.name] = dtype_name(value.type.tensor_type.elem_type)
    return found


def _as_array(result: Any, dtype: str | None) -> np.ndarray:
    if isinstance(result, list | tuple):
        raise TypeError("the result is a sequence, not a tensor")
    array = np.asarray(result, order="C")
    # The reference computes some results in Python numbers or in float64.
    return array if dtype in (None, "string") else array.astype(numpy_dtype(dtype), order="C", copy=False)
