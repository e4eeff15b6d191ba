"""How many bytes the importer's folding of a node may take, told before it runs: a few numbers can ask for terabytes.

Worked example: inputs of shapes [30, 1] and [40] broadcast to 1200 elements, of which none takes more than 8 bytes.
Two vectors of 40 stay 40 elements if they are added, or 80 if they are laid one behind the other; a product of them
may have one for each pair.

>>> column, row = np.zeros((30, 1), np.uint8), np.zeros(40, np.uint8)
>>> broadcast_bytes({}, [column, row])
9600
>>> broadcast_bytes({}, [row, row]), product_bytes({}, [row, row])
(640, 12800)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass

Attributes = Mapping[str, object]
Arrays = Sequence[np.ndarray | None]
FoldedBytes = Callable[[Attributes, Arrays], int]
"""An upper bound of what a node makes of its inputs, often far too large; most count 8 bytes for each element.

May raise ArithmeticError, LookupError, TypeError or ValueError for inputs that the operator does not take.
"""

UNBOUNDED = 1 << 100
"""For a result without end: more than any limit."""


def broadcast_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Of most operators: all inputs broadcast, or as many elements as they have bytes (concatenated, cast)."""
    given = present(arrays)
    ranks = max((a.ndim for a in given), default=0)
    extents: list[int] = [max(a.shape[i] for a in given if a.ndim >= -i) for i in range(-ranks, 0)]
    return 8 * max(math.prod(extents), given_bytes(arrays))


def product_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Of products: an element for each choice of one of every input, as in an outer product."""
    return 8 * math.prod(max(a.size, 1) for a in present(arrays))


def gathered_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Of what picks slices: each index, input 1, may take all of input 0."""
    data, indices, *_ = present(arrays)
    return 8 * data.size * max(indices.size, 1)


def shaped_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Of what is told its shape: the last input holds the extents."""
    shape = present(arrays)[-1].reshape(-1)
    return max(8 * math.prod(max(int(e), 1) for e in shape), given_bytes(arrays))


def window_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Of convolutions and pools: pads, which are attributes, may make them larger than what they are made of."""
    x, *weights = present(arrays)
    pads = integers(attrs, "pads")
    rank = x.ndim - 2
    extents = [e + sum(abs(p) for p in pads[a::rank]) + 1 for a, e in enumerate(x.shape[2:])]
    channels = max([*x.shape[1:2], *(w.shape[0] for w in weights if w.ndim > 2)], default=1)
    return max(8 * math.prod((*x.shape[:1], channels, *extents)), broadcast_bytes(attrs, arrays))


def integers(attrs: Attributes, name: str) -> tuple[int, ...]:
    """An attribute that is a list of integers; none where it is not that: whoever computes the result refuses it."""
    given = attrs.get(name)
    return tuple(i for i in given if isinstance(i, int)) if isinstance(given, tuple) else ()


def present(arrays: Arrays) -> list[np.ndarray]:
    """The inputs that are not left out."""
    return [a for a in arrays if a is not None]


def given_bytes(arrays: Arrays) -> int:
    """What all inputs hold."""
    return int(sum(a.nbytes for a in present(arrays)))


@dataclass(frozen=True)
class Folding:
    """What the importer has to know of an operator that it may fold.

    ``bound`` bounds the results. ``sized``: a few numbers decide how large they are, so that the bound counts where
    they are not folded too. ``always``: nothing computes them on the device, however much they take as constants.
    ``repeats``: its front end stores what the result repeats, so that one that is too large to fold is none.
    """

    bound: FoldedBytes = broadcast_bytes
    sized: bool = False
    always: bool = False
    repeats: bool = False


BROADCAST = Folding()
"""Of operators that say nothing else."""

WINDOW = Folding(window_bytes)
"""Of convolutions and pools."""
