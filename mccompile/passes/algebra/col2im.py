"""Makes matrix products of transposed convolutions that have no better kernel, and of convolutions with few filters:
what each pixel of the operand adds to the results becomes a column, and columns are added up to the image (GEMM and
col2im).

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

A convolution at stride 1 is a transposed one by its filters turned round, so that what pads it cuts the result: a
filter of 3 x 3 over 64 channels is a product of 9 rows, in which each pixel is read once for 9 taps.

    %y = conv(%x, %w) {pads=(1, 1, 1, 1), ..}                              %w : f32[1,64,3,3]
    %y = conv_transpose(%x, transpose(flipped(%w))) {pads=(1, 1, 1, 1), ..}
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import span
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.types import F32, Shape, TensorType, channels_last
from mccompile.kernels.model.costs import cheapest
from mccompile.ops.col2im import Col2Im
from mccompile.ops.conv import Conv
from mccompile.ops.conv_transpose import ConvTranspose
from mccompile.ops.map import Map
from mccompile.ops.matmul import MatMul
from mccompile.ops.reshape import Reshape
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose
from mccompile.ops.window import meets_all
from mccompile.passes.algebra.im2col import is_known, too_large
from mccompile.passes.manager import Remarks
from mccompile.passes.rewrite.patterns import Any, Fail, Is, Match, Rule, apply_rules, not_floats_in_rows
from mccompile.passes.rewrite.rewriter import Rewriter
from mccompile.targets.target import Target

ROUNDS = True

FASTER = 0.99
"""What part of the estimated cycles of phases, by channels, it may take with columns, to be preferred."""
OF_LINES = 1.14
"""The same of phases in rows, which take longer than estimated (Zen 4: 9 x 9 at strides of 2 or 3, 1.2 to 1.5 times
as long)."""
OF_WINDOWS = 0.75
"""The same of a convolution at stride 1, of which products and columns take longer than estimated (Zen 4: windows of
3 x 3 to 7 x 7 and one to four filters, 1.05 to 1.5 times as long)."""
LEAST_CHANNELS = 7
"""Of fewer channels a column takes longer to store and to read again than to compute."""
RELAYOUT_CYCLES = 0.5
"""Of an element that has to be copied into another order."""


def run(graph: Graph, remarks: Remarks, target: Target, kernels: Mapping[str, str]) -> int:
    """Compute a transposed convolution by weights that are no constants, or of whose results some are met by no tap,
    or few have channels in common, as a product of two matrices whose columns are added up; so, too, a convolution
    with few filters. May change rounding: sums are taken in another order."""
    if not target.lanes or not target.spare_memory:
        remarks.miss("col2im", f"target {target.name} has no vectors, or no memory for columns")
        return 0

    def check(m: Match) -> Fail | None:
        return _check(m, target)

    def check_conv(m: Match) -> Fail | None:
        return _check_convolution(m, target)

    what, operands = "made a product and columns", (Any("x"), Any("w"))
    rules = (
        Rule(what, Is(ConvTranspose, operands, "conv", plain=False), check, _rewrite),
        Rule(what, Is(Conv, operands, "conv", plain=False), check_conv, _rewrite_convolution),
    )
    return apply_rules(graph, remarks, rules, kernels)


def _check(m: Match, target: Target) -> Fail | None:
    op, w = m.op(ConvTranspose), m.values["w"]
    known = w in m.r.graph.constants
    if refused := _obstacle(m, op, w.shape):
        return refused
    if any(more >= stride for more, stride in zip(op.output_padding, op.strides, strict=True)):
        return Fail("its result is padded by whole strides")
    if not known or not meets_all(w.shape[2:], op.strides, op.dilations):
        return None
    if op.groups > 1:
        return Fail("")
    faster = _is_faster(m, op, w.shape, target, (OF_LINES, FASTER))
    return None if faster else Fail("convolutions of its phases are estimated to be as fast")


def _check_convolution(m: Match, target: Target) -> Fail | None:
    op, x, w, y = m.op(Conv), m.values["x"], m.values["w"], m.root.result
    known = w in m.r.graph.constants
    turned = _transposed(op, w.shape)
    if turned is None or math.prod(w.shape[2:]) == 1 or (op.groups > 1 and (known or w.shape[1] == 1)):
        return Fail("")
    if refused := _obstacle(m, turned, _turned_shape(op, w.shape)):
        return refused
    shape, parts = _turned_shape(op, w.shape), (OF_WINDOWS, OF_WINDOWS)
    fewer = _is_faster(m, turned, shape, target, parts) if known else _has_few_filters(x, y)
    return None if fewer else Fail("")


def _has_few_filters(x: Value, y: Value) -> bool:
    """Whether columns of what each pixel of an operand adds to the results of a convolution are fewer by half than
    columns of what each of its results reads."""
    return 2 * math.prod(x.shape[2:]) * y.shape[1] <= math.prod(y.shape[2:]) * x.shape[1]


def _transposed(op: Conv, w: Shape) -> ConvTranspose | None:
    """The transposed convolution by filters turned round; None if there is none."""
    rank = len(op.strides)
    reach = [(k - 1) * d for k, d in zip(w[2:], op.dilations, strict=True)]
    pads = tuple(e - p for e, p in zip((*reach, *reach), op.pads, strict=True))
    if any(s != 1 for s in op.strides) or min(span(p)[0] for p in pads) < 0:
        return None
    return ConvTranspose(op.strides, pads, op.dilations, (0,) * rank, op.groups)


def _turned_shape(op: Conv, w: Shape) -> Shape:
    """The shape of weights [M, C / groups, kernel...] as those of a transposed convolution."""
    return (w[1] * op.groups, w[0] // op.groups, *w[2:])


def _obstacle(m: Match, op: ConvTranspose, w: Shape) -> Fail | None:
    """Why there are no columns of a transposed convolution by weights of shape ``w``."""
    node, x, weights = m.root, m.values["x"], m.values["w"]
    known = m.r.graph.constants.get(weights)
    if known is None and is_known(m.r, weights):
        return Fail("")
    if isinstance(known, np.ndarray) and np.array_equal(known, np.rint(known)):
        return Fail("its weights are whole numbers, which stay bytes")
    if refused := not_floats_in_rows(node, x, weights, *node.results):
        return refused
    taps = 1 if known is not None else math.prod(w[2:])
    return too_large(taps, TensorType(F32, _columns(op, x, w)).nbytes, x, weights, node.result)


def _columns(op: ConvTranspose, x: Value, w: Shape) -> Shape:
    """The shape of what each pixel adds to the results, [N, filters, kernel..., spatial...]."""
    return (x.shape[0], op.groups * w[1], *w[2:], *x.shape[2:])


def _is_faster(
    m: Match, op: ConvTranspose, w: Shape, target: Target, parts: tuple[float, float]
) -> bool:
    """Whether columns of weights that are constants are estimated to be faster than the node as it is, in rows or by
    channels: columns are made in rows alone. ``op`` and ``w``: the transposed convolution that it is; ``parts``: of
    the cycles in rows and by channels that columns may take."""
    r, node, x, weights, y = m.r, m.root, m.values["x"], m.values["w"], m.root.result
    if x.shape[1] < LEAST_CHANNELS:
        return False
    columns = Value("columns", TensorType(F32, _columns(op, x, w)))
    filters = Value("filters", TensorType(F32, _filters(w)))
    product = Value("product", TensorType(F32, (x.shape[0], filters.shape[0], *x.shape[2:])))
    known = r.graph.constants
    multiplied = cheapest(Node(_pointwise(len(w) - 2), [x, filters], [product]), target, {filters})
    added = cheapest(replace(node, op=_col2im(op, y), operands=[columns]), target, known)
    rows = cheapest(node, target, known)
    stored_x, stored_y = (Value(v.name, replace(v.type, layout=channels_last(len(v.shape)))) for v in (x, y))
    far = cheapest(replace(node, results=[stored_y]), target, known)
    channels = cheapest(replace(node, operands=[stored_x, weights], results=[stored_y]), target, known)
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
    return multiplied + added < min(parts[0] * rows, parts[1] * channels)


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
    _make(m, m.op(ConvTranspose), m.values["w"], m.values["w"] in m.r.graph.constants)


def _rewrite_convolution(m: Match) -> None:
    r, node, op, w = m.r, m.root, m.op(Conv), m.values["w"]
    turned = _transposed(op, w.shape)
    assert turned is not None
    name, known, kernel = node.result.name, w in r.graph.constants, w.shape[2:]
    back = Slice((0, 0, *(k - 1 for k in kernel)), (1, 1, *(-1 for _ in kernel)), w.shape)
    flipped = r.insert(node, back, [w], f"{name}.flipped")
    groups = r.insert(node, Reshape((op.groups, w.shape[0] // op.groups, *w.shape[1:])), [flipped], f"{name}.groups")
    order = (0, 2, 1, *range(3, 3 + len(kernel)))
    exchanged = r.insert(node, Transpose(order), [groups], f"{name}.exchanged")
    filters = r.insert(node, Reshape(_turned_shape(op, w.shape)), [exchanged], f"{name}.transposed")
    _make(m, turned, filters, known)


def _make(m: Match, op: ConvTranspose, w: Value, known: bool) -> None:
    """Compute the root as the columns of a transposed convolution by ``w``, added up."""
    r, node, x = m.r, m.root, m.values["x"]
    product = _convolution(m, w) if known and op.groups == 1 else _matrices(m, op, w)
    columns = r.insert(node, Reshape(_columns(op, x, w.shape)), [product], f"{node.result.name}.columns")
    node.op = _col2im(op, node.result)
    r.rewire(node, [columns], node.extras)


def _col2im(op: ConvTranspose, result: Value) -> Col2Im:
    return Col2Im(result.shape[2:], op.strides, op.pads, op.dilations)


def _convolution(m: Match, w: Value) -> Value:
    """The product of filters that are constants and pixels, [N, filters * taps, spatial...]."""
    r, node, name = m.r, m.root, m.root.result.name
    rows = r.insert(node, Reshape((w.shape[0], math.prod(w.shape[1:]))), [w], f"{name}.rows")
    turned = r.insert(node, Transpose((1, 0)), [rows], f"{name}.turned")
    filters = r.insert(node, Reshape(_filters(w.shape)), [turned], f"{name}.filters")
    return r.insert(node, _pointwise(len(w.shape) - 2), [m.values["x"], filters], f"{name}.product")


def _filters(w: Shape) -> Shape:
    """The shape of the filters of 1 x 1 that each tap of a filter becomes."""
    return (math.prod(w[1:]), w[0], *(1,) * (len(w) - 2))


def _pointwise(rank: int) -> Conv:
    return Conv((1,) * rank, (0,) * (2 * rank), (1,) * rank)


def _matrices(m: Match, op: ConvTranspose, w: Value) -> Value:
    """The product of filters of the run, or of groups of filters, and pixels, [N, groups, filters * taps, pixels]."""
    r, node, x = m.r, m.root, m.values["x"]
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
