"""How many axes operands have by the definitions of operators: looked at before anything is asked of these axes.

    CDist(f32[6], f32[3,1])     input 0 is f32[6], but it has 2 axes by the operator's rule

ONNX's shape inference looks at some of that, at those of its own operators, and not at what is inside of definitions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.onnxio import OnnxNode

_RULES: Mapping[str, str] = {
    "AffineGrid": "3 1",
    "Compress": "1+",
    "CumProd": "1+",
    "CumSum": "1+",
    "DFT": "2+",
    "Gather": "1+",
    "GatherElements": "1+ 1+",
    "GatherND": "1+ 1+",
    "GroupNormalization": "2+",
    "InstanceNormalization": "2+",
    "LpNormalization": "1+",
    "RotaryEmbedding": "3|4 2|3 2|3",
    "STFT": "2|3 0|1 1 0|1",
    "ScatterElements": "1+ 1+ 1+",
    "ScatterND": "1+ 1+",
    "Slice": "1+",
    "com.microsoft:Attention": "3 2 1",
    "com.microsoft:BiasSplitGelu": "1+",
    "com.microsoft:CDist": "2 2",
    "com.microsoft:EmbedLayerNormalization": "2 2 2 2 2 1 1",
    "com.microsoft:GatherBlockQuantized": "1+ * 1+ 1+",
    "com.microsoft:GroupQueryAttention": "3 3 3 4 4 * * 2 2",
    "com.microsoft:MultiHeadAttention": "3|5 3|4|5 3|4 1",
    "com.microsoft:QAttention": "3 2 1",
    "com.microsoft:QEmbedLayerNormalization": "2 2 2 2 2 1 1",
    "com.microsoft:RotaryEmbedding": "3|4 1|2 2 2",
    "com.microsoft:UnfoldTensor": "1+",
}
"""By operator, of domains other than ONNX's with that: for each input, numbers of axes; `+`: or more, `*`: any."""


def require_ranks(node: OnnxNode, inputs: Sequence[Value | None]) -> None:
    """CompileError for an input with a number of axes that the node's operator does not take."""
    rules = _RULES.get(f"{node.domain}:{node.op_type}" if node.domain else node.op_type, "").split()
    for i, (value, rule) in enumerate(zip(inputs, rules, strict=False)):
        if value is not None and not _fits(value.type.rank, rule):
            counts = re.sub(r"\|", " or ", rule).replace("+", " or more")
            text = f"input {i} is {value.type}, but it has {counts} axes by the operator's rule"
            raise CompileError(text, where=f"node {node.index} {node.name!r} {node.op_type}")


def _fits(rank: int, rule: str) -> bool:
    """
    >>> _fits(3, "3|5"), _fits(4, "3|5"), _fits(4, "1+"), _fits(0, "1+"), _fits(0, "*")
    (True, False, True, False, True)
    """
    if rule == "*":
        return True
    return rank >= int(rule[:-1]) if rule.endswith("+") else str(rank) in rule.split("|")
