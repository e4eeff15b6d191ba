"""Convert between ONNX protobufs and the plain data of `model.py`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnx.defs
from onnx import helper, numpy_helper

from mccompile.ir.dims import Dim
from mccompile.ir.errors import CompileError
from mccompile.onnxio.dtypes import dtype_name, dtype_number, dtype_of_array
from mccompile.onnxio.model import PRIVATE, AttrValue, OnnxGraph, OnnxNode, OnnxValue
from mccompile.onnxio.tensors import decode_sparse, decode_tensor

_NON_TENSOR = {
    "sequence_type": "sequence",
    "optional_type": "optional",
    "map_type": "map",
    "sparse_tensor_type": "sparse",
    "opaque_type": "opaque",
}


NO_NAMES = ("", "?", "None", "-1")
"""What exporters write for an extent that they do not know: axes that are called so need not be equal."""

DAMAGED = "the file is no ONNX model, or it is damaged or cut short"


def require_text(*names: object) -> None:
    """Refuse names that are not UTF-8, which protobuf hands over as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise CompileError(f"the name {name!r} is not UTF-8 text", hint=DAMAGED)


def normal_domain(domain: str) -> str:
    """ONNX allows 'ai.onnx' for the default domain; here it is always ''."""
    return "" if domain == "ai.onnx" else domain


def value_from_proto(proto: onnx.ValueInfoProto) -> OnnxValue:
    """A typed name; extents below 0 (older exporters' mark for 'any') count as unknown."""
    require_text(proto.name)
    kind = proto.type.WhichOneof("value")
    if kind is None:
        return OnnxValue(proto.name, "unknown")
    if kind != "tensor_type":
        return OnnxValue(proto.name, _NON_TENSOR.get(kind, "opaque"), of=_elements(proto.type))
    tensor = proto.type.tensor_type
    dtype = dtype_name(tensor.elem_type) if tensor.elem_type else "unknown"
    if not tensor.HasField("shape"):
        return OnnxValue(proto.name, dtype)
    return OnnxValue(proto.name, dtype, tuple(_dim(d) for d in tensor.shape.dim))


def _elements(proto: onnx.TypeProto) -> str:
    """The `OnnxValue.of` of a sequence or an optional value."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return dtype_name(proto.tensor_type.elem_type) if proto.tensor_type.elem_type else ""
    if kind == "optional_type":
        inner = proto.optional_type.elem_type
        found = _elements(inner)
        return f"sequence {found}" if found and inner.WhichOneof("value") == "sequence_type" else found
    inner = proto.sequence_type.elem_type
    return _elements(inner) if kind == "sequence_type" and inner.WhichOneof("value") == "tensor_type" else ""


def _dim(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    if dim.HasField("dim_value") and dim.dim_value >= 0:
        return int(dim.dim_value)
    require_text(dim.dim_param)
    return None if dim.dim_param in NO_NAMES else dim.dim_param


class GraphReader:
    """Converts the graphs of one file; `folder` and `where` serve external data and messages."""

    def __init__(self, folder: Path, where: str) -> None:
        self.folder = folder
        self.where = where

    def graph(self, proto: onnx.GraphProto) -> OnnxGraph:
        """A graph with its initializers decoded (sparse ones made dense), nested graphs included."""
        require_text(proto.name)
        initializers: dict[str, np.ndarray] = {}
        for tensor in proto.initializer:
            self._add(initializers, tensor.name, decode_tensor(tensor, self.folder, self.where))
        for sparse in proto.sparse_initializer:
            self._add(initializers, sparse.values.name, decode_sparse(sparse, self.folder, self.where))
        return OnnxGraph(
            name=proto.name,
            inputs=[value_from_proto(value) for value in proto.input],
            outputs=[value_from_proto(value) for value in proto.output],
            nodes=[self.node(node, index) for index, node in enumerate(proto.node)],
            initializers=initializers,
            value_info={value.name: value_from_proto(value) for value in proto.value_info},
        )

    def _add(self, initializers: dict[str, np.ndarray], name: str, array: np.ndarray) -> None:
        require_text(name)
        if not name or name in initializers:
            raise CompileError(f"initializer '{name}' has no name or is defined twice", where=self.where)
        initializers[name] = array

    def node(self, proto: onnx.NodeProto, index: int) -> OnnxNode:
        """One node with its attributes."""
        require_text(proto.op_type, proto.domain, proto.name, *proto.input, *proto.output)
        require_text(*(attribute.name for attribute in proto.attribute))
        label = f"{self.where}: node {index} '{proto.name}' ({proto.op_type})"
        return OnnxNode(
            op_type=proto.op_type,
            domain=normal_domain(proto.domain),
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(proto.output),
            attrs={a.name: self.attribute(a, label) for a in proto.attribute if not a.name.startswith(PRIVATE)},
            index=index,
        )

    def attribute(self, proto: onnx.AttributeProto, label: str) -> AttrValue:
        """An attribute's value; strings that are not UTF-8 keep their bytes as surrogate escapes."""
        kinds = onnx.AttributeProto
        match proto.type:
            case kinds.INT:
                return int(proto.i)
            case kinds.FLOAT:
                return float(proto.f)
            case kinds.STRING:
                return proto.s.decode(errors="surrogateescape")
            case kinds.INTS:
                return tuple(int(item) for item in proto.ints)
            case kinds.FLOATS:
                return tuple(float(item) for item in proto.floats)
            case kinds.STRINGS:
                return tuple(item.decode(errors="surrogateescape") for item in proto.strings)
            case kinds.TENSOR:
                return decode_tensor(proto.t, self.folder, label)
            case kinds.SPARSE_TENSOR:
                return decode_sparse(proto.sparse_tensor, self.folder, label)
            case kinds.GRAPH:
                return self.graph(proto.g)
            case kinds.GRAPHS:
                return tuple(self.graph(graph) for graph in proto.graphs)
        raise CompileError(f"attribute '{proto.name}' is of a kind that is not supported", where=label)


def graph_to_proto(graph: OnnxGraph, value_info: bool = False) -> onnx.GraphProto:
    """A graph as protobuf. `value_info` is left out unless asked for: it is a hint, and often a wrong one."""
    proto = onnx.GraphProto(name=graph.name or "graph")
    proto.input.extend(value_to_proto(value) for value in graph.inputs)
    proto.output.extend(value_to_proto(value) for value in graph.outputs)
    proto.node.extend(node_to_proto(node) for node in graph.nodes)
    proto.initializer.extend(tensor_to_proto(array, name) for name, array in graph.initializers.items())
    if value_info:
        proto.value_info.extend(value_to_proto(value) for value in graph.value_info.values())
    return proto


def value_to_proto(value: OnnxValue) -> onnx.ValueInfoProto:
    """A typed name as protobuf; a value of unknown type has only its name."""
    proto = onnx.ValueInfoProto(name=value.name)
    if value.dtype in _NON_TENSOR.values():
        raise CompileError(f"value '{value.name}' is a {value.dtype}, which cannot be written")
    if value.dtype != "unknown":
        proto.type.CopyFrom(type_to_proto(value))
    return proto


def type_to_proto(value: OnnxValue) -> onnx.TypeProto:
    """The tensor type of a value as protobuf."""
    shape = value.shape and [str(e) if isinstance(e, Dim) else e for e in value.shape]
    return helper.make_tensor_type_proto(dtype_number(value.dtype), shape)


def tensor_to_proto(array: np.ndarray, name: str = "") -> onnx.TensorProto:
    """An array as a tensor with raw data (strings: as string data)."""
    if dtype_of_array(array) != "string":
        return numpy_helper.from_array(np.asarray(array, order="C"), name)
    proto = onnx.TensorProto(name=name, data_type=onnx.TensorProto.STRING, dims=array.shape)
    proto.string_data.extend(
        item if isinstance(item, bytes) else str(item).encode(errors="surrogateescape")
        for item in array.reshape(-1).tolist()
    )
    return proto


def node_to_proto(node: OnnxNode) -> onnx.NodeProto:
    """One node as protobuf."""
    proto = onnx.NodeProto(op_type=node.op_type, domain=node.domain, name=node.name)
    proto.input.extend(node.inputs)
    proto.output.extend(node.outputs)
    proto.attribute.extend(_attribute_to_proto(node, name, value) for name, value in node.attrs.items())
    return proto


def _attribute_to_proto(node: OnnxNode, name: str, value: AttrValue) -> onnx.AttributeProto:
    proto = onnx.AttributeProto(name=name)
    if isinstance(value, str):
        proto.type = onnx.AttributeProto.STRING
        proto.s = value.encode(errors="surrogateescape")
    elif isinstance(value, np.ndarray):
        proto.type = onnx.AttributeProto.TENSOR
        proto.t.CopyFrom(tensor_to_proto(value, name))
    elif isinstance(value, OnnxGraph):
        proto.type = onnx.AttributeProto.GRAPH
        proto.g.CopyFrom(graph_to_proto(value))
    elif isinstance(value, tuple):
        _fill_list(proto, value, _list_kind(node, name, value))
    elif isinstance(value, float):
        proto.type = onnx.AttributeProto.FLOAT
        proto.f = value
    else:
        proto.type = onnx.AttributeProto.INT
        proto.i = int(value)
    return proto


def _list_kind(node: OnnxNode, name: str, value: Sequence[Any]) -> int:
    kinds = onnx.AttributeProto
    if value:
        by_type = {int: kinds.INTS, float: kinds.FLOATS, str: kinds.STRINGS, OnnxGraph: kinds.GRAPHS}
        return int(by_type[type(value[0])])
    # The elements cannot tell the kind of an empty list, so the schema has to.
    if onnx.defs.has(node.op_type, node.domain):
        schema: Any = onnx.defs.get_schema(node.op_type, node.domain)
        if name in schema.attributes:
            return int(schema.attributes[name].type.value)
    return int(kinds.INTS)


def _fill_list(proto: onnx.AttributeProto, value: Sequence[Any], kind: int) -> None:
    kinds = onnx.AttributeProto
    proto.type = cast(Any, kind)
    if kind == kinds.INTS:
        proto.ints.extend(value)
    elif kind == kinds.FLOATS:
        proto.floats.extend(value)
    elif kind == kinds.STRINGS:
        proto.strings.extend(item.encode(errors="surrogateescape") for item in value)
    else:
        proto.graphs.extend(graph_to_proto(graph) for graph in value)
