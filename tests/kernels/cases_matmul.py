"""Cases of the products whose operands are both computed at run time, and of attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.kernels.cases import TAILS, Array, Net, VariantCase


def variable(left: Sequence[int], right: Sequence[int], tail: str = "plain", trans: str = "") -> VariantCase:
    """A product of [..., M, K] by [..., K, N]; ``trans`` names the operands that come transposed."""

    def build(n: Net) -> Sequence[str]:
        a, b = n.input(*_stored(left, "a" in trans)), n.input(*_stored(right, "b" in trans))
        if trans:
            y = n("Gemm", a, b, transA=int("a" in trans), transB=int("b" in trans), alpha=0.5)
        else:
            y = n("MatMul", a, b)
        shape = (*np.broadcast_shapes(tuple(left[:-2]), tuple(right[:-2])), left[-2], right[-1])
        return [TAILS[tail](n, y, shape)]

    return VariantCase(f"variable {list(left)} {list(right)} {tail} {trans}", "matmul.variable", build)


def _column_and_a_number_each() -> VariantCase:
    """Rows of several matrices by one column, and a number for each matrix, which does not go on from row to row."""

    def build(n: Net) -> Sequence[str]:
        return [n("Add", n("MatMul", n.input(3, 20, 5), n.input(5, 1)), n.input(3, 1, 1))]

    return VariantCase("variable column and a number each", "matmul.variable", build)


def _stored(shape: Sequence[int], swapped: bool) -> Sequence[int]:
    return (*shape[:-2], shape[-1], shape[-2]) if swapped else shape


def dot(batch: Sequence[int], rows: int, length: int, columns: int, tail: str = "plain") -> VariantCase:
    """Few rows by the rows of another operand, which a transposition makes its columns."""

    def build(n: Net) -> Sequence[str]:
        a, b = n.input(*batch, rows, length), n.input(*batch, columns, length)
        axes = list(range(len(batch) + 2))
        y = n("MatMul", a, n("Transpose", b, perm=[*axes[:-2], axes[-1], axes[-2]]))
        return [TAILS[tail](n, y, (*batch, rows, columns))]

    return VariantCase(f"dot {list(batch)} {rows} {length} {columns} {tail}", "matmul.dot", build)


def quantised(
    shape: Sequence[int], columns: int, block: int, dtype: str = "int8", bits: int = 8, tail: str = "plain",
    kernel: str = "packed",
) -> VariantCase:
    """A product of [..., M, K] by dequantised bytes [K, N]: scales of blocks of K, or of columns if there is one."""

    def build(n: Net) -> Sequence[str]:
        k, (low, high) = shape[-1], {"int8": (-128, 127), "uint8": (0, 255)}[dtype]
        if bits == 4:
            low, high = low // 16, low // 16 + 15
        w = n.rng.integers(low, high + 1, (k, columns)).astype(dtype)
        count, axis = (columns, 1) if block >= k else (-(-k // block), 0)
        parts = n.rng.uniform(0.5, 1, count).astype(np.float32) / high, n.rng.integers(low, high + 1, count)
        scale, zero = (a if axis else np.repeat(a, block)[:k] for a in parts)
        given = [n.constant(w), n.constant(scale.astype(np.float32))]
        if tail != "plain":
            given.append(n.constant(zero.astype(dtype)))
        y = n("MatMul", n.input(*shape), n("DequantizeLinear", *given, axis=axis))
        return [TAILS[tail](n, y, (*shape[:-1], columns))]

    name = f"quantised {list(shape)} {columns} {block} {dtype} {bits} {tail} {kernel}"
    return VariantCase(name, f"matmul_quantised.{kernel}", build)


def rounded(
    shape: Sequence[int], columns: int, block: int, bits: int, zeros: bool = False, tail: str = "plain"
) -> VariantCase:
    """A product of [..., M, K] by weights of ``bits``, with the operand rounded to bytes by blocks, too."""

    def build(n: Net) -> Sequence[str]:
        k, blocks = shape[-1], -(-shape[-1] // block)
        weights = n.rng.integers(0, 256, (columns, blocks, block * bits // 8)).astype(np.uint8)
        scales = n.rng.uniform(0.5, 1, columns * blocks).astype(np.float32) / 2**bits
        given = [n.input(*shape), n.constant(weights), n.constant(scales)]
        if zeros:
            given.append(n.constant(n.rng.integers(0, 256, columns * -(-blocks * bits // 8)).astype(np.uint8)))
        sizes = {"K": k, "N": columns, "bits": bits, "block_size": block}
        y = n("MatMulNBits", *given, domain="com.microsoft", accuracy_level=4, **sizes)
        return [TAILS[tail](n, y, (*shape[:-1], columns))]

    name = f"rounded {list(shape)} {columns} {block} {bits} {zeros} {tail}"
    return VariantCase(name, "matmul_quantised.words", build)


QUANTISED = [
    quantised((1, 48), 20, 48),
    quantised((1, 64), 33, 16, "uint8", 4, "residual"),
    quantised((3, 50), 9, 16, "uint8", 8, "residual"),
    quantised((2, 3, 64), 40, 32, "int8", 4, "swish"),
    quantised((13, 70), 17, 20, "int8", 4),
    quantised((9, 32), 192, 16, "int8", 8),
    quantised((2, 2050), 24, 2050, "int8", 4),
    quantised((7, 33), 31, 33, "int8", 8, "swish"),
    quantised((1, 2048), 5, 2048, "uint8", 8),
]
WORDS = [
    quantised((1, 48), 20, 48, kernel="words"),
    quantised((1, 64), 33, 16, "uint8", 4, "residual", "words"),
    quantised((3, 50), 9, 16, "uint8", 8, "residual", "words"),
    quantised((2, 2, 72), 48, 32, "int8", 4, "swish", "words"),
    quantised((18, 70), 17, 20, "int8", 4, kernel="words"),
    quantised((2, 2050), 24, 2050, "int8", 4, "residual", "words"),
    quantised((1, 3000), 5, 1500, "uint8", 8, kernel="words"),
    quantised((1, 1100), 40, 100, "uint8", 4, "residual", "words"),
    quantised((1, 76), 9, 19, "int8", 4, kernel="words"),
    rounded((1, 128), 37, 32, 4, tail="residual"),
    rounded((7, 72), 9, 16, 4, zeros=True),
    rounded((2, 76), 20, 32, 8, zeros=True, tail="swish"),
    rounded((3, 280), 70, 256, 4, zeros=True),
    rounded((1, 100), 40, 32, 8, tail="residual"),
]
DOT = [
    *(
        dot((), m, k, n)
        for m, k, n in ((1, 2, 2), (1, 16, 4), (2, 15, 5), (4, 33, 7), (1, 70, 3), (2, 9, 1), (9, 18, 1))
    ),
    *(dot((2, 3), m, 20, n, tail) for m, n in ((2, 6), (6, 1)) for tail in ("swish", "residual", "masks")),
]
VARIABLE = [
    *(variable((m, 5), (5, n)) for m, n in ((1, 1), (1, 16), (2, 7), (5, 8), (6, 32), (13, 33), (29, 31), (30, 64))),
    *(variable((4, 3), (3, 18), tail) for tail in TAILS if tail != "roots"),
    *(variable((5, 40), (40, n), "residual", trans) for trans in ("a", "b", "ab") for n in (21, 32)),
    *(variable((m, k), (k, n), "residual") for m, k, n in ((13, 70, 144), (13, 96, 100), (7, 80, 256), (5, 1, 40))),
    variable((2, 7, 80), (2, 80, 256)),
    *(variable((m, k), (k, n), "residual") for m, k, n in ((1, 30, 200), (2, 9, 77), (4, 1100, 100), (1, 7, 12))),
    *(variable((1, 19), (19, n)) for n in (2, 3, 5, 8, 13, 17, 24, 31, 47, 70, 130)),
    *(variable((2, 3, 1, 20), (2, 3, 20, n), tail) for n, tail in ((9, "swish"), (37, "residual"), (100, "masks"))),
    variable((3, 1, 1030), (3, 1030, 21), "residual"),
    variable((3, 2, 9), (3, 9, 45), "swish"),
    variable((2, 3, 4, 6), (2, 3, 6, 10), "residual"),
    variable((2, 3, 4, 6), (2, 1, 6, 16)),
    variable((1, 3, 4, 6), (2, 1, 6, 9)),
    *(variable((m, k), (k, 1), "residual") for m, k in ((2, 5), (13, 16), (37, 8), (150, 2), (70, 1), (33, 40))),
    *(variable((45, 3), (3, 1), tail) for tail in TAILS if tail != "roots"),
    *(variable((21, 17), (17, 1), "residual", trans) for trans in ("a", "b", "ab")),
    variable((2, 3, 21, 6), (2, 3, 6, 1)),
    variable((2, 3, 21, 6), (6, 1), "residual"),
    variable((19, 6), (2, 3, 6, 1), "swish"),
    variable((2, 1, 18, 6), (1, 3, 6, 1), "residual"),
    _column_and_a_number_each(),
    variable((1, 150), (150, 2008), "residual"),
    variable((2, 3, 4, 6), (6, 10), "residual"),
    variable((4, 6), (2, 3, 6, 32), "swish"),
]


def attention(
    batch: Sequence[int], queries: int, keys: int, length: int, width: int, mask: str = "", tail: str = "plain"
) -> VariantCase:
    """Attention of ``queries`` by ``keys`` of ``length``, values of ``width``.

    ``mask``: "add" (per key), "causal" (a constant), "select" (by bools, the first row altogether), "safe"
    (likewise, with zeros instead of NaN), "heads" (an addition of -inf; operands and result as projections leave
    them: [batch, sequence, heads * length]).
    """

    def build(n: Net) -> Sequence[str]:
        if mask == "heads":
            q, k, v = (_heads(n, batch, s, d) for s, d in ((queries, length), (keys, length), (keys, width)))
        else:
            q, k, v = (n.input(*batch, s, d) for s, d in ((queries, length), (keys, length), (keys, width)))
        axes = list(range(len(batch) + 2))
        scores = n("MatMul", q, n("Transpose", k, perm=[*axes[:-2], axes[-1], axes[-2]]))
        scores = _MASKS[mask](n, scores, queries, keys)
        weights = n("Softmax", scores, axis=-1)
        if mask == "safe":
            weights = n("Where", n("IsNaN", weights), _number(n, 0), weights)
        y = n("MatMul", weights, v)
        y = TAILS[tail](n, y, (*batch, queries, width))
        if mask == "heads":
            y = n("Reshape", n("Transpose", y, perm=[0, 2, 1, 3]), n.ints(batch[0], queries, batch[1] * width))
        return [y]

    name = f"attention {list(batch)} {queries} {keys} {length} {width} {mask} {tail}"
    return VariantCase(name, "attention.vector", build)


def _heads(n: Net, batch: Sequence[int], rows: int, length: int) -> str:
    x = n("Neg", n.input(batch[0], rows, batch[1] * length))
    return n("Transpose", n("Reshape", x, n.ints(batch[0], rows, batch[1], length)), perm=[0, 2, 1, 3])


def _causal(queries: int, keys: int) -> Array:
    return np.tril(np.ones((queries, keys), dtype=bool), keys - queries)


def _number(n: Net, value: float) -> str:
    return n.constant(np.array(value, dtype=np.float32))


def _added(n: Net, scores: str, queries: int, keys: int) -> str:
    return n("Add", n("Mul", scores, _number(n, 0.3)), n("Mul", n.input(1, keys), _number(n, 9)))


def _masked(n: Net, scores: str, queries: int, keys: int) -> str:
    halves = n("Div", scores, _number(n, 2))
    return n("Where", n.constant(_causal(queries, keys)), halves, _number(n, -1e9))


def _selected(n: Net, scores: str, queries: int, keys: int) -> str:
    least = np.full((queries, 1), -0.5, dtype=np.float32)
    least[0] = 9
    return n("Where", n("Greater", n.input(queries, keys), n.constant(least)), scores, _number(n, -np.inf))


def _before(n: Net, scores: str, queries: int, keys: int) -> str:
    return n("Add", scores, n.constant(np.where(_causal(queries, keys), 0, -np.inf).astype(np.float32)))


_MASKS: dict[str, Callable[[Net, str, int, int], str]] = {
    "": lambda n, scores, queries, keys: scores,
    "add": _added,
    "causal": _masked,
    "select": _selected,
    "safe": _selected,
    "heads": _before,
}

ATTENTION = [
    *(attention((2,), m, n, 4, 5) for m, n in ((1, 1), (1, 33), (2, 16), (7, 7), (13, 8), (29, 31))),
    *(attention((3,), m, n, d, 16) for m, n, d in ((1, 40, 40), (3, 29, 70), (4, 8, 9))),
    *(attention((1, 3), 9, n, 8, w, "add") for n, w in ((12, 16), (17, 24), (32, 3), (65, 33))),
    *(attention((2, 2), m, 18, 6, 16, mask) for m in (5, 16) for mask in ("causal", "select", "safe", "heads")),
    *(attention((2, 1), 4, 20, 3, 18, "add", tail) for tail in ("swish", "residual", "clip")),
    attention((), 6, 40, 32, 32, "select"),
    *(attention((), m, n, 32, 32) for m, n in ((1, 1), (1, 3), (2, 4), (3, 7), (4, 33))),
    *(attention((2, 3), m, n, 64, 64) for m, n in ((1, 6), (2, 37), (4, 16))),
    attention((2, 3), 17, 64, 32, 32, "heads", "residual"),
]
