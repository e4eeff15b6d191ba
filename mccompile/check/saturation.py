"""onnxruntime's products of bytes on processors without VNNI, where those of u8 by i8 saturate."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxNode, OnnxValue, model_to_bytes, unsigned_products

UNSIGNED = (
    "on this processor onnxruntime's products of signed by unsigned bytes saturate: it computes those of this model "
    "as products of unsigned bytes, with zero points that are 128 more"
)
"""The note where `exact_products` changed a model."""


def exact_products(onnxruntime: Any, model: bytes) -> bytes:
    """The model, or one of the same values, whose products of bytes this onnxruntime computes exactly.

    Args:
        onnxruntime: the module.
        model: as `extract_with_outputs` gives it, without external data.
    """
    return (unsigned_products(model) if _saturates(onnxruntime) else None) or model


def keep_exact(onnxruntime: Any, options: Any) -> None:
    """Let the optimisations of a session make no products of bytes that saturate: what is computed in floats between
    DequantizeLinear and QuantizeLinear stays so.

    Its own option for that, session.x64quantprecision, makes a zero point of one number of none, which scales of each
    channel do not allow (1.31).
    """
    if _saturates(onnxruntime):
        options.add_session_config_entry("session.disable_quant_qdq", "1")


@functools.cache
def _saturates(onnxruntime: Any) -> bool:
    """Whether 8 products of 255 * 127 are less than 259080 here: what a processor has is not asked but tried."""
    depth = 8
    graph = OnnxGraph(
        "products",
        [OnnxValue("a", "u8", (1, depth)), OnnxValue("b", "i8", (depth, 1))],
        [OnnxValue("y", "i32", (1, 1))],
        [OnnxNode("MatMulInteger", ("a", "b"), ("y",))],
    )
    session = onnxruntime.InferenceSession(
        model_to_bytes(OnnxModel(graph, {"": 13})), providers=["CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"a": np.full((1, depth), 255, np.uint8), "b": np.full((depth, 1), 127, np.int8)})
    return int(y[0, 0]) != depth * 255 * 127
