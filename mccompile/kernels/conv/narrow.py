"""Convolutions and products of floats of 16 bits, bf16 or f16, with sums of f32: the tiles of `conv.integer`.

Operands of f32 are rounded when they are staged, a chunk of lines at a time; weights are packed as the words that an
instruction takes (`kernels/model/arithmetic.py`).

    bfmmla    64 channels: 16 words of 4 bf16; in each step two pixels by two columns, 16 products an instruction
    fmlal     64 channels: 32 words of 2 f16; in each step a pixel by four columns, 4 products an instruction
"""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile.ir.graph import Node, Value
from mccompile.ir.types import F32
from mccompile.kernels.conv.integer import ConvInteger, MatMulInteger
from mccompile.kernels.conv.integer_tiles import Chosen
from mccompile.kernels.model.arithmetic import Arithmetic, float_arithmetic
from mccompile.kernels.model.widening import rounded_product
from mccompile.kernels.variant import Builder, computed, operand_pair, varies_in_batch
from mccompile.ops.conv import Conv
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target


def obstacle(node: Node, constants: Container[Value]) -> str:
    """Why a node of f32 would have no kernel here if its operands were rounded; empty if it had one, on targets with
    such products."""
    if not isinstance(node.op, Conv | MatMul):
        return "it is no convolution or product"
    if reason := computed(node, constants, 1):
        return reason
    x, w = operand_pair(node)
    if x.dtype != F32 or node.result.dtype != F32 or len(node.results) > 1:
        return "it is none of floats of 32 bits"
    if not varies_in_batch(node):
        return "extents beside the first are known at run time only"
    if isinstance(node.op, Conv):
        if node.op.groups != 1:
            return "it has several groups"
        return "" if len(x.shape) in (3, 4) else "it has more than two spatial axes"
    if math.prod(w.shape[:-2]) != 1:
        return "there are several second operands"
    return "" if len(node.result.shape) <= 4 else "it has more than two leading axes"


class ConvNarrow(ConvInteger):
    """Any window over floats that are rounded to 16 bits, in one group."""

    kernel = "conv.narrow"

    def priced(self, node: Node, target: Target, constants: Container[Value]) -> Arithmetic | str:
        form = rounded_product(node)
        if not form:
            return "its operands are not rounded to 16 bits"
        own = float_arithmetic(target, form)
        if own is None:
            return f"the target has no products of {form}"
        return computed(node, constants, 1) or own

    def chosen(self, node: Node, b: Builder) -> Chosen:
        own = float_arithmetic(b.target, rounded_product(node))
        assert own is not None
        return Chosen(own)


class MatMulNarrow(ConvNarrow, MatMulInteger):
    """Rows of floats times a constant matrix: a convolution of 1x1 over pixels."""

    ops = ("matmul",)
    offer = MatMulInteger.offer
    lower = MatMulInteger.lower


VARIANTS = (ConvNarrow(), MatMulNarrow())
