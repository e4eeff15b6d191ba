"""Operators that are no function of tensors, or none that a network should hold: why, and what to do instead."""

from __future__ import annotations

from mccompile.ir.errors import CompileError
from mccompile.onnxio import DRAWING, OnnxNode

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
    op = f"{node.domain}:{node.op_type}" if node.domain else node.op_type
    rule, hint = f"operator {op} is not supported", "`mccompile ops` lists what is"
    if node.domain in _LAYOUTS:
        rule = f"{op} is onnxruntime's own form of a network for one processor: weights lie as that likes"
        hint = "compile the model that it was made of, or save it at ORT_ENABLE_EXTENDED instead of ORT_ENABLE_ALL"
    elif op in _REASONS:
        rule, hint = f"{op} {_REASONS[op][0]}", _REASONS[op][1]
    return CompileError(rule, where=f"node {node.index} {node.name!r}", hint=hint)
