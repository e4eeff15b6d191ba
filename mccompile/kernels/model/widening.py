"""Weights that are stored in fewer bits than they are multiplied in: forms of prologues that kernels load by
themselves, where any other prologue is computed element by element.

Worked example: a convolution by whole numbers, and one by f16, whose elements are f32 in an expression anyway:

    conv(%x, %w) pre1{ f32(acc) }        %w : i8[8,4,3,3]
    conv(%x, %w) pre1{ acc }             %w : f16[8,4,3,3]

>>> widening(WIDENED["i8"][1], I8), widening(WIDENED["bf16"][1], U16), widening(ex.num(1.0, F32), I8)
('i8', 'bf16', '')
"""

from __future__ import annotations

from collections.abc import Mapping

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.ir.types import F16, F32, I8, U8, U16, DType

WIDENED: Mapping[str, tuple[DType, ex.Expr]] = {
    "f16": (F16, ex.acc(F32)),
    "bf16": (U16, ex.apply("bf16", ex.acc(U16))),
    "i8": (I8, ex.convert(ex.acc(I8), F32)),
    "u8": (U8, ex.convert(ex.acc(U8), F32)),
}
"""By the end of the names of the words that load them: what is stored, and the float that an element becomes."""

ROUNDED: Mapping[str, ex.Expr] = {name: ex.apply(f"round_{name}", ex.acc(F32)) for name in ("bf16", "f16")}
"""What is done to an operand of f32 that is multiplied in fewer bits, by their form."""

LEAST = 256
"""Elements of weights that are worth a step of their own, which widens them in the arena."""


def widening(body: ex.Expr | None, stored: DType) -> str:
    """The form of `WIDENED` that a prologue of elements of a type is; empty if it is none."""
    return next((form for form, known in WIDENED.items() if known == (stored, body)), "")


def scaled(body: ex.Expr | None, stored: DType) -> int | None:
    """The extra operand that elements of one of the forms are multiplied by, where a prologue does just that.

    >>> scaled(ex.apply("mul", WIDENED["i8"][1], ex.var(2, F32)), I8)
    2
    """
    match body:
        case ex.Apply(fn="mul", operands=(inner, ex.Var(index=extra))) if extra != ex.ACC and widening(inner, stored):
            return extra
    return None


def unscaled(body: ex.Expr | None, stored: DType) -> ex.Expr | None:
    """A prologue without the extra operand that is `scaled`."""
    return body.args[0] if body is not None and scaled(body, stored) is not None else body


def widened_operand(node: Node, operand: int) -> str:
    """The form of `WIDENED` that an operand of a node has; empty if it has none."""
    value = node.operands[operand]
    return "" if value is None else widening(node.pre.get(operand), value.dtype)


def rounded_product(node: Node) -> str:
    """The form of floats that both operands of a product are rounded to, the second as it is stored; else empty."""
    form = next((name for name, body in ROUNDED.items() if node.pre.get(0) == body), "")
    form = form or stored_halves(node)
    return form if form and len(node.operands) == 2 and widened_operand(node, 1) == form else ""


def stored_halves(node: Node) -> str:
    """The form of floats of 16 bits that operand 0 of a node is stored in, where it has been rounded before: bf16, of
    which kernels take the bits as they are; else empty."""
    return "bf16" if node.operands and node.operands[0] is not None and widened_operand(node, 0) == "bf16" else ""
