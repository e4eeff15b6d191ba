"""Constant folding at import: nodes whose inputs are all known, and those that only ask for a shape."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.onnxio import OnnxNode, evaluate_node, newest_opset

MAX_FOLDED_BYTES = 256 * 1024 * 1024
"""A folded constant may not be larger: hostile models ask for terabytes in a few bytes."""

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
    if node.op_type in RANDOM:
        return None
    if any(v is not None and v not in graph.constants for v in inputs):
        return None
    arrays = [None if v is None else graph.array(v) for v in inputs]
    size = predicted_bytes(node, arrays)
    if size > MAX_FOLDED_BYTES:
        raise CompileError(
            f"the result of {node.op_type} would take {size} bytes, the limit is {MAX_FOLDED_BYTES}",
            where=f"node {node.index} {node.name!r}",
        )
    return evaluate_node(node, arrays, newest_opset())


def predicted_bytes(node: OnnxNode, arrays: Sequence[np.ndarray | None]) -> int:
    """An upper bound of what a node makes of its inputs, known before it runs."""
    given = [a for a in arrays if a is not None]
    total = int(sum(a.nbytes for a in given))
    match node.op_type:
        case "ConstantOfShape" | "Expand" | "Reshape":
            return max(8 * math.prod(max(int(e), 1) for e in given[-1].reshape(-1)), total)
        case "Tile":
            return given[0].nbytes * math.prod(max(int(r), 1) for r in given[1].reshape(-1))
        case "Range":
            start, limit, delta = (float(a.reshape(-1)[0]) for a in given)
            return int(8 * abs((limit - start) / delta)) if delta else 0
        case "Pad":
            around = int(np.abs(given[1]).max(initial=0)) * 2
            return 8 * math.prod(int(e) + around for e in given[0].shape)
        case "Resize":
            grown = int(max((float(np.prod(a)) for a in given[1:] if a.size), default=1))
            return 8 * grown * max(given[0].size, 1)
        case "OneHot":
            return 8 * given[0].size * max(int(given[1].reshape(-1)[0]), 1)
        case "DequantizeLinear" | "QuantizeLinear":
            return 8 * int(given[0].size)
        case "EyeLike" | "MatMul" | "Gemm":
            return 8 * math.prod(max(a.size, 1) for a in given[:2]) if len(given) > 1 else 8 * total
        case _:  # broadcasting: at most the product of the extents
            ranks = max((a.ndim for a in given), default=0)
            extents: list[int] = [max(a.shape[i] for a in given if a.ndim >= -i) for i in range(-ranks, 0)]
            return 8 * max(math.prod(extents), total)
