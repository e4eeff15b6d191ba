"""Refused nodes: operators that nothing here computes, why, and what to do instead; many errors as one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from mccompile.ir.errors import CompileError, Culprit
from mccompile.onnxio import DRAWING, OnnxNode, op_names
from mccompile.ops.registry import front_ends

UNSUPPORTED = "unsupported-operator"
MOST_PLACES = 3
"""Nodes that a line names; the others are counted."""

_REASONS = {
    **dict.fromkeys(
        DRAWING,
        ("draws other numbers in every run", "--random input: an input of the network, which its caller fills"),
    ),
    "ImageDecoder": ("decodes files of images", "decode them before the network: its input is the image then"),
    "ai.onnx.preview.training:Gradient": (
        "asks for derivatives of the network around it", "let the trainer write them as nodes of their own",
    ),
}  # fmt: skip


_LAYOUTS = ("com.microsoft.nchwc", "com.ms.internal.nhwc")
"""Domains of what onnxruntime makes of a network for the processor that it runs on."""


def unsupported(node: OnnxNode) -> CompileError:
    """The error for an operator that nothing here computes."""
    op = _full_name(node)
    rule, hint = f"operator {op} is not supported", "`mccompile ops` lists what is"
    if node.domain in _LAYOUTS:
        rule = f"{op} is onnxruntime's own form of a network for one processor: weights lie as that likes"
        hint = "compile the model that it was made of, or save it at ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"
    elif op in _REASONS:
        rule, hint = f"{op} {_REASONS[op][0]}", _REASONS[op][1]
    elif op not in op_names() and (near := _near(node)):
        hint = f"nothing is called {op}: was {near} meant?"
    elif node.domain not in ("", *(domain for domain, _ in front_ends())):
        hint = f"compute it by C of your own: --custom-op {op}={node.op_type.lower()}.h (docs/plugins.md)"
    return CompileError(rule, where=f"node {node.index} {node.name!r}", hint=hint, code=UNSUPPORTED)


def _full_name(node: OnnxNode) -> str:
    return f"{node.domain}:{node.op_type}" if node.domain else node.op_type


def _near(node: OnnxNode) -> str:
    """An operator of nearly that name, or in another domain of just that name; empty if there is none."""
    if not node.domain:
        return next(iter(difflib.get_close_matches(node.op_type, op_names(), 1, cutoff=0.7)), "")
    domains = [""] * (node.op_type in op_names()) + [d for d, name in front_ends() if name == node.op_type]
    return f"{domains[0]}:{node.op_type}".lstrip(":") if domains else ""


def blame(errors: Sequence[CompileError], node: OnnxNode) -> None:
    """Say of errors that no node of the file is named in that it is this one: it was replaced by its definition, or
    could not be read."""
    for e in errors:
        if e.nodes:
            continue
        e.nodes = (Culprit(node.index, node.name, _full_name(node)),)
        own = f"node {node.index} {node.name!r}"
        if not e.where.startswith(own):
            e.where = f"{own} {_full_name(node)}" + (f", in its definition, {e.where}" if e.where else "")


def joined(errors: Sequence[CompileError]) -> CompileError:
    """One error that names them all; those of one rule in one line.

        operator Foo is not supported: 97 nodes, first node 5 'a', node 9 'b', node 12 'c'
        node 31 'd' Conv(f32[1,4]): the input has no channels
    """
    if len(errors) == 1:
        return errors[0]
    places: dict[str, dict[str, None]] = {}
    for e in errors:
        places.setdefault(e.rule, {})[e.where] = None
    codes = {e.code for e in errors}
    return CompileError(
        "the model cannot be compiled:\n" + "\n".join(f"  {_line(rule, list(at))}" for rule, at in places.items()),
        hint="; ".join(dict.fromkeys(e.hint for e in errors if e.hint)),
        code=UNSUPPORTED if UNSUPPORTED in codes else codes.pop() if len(codes) == 1 else "",
        nodes=tuple(dict.fromkeys(n for e in errors for n in e.nodes)),
    )


def _line(rule: str, places: Sequence[str]) -> str:
    if len(places) == 1:
        return f"{places[0]}: {rule}" if places[0] else rule
    first = "first " if len(places) > MOST_PLACES else ""
    return f"{rule}: {len(places)} nodes, {first}{', '.join(places[:MOST_PLACES])}"
