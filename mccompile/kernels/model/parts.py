"""How the turns of a kernel's loops are shared out to threads.

Worked example: 35 rows in tiles of 4 are nine turns, the last of three rows. Two threads take four and five of them:

>>> from mccompile.kernels.model.tiles import Tile
>>> rows = Turns("m", tuple(tile_starts(Tile(rows=4, vectors=2, lanes=8).tiles_m(35))), 35)
>>> divided([rows], 2)
Parts(loop='m', cuts=(0, 16, 35), rounds=1)

Of several loops that may be shared out, the first is taken, unless another one is shared out more evenly, by more
than it takes that what steps before have written, and steps behind will read, then lies in other cores' caches:

>>> divided([Turns.each("b", 3), rows], 2)
Parts(loop='m', cuts=(0, 16, 35), rounds=1)
>>> divided([Turns.each("b", 8), rows], 2)
Parts(loop='b', cuts=(0, 4, 8), rounds=1)
>>> divided([Turns.each("b", 3), rows], 2, even=0.2)
Parts(loop='b', cuts=(0, 1, 3), rounds=1)
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, varies
from mccompile.ir.kernel import Call, Logical
from mccompile.ir.parts import Parts
from mccompile.ir.types import TensorType
from mccompile.ir.views import View
from mccompile.kernels.model.tiles import Stretch, tile_starts
from mccompile.targets.target import Target

SHARES = 2.0
"""So many times what it takes to hand a part to another core a part has to be worth."""
EVEN = 0.03
"""By so much of all work the largest part may exceed the least there is, before another loop is shared out."""
UNEVEN = 0.15
"""By no more than that, however far elements lie."""


@dataclass(frozen=True)
class Turns:
    """The turns of a loop that may be made in any order, and at the same time: ``name`` is its variable, as the
    template calls it, ``starts`` are the values that it takes, ``extent`` is where it ends.

    A turn writes what no other one reads or writes, scratch memory and what it has itself read apart: of an operand
    whose place the result may take, it reads no element that another turn writes. If there are several ``rounds`` of
    all turns, it may read what others have written in rounds before, in scratch memory that is one for all.
    """

    name: str
    starts: tuple[int, ...]
    extent: int
    rounds: int = 1

    @classmethod
    def each(cls, name: str, extent: int) -> Turns:
        """Of a loop that takes every value below ``extent``."""
        return cls(name, tuple(range(extent)), extent)

    @classmethod
    def tiles(cls, name: str, pieces: Iterable[Stretch]) -> Turns:
        """Of a loop over the tiles of an axis."""
        found = list(pieces)
        return cls(name, tuple(tile_starts(found)), max(s.stop for s in found))

    @classmethod
    def vectors(cls, name: str, extent: int, unit: int) -> Turns:
        """Of a loop over vectors, in runs of ``unit`` elements, which are whole turns; what is left comes last."""
        return cls(name, tuple(range(0, max(extent // unit, 1) * unit, unit)), extent)

    def cut(self, parts: int) -> Parts:
        """As many parts as there are turns for, at most ``parts``, as equal as the turns allow."""
        ends = [*self.starts[1:], self.extent]
        parts = min(parts, len(ends))
        cuts = [0]
        for i in range(1, parts):
            left = [e for e in ends if e > cuts[-1]]
            cuts.append(min(left[: len(left) - (parts - i)], key=lambda e: abs(e * parts - self.extent * i)))
        return Parts(self.name, (*cuts, self.extent), self.rounds)

    def largest(self, parts: int) -> float:
        """What part of all work the largest part is."""
        cuts = self.cut(parts).cuts
        return max(b - a for a, b in itertools.pairwise(cuts)) / self.extent


def kept_axes(call: Call) -> list[Turns]:
    """The loops over the leading axes that a reduction or normalisation keeps; see `Lines`."""
    (x, *_), kept = call.reads, getattr(call.params, "kept", 0)
    return [] if x is None else axes(x, [f"i{a}" for a in range(kept)])


def axes(view: View, names: Sequence[str]) -> list[Turns]:
    """The loops over the first axes of a view, one for each of ``names``, which may run in any order."""
    if any(varies([e]) for e in view.shape[: len(names)]):
        return []
    return [Turns.each(n, e) for n, e in zip(names, view.shape, strict=False) if e > 1]


def batches(view: View) -> list[Turns]:
    """The loops ``b0``, ``b1``, ... over the axes of a batch [..., M, N]."""
    return axes(view, [f"b{a}" for a in range(view.rank - 2)])


def by_weights(call: Call, target: Target) -> bool:
    """Whether the loops over weights are shared out rather than those over elements that they are applied to.

    Where each core makes some of the columns it reads all elements, of which other cores have written most, and its
    columns are read by others. Where it makes some of the rows it reads all weights, from the third cache. 1 MiB of
    weights (39,000 cycles) by 196 rows of 512 elements (100,000 cycles there and back) go by rows, 16 such rows by
    columns.
    """
    x, w = call.reads[:2]
    if x is None or w is None:
        return False
    return _far(call, target) < w.count * w.dtype.nbytes / target.machine.l3_rate


def _far(call: Call, target: Target) -> float:
    """Cycles until a core has operand 0 and the result of a call, if others have written them."""
    views = [v for v in (*call.reads[:1], *call.results[:1]) if v is not None]
    return sum(bound(v.count) * v.dtype.nbytes for v in views) / target.machine.peer_rate


def unevenness(call: Call, cycles: float, parts: int, target: Target) -> float:
    """By how much of all its work the largest part of a call may exceed the least there is: a core then has written
    what it reads, and reads what it has written, half of which another loop's turns would have from other cores."""
    return min(max(EVEN, _far(call, target) / (2 * parts) / cycles), UNEVEN)


def divided(loops: Sequence[Turns], parts: int, even: float = EVEN) -> Parts | None:
    """The parts of a call, by the first of its loops that is shared out nearly as evenly as any, up to ``even`` of
    all work; None where there is none of several turns."""
    several = [t for t in loops if len(t.starts) > 1]
    if not several or parts < 2:
        return None
    least = min(t.largest(parts) for t in several)
    return next(t for t in several if t.largest(parts) <= least + even).cut(parts)


def worth(cycles: float, threads: int, target: Target) -> int:
    """Into how many parts, at most ``threads``, work of so many cycles may be divided."""
    return min(threads, int(cycles / (SHARES * target.machine.handoff)))


def estimate(call: Call, target: Target) -> float:
    """Cycles of a call about which the choice of kernels has said nothing: of its multiply-adds, and of what it reads
    and writes."""
    machine = target.machine
    views = [v for v in (*call.inputs, *call.results) if v is not None]
    nbytes = sum(min(bound(v.count) * v.dtype.nbytes, v.buffer.nbytes) for v in views)
    rate = machine.l2_rate if nbytes <= machine.l2 else machine.memory_rate
    return _macs(call) / machine.multiply_adds + nbytes / rate


def _macs(call: Call) -> int:
    known = call.logical or Logical(call.reads, call.results)
    if known.missing:
        return 0
    types = [None if v is None else TensorType(v.dtype, v.shape) for v in known.reads]
    return bound((known.op or call.op).macs(types, [TensorType(v.dtype, v.shape) for v in known.results]))
