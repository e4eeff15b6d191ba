"""DFT and STFT: products with constant matrices of cosines and sines; a long transform is two shorter ones."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import bound, varies
from mccompile.ir.graph import Value
from mccompile.ir.scalar import Array
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.matmul import MatMul
from mccompile.ops.pad import Pad
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice
from mccompile.ops.take import Take, own_axis
from mccompile.ops.transpose import Transpose

MAX_WHOLE = 1 << 18
"""The largest matrix, in elements, that is preferred to two shorter transforms whatever the frames. What lies between
two transforms of many frames is up to three times what the whole needs, but from 512 points on its matrix, 1 MB,
would not be in a microcontroller."""

MIN_WHOLE = 1 << 15
"""A larger matrix is no more preferred where what lies between two transforms takes less memory than it, and they
make a third of the products. Measured on Zen 4: of 256 complex points one transform takes 0.18 of the time in two,
50 of them 0.34, 50 of 400 real points to 201 bins 0.58."""

BETWEEN = 4
"""Elements that lie between two transforms for each point: of two steps, real and imaginary parts."""
FEWER = 3
"""Two transforms make so many times fewer products, or more rather: else their steps take what they save."""

MAX_MATRIX = 1 << 26
"""The largest matrix at all, in elements."""


TOLERANCE = {"f32": 3e-5}
"""onnxruntime's transforms are that far from the truth where the length is no power of two; ours is within 3e-7."""


@dataclass(frozen=True)
class _Transform:
    """Of ``length`` points, of which ``given`` are not zero, to the first ``bins``.

    ``mirrored``: the operand has the bins of a real signal from 0 to length // 2 on, the rest mirrors them.
    """

    length: int
    given: int
    bins: int
    inverse: bool
    mirrored: bool

    def matrix(self, parts: int, wanted: int) -> Array:
        """[given * parts, bins * wanted]: real and imaginary parts alternate, unless there are only real ones."""
        turns = _turns(np.outer(np.arange(self.given), np.arange(self.bins)), self.length, self.inverse)
        chosen = turns[:parts, :wanted] * self.weights()[:, None]
        return chosen.transpose(2, 0, 3, 1).reshape(self.given * parts, self.bins * wanted)

    def weights(self) -> Array:
        """What each point counts: an inverse is a mean, and of two mirrored bins one is there."""
        counts = np.ones(self.given)
        if self.mirrored:
            counts[1 : (self.length + 1) // 2] = 2.0
        return counts / self.length if self.inverse else counts


def _number(n: Import, i: int, what: str, default: int) -> int:
    return default if n.optional(i) is None else int(n.one(i, what))


def _first(n: Import, x: Value, axis: int, count: int) -> Value:
    """The first ``count`` elements of an axis."""
    if x.shape[axis] == count:
        return x
    extents = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return n.inner(Slice((0,) * len(extents), (1,) * len(extents), extents), [x], "first")


def _swapped(n: Import, x: Value, perm: tuple[int, ...]) -> Value:
    return x if perm == tuple(range(len(perm))) else n.inner(Transpose(perm), [x], "turned")


def _factors(length: int) -> tuple[int, int]:
    """The two factors that are nearest to each other; the first is 1 of a prime."""
    first = next(f for f in range(math.isqrt(length), 0, -1) if length % f == 0)
    return first, length // first


def _products_in_two(t: _Transform, parts: int) -> int:
    """Products of one row by two shorter transforms (`_in_two`): those of n1 points n2 times, then the other way."""
    n1, n2 = _factors(t.length)
    return n2 * (n1 * parts) * (n1 * 2) + n1 * (n2 * 2) * (-(-t.bins // n1) * 2)


def _transformed(n: Import, x: Value, t: _Transform, wanted: int, window: Array | None = None) -> Value:
    """[rows, bins, wanted] of x[rows, given, 1 or 2]."""
    rows, given, parts = x.shape
    matrix_elements = given * parts * t.bins * wanted
    between = bound(rows) * t.length * BETWEEN
    shorter = matrix_elements > max(between, MIN_WHOLE) and matrix_elements > FEWER * _products_in_two(t, parts)
    if (matrix_elements > MAX_WHOLE or shorter) and t.length <= MAX_MATRIX:
        n1, n2 = _factors(t.length)
        in_two = n1 * n2 * 2 * -(-t.bins // n1) * 2
        if n1 >= 4 and in_two <= MAX_MATRIX:
            return _first(n, _in_two(n, x, t, window), 2, wanted)
        matrix_elements = min(matrix_elements, in_two) if n1 >= 4 else matrix_elements
    if matrix_elements > MAX_MATRIX:
        raise n.error(
            f"transforming {t.length} points takes a matrix of {matrix_elements} elements, the limit is {MAX_MATRIX}",
            hint="choose a shorter length, or one that has factors, such as a power of two",
        )
    matrix = t.matrix(parts, wanted)
    if window is not None:
        with np.errstate(invalid="ignore"):  # zero times an infinite number of the window is no number, as in C
            matrix = np.repeat(window, parts)[:, None] * matrix
    waves = n.constant("waves", matrix.astype(x.dtype.numpy))
    product = n.inner(MatMul(), [n.reshape(x, (rows, given * parts), "points"), waves], "product")
    return n.reshape(product, (rows, t.bins, wanted), "bins")


def _in_two(n: Import, x: Value, t: _Transform, window: Array | None) -> Value:
    """As `_transformed`, both parts, by Cooley and Tukey: point j2 + n2 * j1 and bin k1 + n1 * k2 of n1 * n2.

    The turns between the two transforms are part of the second's matrices, one for each k1.
    """
    rows, given, parts = x.shape
    n1, n2 = _factors(t.length)
    counts = t.weights() if window is None else t.weights() * window
    if (counts != 1).any():
        scale = n.constant("scale", counts.astype(x.dtype.numpy).reshape(1, given, 1))
        x = n.map(ex.apply("mul", ex.var(0, x.dtype), ex.var(1, x.dtype)), [x, scale], "scaled")
    if given < t.length:
        x = n.inner(Pad((0, 0, 0, 0, t.length - given, 0)), [x], "padded")
    inner = _turns(np.outer(np.arange(n1), np.arange(n1)), n1, t.inverse)[:parts]
    waves = inner.transpose(2, 0, 3, 1).reshape(n1 * parts, n1 * 2)
    x = n.reshape(x, (rows, n1, n2, parts), "grid")
    x = n.reshape(_swapped(n, x, (0, 2, 1, 3)), (rows * n2, n1 * parts), "columns")
    x = n.inner(MatMul(), [x, n.constant("waves1", waves.astype(x.dtype.numpy))], "first_product")
    k2 = -(-t.bins // n1)
    k1_j2_k2 = np.arange(n2)[:, None] * (np.arange(n1)[:, None, None] + n1 * np.arange(k2))
    outer = _turns(k1_j2_k2, t.length, t.inverse)
    second = outer.transpose(2, 3, 0, 4, 1).reshape(n1, n2 * 2, k2 * 2)
    x = n.reshape(x, (rows, n2, n1, 2), "halves")
    x = n.reshape(_swapped(n, x, (2, 0, 1, 3)), (n1, rows, n2 * 2), "rows")
    x = n.inner(MatMul(), [x, n.constant("waves2", second.astype(x.dtype.numpy))], "second_product")
    x = _swapped(n, n.reshape(x, (n1, rows, k2, 2), "scattered"), (1, 2, 0, 3))
    return _first(n, n.reshape(x, (rows, k2 * n1, 2), "all_bins"), 1, t.bins)


def _turns(products: Array, length: int, inverse: bool) -> Array:
    """[part read, part made, ...] of exp(+-2 pi i products / length)."""
    waves = np.exp((2j if inverse else -2j) * math.pi / length * (products % length))
    return np.array([[waves.real, waves.imag], [-waves.imag, waves.real]])


def _sample_dft(d: Draw) -> Case:
    kind = d.choice(["complex", "real", "onesided", "mirrored"])
    inverse = int(kind == "mirrored" or (kind == "complex" and d.bool()))
    rank = d.int(1, 3)
    axis = d.int(0, rank - 1)
    extents = [d.choice([9, 15, 30]) if a == axis else d.int(1, 3) for a in range(rank)]
    shape = [*extents, 2 if kind in ("complex", "mirrored") else 1]
    # onnxruntime adds no bins that are missing, and is not exact where a long length is no power of two.
    lengths = [2 * extents[axis] - 1, 2 * extents[axis] - 2] if kind == "mirrored" else [4, 16, 1024]
    length = np.array(d.choice(lengths)) if d.bool() else None
    attrs = {"inverse": inverse, "onesided": int(kind in ("onesided", "mirrored"))}
    return Case([d.array(shape), length, np.array(axis)], attrs, frozenset({1, 2}))


def _dft_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Both parts of each bin: as many as there are points, unless a number says otherwise."""
    x, (length, axis) = present(arrays)[0], (*arrays, None, None)[1:3]
    over = -2 if axis is None else int(axis.reshape(-1)[0])
    bins = 2 * int(x.shape[over]) if length is None else int(length.reshape(-1)[0])
    return 8 * 2 * max(bins, 1) * max(int(x.size) // max(int(x.shape[over]), 1), 1)


@onnx_op("DFT", sample=_sample_dft, tolerance=TOLERANCE, folding=Folding(_dft_bytes, sized=True))
def import_dft(n: Import) -> None:
    x = n.computed(n.input(0))
    rank = len(x.shape)
    axis = n.axis(_number(n, 2, "axis", -2), rank)
    if rank < 2 or axis == rank - 1 or x.shape[-1] not in (1, 2):
        raise n.error(f"there are no real and imaginary parts along the last axis of {x.type}, or it is transformed")
    inverse, onesided = n.flag("inverse"), n.flag("onesided")
    mirrored = inverse and onesided
    available = x.shape[axis]
    length = _number(n, 1, "dft_length", 2 * (available - 1) if mirrored else available)
    if varies((available, length)):
        raise n.error("the points of a transform have to be as many in each run",
                      "give each dim that they depend on one number: --dim NAME=N")  # fmt: skip
    if length < 1:
        raise n.error(f"a transform of {length} points")
    given = min(available, length // 2 + 1 if mirrored else length)
    bins = length // 2 + 1 if onesided and not inverse else length
    perm = (*(a for a in range(rank - 1) if a != axis), axis, rank - 1)
    moved = _swapped(n, _first(n, x, axis, given), perm)
    flat = n.reshape(moved, (math.prod(moved.shape[:-2]), given, moved.shape[-1]), "flat")
    transform = _Transform(length, given, bins, inverse, mirrored)
    made = _transformed(n, flat, transform, 1 if mirrored else 2)
    made = n.reshape(n.stored(made), (*moved.shape[:-2], bins, made.shape[-1]), "moved")
    n.bind(0, _swapped(n, made, tuple(perm.index(a) for a in range(rank))))


def _sample_stft(d: Draw) -> Case:
    length, step = d.choice([4, 9, 16, 1024]), d.choice([1, 3, 4])
    signal = d.array((d.int(1, 2), length + d.int(0, 20), *d.choice([(), (1,)])))
    window = d.array((length,)) if d.bool() else None
    frame = np.array(length) if window is None or d.bool() else None
    constant = frozenset({1, 3} | ({2} if d.bool() else set()))
    return Case([signal, np.array(step), window, frame], {"onesided": d.int(0, 1)}, constant)


@onnx_op("STFT", sample=_sample_stft, tolerance=TOLERANCE)
def import_stft(n: Import) -> None:
    """Frames of the signal, one row each; a known window is part of the matrix.

    A signal [batch, length] is a real one, as onnxruntime has it: PyTorch writes such.
    """
    x = n.computed(n.input(0))
    if len(x.shape) == 2:
        x = n.reshape(x, (*x.shape, 1), "real")
    if len(x.shape) != 3 or x.shape[2] not in (1, 2):
        raise n.error(f"a signal of {x.type} is not [batch, length] or [batch, length, 1 or 2]")
    batch, available, parts = x.shape
    window = n.optional(2)
    step = _number(n, 1, "frame_step", 1)
    length = _number(n, 3, "frame_length", available if window is None else window.shape[0])
    if varies((length,)):
        raise n.error("frames have to have as many points in each run",
                      "give each dim that they depend on one number: --dim NAME=N")  # fmt: skip
    if not 1 <= length <= available or step < 1 or (window is not None and window.shape != (length,)):
        raise n.error(f"frames of {length} points every {step} do not fit {x.type} and the window")
    frames = (available - length) // step + 1
    maps = (own_axis(0, 4), (0, 0, step, 1, 0), own_axis(3, 4))
    x = n.inner(Take((batch, frames, length, parts), maps), [x], "frames")
    known = n.graph.array(window).astype(np.float64) if window is not None and n.is_const(2) else None
    if window is not None and known is None:
        column = n.reshape(window, (length, 1), "window")
        x = n.map(ex.apply("mul", ex.var(0, x.dtype), ex.var(1, x.dtype)), [x, column], "windowed")
    bins = length // 2 + 1 if n.flag("onesided", True) else length
    flat = n.reshape(x, (batch * frames, length, parts), "flat")
    made = _transformed(n, flat, _Transform(length, length, bins, False, False), 2, known)
    n.bind(0, n.reshape(n.stored(made), (batch, frames, bins, 2), "bins"))
