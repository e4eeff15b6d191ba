"""Cases of Strassen's products: tiles of rows and columns that fit, that leave an odd rest, or a part of a vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tests.kernels.cases import TAILS, Net, VariantCase
from tests.kernels.cases_conv_channels import channels

TOLERANCE = 1e-5
"""Of the largest result; see `mccompile.kernels.matmul.strassen`."""
KERNEL = "matmul.strassen"


def product(shape: Sequence[int], columns: int, tail: str = "plain", transposed: bool = False) -> VariantCase:
    """A product of [..., M, K] by a constant [K, N], or [N, K]."""

    def build(n: Net) -> Sequence[str]:
        x = n.input(*shape)
        if transposed:
            y = n("Gemm", x, n.weight(columns, shape[-1]), n.weight(columns), transB=1)
        else:
            y = n("MatMul", x, n.weight(shape[-1], columns))
        return [TAILS[tail](n, y, (*shape[:-1], columns))]

    name = f"strassen {list(shape)} {columns} {tail} {transposed}"
    return VariantCase(name, KERNEL, build, tolerance=TOLERANCE)


def pixels(shape: Sequence[int], out: int, tail: str = "plain") -> VariantCase:
    """A 1x1 convolution of an intermediate value."""
    case = channels(shape, out, (1,) * (len(shape) - 2), tail)
    return replace(case, name=f"strassen {case.name}", kernel=KERNEL, tolerance=TOLERANCE)


def _parts(n: Net) -> Sequence[str]:
    """Operands and results that are parts of wider pixels: slices and a concatenation along the channels."""
    x = n("Neg", n.input(1, 60, 6, 7))
    halves = [n("Slice", x, n.ints(lo), n.ints(hi), n.ints(1)) for lo, hi in ((0, 20), (20, 60))]
    made = [n.conv(halves[0], (24, 20, 1, 1)), n.conv(halves[1], (40, 40, 1, 1))]
    return [n.conv(n("Concat", *made, axis=1), (36, 64, 1, 1))]


def _one_row(n: Net) -> Sequence[str]:
    """Rows that are all one, and blocks of rows that are."""
    x = n("Neg", n.input(2, 24))
    repeated = n("Gather", x, n.ints(1, 1, 1, 1, 1), axis=0)
    blocks = n("Expand", n("Neg", n.input(1, 6, 24)), n.ints(3, 6, 24))
    return [n("MatMul", repeated, n.weight(24, 40)), n("Relu", n("MatMul", blocks, n.weight(24, 33)))]


def _batch_of_one(n: Net) -> Sequence[str]:
    """A matrix [1, N, K], which is read as [K, N]."""
    return [n("Einsum", n.input(1, 9, 32), n.weight(1, 40, 32), equation="bik,bjk->bij")]


def _columns_apart(n: Net) -> Sequence[str]:
    """Columns of three magnitudes, and some of zeros."""
    w = n.rng.uniform(-1, 1, (32, 80)).astype("float32")
    w[:, ::3] *= 1e-9
    w[:, 1::6] *= 1e7
    w[:, 5] = 0
    return [n("Relu", n("Add", n("MatMul", n.input(40, 32), n.constant(w)), n.weight(80)))]


STRASSEN = [
    *(product((m, 8), 64) for m in (2, 3, 4, 5, 7, 12, 23, 30, 61)),
    *(product((14, 12), columns) for columns in (1, 8, 16, 17, 24, 31, 32, 33, 48, 56, 63, 90, 129)),
    *(product((13, k), 48) for k in (2, 4, 6, 10, 34, 66, 130)),
    *(product((11, 20), 40, tail) for tail in TAILS),
    product((9, 16), 37, "residual", transposed=True),
    product((2, 3, 4, 24), 44, "swish"),
    product((25, 1200), 40, "residual"),
    product((300, 800), 96, "swish"),
    *(pixels((1, 16, h, w), 40) for h, w in ((1, 2), (3, 5), (8, 8), (13, 11))),
    *(pixels((2, 24, 5, 7), 33, tail) for tail in ("residual", "masks", "swish")),
    pixels((1, 20, 19), 36, "residual"),
    VariantCase("strassen _parts", KERNEL, _parts, "conv", channels_last=True, tolerance=TOLERANCE),
    VariantCase("strassen _one_row", KERNEL, _one_row, "matmul", tolerance=TOLERANCE),
    VariantCase("strassen _batch_of_one", KERNEL, _batch_of_one, "matmul", tolerance=TOLERANCE),
    VariantCase("strassen _columns_apart", KERNEL, _columns_apart, "matmul", tolerance=TOLERANCE),
]
