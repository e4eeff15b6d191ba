"""What an operator reads for each element it writes: nests of loops with the coordinates of operands and result.

A convolution of x[1, 4, 9] by w[6, 2, 3] in two groups, strides 2, pads 1 is one nest of the loops

    n=1  g=2  m=3  o=5  c=2  t=3        (six of the result; c and t are summed over: no result coordinate has them)
    writes  n,  3 g + m,  o
    reads   x: n,  2 g + c,  2 o + t - 1        w: 3 g + m,  c,  t

as an operation of linear algebra in MLIR's `linalg.generic`, but that result coordinates may be any affine ones too.
A point with a coordinate outside of an operand (padding) or of the result counts for nothing. None for a coordinate
means that it may be any: an index read at run time, or a sequence that depends on itself.

>>> convolution = Nest(
...     loops=(1, 2, 3, 5, 2, 3),
...     writes=(loop(0, 6), combine(6, {1: 3, 2: 1}), loop(3, 6)),
...     reads=((loop(0, 6), combine(6, {1: 2, 4: 1}), combine(6, {3: 2, 5: 1}, -1)),),
... )
>>> convolution.reduced, radix(convolution.writes[1], convolution.loops)
((4, 5), (1, 2))
>>> bounds(convolution.reads[0][2], convolution.loops)  # beyond both ends of an extent of 9: padding
(-1, 9)
>>> reshaped((2, 12), (6, 4))[0].loops
(2, 3, 4)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from itertools import pairwise

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine, Move, combine, fixed, loop
from mccompile.ir.dims import UndecidedError, ranges, span
from mccompile.ir.types import Shape, TensorType

Coordinates = tuple[Affine | None, ...]
"""One for each axis of an operand."""


@dataclass(frozen=True)
class Nest:
    """For each point of ``loops`` the element at ``writes`` of a result depends on those at ``reads`` of operands.

    ``reads`` has an entry for each operand, None for one that is not read.
    """

    loops: Shape
    writes: tuple[Affine, ...]
    reads: tuple[Coordinates | None, ...]
    result: int = 0

    @property
    def reduced(self) -> tuple[int, ...]:
        """The loops over which elements of the result are combined; the others are parallel."""
        return tuple(k for k, e in enumerate(self.loops) if e > 1 and not self.is_parallel(k))

    def is_parallel(self, k: int) -> bool:
        """Whether steps of a loop write different elements, whatever the others do."""
        users = [w for w in self.writes if w.coefs[k]]
        return len(users) == 1 and k in radix(users[0], self.loops)


Structure = tuple[Nest, ...]
"""Nests that together are all that an operator reads and writes; none if that is not said."""


def radix(at: Affine, loops: Shape) -> tuple[int, ...]:
    """The loops of a coordinate from the slowest to the fastest, if no two of their points share it: else none.

    In 3 g + m with m < 3 they are g, m; in 2 i + t with t < 3 there are none.
    """
    used = sorted((k for k, c in enumerate(at.coefs) if c and loops[k] > 1), key=lambda k: -abs(at.coefs[k]))
    reach = 0
    for k in reversed(used):
        if abs(at.coefs[k]) <= reach:
            return ()
        reach += abs(at.coefs[k]) * (loops[k] - 1)
    return tuple(used)


def bounds(at: Affine, loops: Shape) -> tuple[int, int]:
    """The least and the greatest that a coordinate becomes."""
    ends = [c * (e - 1) for c, e in zip(at.coefs, loops, strict=True)]
    return at.const + sum(min(e, 0) for e in ends), at.const + sum(max(e, 0) for e in ends)


def is_loop(at: Affine | None, loops: Shape) -> int | None:
    """The loop that a coordinate is, from 0 on in steps of 1; loops that run once are passed over."""
    if at is None or at.const:
        return None
    used = [k for k, c in enumerate(at.coefs) if c and loops[k] > 1]
    return used[0] if len(used) == 1 and at.coefs[used[0]] == 1 else None


# -- the forms that operators have ---------------------------------------------------------------------------------
def axis_loops(rank: int, loops: int, first: int = 0) -> tuple[Affine, ...]:
    """A coordinate for each of ``rank`` axes: the loops from ``first`` on."""
    return tuple(loop(first + a, loops) for a in range(rank))


def broadcast(shape: Shape, rank: int, loops: int) -> tuple[Affine, ...]:
    """The coordinates of an operand that is broadcast to the first ``rank`` loops."""
    shift = rank - len(shape)
    return tuple(fixed(0, loops) if e == 1 else loop(a + shift, loops) for a, e in enumerate(shape))


def elementwise(types: Sequence[TensorType | None], result: TensorType) -> Structure:
    """Each element of the result depends on those at its place, the operands broadcast."""
    reads = tuple(None if t is None else broadcast(t.shape, result.rank, result.rank) for t in types)
    return (Nest(result.shape, axis_loops(result.rank, result.rank), reads),)


def over_axes(x: TensorType, axes: Iterable[int], results: Sequence[TensorType]) -> Structure:
    """An element of a result depends on the elements of x whose coordinates but those of ``axes`` are its own."""
    chosen = sorted(axes)
    nests = []
    for i, y in enumerate(results):
        loops = (*y.shape, *(x.shape[a] for a in chosen))
        reads = list(axis_loops(x.rank, len(loops)))
        for k, a in enumerate(chosen):
            reads[a] = loop(y.rank + k, len(loops))
        nests.append(Nest(loops, axis_loops(y.rank, len(loops)), (tuple(reads),), i))
    return tuple(nests)


def in_place(types: Sequence[TensorType | None]) -> Structure:
    """Elements of operand 0 at their own places; whatever the others hold may come in: see `Op.addresses_result`."""
    x, *others = types
    assert x is not None
    own = axis_loops(x.rank, x.rank)
    return (Nest(x.shape, own, (own, *(None if t is None else (None,) * t.rank for t in others))),)


def of_moves(moves: Sequence[Move], operands: int) -> Structure:
    """Movement: each move is a nest that reads one operand."""
    nests = []
    for m in moves:
        reads = tuple(m.src if i == m.operand else None for i in range(operands))
        nests.append(Nest(m.loops, m.dst, reads, m.result))
    return tuple(nests)


def reshaped(x: Shape, y: Shape) -> Structure:
    """The elements of a tensor in row-major order under another shape: the loops are the finest of both.

    [2, 12] as [6, 4] has the loops 2, 3, 4; where one shape cuts what the other does not, any element may be read,
    and so it is where only the run tells which cut is the longer one.
    """
    try:
        return _finest(x, y) or _anywhere(x, y)
    except UndecidedError:
        return _anywhere(x, y)


def _anywhere(x: Shape, y: Shape) -> Structure:
    """Any element may be read for any."""
    return (Nest(y, axis_loops(len(y), len(y)), ((None,) * len(x),)),)


def _longer(a: int, b: int) -> int:
    """Negative where ``a`` is never less than ``b``, positive where it is never more: 12 * n comes before 12, though
    they may be equal. UndecidedError where the run tells."""
    low, high = span(a - b)
    if low < 0 < high:
        raise UndecidedError(f"whether {a} is more than {b} depends on {ranges(a, b)}", _longer, a, b)
    return -1 if high > 0 else int(low < 0)


def common_cuts(x: Shape, y: Shape) -> list[int] | None:
    """How many elements lie behind each cut of two shapes of equal size, from all to 1; None where one shape cuts
    what the other does not. UndecidedError where only the run tells which is more.

    >>> common_cuts((2, 12), (6, 4)), common_cuts((2, 3), (3, 2))
    ([24, 12, 4, 1], None)
    """
    sizes = dict.fromkeys([1, *(math.prod(s[a:]) for s in (x, y) for a in range(len(s)))])
    cuts = sorted(sizes, key=functools.cmp_to_key(_longer))
    return None if 0 in cuts or any(big % small for big, small in pairwise(cuts)) else cuts


def refined(a: Shape, b: Shape) -> Shape | None:
    """The fewest axes that both shapes, of equal size, are merged from; None if there are no such, or if that depends
    on the run."""
    try:
        cuts = common_cuts(a, b)
    except UndecidedError:
        return None
    return None if cuts is None else tuple(outer // inner for outer, inner in pairwise(cuts))


def _finest(x: Shape, y: Shape) -> Structure | None:
    """As `reshaped`; None where one shape cuts what the other does not."""
    cuts = common_cuts(x, y)
    if cuts is None:
        return None
    loops = tuple(big // small for big, small in pairwise(cuts))

    def coordinates(shape: Shape) -> tuple[Affine, ...]:
        out = []
        for a, extent in enumerate(shape):
            inner = math.prod(shape[a + 1 :])  # places are compared, not cuts: an extent n of the run may be 1
            terms = {k: cuts[k + 1] // inner for k in range(cuts.index(inner * extent), cuts.index(inner))}
            out.append(combine(len(loops), terms))
        return tuple(out)

    return (Nest(loops, coordinates(y), (coordinates(x),)),)
