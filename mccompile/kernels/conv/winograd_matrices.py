"""Winograd's minimal filtering F(m, r): m results of a filter of r taps by m + r - 1 products instead of m * r.

Every s-th result is the sum over s phases of the inputs, each filtered by every s-th tap: s such filterings, side by
side, take s * m + r - s products.

With the filter g, m + r - 1 inputs d and the matrices of `Filtering`: y = AT ((G g) * (BT d)), the product being
element by element. Over two axes each matrix is applied along both. The construction is that of Toom and Cook
(A. Lavin and S. Gray, "Fast Algorithms for Convolutional Neural Networks", 2015): polynomials are multiplied by their
values at some points and at infinity. Points come in pairs p, -p, whose rows share the even and odd half of a sum.

Worked example: F(2, 3) makes two results of three taps by 4 products instead of 6. Of d[0] .. d[3] the inputs'
sums are r[0] .. r[3], and those times the filter's values at 0, 1, -1 and infinity are added up to the results.

>>> f = filtering(2, 3)
>>> def times(matrix, vector):
...     return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]
>>> [s.line for s in input_sums(2, 3, 1)]
['r[0] = d[2] - d[0];', 'r[1] = d[1] + d[2];', 'r[2] = d[2] - d[1];', 'r[3] = d[3] - d[1];']
>>> d, g = [1, 2, 3, 4], [1, 10, 100]
>>> products = [a * b for a, b in zip(times(f.g, g), times(f.bt, d), strict=True)]
>>> len(products), list(map(int, times(f.at, products)))  # 1 + 20 + 300, 2 + 30 + 400
(4, [321, 432])
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array

POINTS = (Fraction(0), *(s * Fraction(p) for p in ("1", "2", "1/2") for s in (1, -1)))
"""Where polynomials are evaluated, beside infinity: small magnitudes, for their powers scale the rounding errors."""
MAX_PRODUCTS = len(POINTS) + 1

Row = tuple[Fraction, ...]
Matrix = tuple[Row, ...]


@dataclass(frozen=True)
class Filtering:
    """The matrices of F(outputs, taps): AT [m, t], G [t, r], BT [t, t] with t = stride * (m - 1) + r."""

    at: Matrix
    g: Matrix
    bt: Matrix


@functools.cache
def filtering(outputs: int, taps: int, stride: int = 1) -> Filtering:
    """F(outputs, taps) of every ``stride``-th result, of no fewer taps than that. F(1, 1) is the identity: an axis
    without a filter, at any stride."""
    parts = [_dense(outputs, len(range(phase, taps, stride))) for phase in range(min(stride, taps))]
    total = sum(len(f.bt) for f in parts)
    at: list[list[Fraction]] = [[] for _ in range(outputs)]
    g, bt = [], []
    for phase, f in enumerate(parts):
        for line, more in zip(at, f.at, strict=True):
            line += more
        g += [_spread(row, phase, stride, taps) for row in f.g]
        bt += [_spread(row, phase, stride, total) for row in f.bt]
    return Filtering(_matrix(at), _matrix(g), _matrix(bt))


@functools.cache
def distinct_points(outputs: int, taps: int, stride: int) -> int:
    """Points without those at the end whose weights are the same: all of a last phase of one tap."""
    g = filtering(outputs, taps, stride).g
    return len(g) - sum(row == g[-1] for row in g) + 1


def _spread(row: Sequence[Fraction], first: int, step: int, length: int) -> list[Fraction]:
    """A row of ``length`` whose elements are ``step`` apart from ``first`` on."""
    out = [Fraction(0)] * length
    out[first : first + step * len(row) : step] = row
    return out


def _dense(outputs: int, taps: int) -> Filtering:
    """F(outputs, taps) of all results; of one tap there are as many points as results, each with that tap."""
    if taps == 1:
        identity = _matrix([[Fraction(i == j) for j in range(outputs)] for i in range(outputs)])
        return Filtering(identity, ((Fraction(1),),) * outputs, identity)
    products = outputs + taps - 1
    finite = POINTS[: products - 1]
    whole = _product(finite)
    at = [[p**i for p in finite] + [Fraction(i == outputs - 1)] for i in range(outputs)]
    g, bt = [], []
    for p in finite:
        others = tuple(q for q in finite if q != p)
        scale = math.prod((p - q for q in others), start=Fraction(1))
        g.append([p**k / scale for k in range(taps)])
        bt.append([*_product(others), Fraction(0)])
    g.append([Fraction(k == taps - 1) for k in range(taps)])
    bt.append(whole)
    return Filtering(_matrix(at), _matrix(g), _matrix(bt))


def _product(roots: Sequence[Fraction]) -> list[Fraction]:
    """The coefficients of the product of (x - root), the lowest first."""
    out = [Fraction(1)]
    for root in roots:
        out = [a - root * b for a, b in zip([Fraction(0), *out], [*out, Fraction(0)], strict=True)]
    return out


def _matrix(rows: Sequence[Sequence[Fraction]]) -> Matrix:
    return tuple(tuple(row) for row in rows)


def transformed(weights: Array, outputs: Sequence[int], strides: Sequence[int]) -> Array:
    """Weights [M, C, R, S] as G g GT at the distinct points, [t * u, M, C], in float64; no processor has other bits
    (`ir/same_bits.py`)."""
    rows, columns = (
        np.array(filtering(m, r, s).g[: distinct_points(m, r, s)], dtype=np.float64)
        for m, r, s in zip(outputs, weights.shape[2:], strides, strict=True)
    )
    taps = np.ascontiguousarray(weights.transpose(2, 3, 0, 1), dtype=np.float64)
    out = np.zeros((len(rows), len(columns), *weights.shape[:2]))
    for row, points in zip(rows, out, strict=True):
        lines = np.zeros(taps.shape[1:])
        _add_scaled(lines, row, taps)
        for column, point in zip(columns, points, strict=True):
            _add_scaled(point, column, lines)
    return out.reshape(-1, *weights.shape[:2])


def _add_scaled(total: Array, factors: Array, arrays: Array) -> None:
    """Add each of the arrays, times its factor, to a total."""
    for factor, array in zip(factors, arrays, strict=True):
        if factor:
            total += factor * array


def amplification(outputs: int, taps: int, stride: int = 1) -> float:
    """By how much rounding errors may grow along one axis, of a sum of |g| |d|: the most that |AT| |G| |BT| has.

    Over two axes the factors multiply. With as many products as there may be, that times the unit roundoff of f32 is
    less than 1e-4; errors mostly cancel, and are some hundred times less.
    """
    f = filtering(outputs, taps, stride)
    at, g, bt = (np.abs(np.array(m, dtype=np.float64)) for m in (f.at, f.g, f.bt))
    return float(np.einsum("it,tk,tj->ikj", at, g, bt).sum(axis=2).max())


@dataclass(frozen=True)
class Sum:
    """A line of C: ``name``, an element of the result or a constant, is a sum of terms (coefficient, operand)."""

    name: str
    terms: tuple[tuple[Fraction, str], ...]

    @property
    def line(self) -> str:
        return f"{'' if self.name.endswith(']') else 'const mcc_vf '}{self.name} = {self.text};"

    @property
    def text(self) -> str:
        """The right-hand side; the first term has no factor where one of them has none, so that all others fuse."""
        ordered = sorted(self.terms, key=lambda t: t[0] != 1)
        out = _times(*ordered[0])
        for c, operand in ordered[1:]:
            out += f" {'-' if c < 0 else '+'} {_times(abs(c), operand)}"
        return out

    @functools.cached_property
    def operations(self) -> int:
        """Instructions, where a product and a sum are one."""
        return max(len(self.terms) - 1, 1) if any(c == 1 for c, _ in self.terms) else len(self.terms)


def _times(factor: Fraction, operand: str) -> str:
    if abs(factor) == 1:
        return operand if factor == 1 else f"-{operand}"
    return f"{float(factor)!r}f * {operand}"


@functools.cache
def input_sums(outputs: int, taps: int, stride: int) -> tuple[Sum, ...]:
    """``r[0] ...``, the points of F(outputs, taps), from ``d[0] ...``, inputs."""
    return sums(filtering(outputs, taps, stride).bt, "r", "d")


@functools.cache
def output_sums(outputs: int, taps: int, stride: int) -> tuple[Sum, ...]:
    """``r[0] ...``, the results of F(outputs, taps), from ``d[0] ...``, products."""
    return sums(filtering(outputs, taps, stride).at, "r", "d")


def sums(matrix: Matrix, result: str, operand: str) -> tuple[Sum, ...]:
    """``result[0] ...`` as ``matrix`` times ``operand[0] ...``: rows of equal magnitudes share their halves."""
    lines: list[Sum] = []
    names = [f"{operand}[{j}]" for j in range(len(matrix[0]))]
    columns = list(map(list, zip(*matrix, strict=True)))
    for j, k in _paired_columns(columns):
        both, apart = f"{operand}{j}p{k}", f"{operand}{j}m{k}"
        one = Fraction(1)
        lines += [Sum(both, ((one, names[j]), (one, names[k]))), Sum(apart, ((one, names[j]), (-one, names[k])))]
        even = [a if a == b else Fraction(0) for a, b in zip(columns[j], columns[k], strict=True)]
        odd = [a if a != b else Fraction(0) for a, b in zip(columns[j], columns[k], strict=True)]
        names[j], names[k], columns[j], columns[k] = both, apart, even, odd
    rows = [list(row) for row in zip(*columns, strict=True)]
    i = 0
    while i < len(rows):
        if i + 1 < len(rows) and _paired_rows(rows[i], rows[i + 1]):
            even = [a if a == b else Fraction(0) for a, b in zip(rows[i], rows[i + 1], strict=True)]
            odd = [a if a != b else Fraction(0) for a, b in zip(rows[i], rows[i + 1], strict=True)]
            lines += _halves(result, i, _terms(even, names), _terms(odd, names))
            i += 2
        else:
            lines.append(Sum(f"{result}[{i}]", _terms(rows[i], names)))
            i += 1
    return tuple(lines)


def _paired_columns(columns: list[list[Fraction]]) -> list[tuple[int, int]]:
    """Neighbouring columns of equal magnitudes, some of equal and some of opposite sign."""
    pairs = []
    for j in range(len(columns) - 1):
        alike, opposite = _agreement(columns[j], columns[j + 1])
        if alike and opposite and alike + opposite > 2:
            pairs.append((j, j + 1))
    return pairs


def _paired_rows(a: list[Fraction], b: list[Fraction]) -> bool:
    """Whether two rows have equal magnitudes, and each half more than one term or both have."""
    alike, opposite = _agreement(a, b)
    return alike + opposite > 2 and opposite > 0


def _agreement(a: Sequence[Fraction], b: Sequence[Fraction]) -> tuple[int, int]:
    """How many numbers other than zero are the same, and how many opposite; none where magnitudes differ.

    Filters with long strides have thousands of numbers, nearly all zero.
    """
    alike = opposite = 0
    for x, y in zip(a, b, strict=True):
        if x is y and not x.numerator:
            continue
        if x == y:
            alike += x != 0
        elif x == -y:
            opposite += 1
        else:
            return 0, 0
    return alike, opposite


def _halves(
    result: str, i: int, even: tuple[tuple[Fraction, str], ...], odd: tuple[tuple[Fraction, str], ...]
) -> list[Sum]:
    """``result[i] = even + odd`` and ``result[i + 1] = even - odd``; each half is computed once."""
    lines: list[Sum] = []
    halves = []
    for half, terms in (("e", even), ("o", odd)):
        factor = terms[-1][0]
        if len(terms) > 1:
            name = f"{half}{i}"
            lines.append(Sum(name, tuple((c / factor, n) for c, n in terms)))
        else:
            name = terms[0][1]
        halves.append((factor, name))
    (fe, e), (fo, o) = halves
    both = (Sum(f"{result}[{i}]", ((fe, e), (fo, o))), Sum(f"{result}[{i + 1}]", ((fe, e), (-fo, o))))
    return [*lines, *both]


def _terms(row: Sequence[Fraction], names: Sequence[str]) -> tuple[tuple[Fraction, str], ...]:
    return tuple((c, n) for c, n in zip(row, names, strict=True) if c)
