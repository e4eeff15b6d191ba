"""onnxruntime as the judge of tests."""

from __future__ import annotations

from typing import Any

import onnxruntime as ort

from mccompile.check.saturation import exact_products


def plain_session(model: bytes) -> Any:
    """A session without optimisations, whose products of bytes are exact on every processor."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return ort.InferenceSession(exact_products(ort, model), options, providers=["CPUExecutionProvider"])
