"""Makes matrix products of transposed convolutions that have no better kernel: what each pixel of the operand adds to
the results becomes a column, and columns are added up to the image (GEMM and col2im).

Worked example: 64 channels of 7 x 7 pixels, filters of 1 x 1, a stride of 2. Three of four results are zero, and the
others are a product of two matrices:

    %y = conv_transpose(%x, %w) {strides=(2, 2), ..} with(%b) post0{ (acc + x0) } : f32[1,32,13,13]
                                                                %x : f32[1,64,7,7]      %w : f32[64,32,1,1]

    %a = transpose(reshape(%w)) : f32[32,64]                      [filters * taps, channels]
    %c = matmul(%a, reshape(%x)) : f32[1,32,49]                   [32, 64] times [64, 49]
    %y = col2im(reshape(%c)) {image=(13, 13), strides=(2, 2), ..} with(%b) post0{ (acc + x0) }

Of weights that are constants the product is a convolution of 1 x 1, whose kernels have them packed. It is made where
there are gaps, as here, or where it and adding up its columns are estimated to take less than what is computed else,
one convolution for each phase of the results: these have few channels in vectors, or a filter for each.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, Shape, TensorType, channels_last
from mccompile.kernels.model.costs import cheapest
from mccompile.ops.col2im import Col2Im
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.reshape import Reshape
from mccompile.ops.transpose import Transpose
from mccompile.ops.window import meets_all
from mccompile.passes.algebra.im2col import is_known, too_large
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True

FASTER = 0.99
"""What part of the estimated cycles it may take with columns, to be preferred."""
LINES = 1.15
"""By how much convolutions of phases in rows take longer than estimated (Zen 4: 9 x 9 at strides of 2 or 3, 1.2 to
1.5 times)."""
RELAYOUT_CYCLES = 0.5
"""Of an element that has to be copied into another order."""


def run(graph: Graph, remarks: Remarks, target: Target) -> int:
    """Compute a transposed convolution by weights that are no constants, or of whose results some are met by no tap,
    or few have channels in common, as a product of two matrices whose columns are added up. May change rounding: sums
    are taken in another order."""
    if not target.lanes or not target.spare_memory:
        remarks.miss("col2im", f"target {target.name} has no vectors, or no memory for columns")
        return 0

    def check(m: Match) -> Fail | None:
        return _check(m, target)

    pattern = Is(ConvTranspose, (Any("x"), Any("w")), "conv", plain=False)
    return apply_rules(graph, remarks, (Rule("made a product and columns", pattern, check, _rewrite),))


def _check(m: Match, target: Target) -> Fail | None:
    node, op, x, w = m.root, m.op(ConvTranspose), m.values["x"], m.values["w"]
    weights = m.r.graph.constants.get(w)
    if weights is None and is_known(m.r, w):
        return Fail("")
    if isinstance(weights, np.ndarray) and np.array_equal(weights, np.rint(weights)):
        return Fail("its weights are whole numbers, which stay bytes")
    if refused := not_floats_in_rows(node, x, w, *node.results):
        return refused
    if any(more >= stride for more, stride in zip(op.output_padding, op.strides, strict=True)):
        return Fail("its result is padded by whole strides")
    taps = 1 if weights is not None else math.prod(w.shape[2:])
    if refused := too_large(taps, TensorType(F32, _columns(m)).nbytes, x, w, node.result):
        return refused
    if weights is None or not meets_all(w.shape[2:], op.strides, op.dilations):
        return None
    if op.groups > 1:
        return Fail("")
    return None if _is_faster(m, target) else Fail("convolutions of its phases are estimated to be as fast")


def _columns(m: Match) -> Shape:
    """The shape of what each pixel adds to the results, [N, filters, kernel..., spatial...]."""
    op, x, w = m.op(ConvTranspose), m.values["x"], m.values["w"]
    return (x.shape[0], op.groups * w.shape[1], *w.shape[2:], *x.shape[2:])


def _is_faster(m: Match, target: Target) -> bool:
    """Whether columns of weights that are constants are estimated to be faster than convolutions of phases: these are
    made in rows, or by channels, columns in rows alone."""
    r, node, x, w, y = m.r, m.root, m.values["x"], m.values["w"], m.root.result
    columns = Value("columns", TensorType(F32, _columns(m)))
    filters = Value("filters", TensorType(F32, _filters(w)))
    product = Value("product", TensorType(F32, (x.shape[0], filters.shape[0], *x.shape[2:])))
    known = r.graph.constants
    multiplied = cheapest(Node(_pointwise(len(w.shape) - 2), [x, filters], [product]), target, {filters})
    added = cheapest(replace(node, op=_col2im(m), operands=[columns]), target, known)
    rows = cheapest(node, target, known)
    stored_x, stored_y = (Value(v.name, replace(v.type, layout=channels_last(len(v.shape)))) for v in (x, y))
    far = cheapest(replace(node, results=[stored_y]), target, known)
    channels = cheapest(replace(node, operands=[stored_x, w], results=[stored_y]), target, known)
    maker, turned = r.producer(x), RELAYOUT_CYCLES * x.type.count
    if maker is not None and maker.op.wants_channels_last:
        multiplied, rows = multiplied + turned, rows + turned
    else:
        channels = min(far, channels + turned)
    turned = RELAYOUT_CYCLES * y.type.count
    if _by_channels(r, y):
        added, rows = added + turned, rows + turned
    else:
        channels += turned
    return multiplied + added < FASTER * min(LINES * rows, channels)


def _by_channels(r: Rewriter, result: Value) -> bool:
    """Whether a kernel that has channels in vectors reads a result, or what is made of it element by element."""
    seen, queue = {result}, [result]
    while queue:
        for node in r.users(queue.pop()):
            if node.op.wants_channels_last:
                return True
            if node.op.binds(node.operand_types()):
                queue += [v for v in node.results if v not in seen]
                seen.update(node.results)
    return False


def _rewrite(m: Match) -> None:
    r, node, op, w = m.r, m.root, m.op(ConvTranspose), m.values["w"]
    shape = _columns(m)
    product = _convolution(m) if w in r.graph.constants and op.groups == 1 else _matrices(m)
    columns = r.insert(node, Reshape(shape), [product], f"{node.result.name}.columns")
    node.op = _col2im(m)
    r.rewire(node, [columns], node.extras)


def _col2im(m: Match) -> Col2Im:
    op = m.op(ConvTranspose)
    return Col2Im(m.root.result.shape[2:], op.strides, op.pads, op.dilations)


def _convolution(m: Match) -> Value:
    """The product of filters that are constants and pixels, [N, filters * taps, spatial...]."""
    r, node, x, w = m.r, m.root, m.values["x"], m.values["w"]
    name, rank = node.result.name, len(w.shape) - 2
    rows = r.insert(node, Reshape((w.shape[0], math.prod(w.shape[1:]))), [w], f"{name}.rows")
    turned = r.insert(node, Transpose((1, 0)), [rows], f"{name}.turned")
    filters = r.insert(node, Reshape(_filters(w)), [turned], f"{name}.filters")
    return r.insert(node, _pointwise(rank), [x, filters], f"{name}.product")


def _filters(w: Value) -> Shape:
    """The shape of the filters of 1 x 1 that each tap of a filter becomes."""
    return (math.prod(w.shape[1:]), w.shape[0], *(1,) * (len(w.shape) - 2))


def _pointwise(rank: int) -> Conv:
    return Conv((1,) * rank, (0,) * (2 * rank), (1,) * rank)


def _matrices(m: Match) -> Value:
    """The product of filters of the run, or of groups of filters, and pixels, [N, groups, filters * taps, pixels]."""
    r, node, op, x, w = m.r, m.root, m.op(ConvTranspose), m.values["x"], m.values["w"]
    name, (n, channels, *spatial), kernel = node.result.name, x.shape, w.shape[2:]
    groups = () if op.groups == 1 else (op.groups,)
    own, rows = channels // op.groups, w.shape[1] * math.prod(kernel)
    right = r.insert(node, Reshape((n, *groups, own, math.prod(spatial))), [x], f"{name}.pixels")
    filters = r.insert(node, Reshape((*groups, own, rows)), [w], f"{name}.filters")
    order = (*range(len(groups)), len(groups) + 1, len(groups))
    left = r.insert(node, Transpose(order), [filters], f"{name}.weights")
    return r.insert(node, _product(own), [left, right], f"{name}.product")


def _product(terms: int) -> MatMul | Map:
    """The product of matrices; of one column by one row each element is one product."""
    return MatMul() if terms > 1 else Map(ex.apply("mul", ex.var(0, F32), ex.var(1, F32)))
