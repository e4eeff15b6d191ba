"""Constant folding at import: nodes whose inputs are all known, and those that only ask for a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.importer.fold_values import computed
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.onnxio import OnnxNode, newest_opset, result_bytes

MAX_FOLDED_BYTES = 256 * 1024 * 1024
"""A folded constant may not be larger: hostile models ask for terabytes in a few bytes."""

MAX_FOLDED_TOTAL_BYTES = 2 << 30
"""All that is folded in one model."""

MAX_RESULT_BYTES = 1 << 34
"""A result computed at run time may not be larger, in elements of 8 bytes: no index reaches further."""

GROWN_BYTES, GROWN_FACTOR = 1 << 20, 8
"""Results beyond both are computed on the device where they can be: the weights would be mostly repetitions.

Weights that are cast or dequantised stay below the factor.
"""

SIZED = {"ConstantOfShape", "Expand", "Tile", "Range", "Pad", "Resize", "OneHot"}
"""Operators that make tensors of any size out of a few numbers."""

RANDOM = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}


def fold_node(graph: Graph, node: OnnxNode, inputs: Sequence[Value | None]) -> list[np.ndarray] | None:
    """The node's results if they are known at compile time, else None.

    Raises CompileError where a result would be larger than `MAX_FOLDED_BYTES`.
    """
    if node.domain:
        return None
    if node.op_type == "Shape" and inputs[0] is not None:
        start, end = node.attrs.get("start"), node.attrs.get("end")
        chosen = slice(start if isinstance(start, int) else None, end if isinstance(end, int) else None)
        return [np.array(inputs[0].shape[chosen], dtype=np.int64)]
    if node.op_type == "Size" and inputs[0] is not None:
        return [np.array(inputs[0].type.count, dtype=np.int64)]
    if node.op_type in RANDOM or node.op_type == "Identity":
        return None
    if any(v is not None and v not in graph.constants for v in inputs):
        _require_bounded(graph, node, inputs)
        return None
    arrays = [None if v is None else graph.array(v) for v in inputs]
    size = predicted_bytes(node, arrays)
    if size > MAX_FOLDED_BYTES:
        exact = result_bytes(node, arrays, newest_opset())
        _require(node, size if exact is None else exact, MAX_FOLDED_BYTES)
    return computed(node, arrays)


def grows_much(node: OnnxNode, results: Sequence[np.ndarray], inputs: Sequence[Value | None]) -> bool:
    """Whether results take so much more room than what they are made of that they are no constants to store."""
    given = sum(v.type.nbytes for v in dict.fromkeys(inputs) if v is not None)
    made = sum(a.nbytes for a in results)
    return node.op_type != "Range" and made - given > GROWN_BYTES and made > GROWN_FACTOR * given


def _require(node: OnnxNode, size: int, limit: int) -> None:
    if size > limit:
        raise CompileError(
            f"the result of {node.op_type} would take {size} bytes, the limit is {limit}",
            where=f"node {node.index} {node.name!r}",
        )


def _require_bounded(graph: Graph, node: OnnxNode, inputs: Sequence[Value | None]) -> None:
    """Refuse what front ends would make tables for before any limit of the plan is reached."""
    if node.op_type in SIZED:
        known = [_stand_in(graph, v) for v in inputs]
        _require(node, predicted_bytes(node, known), MAX_RESULT_BYTES)


def _stand_in(graph: Graph, value: Value | None) -> np.ndarray | None:
    """The array of a constant; of anything else one of its shape that takes no memory."""
    if value is None or value in graph.constants:
        return None if value is None else graph.array(value)
    return np.broadcast_to(np.zeros((), value.dtype.numpy), value.shape)


def predicted_bytes(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> int:
    """An upper bound of what a node makes of its inputs, known before it runs; often far too large."""
    given = [a for a in arrays if a is not None]
    total = int(sum(a.nbytes for a in given))
    match node.op_type:
        case "ConstantOfShape" | "Expand" | "Reshape":
            return max(8 * math.prod(max(int(e), 1) for e in given[-1].reshape(-1)), total)
        case "Tile":
            return given[0].nbytes * math.prod(max(int(r), 1) for r in given[1].reshape(-1))
        case "Range":
            start, limit, delta = (float(a.reshape(-1)[0]) for a in given)
            count = abs((limit - start) / delta) if delta else 0.0
            return int(8 * count) if math.isfinite(count) else MAX_RESULT_BYTES + 1
        case "Pad":
            return _padded_bytes(arrays)
        case "Resize":
            return _resized_bytes(node, arrays)
        case "OneHot":
            return 8 * given[0].size * max(int(given[1].reshape(-1)[0]), 1)
        case "DequantizeLinear" | "QuantizeLinear":
            return 8 * int(given[0].size)
        case "Gather" | "GatherND":
            return 8 * given[0].size * max(given[1].size, 1)
        case "HannWindow" | "HammingWindow" | "BlackmanWindow" | "MelWeightMatrix":
            return 8 * math.prod(max(int(a.reshape(-1)[0]), 1) for a in given[: 2 if len(given) > 1 else 1])
        case "Einsum" | "MatMul" | "Gemm" | "EyeLike":
            return 8 * math.prod(max(a.size, 1) for a in given)
        case "ConvTranspose":
            strides = node.attrs.get("strides")
            step = math.prod(s for s in strides if isinstance(s, int)) if isinstance(strides, tuple) else 1
            return 8 * given[0].size * given[1].size * step
        case _:  # broadcasting: at most the product of the extents
            ranks = max((a.ndim for a in given), default=0)
            extents: list[int] = [max(a.shape[i] for a in given if a.ndim >= -i) for i in range(-ranks, 0)]
            return 8 * max(math.prod(extents), total)


def _padded_bytes(arrays: Sequence[np.ndarray | None]) -> int:
    x, pads, *rest = arrays
    axes = rest[1] if len(rest) > 1 else None
    assert x is not None
    shape: list[int] = list(x.shape)
    around = np.zeros((2, 0), np.int64) if pads is None or pads.size % 2 else pads.reshape(2, -1)
    chosen = range(len(shape)) if axes is None else [int(a) for a in axes.reshape(-1)]
    for axis, (begin, end) in zip(chosen, around.T.tolist(), strict=False):
        if -len(shape) <= axis < len(shape):
            shape[axis] += max(begin, 0) + max(end, 0)
    return 8 * math.prod(shape)


def _resized_bytes(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> int:
    x, scales, sizes = (arrays[i] if i < len(arrays) else None for i in (0, 2, 3))
    assert x is not None
    shape: list[float] = list(x.shape)
    given = node.attrs.get("axes")
    axes = [a for a in given if isinstance(a, int)] if isinstance(given, tuple) else list(range(len(shape)))
    for axis in axes:
        if not -len(shape) <= axis < len(shape):
            return 8 * x.size
    if sizes is not None and sizes.size:
        for axis, size in zip(axes, sizes.reshape(-1).tolist(), strict=False):
            shape[axis] = max(size, 1)
    elif scales is not None:
        for axis, scale in zip(axes, scales.reshape(-1).tolist(), strict=False):
            shape[axis] *= max(scale, 0) if math.isfinite(scale) else 1e30
    return int(min(8 * math.prod(shape), 1e30))
