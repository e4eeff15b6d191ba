"""What integer kernels ask of a quantised product: the zero points of its operands.

    pre0{ (i32(acc) - i32(-5)) } pre1{ i32(acc) }        zero points -5 and 0
"""

from __future__ import annotations

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.ir.types import I8, I32, U8, DType

BYTES = (I8, U8)


def zero_of(node: Node, operand: int, dtypes: tuple[DType, ...] = BYTES) -> int | None:
    """The number that a prologue takes from an operand of one of ``dtypes`` as it widens it to i32; None if it does
    anything else."""
    value = node.operands[operand]
    body = node.pre.get(operand)
    if value is None or body is None or value.dtype not in dtypes:
        return None
    match body:
        case ex.Apply(fn=("sub" | "add") as fn, operands=(whole, ex.Num() as number)) if _widened(whole):
            return int(number.value) if fn == "sub" else -int(number.value)
    return 0 if _widened(body) else None


def _widened(e: ex.Expr) -> bool:
    match e:
        case ex.Convert(dtype=dtype, operand=ex.Var(index=ex.ACC)):
            return dtype == I32
    return False


def no_integers(node: Node) -> str:
    """Why a product is no sum of products of bytes in 32 bits; empty if it is one."""
    for i in (0, 1):
        value = node.operands[i]
        if value is None or value.dtype not in BYTES:
            return f"operand {i} is no integer of 8 bits"
        if zero_of(node, i) is None:
            return f"operand {i} has another prologue than a zero point"
    return ""
