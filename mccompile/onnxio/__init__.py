"""The only package that imports `onnx`: read and write models, evaluate and expand nodes, ask the schemas."""

from __future__ import annotations

from mccompile.onnxio.draws import KINDS as DRAWING
from mccompile.onnxio.draws import Draw, taking, with_draws
from mccompile.onnxio.dtypes import dtype_bits, dtype_name, dtype_number, dtype_of_array, numpy_dtype
from mccompile.onnxio.evaluate import broken_rule, evaluate_model, evaluate_node, result_bytes
from mccompile.onnxio.files import model_files
from mccompile.onnxio.functions import expand_function
from mccompile.onnxio.infer import infer_types
from mccompile.onnxio.lift import lifted, quantisable, released
from mccompile.onnxio.model import (
    KEPT,
    PRIVATE,
    AttrValue,
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    OnnxValue,
    as_meant,
    node_label,
    subgraphs,
    value_names,
)
from mccompile.onnxio.read import read_model
from mccompile.onnxio.recurrence import rounded_inputs, unrounded_recurrence
from mccompile.onnxio.schema import (
    attribute_default,
    attributes,
    formals,
    has_reference,
    is_function,
    newest_opset,
    op_names,
    since_version,
    type_variables,
    versions,
)
from mccompile.onnxio.unsigned import unsigned_products
from mccompile.onnxio.variants import jitter_weights, sigmoids_by_exp, sorted_tops, sums_in_doubles, widened
from mccompile.onnxio.wellformed import require_operands
from mccompile.onnxio.write import ends_of_nothing, extract_with_outputs, model_to_bytes, tensor_names, write_model

__all__ = [
    "DRAWING",
    "KEPT",
    "PRIVATE",
    "AttrValue",
    "Draw",
    "OnnxGraph",
    "OnnxModel",
    "OnnxNode",
    "OnnxValue",
    "as_meant",
    "attribute_default",
    "attributes",
    "broken_rule",
    "dtype_bits",
    "dtype_name",
    "dtype_number",
    "dtype_of_array",
    "ends_of_nothing",
    "evaluate_model",
    "evaluate_node",
    "expand_function",
    "extract_with_outputs",
    "formals",
    "has_reference",
    "infer_types",
    "is_function",
    "jitter_weights",
    "lifted",
    "model_files",
    "model_to_bytes",
    "newest_opset",
    "node_label",
    "numpy_dtype",
    "op_names",
    "quantisable",
    "read_model",
    "released",
    "require_operands",
    "result_bytes",
    "rounded_inputs",
    "sigmoids_by_exp",
    "since_version",
    "sorted_tops",
    "subgraphs",
    "sums_in_doubles",
    "taking",
    "tensor_names",
    "type_variables",
    "unrounded_recurrence",
    "unsigned_products",
    "value_names",
    "versions",
    "widened",
    "with_draws",
    "write_model",
]
