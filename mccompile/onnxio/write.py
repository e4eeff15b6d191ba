"""Write models: plain data back to .onnx, and an original file with more of its tensors as outputs."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import onnx
from google.protobuf.message import EncodeError
from onnx import helper

from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.whole import written_whole
from mccompile.onnxio.model import OnnxModel
from mccompile.onnxio.nested import all_nodes, inner_nodes
from mccompile.onnxio.proto import graph_to_proto, tensor_to_proto
from mccompile.onnxio.read import parse, read_bytes, read_structure
from mccompile.onnxio.tensors import decode_tensor

# Older ones demand that every initializer is a graph input, too.
_OLDEST_IR = 4


def write_model(model: OnnxModel, path: str | Path, value_info: bool = False) -> None:
    """Write a model as one .onnx file, all weights inside; `CompileError` above protobuf's 2 GiB."""
    data = model_to_bytes(model, value_info)
    with written_whole(Path(path)) as staged:
        staged.write_bytes(data)


def model_to_bytes(model: OnnxModel, value_info: bool = False) -> bytes:
    """A model as the bytes of an .onnx file, with the types of inner values if asked for."""
    proto = onnx.ModelProto(
        ir_version=max(_OLDEST_IR, helper.find_min_ir_version_for(opset_imports(model), ignore_unknown=True)),
        producer_name="mccompile",
        graph=graph_to_proto(model.graph, value_info),
    )
    proto.opset_import.extend(opset_imports(model))
    helper.set_model_props(proto, model.metadata)
    return serialize(proto)


def opset_imports(model: OnnxModel) -> list[onnx.OperatorSetIdProto]:
    """A model's opsets as protobufs."""
    return [helper.make_opsetid(domain, version) for domain, version in sorted(model.opsets.items())]


def tensor_names(path: str | Path) -> list[str]:
    """Names of the values that nodes of a model file's main graph compute, in file order."""
    proto = read_structure(Path(path))
    return [name for node in proto.graph.node for name in node.output if name]


def ends_of_nothing(path: Path) -> bool:
    """Whether a model file, in any of its graphs and functions, has a node with which onnxruntime (1.32) ends the
    program if there is nothing to go through: LSTM and GRU without sequences, and Scan without steps along another
    axis than the first."""
    proto = read_structure(path)
    within = (n for f in proto.functions for n in inner_nodes(f.node))
    return any(not n.domain and _ends_of_nothing(n) for n in chain(all_nodes(proto.graph), within))


def _ends_of_nothing(node: onnx.NodeProto) -> bool:
    axes = (a.ints for a in node.attribute if a.name in ("scan_input_axes", "scan_output_axes"))
    return node.op_type in ("LSTM", "GRU") or (node.op_type == "Scan" and any(chain.from_iterable(axes)))


def extract_with_outputs(path: str | Path, names: list[str]) -> bytes:
    """The original model, as bytes, with more of its values as graph outputs (for layer-by-layer comparison).

    Args:
        path: the .onnx file; external data is put inside.
        names: values computed in the main graph (see `tensor_names`); those that are outputs already are
            skipped.

    Raises:
        UsageError: a name that no node of the main graph computes.
    """
    path = Path(path)
    proto = parse(read_bytes(path), path)
    computed = {name for node in proto.graph.node for name in node.output if name}
    present = {value.name for value in proto.graph.output}
    missing = [name for name in names if name not in computed | present]  # an output may be a constant
    if missing:
        raise UsageError(f"'{path.name}' computes no value named {', '.join(missing)}")
    for name in dict.fromkeys(names):
        if name not in present:
            proto.graph.output.append(onnx.ValueInfoProto(name=name))
    embed_external(proto.graph, path)
    return serialize(proto)


def embed_external(graph: onnx.GraphProto, path: Path) -> None:
    """Read what tensors keep in files beside ``path`` into the graph itself."""
    tensors = list(graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                tensors.append(attribute.t)
            if attribute.HasField("g"):
                embed_external(attribute.g, path)
    for tensor in tensors:
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            name = tensor.name
            tensor.CopyFrom(tensor_to_proto(decode_tensor(tensor, path.parent, path.name), name))


def serialize(proto: onnx.ModelProto) -> bytes:
    """The bytes of a protobuf; `CompileError` above its 2 GiB."""
    try:
        return bytes(proto.SerializeToString())
    except (EncodeError, ValueError) as error:
        raise CompileError("the model is larger than the 2 GiB that one .onnx file can hold") from error
