"""The only package that imports `onnx`: read and write models, evaluate and expand nodes, ask the schemas."""

from __future__ import annotations

from mccompile.onnxio.dtypes import dtype_bits, dtype_name, dtype_number, dtype_of_array, numpy_dtype
from mccompile.onnxio.evaluate import evaluate_node
from mccompile.onnxio.functions import expand_function
from mccompile.onnxio.infer import infer_types
from mccompile.onnxio.model import AttrValue, OnnxGraph, OnnxModel, OnnxNode, OnnxValue, node_label, subgraphs
from mccompile.onnxio.read import read_model
from mccompile.onnxio.schema import (
    attribute_default,
    is_function,
    newest_opset,
    op_names,
    since_version,
    versions,
)
from mccompile.onnxio.write import extract_with_outputs, tensor_names, write_model

__all__ = [
    "AttrValue",
    "OnnxGraph",
    "OnnxModel",
    "OnnxNode",
    "OnnxValue",
    "attribute_default",
    "dtype_bits",
    "dtype_name",
    "dtype_number",
    "dtype_of_array",
    "evaluate_node",
    "expand_function",
    "extract_with_outputs",
    "infer_types",
    "is_function",
    "newest_opset",
    "node_label",
    "numpy_dtype",
    "op_names",
    "read_model",
    "since_version",
    "subgraphs",
    "tensor_names",
    "versions",
    "write_model",
]
