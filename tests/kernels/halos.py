"""Networks whose values have halos: shared, refused, copied, and read by kernels that know nothing of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import TensorProto, helper

from tests.kernels.cases import Net, VariantCase

SAME = {"pads": [1, 1, 1, 1]}
WIDE = {"pads": [2, 2, 2, 2], "dilations": [2, 2]}


def _two_halos(n: Net) -> Sequence[str]:
    """Two readers want halos of different extents: one buffer serves both."""
    r = n("Neg", n.input(1, 3, 9, 11))
    return [n("Add", n.conv(r, (3, 3, 3, 3), **SAME), n.conv(r, (3, 3, 3, 3), **WIDE))]


def _lopsided(n: Net) -> Sequence[str]:
    r = n("Neg", n.input(1, 2, 6, 18))
    return [n.conv(r, (2, 2, 2, 2), pads=[1, 0, 0, 0]), n.conv(r, (2, 2, 2, 2), pads=[0, 0, 0, 1])]


def _read_by_all(n: Net) -> Sequence[str]:
    """A value with a halo is also read by a map, a pool, a reduction, a concatenation, a transpose, a product."""
    r = n("Neg", n.input(1, 4, 8, 8))
    pool = n("MaxPool", r, kernel_shape=[3, 3], pads=[1] * 4)
    mean = n("ReduceMean", r, axes=[2, 3])
    both = n("Concat", r, pool, axis=1)
    turned = n("Transpose", r, perm=[0, 2, 3, 1])
    return [n.conv(r, (4, 4, 3, 3), **SAME), n("Exp", r), mean, both, turned, n("MatMul", r, n.weight(8, 5))]


def _pools_and_convolutions(n: Net) -> Sequence[str]:
    """Padding of a maximum is no zero: values are negative, so a zero among them would win."""
    r = n("Sub", n("Neg", n("Abs", n.input(1, 3, 7, 7))), n.weight(1))
    pool = n("MaxPool", r, kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
    return [n("Add", pool, n.conv(r, (3, 3, 3, 3), **SAME)), n.conv(pool, (2, 3, 3, 3), **SAME)]


def _into_halos(n: Net) -> Sequence[str]:
    """Concatenation, padding, slices and a transpose write the inside of a buffer with a halo."""
    x = n.input(1, 4, 6, 7)
    both = n("Concat", n("Neg", x), n("Exp", x), axis=1)
    part = n("Slice", both, n.ints(1), n.ints(6), n.ints(1))
    turned = n("Transpose", x, perm=[0, 1, 3, 2])
    return [
        n.conv(both, (3, 8, 3, 3), **SAME),
        n.conv(part, (3, 5, 3, 3), **SAME),
        n.conv(turned, (3, 4, 3, 3), **SAME),
        n.conv(n("AveragePool", x, kernel_shape=[2, 2]), (3, 4, 3, 3), **SAME),
    ]


def _chain(n: Net) -> Sequence[str]:
    """Convolutions write each other's halo'd buffers, with a residual sum and depthwise steps between."""
    a = n.conv(n.input(1, 3, 12, 17), (6, 3, 3, 3), pads=[1] * 4, strides=[2, 2])
    b = n("Relu", n.conv(n("Relu", a), (6, 1, 3, 3), group=6, **SAME))
    c = n.conv(b, (6, 6, 1, 1))
    return [n("Relu", n.conv(n("Add", a, c), (5, 6, 5, 5), pads=[2] * 4))]


def _reshaped(n: Net) -> Sequence[str]:
    """A value seen through a reshape has no halo: its reader copies."""
    flat = n("Neg", n.input(1, 96))
    r = n("Reshape", flat, n.ints(1, 2, 6, 8))
    back = n("Reshape", n("Neg", r), n.ints(1, 96))
    return [n.conv(r, (3, 2, 3, 3), **SAME), n("MatMul", back, n.weight(96, 4))]


def _fixed(n: Net) -> Sequence[str]:
    """The network's input, and a value that is also its output, are copied for each reader."""
    x = n.input(1, 2, 7, 9)
    y = n("Exp", x)
    return [y, n.conv(y, (3, 2, 3, 3), **SAME), n.conv(x, (3, 2, 3, 3), **WIDE), n.conv(x, (3, 2, 3, 3), **SAME)]


def _pointwise_reads_halo(n: Net) -> Sequence[str]:
    """Rows that a halo keeps apart do not merge into one axis of pixels."""
    r = n("Neg", n.input(2, 3, 5, 9))
    return [n.conv(r, (4, 3, 1, 1)), n.conv(r, (4, 3, 3, 3), **SAME)]


def _pointwise_writes_halo(n: Net) -> Sequence[str]:
    p = n("Relu", n.conv(n.input(1, 3, 6, 20), (5, 3, 1, 1)))
    return [n.conv(p, (4, 5, 3, 3), **SAME)]


def _columns(n: Net) -> Sequence[str]:
    """Images of one column and of one row."""
    tall = n("Neg", n.input(1, 2, 9, 1))
    flat = n("Neg", n.input(1, 2, 1, 9))
    return [
        n.conv(tall, (3, 2, 3, 3), **SAME), n.conv(tall, (3, 2, 1, 1)),
        n.conv(flat, (3, 2, 3, 3), **SAME), n.conv(flat, (3, 2, 1, 1)),
    ]  # fmt: skip


def _if(n: Net, x: str, then: Callable[[Net], Sequence[str]], other: Callable[[Net], Sequence[str]]) -> Sequence[str]:
    """What one graph makes and what the other one does, whichever a condition on ``x`` chooses first."""
    condition = n("Greater", n("ReduceSum", x, keepdims=0), n.constant(np.float32(0)))
    return [
        n("If", c, then_branch=n.graph(then), else_branch=n.graph(other)) for c in (condition, n("Not", condition))
    ]


def _reshaped_inside(n: Net) -> Sequence[str]:
    """Graphs inside of a node see a value with a halo through reshapes, one of them in a graph of its own."""
    x = n.input(1, 4, 6, 7)
    r = n("Neg", x)

    def rows(inner: Net) -> Sequence[str]:
        return [inner("ReduceMax", inner("Reshape", r, inner.ints(4, 42)), axes=[0], keepdims=0)]

    def columns(inner: Net) -> Sequence[str]:
        return [inner("ReduceMax", inner("Reshape", r, inner.ints(42, 4)), axes=[1], keepdims=0)]

    def nested(inner: Net) -> Sequence[str]:
        return _if(inner, r, rows, columns)[:1]

    return [n.conv(r, (3, 4, 3, 3), **SAME), *_if(n, x, rows, nested)]


def _reshaped_out_of_branches(n: Net) -> Sequence[str]:
    """A node's result has a halo, and the graphs inside make it by reshapes."""
    x = n.input(4, 6)

    def product(inner: Net) -> Sequence[str]:
        return [inner("Reshape", inner("MatMul", x, inner.weight(6, 42)), inner.ints(1, 4, 6, 7))]

    def constant(inner: Net) -> Sequence[str]:
        return [inner("Reshape", inner.weight(1, 4, 42), inner.ints(1, 4, 6, 7))]

    return [n.conv(y, (3, 4, 3, 3), **SAME) for y in _if(n, x, product, constant)]


def _reshaped_in_turns(n: Net) -> Sequence[str]:
    """What a loop carries has a halo, and a turn sees it and makes it by reshapes."""
    x = n.input(1, 4, 6, 7)
    given = [helper.make_tensor_value_info("number", TensorProto.INT64, [])]
    given.append(helper.make_tensor_value_info("going", TensorProto.BOOL, []))
    given.append(helper.make_tensor_value_info("state", TensorProto.FLOAT, [1, 4, 6, 7]))

    def turn(inner: Net) -> Sequence[str]:
        rows = inner("Reshape", "state", inner.ints(4, 42))
        moved = inner("Sub", inner("Sin", rows), inner("ReduceMax", rows, axes=[0]))
        return [inner("Identity", "going"), inner("Reshape", moved, inner.ints(1, 4, 6, 7))]

    y = n("Loop", n.constant(np.array(300)), "", x, body=n.graph(turn, *given))
    return [n.conv(y, (3, 4, 3, 3), **SAME)]


HALOS = [
    VariantCase(f"halo {build.__name__}", "conv.direct", build)
    for build in (
        _two_halos, _lopsided, _read_by_all, _pools_and_convolutions, _into_halos, _chain, _reshaped, _fixed,
        _pointwise_reads_halo, _pointwise_writes_halo, _columns, _reshaped_inside, _reshaped_out_of_branches,
        _reshaped_in_turns,
    )
]  # fmt: skip
FREE = [
    VariantCase(f"chosen {build.__name__}", "conv.pointwise", build)
    for build in (_pointwise_reads_halo, _pointwise_writes_halo, _columns, _chain)
]
