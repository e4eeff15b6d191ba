"""What a node makes of arrays: by our own operators, and by ONNX's reference implementation what they do not know.

The reference comes second because it is wrong in corners that networks reach: LpNormalization along one axis, padding
of ConvTranspose, GlobalMaxPool of long windows, second directions of LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxNode, dtype_of_array, evaluate_node, newest_opset, numpy_dtype
from mccompile.ops.frontend import Import
from mccompile.ops.registry import front_ends

BY_REFERENCE = (ArithmeticError, LookupError, TypeError, ValueError, CompileError, ex.OperandTypeError)
"""What a front end or an operator raises for what it does not take: the reference says what is wrong with it, if
anything is."""

_OF_NOTHING = ("ReduceMean",)
"""Operators that are ours even where there is no element: the mean is 0, as in onnxruntime, not a number by 0."""


def computed(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """The results of a node, in newest form, whose inputs are known; those of outputs named '' have no elements.

    Raises CompileError where it cannot be evaluated.
    """
    given = [a for a in arrays if a is not None]
    ours = (node.domain, node.op_type) in front_ends() and all(dtype_of_array(a) in DTYPES for a in given)
    first = ours and (all(a.size > 0 for a in given) or node.op_type in _OF_NOTHING)
    if first:
        with suppress(*BY_REFERENCE):
            return _by_operators(node, arrays)
    try:
        return evaluate_node(node, arrays, newest_opset())
    except CompileError:
        if ours and not first:  # of nothing, of which the reference takes less
            with suppress(*BY_REFERENCE):
                return _by_operators(node, arrays)
        raise


def _by_operators(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    graph = Graph("folded")
    inputs = [None if a is None else graph.constant(f"in{i}", a) for i, a in enumerate(arrays)]
    view = Import(graph, node, inputs)
    front_ends()[(node.domain, node.op_type)].convert(view)
    if view.expansion:
        return _by_others(node, view.expansion, arrays)
    values = graph.evaluate({}, keep=True)
    named = zip(node.outputs, view.outputs, strict=True)
    results = [_result(values, v) if name else np.zeros(0, np.float32) for name, v in named]
    if view.narrow_result:
        results[0] = results[0].astype(numpy_dtype(view.narrow_result))
    return results


def _by_others(
    node: OnnxNode, nodes: Sequence[OnnxNode], arrays: Sequence[np.ndarray | None]
) -> list[np.ndarray]:  # fmt: skip
    """The results of a node that is made of others, which stand in order."""
    known = dict(zip(node.inputs, arrays, strict=True))
    for inner in nodes:
        results = computed(inner, [known[name] if name else None for name in inner.inputs])
        known.update(zip(inner.outputs, results, strict=True))
    found = [known[name] if name else np.zeros(0, np.float32) for name in node.outputs]
    return [a for a in found if a is not None]


def _result(values: dict[str, np.ndarray], value: Value | None) -> np.ndarray:
    if value is None:
        raise LookupError("an output that no operator of ours has")
    found = values[value.name]  # which has the extents that were counted, where some are
    return np.ascontiguousarray(found).reshape(found.shape)
