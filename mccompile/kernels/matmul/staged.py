"""Matrix products of bytes on microcontrollers: rows are pixels of a pointwise window, columns its channels."""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import Array
from mccompile.ir.types import row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.staged import (
    PRODUCT,
    ROWS,
    STAGED,
    STORED,
    ConvStaged,
    StagedTile,
    no_products,
    products_of,
    stage,
    staged_zero,
)
from mccompile.kernels.integers import IntegerProduct, begin_with, folded, integer_product, weights_of
from mccompile.kernels.matmul.packed import batched
from mccompile.kernels.model.tiles import merge
from mccompile.kernels.variant import Builder, Offer, operand_pair
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target


class MatMulStaged(ConvStaged):
    """One constant second operand."""

    ops = ("matmul",)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        found = product_of(node, target, constants)
        if isinstance(found, str):
            return found
        rows = math.prod(node.results[0].shape[:-1])
        terms, columns = operand_pair(node)[0].shape[-1], node.results[0].shape[-1]
        rows = -(-rows // ROWS) * ROWS
        product = PRODUCT[products_of(target, operand_pair(node)[0].dtype)]
        cycles = rows * terms * (columns * product + STAGED) + STORED * rows * columns
        return Offer(self.label, cycles, found)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        product = offer.params
        assert isinstance(product, IntegerProduct)
        weights = columns_of(node, b)
        result = b.result(0)
        zero = staged_zero(product.zero, operand_pair(node)[0].dtype, b.target)
        begin = begin_with(node, product, folded(weights, zero), b)
        extras = [e.broadcast(result.shape) for e in begin.extras]
        views = [batched(b.read(operand_pair(node)[0]), result), result, *extras]
        arithmetic = products_of(b.target, operand_pair(node)[0].dtype)
        window = StagedTile(arithmetic=arithmetic, zero=product.zero, begun=product.begun)
        stage(node, as_pixels(views), begin.operand, weights, window, product, b)


def product_of(node: Node, target: Target, constants: Container[Value]) -> IntegerProduct | str:
    """A product of rows of bytes by a constant matrix of bytes, or why it is none."""
    op, (_, w) = node.op, operand_pair(node)
    assert isinstance(op, MatMul)
    if reason := no_products(node, target):
        return reason
    if op.trans_a or math.prod(w.shape[:-2]) != 1:
        return "its left operand is transposed, or there are several right ones"
    if not 2 <= len(node.results[0].shape) <= 4:
        return "it has more than three axes of rows"
    return integer_product(node, constants, channels=len(node.results[0].shape) - 1)


def columns_of(node: Node, b: Builder) -> Array:
    """The weights as [columns, terms]."""
    op = node.op
    assert isinstance(op, MatMul)
    w = weights_of(node, b)
    matrix = w.reshape(w.shape[-2:])
    return matrix if op.trans_b else matrix.T


def as_pixels(views: list[View]) -> list[View]:
    """Views [..., M, K] as [N, K, H, W]: merged rows are W, what does not merge is before it."""
    merged = merge(views, range(views[0].rank - 1))
    if isinstance(merged, str):
        raise InternalError(merged)
    found = []
    for v in merged:
        strides, missing = v.axis_strides(), 4 - v.rank
        outer = (*(1,) * missing, *v.shape[:-1])
        steps = (*(0,) * missing, *strides[:-1])
        shape = (outer[0], v.shape[-1], *outer[1:])
        found.append(View(v.buffer, shape, row_major(4), (steps[0], strides[-1], *steps[1:]), v.offset))
    return found


VARIANTS = (MatMulStaged(),)
