"""A model file as other tools want it: of a newer opset, its weights inside and constant."""

from __future__ import annotations

from pathlib import Path

from mccompile.onnxio.proto import normal_domain
from mccompile.onnxio.raise_opset import raised
from mccompile.onnxio.read import parse, read_bytes
from mccompile.onnxio.write import embed_external, serialize


def lifted(path: str | Path, opset: int) -> tuple[bytes, int]:
    """The bytes of a model of at least ``opset``, and the opset of the file.

    External data is put inside; initializers are no inputs any more.

    Raises:
        CompileError: the file is no readable model, or `onnx` cannot convert it.
    """
    path = Path(path)
    proto = parse(read_bytes(path), path)
    embed_external(proto.graph, path)
    opsets = {normal_domain(o.domain): int(o.version) for o in proto.opset_import}
    found = opsets.setdefault("", opset)
    return serialize(raised(proto, opsets, opset, path)), found


def row_biases(path: Path) -> None:
    """Rewrite a model file so that constant biases of Gemm have one axis, where they have two and the first is 1.

    That is the same bias; onnxruntime (1.31) quantises it along the wrong axis.
    """
    proto = parse(read_bytes(path), path)
    biases = {n.input[2] for n in proto.graph.node if n.op_type == "Gemm" and len(n.input) > 2}
    others = {name for n in proto.graph.node for i, name in enumerate(n.input) if n.op_type != "Gemm" or i != 2}
    for tensor in proto.graph.initializer:
        if tensor.name in biases - others and len(tensor.dims) == 2 and tensor.dims[0] == 1:
            del tensor.dims[0]
    path.write_bytes(serialize(proto))
