"""Products of bytes of which neither matrix is a constant.

Worked example: u8[4, 64, 256] times i8[256, 256]. All images have one matrix, so they are an image of 256 rows: the
matrix is packed once, 256 * 256 bytes in 4,096 cycles, and multiplied as if it had been packed at compile time.
Times i8[4, 256, 256], each image packs its own in front of its rows.
"""

from __future__ import annotations

import math
from collections.abc import Container

from mccompile.ir.dims import varies
from mccompile.ir.errors import InternalError
from mccompile.ir.graph import Node, Value
from mccompile.ir.types import I32, Factor, row_major
from mccompile.ir.views import View
from mccompile.kernels.conv.covered import is_one_matrix, of_images
from mccompile.kernels.conv.integer import STAGED_BYTES, ConvInteger, merged, staged_rows
from mccompile.kernels.conv.integer_tiles import IntegerTile, Problem, best_integer_tile
from mccompile.kernels.integers import is_byte, no_integers, zero_points
from mccompile.kernels.matmul.packed import batched, swapped
from mccompile.kernels.model.arithmetic import single_arithmetic
from mccompile.kernels.model.tiles import merge
from mccompile.kernels.variant import Builder, Offer, operand_pair, varies_in_batch
from mccompile.kernels.views.planes import POINT
from mccompile.ops.matmul import MatMul
from mccompile.targets.target import Target

PACKED_BYTES, TURNED_BYTES = 16, 0.5
"""Bytes of a matrix that a cycle packs: of one whose rows are what is summed over, one after the other."""


class MatMulIntegers(ConvInteger):
    """Rows of bytes times a matrix of bytes that is known when it runs: it is packed then, for each image. Where all
    images have the same one, their rows are those of one image, if they follow one stride, or else its lines."""

    ops = ("matmul",)
    label = "conv.integer packing"

    def takes(self, node: Node) -> bool:
        return not node.varies or (varies_in_batch(node) and node.result.type.rank > 2)

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        op = node.op
        assert isinstance(op, MatMul)
        own = single_arithmetic(target)
        if own is None:
            return "the target has no arithmetic of bytes"
        a, w = operand_pair(node)
        if reason := no_integers(node):
            return reason
        if w in constants:
            return "operand 1 is constant"
        if node.own_types()[0].dtype != I32:
            return "its sums are wider than 32 bits"
        if not all(is_byte(zero, v.dtype) for zero, v in zip(zero_points(node), (a, w), strict=True)):
            return "a zero point is no byte"
        if not of_images(a.type, w.type):
            return "it is no product of as many matrices, or of one"
        staged = staged_rows(op, a, own)
        problem = _matrices(node)
        cycles, tile = best_integer_tile(problem, own, own.flips(a.dtype) and not staged, target)
        staging = a.type.count * own.staged.nbytes / STAGED_BYTES if staged else 0
        packed = problem.images * math.prod(w.shape[-2:])
        packing = packed / (TURNED_BYTES if op.trans_b else PACKED_BYTES) + a.type.count / PACKED_BYTES
        return Offer(self.label, cycles + packing + staging, tile)

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        own = single_arithmetic(b.target)
        assert own is not None
        a, w = operand_pair(node)
        result = b.result(0)
        assert isinstance(node.op, MatMul)
        left = swapped(b.read(a)) if node.op.trans_a else b.read(a)
        right = swapped(b.read(w)) if node.op.trans_b else b.read(w)
        views = [batched(left, result), result, *(b.read(v).broadcast(result.shape) for v in node.extras)]
        if is_one_matrix(w.type):
            source, result, *extras = merged(views, (1, 1))
            right = _for_each(right, result.shape[0])
        else:
            source, result, *extras = map(_images, views)
            right = _images(right)
        n, lines, pixels, columns = result.shape
        problem = Problem(n, 1, pixels, columns, source.shape[-1], *POINT[:3])
        staged = staged_rows(node.op, a, own)
        _, tile = best_integer_tile(problem, own, own.flips(a.dtype) and not staged, b.target)
        padding, zero = zero_points(node)
        params = IntegerTile(
            tile.rows, tile.vectors, tile.lanes, own.name, (1, 1), (1, 1), (1, 1), (0, 0), padding,
            staged, 1, pixels, True, zero,
        )  # fmt: skip
        words = params.packed_words(problem.channels, columns)
        line = own.words(pixels * problem.channels) + 1 if staged else 0
        scratch = b.scratch(words + lines * pixels + line, I32)
        b.call(self.kernel, [source, right], [result], params=params, extras=extras, scratch=scratch)


def _matrices(node: Node) -> Problem:
    op, (a, w) = node.op, operand_pair(node)
    assert isinstance(op, MatMul)
    *batch, rows, columns = node.result.shape
    images = math.prod(batch)
    if is_one_matrix(w.type) and not varies(batch):
        images, rows = 1, images * rows
    return Problem(images, 1, rows, columns, a.shape[-2 if op.trans_a else -1], *POINT[:3])


def _for_each(matrix: View, images: int) -> View:
    """A view [..., rows, columns] of one matrix as [images, 1, rows, columns]."""
    shape = (images, 1, *matrix.shape[-2:])
    return View(matrix.buffer, shape, row_major(4), (0, 0, *matrix.axis_strides()[-2:]), matrix.offset)


def _images(view: View) -> View:
    """A view [..., rows, columns] as [images, 1, rows, columns]. What an epilogue reads may be repeated along one of
    two leading axes, as a mask of [batch, 1, rows, columns] is for heads: then its place in both is asked for."""
    if view.rank == 2:
        return View(view.buffer, (1, 1, *view.shape), row_major(4), (0, 0, *view.axis_strides()), view.offset)
    found = merge([view], range(view.rank - 2))
    joined = view if isinstance(found, str) else found[0]
    *leading, rows, columns = joined.axis_strides()
    images = math.prod(joined.shape[:-2])
    layout = row_major(4)
    if len(leading) == 2:
        each = joined.shape[1]
        layout = (Factor(0, div=each), Factor(0, mod=each), *layout[1:])
    elif len(leading) > 2:
        raise InternalError(f"the matrices of {view.buffer.name} lie in no order")
    return View(view.buffer, (images, 1, *joined.shape[-2:]), layout, (*leading, 0, rows, columns), view.offset)


VARIANTS = (MatMulIntegers(),)
