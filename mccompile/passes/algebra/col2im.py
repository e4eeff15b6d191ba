"""Makes matrix products of transposed convolutions that have no better kernel: what each pixel of the operand adds to
the results becomes a column, and columns are added up to the image (GEMM and col2im).

Worked example: 64 channels of 7 x 7 pixels, filters of 1 x 1, a stride of 2. Three of four results are zero, and the
others are a product of two matrices:

    %y = conv_transpose(%x, %w) {strides=(2, 2), ..} with(%b) post0{ (acc + x0) } : f32[1,32,13,13]
                                                                %x : f32[1,64,7,7]      %w : f32[64,32,1,1]

    %a = transpose(reshape(%w)) : f32[32,64]                      [filters * taps, channels]
    %c = matmul(%a, reshape(%x)) : f32[1,32,49]                   [32, 64] times [64, 49]
    %y = col2im(reshape(%c)) {image=(13, 13), strides=(2, 2), ..} with(%b) post0{ (acc + x0) }
"""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32
from mccompile.ops.col2im import Col2Im
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.ops.window import meets_all
from mccompile.passes.algebra.im2col import is_known, too_large
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.targets.target import Target

ROUNDS = True


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute a transposed convolution by weights that are no constants, or of whose results some are met by no tap,
    as a product of two matrices whose columns are added up. May change rounding: sums are taken in another order."""
    if not target.lanes or not target.spare_memory:
        remarks.miss("col2im", f"target {target.name} has no vectors, or no memory for columns")
        return 0
    return apply_rules(graph, remarks, RULES)


def _check(m: Match) -> Fail | None:
    node, op, x, w = m.root, m.op(ConvTranspose), m.values["x"], m.values["w"]
    if is_known(m.r, w) and (w not in m.r.graph.constants or meets_all(w.shape[2:], op.strides, op.dilations)):
        return Fail("")
    weights = m.r.graph.constants.get(w)
    if isinstance(weights, np.ndarray) and np.array_equal(weights, np.rint(weights)):
        return Fail("its weights are whole numbers, which stay bytes")
    if refused := not_floats_in_rows(node, x, w, *node.results):
        return refused
    if any(more >= stride for more, stride in zip(op.output_padding, op.strides, strict=True)):
        return Fail("its result is padded by whole strides")
    taps = math.prod(w.shape[2:])
    columns = x.shape[0] * w.shape[1] * op.groups * taps * math.prod(x.shape[2:]) * F32.nbytes
    return too_large(taps, columns, x, w, node.result)


def _rewrite(m: Match) -> None:
    r, node, op, x, w = m.r, m.root, m.op(ConvTranspose), m.values["x"], m.values["w"]
    name, (n, channels, *spatial), kernel = node.result.name, x.shape, w.shape[2:]
    groups = () if op.groups == 1 else (op.groups,)
    own, rows = channels // op.groups, w.shape[1] * math.prod(kernel)
    right = r.insert(node, Reshape((n, *groups, own, math.prod(spatial))), [x], f"{name}.pixels")
    filters = r.insert(node, Reshape((*groups, own, rows)), [w], f"{name}.filters")
    order = (*range(len(groups)), len(groups) + 1, len(groups))
    left = r.insert(node, Transpose(order), [filters], f"{name}.weights")
    product = r.insert(node, _product(own), [left, right], f"{name}.product")
    shape = (n, op.groups * w.shape[1], *kernel, *spatial)
    columns = r.insert(node, Reshape(shape), [product], f"{name}.columns")
    node.op = Col2Im(node.result.shape[2:], op.strides, op.pads, op.dilations)
    r.rewire(node, [columns], node.extras)


def _product(terms: int) -> MatMul | Map:
    """The product of matrices; of one column by one row each element is one product."""
    return MatMul() if terms > 1 else Map(ex.apply("mul", ex.var(0, F32), ex.var(1, F32)))


RULES = (Rule("made a product and columns", Is(ConvTranspose, (Any("x"), Any("w")), "conv", plain=False),
              _check, _rewrite),)  # fmt: skip
