"""Cases of the products whose operands are both computed at run time, and of attention."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.kernels.cases import TAILS, Net, VariantCase


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


def _stored(shape: Sequence[int], swapped: bool) -> Sequence[int]:
    return (*shape[:-2], shape[-1], shape[-2]) if swapped else shape


VARIABLE = [
    *(variable((m, 5), (5, n)) for m, n in ((1, 1), (1, 16), (2, 7), (5, 8), (6, 32), (13, 33), (29, 31), (30, 64))),
    *(variable((4, 3), (3, 18), tail) for tail in TAILS if tail != "roots"),
    *(variable((5, 40), (40, n), "residual", trans) for trans in ("a", "b", "ab") for n in (21, 32)),
    variable((2, 3, 4, 6), (2, 3, 6, 10), "residual"),
    variable((2, 3, 4, 6), (2, 1, 6, 16)),
    variable((1, 3, 4, 6), (2, 1, 6, 9)),
    variable((2, 3, 4, 6), (6, 10), "residual"),
    variable((4, 6), (2, 3, 6, 32), "swish"),
]


def attention(
    batch: Sequence[int], queries: int, keys: int, length: int, width: int, mask: str = "", tail: str = "plain"
) -> VariantCase:
    """Attention of ``queries`` by ``keys`` of ``length``, values of ``width``.

    ``mask``: "add" (per key), "causal" (a constant), "select" (by bools), "heads" (as projections lie in memory:
    [batch, sequence, heads * length], an addition of -inf); the first row of "select" is masked altogether.
    """

    def build(n: Net) -> Sequence[str]:
        if mask == "heads":
            q, k, v = (_heads(n, batch, s, d) for s, d in ((queries, length), (keys, length), (keys, width)))
        else:
            q, k, v = (n.input(*batch, s, d) for s, d in ((queries, length), (keys, length), (keys, width)))
        axes = list(range(len(batch) + 2))
        scores = n("MatMul", q, n("Transpose", k, perm=[*axes[:-2], axes[-1], axes[-2]]))
        scores = _MASKS[mask](n, scores, queries, keys)
        y = n("MatMul", n("Softmax", scores, axis=-1), v)
        y = TAILS[tail](n, y, (*batch, queries, width))
        if mask == "heads":
            y = n("Reshape", n("Transpose", y, perm=[0, 2, 1, 3]), n.ints(batch[0], queries, batch[1] * width))
        return [y]

    name = f"attention {list(batch)} {queries} {keys} {length} {width} {mask} {tail}"
    return VariantCase(name, "attention.vector", build)


def _heads(n: Net, batch: Sequence[int], rows: int, length: int) -> str:
    x = n("Neg", n.input(batch[0], rows, batch[1] * length))
    return n("Transpose", n("Reshape", x, n.ints(batch[0], rows, batch[1], length)), perm=[0, 2, 1, 3])


def _causal(queries: int, keys: int) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.tril(np.ones((queries, keys), dtype=bool), keys - queries)


_MASKS = {
    "": lambda n, s, queries, keys: s,
    "add": lambda n, s, queries, keys: n(
        "Add", n("Mul", s, n.constant(np.float32(0.3))), n("Mul", n.input(1, keys), n.constant(np.float32(9)))
    ),
    "causal": lambda n, s, queries, keys: n(
        "Where", n.constant(_causal(queries, keys)), n("Div", s, n.constant(np.float32(2))), n.constant(np.float32(-1e9))
    ),
    "select": lambda n, s, queries, keys: n(
        "Where",
        n("Greater", n.input(queries, keys), n.constant(np.float32(0.5))),
        s,
        n.constant(np.float32(-np.inf)),
    ),
    "heads": lambda n, s, queries, keys: n(
        "Add", s, n.constant(np.where(_causal(queries, keys), 0, -np.inf).astype(np.float32))
    ),
}

ATTENTION = [
    *(attention((2,), m, n, 4, 5) for m, n in ((1, 1), (1, 33), (2, 16), (7, 7), (13, 8), (29, 31))),
    *(attention((1, 3), 9, n, 8, w, "add") for n, w in ((12, 16), (17, 24), (32, 3), (65, 33))),
    *(attention((2, 2), m, 18, 6, 16, mask) for m in (5, 16) for mask in ("causal", "select", "heads")),
    *(attention((2, 1), 4, 20, 3, 18, "add", tail) for tail in ("swish", "residual", "clip")),
    attention((), 6, 40, 32, 32, "select"),
    attention((2, 3), 17, 64, 32, 32, "heads", "residual"),
]
