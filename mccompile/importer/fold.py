"""Constant folding at import: nodes whose inputs are all known, and those that only ask for a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.importer.fold_values import computed
from mccompile.ir.dims import varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.limits import limit, require
from mccompile.ir.scan import reason
from mccompile.onnxio import DRAWING, OnnxNode, broken_rule, newest_opset, result_bytes
from mccompile.ops.registry import folding

MAX_RESULT_BYTES = 1 << 34
"""A result computed at run time may not be larger, in elements of 8 bytes: no index reaches further."""

GROWN_BYTES, GROWN_FACTOR = 1 << 20, 8
"""Results beyond both are computed on the device where they can be: the weights would be mostly repetitions.

Weights that are cast or dequantised stay below the factor.
"""


_EXPANDED = ("Attention", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
"""Functions of ONNX whose bodies are folded node by node: the reference caps the scores that Attention shows before
they are, and counts labels that are ignored in a mean."""

FEW = 64
"""Elements of what is computed of extents, at most, which is decided by one side of it."""


def fold_node(graph: Graph, node: OnnxNode, inputs: Sequence[Value | None]) -> list[np.ndarray] | None:
    """The node's results if they are known at compile time, else None.

    Raises CompileError where a result would be larger than the limit ``folded-bytes``.
    """
    if node.domain:
        return None
    if node.op_type == "Shape" and inputs[0] is not None:
        start, end = node.attrs.get("start"), node.attrs.get("end")
        chosen = slice(start if isinstance(start, int) else None, end if isinstance(end, int) else None)
        return [np.array(inputs[0].shape[chosen], dtype=np.int64)]
    if node.op_type == "Size" and inputs[0] is not None:
        return [np.array(inputs[0].type.count, dtype=np.int64)]
    if node.op_type in DRAWING or node.op_type in _EXPANDED or node.op_type == "Identity":
        return None
    if node.op_type == "DequantizeLinear" and inputs[0] is not None and inputs[0].type.count > 1:
        return None  # passes decide whether weights stay integers
    if any(v is not None and v not in graph.constants for v in inputs):
        _require_bounded(graph, node, inputs)
        return _decided(graph, node, inputs)
    arrays = [None if v is None else graph.array(v) for v in inputs]
    size = _bound(node, arrays)
    most = limit("folded-bytes")
    if most < size <= MAX_RESULT_BYTES and folding(node.domain, node.op_type).repeats:
        return None
    if size > most:
        exact = result_bytes(node, arrays, newest_opset())
        asked = size if exact is None else exact
        require("folded-bytes", asked, f"the result of {node.op_type}", f"node {node.index} {node.name!r}")
    try:
        return computed(node, arrays)
    except MemoryError as e:
        raise CompileError(
            f"{node.op_type} takes more memory than there is: {e}", where=f"node {node.index} {node.name!r}"
        ) from e


def _decided(graph: Graph, node: OnnxNode, inputs: Sequence[Value | None]) -> list[np.ndarray] | None:
    """And with what is false everywhere, and Or with what is true: how exporters write a quotient that is rounded
    down, of extents that are never negative."""
    known = [v for v in inputs if v is not None and v in graph.constants]
    shapes = [v.shape for v in inputs if v is not None]
    if node.op_type not in ("And", "Or") or not known or any(map(varies, shapes)):
        return None
    decides = node.op_type == "Or"
    if not any(bool((graph.array(v) == decides).all()) for v in known):
        return None
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:  # its front end says so
        return None
    return [np.full(shape, decides)] if math.prod(shape) <= FEW else None


def grows_much(node: OnnxNode, results: Sequence[np.ndarray], inputs: Sequence[Value | None]) -> bool:
    """Whether results take so much more room than what they are made of that they are no constants to store."""
    given = sum(v.type.nbytes for v in dict.fromkeys(inputs) if v is not None)
    made = sum(a.nbytes for a in results)
    folded_only = folding(node.domain, node.op_type).always
    return not folded_only and made - given > GROWN_BYTES and made > GROWN_FACTOR * given


def _require_bounded(graph: Graph, node: OnnxNode, inputs: Sequence[Value | None]) -> None:
    """Refuse what front ends would make tables for before any limit of the plan is reached."""
    if folding(node.domain, node.op_type).sized:
        known = [stand_in(graph, v) for v in inputs]
        size = _bound(node, known)
        if size > MAX_RESULT_BYTES:
            raise CompileError(
                f"the result of {node.op_type} would take {size:,} bytes, no more than {MAX_RESULT_BYTES:,} can be "
                "indexed", where=f"node {node.index} {node.name!r}",
            )  # fmt: skip


def stand_in(graph: Graph, value: Value | None) -> np.ndarray | None:
    """The array of a constant; of anything else one of its shape that takes no memory."""
    if value is None or value in graph.constants:
        return None if value is None else graph.array(value)
    return np.broadcast_to(np.zeros((), value.dtype.numpy), value.shape)


def _bound(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> int:
    """What the node's front end says that its results take at most.

    Raises CompileError where the inputs are none that the operator takes.
    """
    try:
        return folding(node.domain, node.op_type).bound(node.attrs, arrays)
    except (ArithmeticError, LookupError, TypeError, ValueError) as e:
        rule = broken_rule(node, arrays)
        raise CompileError(
            f"{node.op_type} cannot be folded: {rule or reason(e)}",
            where=f"node {node.index} {node.name!r}",
            hint="it may break a rule of its operator: onnx.checker.check_model(path, full_check=True) tells",
        ) from e
