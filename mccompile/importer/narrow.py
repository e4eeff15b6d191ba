"""Values of types that only files have, held in the next wider type: 4-bit integers as bytes, small floats as f32,
text as bytes with one more axis (`ops.text`).

    i4[3] of -8, 0, 7  is  i8[3] of -8, 0, 7             what it means is the same wherever it is read as a number
    bf16[2] + bf16[2]  is  f32[2] + f32[2]               rounded where it is an output, or decides something

Activations of less than 16 bits may be made by casts and QuantizeLinear, and go into DequantizeLinear, casts and what
moves elements; operators that ask more of them are refused. All that takes floats takes bfloat16.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from mccompile.importer.sequences import Known
from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.ir.jumps import jumps
from mccompile.ir.types import F32
from mccompile.onnxio import OnnxNode, numpy_dtype, type_variables
from mccompile.ops.frontend import Import
from mccompile.ops.held import HELD_IN
from mccompile.ops.map import Map
from mccompile.ops.narrow_floats import rounded
from mccompile.ops.registry import front_ends
from mccompile.ops.text import TEXT

_MOVES = ("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze")
"""Operators whose result has the type of input 0, and its elements."""

_READERS: dict[str, tuple[int, ...]] = {
    "DequantizeLinear": (0, 2), "Cast": (0,), "CastLike": (0, 1), "QuantizeLinear": (2,), "Shape": (0,), "Size": (0,),
    **dict.fromkeys(_MOVES, (0,)), "com.microsoft:GatherBlockQuantized": (0, 3),
    "com.microsoft:DequantizeLinear": (0, 2), "com.microsoft:QuantizeLinear": (2,),
}  # fmt: skip
"""Operators that may read such a value of less than 16 bits, and as which inputs."""

_COMPUTED = frozenset({"bf16"})
"""Types that every operator may read and give: the standard computes with them."""

_HINTS = {"string": "make numbers of text before, or see `mccompile ops` for what takes it"}


def reads_text(node: OnnxNode, inputs: Sequence[Known | None], narrow: Mapping[Value, str]) -> bool:
    """Whether a node's first input but its condition is text, and there is an operator that takes it."""
    at = 1 if node.op_type == "Where" else 0
    given = inputs[at] if len(inputs) > at else None
    is_text = isinstance(given, Value) and narrow.get(given, "") == "string"
    return is_text and (TEXT, node.op_type) in front_ends()


def asks_shape(node: OnnxNode) -> bool:
    """Whether a node asks for extents alone, whatever the elements are."""
    return not node.domain and node.op_type in ("Shape", "Size")


_OF_TYPES = ("BitCast", "DequantizeLinear", "QuantizeLinear")
"""Operators whose results depend on the type of an operand, not only on its numbers."""


def depends_on_narrow(node: OnnxNode, inputs: Sequence[Known | None], narrow: Mapping[Value, str]) -> bool:
    """Whether a node has to see a narrow type: what evaluates constants sees the one that holds it, and would not
    saturate at 15 what u4 is."""
    of_types = node.domain in ("", "com.microsoft") and node.op_type in _OF_TYPES
    return of_types and any(isinstance(v, Value) and v in narrow for v in inputs)


def as_computed(array: np.ndarray, kind: str) -> np.ndarray:
    """What was evaluated of constants in the type that holds them, rounded to the narrow one that it has, if any."""
    return array.astype(numpy_dtype(kind)).astype(HELD_IN[kind]) if kind in _COMPUTED else array


def require_readable(node: OnnxNode, inputs: Sequence[Known | None], narrow: Mapping[Value, str]) -> None:
    """CompileError if a node asks more of a narrow value than its numbers."""
    allowed = _READERS.get(f"{node.domain}:{node.op_type}" if node.domain else node.op_type, ())
    others = [narrow.get(v, "") for v in inputs if isinstance(v, Value)]
    if reads_text(node, inputs, narrow) and set(others) <= {"string", ""}:
        return
    for i, value in enumerate(inputs):
        kind = narrow.get(value, "") if isinstance(value, Value) else ""
        if asks_shape(node) or not kind or kind in _COMPUTED:
            continue
        if i not in allowed or kind == "string":
            raise CompileError(
                f"{node.op_type} of {kind} is not supported",
                where=f"node {node.index} {node.name!r}",
                hint=_HINTS.get(kind, "it may go into DequantizeLinear, Cast, and what moves elements"),
            )


def result_types(node: OnnxNode, inputs: Sequence[Value | None], narrow: Mapping[Value, str]) -> list[str]:
    """The narrow type of each result that has the type of an input, "" where it has none.

    Two results whose types have one name in the operator's schema have one type: (Y: T, Indices: I) of TopK(X: T).
    """
    given = ["" if v is None else narrow.get(v, "") for v in inputs]
    if not any(given):
        return [""] * len(node.outputs)
    if "string" in given:
        return [""] * len(node.outputs)
    if given[0] and given[0] not in _COMPUTED:
        return [given[0] if not node.domain and node.op_type in _MOVES else ""] * len(node.outputs)
    variables = type_variables(node.op_type, node.domain, len(inputs), len(node.outputs))
    if variables is None:  # no operator of ONNX's: what computes bf16 gives bf16
        return [given[0]] * len(node.outputs)
    kinds = {name: kind for name, kind in zip(variables[0], given, strict=True) if kind}
    return [kinds.get(name, "") for name in variables[1]]


_ROUNDS_WITHIN = ("Attention", "CausalConvWithState", "FlexAttention")
"""Operators whose definitions cast to their own type between their nodes."""


def halves_within(node: OnnxNode, inputs: Sequence[Known | None], narrow: Mapping[Value, str]) -> dict[Value, str]:
    """The inputs of bfloat16 that are floats of 32 bits to the definition of a node: what that rounds on its way is
    no value of the network."""
    if node.op_type not in _ROUNDS_WITHIN:
        return {}
    return {v: narrow[v] for v in inputs if isinstance(v, Value) and narrow.get(v, "") in _COMPUTED}


def round_before_jumps(n: Import, begin: int, kinds: Sequence[str], narrow: Mapping[Value, str]) -> None:
    """Round inputs of bfloat16 that a node of ONNX jumps with, or makes wider floats of: what its front end emitted,
    the graph's nodes from ``begin`` on, reads the rounded ones instead. ``kinds``: the outputs' narrow types."""
    halves = [v for v in n.inputs if v is not None and narrow.get(v, "") in _COMPUTED and v not in n.graph.constants]
    if not halves:
        return
    emitted = n.graph.nodes[begin:]
    ends = itertools.zip_longest(n.outputs, kinds, fillvalue="")
    asked = {v for v, kind in ends if isinstance(v, Value) and v.dtype.is_float and kind not in _COMPUTED}
    for node in reversed(emitted):
        behind = not asked.isdisjoint(node.results)
        at = jumps(node)
        asked.update(v for i, v in enumerate(node.operands) if v is not None and (behind or i in at))
        asked.update(node.extras if behind else ())
    del n.graph.nodes[begin:]
    new = {v: n.graph.emit(Map(rounded(ex.var(0, F32), narrow[v])), [v], [f"{v.name}.rounded"],
                           origins=(n.node.name,))[0] for v in dict.fromkeys(halves) if v in asked}  # fmt: skip
    n.graph.nodes += emitted
    for node in emitted:
        node.operands = [None if v is None else new.get(v, v) for v in node.operands]
        node.extras = [new.get(v, v) for v in node.extras]
    n.outputs = [None if v is None else new.get(v, v) for v in n.outputs]
