"""Affine index maps: how data movement addresses its operand and its result, in logical coordinates."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.scalar import Array
from mccompile.ir.types import Shape


@dataclass(frozen=True)
class Affine:
    """A coordinate ``const + sum(coefs[k] * loop[k])``."""

    const: int
    coefs: tuple[int, ...]


@dataclass(frozen=True)
class Move:
    """Copy one element per point of ``loops``: ``result[dst] = operand[src]``.

    ``src`` and ``dst`` hold one map per logical axis of operand and result. A move writes no element twice.
    """

    operand: int
    result: int
    loops: Shape
    src: tuple[Affine, ...]
    dst: tuple[Affine, ...]


def loop(k: int, rank: int, coef: int = 1, const: int = 0) -> Affine:
    """``const + coef * loop[k]`` among ``rank`` loops."""
    return Affine(const, tuple(coef if i == k else 0 for i in range(rank)))


def fixed(const: int, rank: int) -> Affine:
    return Affine(const, (0,) * rank)


def combine(rank: int, terms: dict[int, int], const: int = 0) -> Affine:
    """``const + sum(terms[k] * loop[k])``."""
    return Affine(const, tuple(terms.get(i, 0) for i in range(rank)))


def box(extents: Shape, src: tuple[tuple[int, int], ...], dst: tuple[tuple[int, int], ...], operand: int = 0,
        result: int = 0) -> Move:  # fmt: skip
    """A move axis by axis: loop a runs over axis a of both sides, each with its (start, step)."""
    rank = len(extents)
    return Move(
        operand,
        result,
        extents,
        tuple(loop(a, rank, step, start) for a, (start, step) in enumerate(src)),
        tuple(loop(a, rank, step, start) for a, (start, step) in enumerate(dst)),
    )


def positions(maps: tuple[Affine, ...], loops: Shape) -> tuple[Array, ...]:
    """The index arrays (one per axis, of shape ``loops``; not to be written) a map addresses: its meaning."""
    rank = len(loops)
    index = []
    for m in maps:
        at = np.full((1,) * rank, m.const, dtype=np.int64)
        for k, coef in enumerate(m.coefs):
            if coef:
                at = at + coef * np.arange(loops[k]).reshape((1,) * k + (-1,) + (1,) * (rank - 1 - k))
        index.append(np.broadcast_to(at, loops))
    return tuple(index)


def places(maps: tuple[Affine, ...], loops: Shape) -> tuple[Array | slice, ...]:
    """`positions`, as slices where a map goes along with the loops: no array of indices as large as the operand."""
    rank = len(loops)
    steps = [m.coefs[k] if k < rank else 0 for k, m in enumerate(maps)]
    along = len(maps) == rank and all(c > 0 for c in steps)
    if not along or any(m.coefs[i] for k, m in enumerate(maps) for i in range(rank) if i != k):
        return positions(maps, loops)
    return tuple(
        slice(m.const, m.const + c * (n - 1) + 1, c) for m, c, n in zip(maps, steps, loops, strict=True)
    )


def count(move: Move) -> int:
    return math.prod(move.loops)
