"""ONNX's C++ on models of which it need not know every type.

Its inference, and the converter of opsets, which begins with it, end the process on some operators where the type of
their operand is unknown: behind a node of another domain, or what is not inferred. They are hidden meanwhile: a node
of a domain that nobody knows is passed over, whatever it reads.

    y = LabelEncoder(x)          is          y = mccompile.hidden.ai.onnx.ml:LabelEncoder(x)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import onnx
import onnx.inliner
import onnx.shape_inference
from onnx import version_converter

from mccompile.onnxio.nested import all_nodes, inner_nodes

UNTYPED_ENDS = frozenset(
    {
        ("ai.onnx.ml", "DictVectorizer"), ("ai.onnx.ml", "LabelEncoder"), ("ai.onnx.ml", "TreeEnsemble"),
        ("", "EyeLike"), ("", "RegexFullMatch"),
    }
)  # fmt: skip
"""Operators, by domain, on which ONNX's inference ends the process where their operand has no type."""

_HIDDEN = "mccompile.hidden."


def inferred(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model with the types that ONNX infers, but for results of `UNTYPED_ENDS`."""
    return _meanwhile_hidden(proto, onnx.shape_inference.infer_shapes)


def converted(proto: onnx.ModelProto, opset: int, kept: Collection[str] = ()) -> onnx.ModelProto:
    """A model of that opset, by ONNX's converter, which raises what it likes; operators that are ``kept`` it leaves
    as they are."""
    hide = UNTYPED_ENDS | {("", op) for op in kept}
    return _meanwhile_hidden(proto, lambda hidden: version_converter.convert_version(hidden, opset), hide)


def inlined(proto: onnx.ModelProto) -> onnx.ModelProto:
    """A model without its functions; those of another opset are converted to the model's."""
    return _meanwhile_hidden(proto, lambda hidden: onnx.inliner.inline_local_functions(hidden, True))


def _meanwhile_hidden(
    proto: onnx.ModelProto,
    do: Callable[[onnx.ModelProto], onnx.ModelProto],
    hide: Collection[tuple[str, str]] = UNTYPED_ENDS,
) -> onnx.ModelProto:
    names = {(f.domain, f.name) for f in proto.functions}
    found = [n for n in _every_node(proto) if _key(n) in hide and (n.domain, n.op_type) not in names]
    if not found:
        return do(proto)
    hidden = onnx.ModelProto.FromString(proto.SerializeToString())
    for node in _every_node(hidden):
        if _key(node) in hide and (node.domain, node.op_type) not in names:
            node.domain = f"{_HIDDEN}{node.domain}"
    for holder in (hidden, *hidden.functions):
        known = {o.domain for o in holder.opset_import}
        for domain in sorted({f"{_HIDDEN}{n.domain}" for n in found} - known):
            holder.opset_import.add(domain=domain, version=1)
    made = do(hidden)
    for node in _every_node(made):
        node.domain = node.domain.removeprefix(_HIDDEN)
    for holder in (made, *made.functions):
        kept = [o for o in holder.opset_import if not o.domain.startswith(_HIDDEN)]
        del holder.opset_import[:]
        holder.opset_import.extend(kept)
    return made


def _key(node: onnx.NodeProto) -> tuple[str, str]:
    return node.domain if node.domain != "ai.onnx" else "", node.op_type


def _every_node(proto: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    yield from all_nodes(proto.graph)
    for function in proto.functions:
        yield from inner_nodes(function.node)
