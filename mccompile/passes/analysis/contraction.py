"""Sums of products with weights, whatever operator makes them: which channels the weights connect with which.

A convolution of x[1, 4, 9] by w[6, 2, 3] in two groups has the nest (see `ir/structure.py`)

    writes  n,  3 g + m,  o          reads  x: n,  2 g + c,  2 o + t - 1        w: 3 g + m,  c,  t

Axis 1 of the result and axis 1 of x are those that only loops of the weights address: the channels. The loops of w
are of four kinds: g of both, m of the result alone, c of x alone, and t of neither. As [g, m, c, t] the weights of
all operators are alike.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine
from mccompile.ir.dims import UndecidedError, bound, may_reach, span
from mccompile.ir.graph import Node
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Coordinates, Nest, bounds
from mccompile.ir.types import Shape, TensorType


@dataclass(frozen=True)
class Side:
    """The channels of operand 0 or of the result, along ``axis`` of ``rank``.

    ``weights`` is the axis of the weights that the channels of one group lie along; ``channels`` says for each weight
    which channel it is of, in an array that broadcasts to the weights.
    """

    axis: int
    rank: int
    weights: int
    channels: Array

    def factor(self, part: Array) -> Array | None:
        """What multiplies the weights where ``part``, which broadcasts to the tensor, multiplies it; None if it
        varies along other axes than the channels'."""
        full = (1,) * (self.rank - np.ndim(part)) + np.shape(part)
        if len(full) != self.rank or any(e != 1 and a != self.axis for a, e in enumerate(full)):
            return None
        flat = np.reshape(part, -1)
        return flat.reshape((1,) * self.channels.ndim) if flat.size == 1 else flat[self.channels]


@dataclass(frozen=True)
class Contraction:
    """Operand 0 times operand 1, the weights, summed up.

    ``split`` is the shape of the weights with an axis for each loop, ``order`` puts these into the order g, m, c, t,
    of ``extents`` together; the groups lie along the axis ``group_weights``. ``padded``: some products are with what
    lies outside of operand 0. ``scattered``: which taps an element of the result sees depends on where it is.
    """

    operand: Side
    result: Side
    split: Shape
    order: tuple[int, ...]
    extents: tuple[int, ...]
    group_weights: int
    padded: bool
    scattered: bool

    @property
    def groups(self) -> int:
        return self.extents[0]

    def taps(self, weights: Array) -> Array:
        """Weights as [g, m, c, t]."""
        return weights.reshape(self.split).transpose(self.order).reshape(self.extents)


def is_product(op: Op) -> bool:
    """Whether an operator is linear in operand 0 as in operand 1."""
    return op.multilinear[:2] == (0, 1)


def contraction(node: Node) -> Contraction | None:
    """How a node sums up products of operand 0 with weights; None if it does anything else."""
    types = node.operand_types()
    if len(types) != 2 or not is_product(node.op):
        return None
    try:
        return _of(node.op, tuple(types))
    except UndecidedError:
        return None


@functools.lru_cache(maxsize=4096)
def _of(op: Op, types: tuple[TensorType | None, ...]) -> Contraction | None:
    nests, (x, w) = op.structure(types), types
    if len(nests) != 1 or x is None or w is None or nests[0].reads[0] is None or nests[0].reads[1] is None:
        return None
    (nest,) = nests
    reads, by = nests[0].reads[0], [at for at in nests[0].reads[1] if at is not None]
    axes = [_radix(at, e, nest) for at, e in zip(by, w.shape, strict=False)]
    if len(by) != w.rank or any(loops is None for loops in axes):
        return None
    loops = [k for found in axes for k in found or ()]
    left, right = _channel_axis(reads, nest.writes, loops), _channel_axis(nest.writes, reads, loops)
    if left is None or right is None:
        return None
    a, b = _used(reads[left]), _used(nest.writes[right])
    kinds = [2 * (k not in b) + (k not in a) for k in loops]  # g, m, c, t are 0, 1, 2, 3
    own = [next((i for i, found in enumerate(axes) if kind in [kinds[loops.index(k)] for k in found or ()]), -1)
           for kind in (2, 1, 0)]  # fmt: skip
    extents = [1, 1, 1, 1]
    for k, kind in zip(loops, kinds, strict=True):
        extents[kind] *= nest.loops[k]
    outside = any(at is None or _outside(at, nest.loops, e) for at, e in zip(reads, x.shape, strict=True))
    scattered = any(kind == 3 and k in _used(at) for k, kind in zip(loops, kinds, strict=True) for at in nest.writes)
    sides = [
        Side(axis, len(side), own[i], _labels(side[axis], loops, axes, nest.loops))
        for i, (axis, side) in enumerate(((left, reads), (right, nest.writes)))
    ]
    return Contraction(
        sides[0],
        sides[1],
        tuple(nest.loops[k] for k in loops),
        tuple(sorted(range(len(loops)), key=lambda i: kinds[i])),
        tuple(extents),
        own[2],
        outside or scattered,
        scattered,
    )


def _used(at: Affine | None) -> set[int]:
    return set() if at is None else {k for k, c in enumerate(at.coefs) if c}


def _channel_axis(side: Coordinates, other: Coordinates, loops: Sequence[int]) -> int | None:
    """The last axis that only loops of the weights address, not all of them those of the other side as well."""
    elsewhere = set().union(*map(_used, other))
    found = [a for a, at in enumerate(side) if _used(at) <= set(loops) and not _used(at) <= elsewhere]
    return found[-1] if found else None


def _radix(at: Affine, extent: int, nest: Nest) -> tuple[int, ...] | None:
    """The loops of an axis, the slowest first; None unless each of their points is another element of it."""
    found = sorted(_used(at), key=lambda k: (-at.coefs[k], -nest.loops[k]))
    size = 1
    for k in reversed(found):
        if nest.loops[k] > 1 and at.coefs[k] != size:
            return None
        size *= nest.loops[k]
    return tuple(found) if size == extent and not at.const else None


def _outside(at: Affine, loops: Shape, extent: int) -> bool:
    low, high = bounds(at, loops)
    return span(low)[0] < 0 or may_reach(high, extent)


def _labels(at: Affine | None, loops: Sequence[int], axes: Sequence[tuple[int, ...] | None], extents: Shape) -> Array:
    """A coordinate for each weight, of the longest run: first with an axis for each loop, then with those of one axis
    joined."""
    assert at is not None
    index = np.full((1,) * len(loops), bound(at.const))
    for i, k in enumerate(loops):
        shape = [1] * len(loops)
        shape[i] = bound(extents[k]) if at.coefs[k] else 1
        index = index + bound(at.coefs[k]) * np.arange(shape[i]).reshape(shape)
    joined, first = [], 0
    full = list(index.shape)
    for found in axes:
        part = slice(first, first + len(found or ()))
        if any(e > 1 for e in index.shape[part]):
            full[part] = [bound(extents[k]) for k in loops[part]]
        joined.append(math.prod(full[part]))
        first = part.stop
    return np.broadcast_to(index, full).reshape(joined)
