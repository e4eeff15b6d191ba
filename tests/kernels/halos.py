"""Networks whose values have halos: shared, refused, copied, and read by kernels that know nothing of them."""

from __future__ import annotations

from collections.abc import Sequence

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


HALOS = [
    VariantCase(f"halo {build.__name__}", "conv.direct", build)
    for build in (
        _two_halos, _lopsided, _read_by_all, _pools_and_convolutions, _into_halos, _chain, _reshaped, _fixed,
        _pointwise_reads_halo, _pointwise_writes_halo, _columns,
    )
]  # fmt: skip
FREE = [
    VariantCase(f"chosen {build.__name__}", "conv.pointwise", build)
    for build in (_pointwise_reads_halo, _pointwise_writes_halo, _columns, _chain)
]
