"""Read an .onnx file into plain data: checked, functions inlined, external data resolved."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import onnx
from google.protobuf.message import DecodeError

from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio.foreign import TENSORFLOW, foreign
from mccompile.onnxio.functions import FunctionReader, in_opset, with_defaults, with_types_of_constants
from mccompile.onnxio.limits import check_limits
from mccompile.onnxio.model import KEPT, OnnxGraph, OnnxModel
from mccompile.onnxio.proto import DAMAGED, GraphReader, normal_domain, require_text
from mccompile.onnxio.raise_opset import raised
from mccompile.onnxio.schema import newest_opset
from mccompile.onnxio.untyped import inferred, inlined
from mccompile.onnxio.wellformed import require_wellformed
from mccompile.onnxio.wire import read_around

Found = TypeVar("Found", bytes, str)

OLDEST_OPSET = 7
"""Older models are converted to it; from there on the importer's own rewrites make the newest form."""


def read_model(path: str | Path) -> OnnxModel:
    """Read a model file.

    Model-local functions are inlined, external data is read (only from the model's own folder).

    Raises:
        UsageError: there is no such file, or it is a folder.
        CompileError: the file is not a readable, supported ONNX model; one message that says why.
    """
    path = Path(path)
    whole = read_bytes(path) if path.is_fifo() else None  # a pipe gives what it has once
    proto = parse(whole or _content(path, read_around), path)
    sha256 = hashlib.sha256(whole).hexdigest() if whole else _content(path, _sha256)
    where = path.name
    opsets = _opsets(proto, where)
    check_limits(proto, where)
    if not proto.graph.node:
        raise CompileError("the graph has no nodes: there is nothing to compile", where=where)
    if proto.functions or opsets[""] < OLDEST_OPSET:
        proto = parse(whole or read_bytes(path), path)  # C++ rewrites these: it is given all that tensors have
    proto = inline_functions(proto, opsets, path)
    opsets |= {o.domain: int(o.version) for o in proto.opset_import if o.domain.startswith(KEPT)}
    if opsets[""] < OLDEST_OPSET:
        proto = raised(proto, opsets, OLDEST_OPSET, path)
        opsets[""] = OLDEST_OPSET
    graph = GraphReader(path.parent, where).graph(proto.graph)
    return OnnxModel(
        graph=graph,
        opsets=opsets,
        path=str(path),
        sha256=sha256,
        ir_version=int(proto.ir_version),
        producer=f"{proto.producer_name} {proto.producer_version}".strip(),
        metadata={entry.key: entry.value for entry in proto.metadata_props},
    )


def read_structure(path: Path) -> onnx.ModelProto:
    """A model file without the bytes of its large tensors; errors as `read_model` has them."""
    return parse(_content(path, read_around), path)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_bytes(path: Path) -> bytes:
    """The bytes of a model file, or an error that says why there are none."""
    return _content(path, Path.read_bytes)


def _content(path: Path, read: Callable[[Path], Found]) -> Found:
    """What ``read`` finds in a model file, or an error that says why there is nothing."""
    if not path.exists():
        remote = "://" in str(path) or re.match(r"https?:/", str(path))
        hint = "nothing is downloaded: get the file first" if remote else ""
        raise UsageError(f"there is no file '{path}'", hint=hint, code="no-file")
    if path.is_dir():
        inside = sorted(p.name for p in path.glob("*.onnx"))[:3]
        saved = (path / "saved_model.pb").is_file()
        hint = f"a SavedModel of TensorFlow becomes one by {TENSORFLOW}" if saved else "name the .onnx file itself"
        hint += f": {', '.join(inside)}" if inside else ""
        raise UsageError(f"'{path}' is a folder", hint=hint, code="no-file")
    try:
        data = read(path)
    except OSError as error:
        raise UsageError(f"'{path}' cannot be read: {error.strerror}", code="no-file") from error
    if not data:
        raise CompileError("the file is empty", where=path.name, code="no-onnx")
    return data


def parse(data: bytes, path: Path) -> onnx.ModelProto:
    """The protobuf of a model file's bytes."""
    proto = onnx.ModelProto()
    rule = "the file holds no ONNX graph"
    try:
        proto.ParseFromString(data)
        if proto.HasField("graph"):
            return proto
    except DecodeError:
        rule = "the file is not a readable ONNX protobuf"
    found = foreign(data, path.suffix)
    if found is not None:
        raise CompileError(f"the file is {found.what}", where=path.name, hint=found.hint, code="no-onnx")
    raise CompileError(rule, where=path.name, hint=DAMAGED, code="no-onnx")


def _has_other_domains_only(graph: onnx.GraphProto) -> bool:
    """Whether no node is of ai.onnx, so that the model need not say which version of it is meant. Nested graphs are
    in attributes of ai.onnx alone."""
    return len(graph.node) > 0 and all(normal_domain(node.domain) for node in graph.node)


def _opsets(proto: onnx.ModelProto, where: str) -> dict[str, int]:
    opsets: dict[str, int] = {}
    for entry in proto.opset_import:
        require_text(entry.domain)
        domain = normal_domain(entry.domain)
        if opsets.setdefault(domain, int(entry.version)) != entry.version:
            raise CompileError(
                f"two different opsets are stated for domain '{domain or 'ai.onnx'}'", where=where
            )
    if "" not in opsets and opsets and not proto.functions and _has_other_domains_only(proto.graph):
        opsets[""] = newest_opset()
    if "" not in opsets:
        raise CompileError(
            "the model states no ai.onnx opset", where=where, hint="the file may be damaged or cut short"
        )
    if opsets[""] < 1:
        raise CompileError(f"there is no opset {opsets['']}", where=where, hint=DAMAGED)
    if opsets[""] > newest_opset():
        raise CompileError(
            f"opset {opsets['']} is newer than {newest_opset()}, the newest that the installed onnx knows",
            where=where,
            hint="update the onnx package, or export the model with an older opset",
        )
    return opsets


def inline_functions(proto: onnx.ModelProto, opsets: Mapping[str, int], path: Path) -> onnx.ModelProto:
    """The model without functions. Nodes of one that are others in the opset of the model keep theirs; below
    `OLDEST_OPSET` they are converted, by C++ that takes their form for granted, and asks for the types of what a call
    reads."""
    if not proto.functions:
        return proto
    proto = in_opset(with_defaults(proto), opsets[""], OLDEST_OPSET)
    own = [{**opsets, **{normal_domain(o.domain): int(o.version) for o in f.opset_import}} for f in proto.functions]
    converts = any(versions[""] != opsets[""] for versions in own)
    if converts:
        reader = FunctionReader({}, path.parent, path.name)
        for nodes, versions in zip((proto.graph, *proto.functions), (dict(opsets), *own), strict=True):
            require_wellformed(OnnxModel(OnnxGraph(nodes.name, [], [], reader.nodes(nodes)), versions))
    try:
        made = inlined(inferred(with_types_of_constants(proto)) if converts else proto)
    except Exception as error:
        raise CompileError(f"model-local functions cannot be inlined: {error}", where=path.name) from error
    left = [f.name for f in made.functions]
    if left:
        raise CompileError(f"model-local functions cannot be inlined: {', '.join(left)}", where=path.name)
    return made
