"""Folds zero padding into the convolution that reads it."""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.dims import varies
from mccompile.ir.graph import Graph, Node
from mccompile.ir.op import Op
from mccompile.ops.conv import Conv
from mccompile.ops.pad import Pad
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.rewriter import Rewriter


def run(graph: Graph, remarks: Remarks) -> int:
    """Let a convolution pad for itself where a `pad` with zeros comes before it. Exact for finite weights."""
    r = Rewriter(graph)
    changes = 0
    for node in r.nodes():
        pad, conv = r.producer(node.operands[0]) if node.operands else None, node.op
        if pad is None or not isinstance(conv, Conv) or not isinstance(pad.op, Pad):
            continue
        what = f"folded {pad.where} into {node.where}"
        reason = _obstacle(r, node, pad, pad.op)
        if reason:
            remarks.miss(what, reason)
        else:
            _fold(r, node, conv, pad, pad.op)
            remarks.hit(what)
            changes += 1
    r.finish()
    return changes


def _obstacle(r: Rewriter, node: Node, pad: Node, op: Pad) -> str:
    rank = len(pad.result.shape)
    if op.mode != "constant" or op.value != 0:
        return "it does not pad with zeros"
    if varies(op.pads):
        return "how much it pads is known at run time only"
    if any(op.pads[a] or op.pads[rank + a] for a in (0, 1)):
        return "it pads other axes than the spatial ones"
    if pad.pre or pad.post or 0 in node.pre:
        return "its elements are not read as they are"
    if r.is_output(pad.result) or not all(_pads_itself(u, node.op, pad) for u in r.users(pad.result)):
        return "its result is needed elsewhere"
    return ""


def _pads_itself(user: Node, op: Op, pad: Node) -> bool:
    """Whether a node is a convolution whose image, and nothing else, is what is padded."""
    image = type(user.op) is type(op) and user.operands[0] is pad.result
    return image and user.inputs.count(pad.result) == 1


def _fold(r: Rewriter, node: Node, conv: Conv, pad: Node, op: Pad) -> None:
    rank = len(pad.result.shape)
    added = (*op.pads[2:rank], *op.pads[rank + 2 :])
    node.op = replace(conv, pads=tuple(a + b for a, b in zip(conv.pads, added, strict=True)))
    r.rewire(node, [pad.operands[0] if v is pad.result else v for v in node.operands])
    node.origins = tuple(dict.fromkeys(pad.origins + node.origins))
    if not r.users(pad.result):
        r.erase(pad)
