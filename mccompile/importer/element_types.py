"""The element types that an operator takes, by its schema: looked at before a front end sees the node.

    Exp(i8[3])              input 0 is i8; Exp takes f64, f32, f16, bf16
    Add(f32[3], i32[3])     inputs 0 and 1 are f32 and i32, but of one type by the operator's rule
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.ir.types import DTYPES
from mccompile.onnxio import OnnxNode, dtype_bits, formals


def require_types(node: OnnxNode, inputs: Sequence[Value | None], narrow: Mapping[Value, str]) -> None:
    """CompileError if an input has an element type that the node's operator does not take.

    Operators that ONNX does not know take what their front ends take.
    """
    known = formals(node.op_type, node.domain, len(inputs))
    if known is None:
        return
    bound: dict[str, int] = {}
    for i, (value, formal) in enumerate(zip(inputs, known, strict=False)):
        if value is None:
            continue
        kind = narrow.get(value, value.dtype.name)
        if kind not in formal.types and value.dtype.name not in formal.types:
            raise _error(node, f"input {i} is {kind}; {node.op_type} takes {_listed(formal.types)}")
        first = bound.setdefault(formal.variable, i)
        other = inputs[first]
        assert other is not None
        if other.dtype != value.dtype:  # of bfloat16 and f32, which holds it, either may have lost its name
            kinds = f"{narrow.get(other, other.dtype.name)} and {kind}"
            raise _error(node, f"inputs {first} and {i} are {kinds}; {node.op_type} takes them of one type")


def _listed(types: frozenset[str]) -> str:
    """Those that networks have here, the widest first."""
    here = sorted((t for t in types if t in DTYPES), key=lambda t: (-dtype_bits(t), t))
    return ", ".join(here) or ", ".join(sorted(types))


def _error(node: OnnxNode, rule: str) -> CompileError:
    return CompileError(rule, where=f"node {node.index} {node.name!r}", hint="a Cast in front of it makes it so")
