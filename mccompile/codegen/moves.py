"""The words of the copy template: the way elements go, and which lanes of which vectors make up another one."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import BoundView, KernelContext
from mccompile.ir.dims import varies
from mccompile.kernels.movement import Way, movement

Place = tuple[int, int]
"""A vector and one of its lanes."""


@dataclass(frozen=True)
class Moves:
    """A copy from ``x`` to ``y``, whose axes are in the order of the loops."""

    way: str
    x: BoundView
    y: BoundView
    lanes: int

    @property
    def x_pitch(self) -> int | str:
        """How far apart the vectors of a square lie in the source: a number, or what a parameter is called."""
        return _pitch(self.x.view.axis_strides()[-1], "x_pitch")

    @property
    def y_pitch(self) -> int | str:
        """How far apart they lie in the result."""
        return _pitch(self.y.view.axis_strides()[-2], "y_pitch")

    def pitches(self, kind: str, across: int, down: int) -> list[str]:
        """The parameters of a square, of a ``kind``: distances that the run decides, where there is more than one
        vector on that side."""
        sides = (self.x_pitch, down), (self.y_pitch, across)
        return [f"{kind}{p}" for p, vectors in sides if isinstance(p, str) and vectors > 1]

    def distances(self, across: int, down: int) -> list[str]:
        """What is given for them."""
        sides = (self.x.view.axis_strides()[-1], down), (self.y.view.axis_strides()[-2], across)
        return [KernelContext.offset((e, 1)) for e, vectors in sides if varies([e]) and vectors > 1]

    def stages(self, across: int) -> list[tuple[int, list[int]]]:
        """Of a square of which ``across`` vectors are wanted: what each stage swaps, and the vectors it makes.

        The first entry, of no swap, are the vectors that are read.
        """
        blocks = [d for d in (1, 2, 4, 8) if d < self.lanes]
        wanted = list(range(across))
        found = []
        for d in reversed(blocks):
            found.append((d, wanted))
            wanted = sorted({i & ~d for i in wanted} | {i | d for i in wanted})
        return [(0, wanted), *reversed(found)]

    def swap(self, block: int, odd: int) -> str:
        """The lanes of two vectors that a vector has when odd blocks of the first are swapped for even ones of the
        second: those of the first vector, or with ``odd`` of the second."""
        first = [self.lanes + j - block if j & block else j for j in range(self.lanes)]
        second = [self.lanes + j if j & block else j + block for j in range(self.lanes)]
        return ", ".join(map(str, second if odd else first))

    def weaving(self, few: int, k: int) -> list[Place]:
        """What vector ``k`` of a run is made of, in which ``few`` vectors take turns."""
        elements = range(k * self.lanes, (k + 1) * self.lanes)
        return [(e % few, e // few) for e in elements]

    def unweaving(self, few: int, k: int) -> list[Place]:
        """What vector ``k`` of ``few`` is made of, which take turns in a run."""
        elements = range(k, few * self.lanes, few)
        return [(e // self.lanes, e % self.lanes) for e in elements]

    def woven(self, sources: Sequence[str], places: Sequence[Place]) -> str:
        """A vector whose lanes come from several ones; lanes of vectors that there are not have no meaning."""
        value, others = sources[0], sources[1:] or sources[:1]
        taken = [lane if vector == 0 else 0 for vector, lane in places]
        for s, other in enumerate(others, 1):
            lanes = [self.lanes + lane if vector == s else t for t, (vector, lane) in zip(taken, places, strict=True)]
            value = f"__builtin_shufflevector({value}, {other}, {', '.join(map(str, lanes))})"
            taken = list(range(self.lanes))
        return value


def _pitch(stride: int, name: str) -> int | str:
    return name if varies([stride]) else stride


def moves(context: KernelContext, lanes: int) -> Moves:
    """The way of a copy. Where numbers are C parameters, any of them must do: one element after the other."""
    x, y = context.x[0], context.y[0]
    assert x is not None
    if context.call.args:
        run = y.rank == 1 and y.s(0) == x.s(0) == "1"
        return Moves((Way.ROWS if run else Way.PLAIN).value, x, y, 0)
    m = movement(x.view, y.view, lanes)
    source, result = BoundView(x.name, m.source, uses=x.uses), BoundView(y.name, m.result, uses=y.uses)
    return Moves(m.way.value, source, result, lanes)
