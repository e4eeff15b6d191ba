"""The words of the copy template: the way elements go, and which lanes of which vectors make up another one.

Worked example: of two vectors of four lanes that take turns, the second vector of the run has

>>> weaving(4, 2, 1)
[(0, 2), (1, 2), (0, 3), (1, 3)]
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.code import Code
from mccompile.ir.dims import varies
from mccompile.ir.types import F32
from mccompile.ir.vector import V
from mccompile.kernels.model.tiles import Segment
from mccompile.kernels.movement import Way, lanes_of, movement

Place = tuple[int, int]
"""A vector and one of its lanes."""


@dataclass(frozen=True)
class Moves:
    """A copy from ``x`` to ``y``, whose axes are in the order of the loops."""

    way: str
    x: BoundView
    y: BoundView
    lanes: int
    shared_out: bool = False
    """Whether threads share the squares of a plane."""

    @property
    def c(self) -> str:
        """The type of a vector."""
        return self.y.uses.use("mcc_vf" if self._floats else self._narrow)

    @property
    def _floats(self) -> bool:
        return self.y.dtype == F32

    @property
    def _narrow(self) -> str:
        """The vectors of what is not f32: its bits, as numbers without sign."""
        return f"mcc_u{8 * self.y.dtype.nbytes}x{self.lanes}"

    @property
    def line(self) -> int:
        """Bytes of a vector."""
        return self.lanes * self.y.dtype.nbytes

    def read(self, pointer: str, count: int, step: int = 1) -> Code:
        """A vector of ``count`` elements, floats ``step`` apart; nothing else is touched."""
        if self._floats:
            return self.y.uses.say(V(F32, self.lanes).load("{0}", count, step), pointer)
        return self.y.uses.say(f"{self._narrow}_load({{0}}, {count})", pointer)

    def write(self, pointer: str, value: str, count: int) -> str:
        """A statement that stores ``count`` elements as they are; nothing else is touched."""
        if self._floats:
            return self.y.uses.say(V(F32, self.lanes).store("{0}", "{1}", count), pointer, value)
        return self.y.uses.say(f"{self._narrow}_store({{0}}, {{1}}, {count});", pointer, value)

    def widths(self, count: int) -> list[int]:
        """``count`` elements as whole vectors and the rest."""
        whole, rest = divmod(count, self.lanes)
        return [*[self.lanes] * whole, *([rest] if rest else [])]

    def covered(self, strips: Sequence[Segment]) -> list[Segment]:
        """Strips of an axis of squares, the last of which is a whole vector that covers again what lies in front of
        it: 56 bytes are vectors at 0, 16, 32 and 40. Vectors of floats may have lanes left out instead; threads
        write elements of their own alone."""
        *before, last = strips
        known = not varies([last.start, last.stop])
        if self._floats or self.shared_out or not before or not known or last.size >= self.lanes:
            return list(strips)
        return [*before, Segment(last.stop - self.lanes, last.stop, self.lanes)]

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

    @property
    def halvings(self) -> int:
        """How often a vector can be halved."""
        return self.lanes.bit_length() - 1

    def in_turns(self, begin: int) -> str:
        """The lanes of two vectors in turn, half of each from ``begin`` on."""
        return ", ".join(f"{j}, {self.lanes + j}" for j in range(begin, begin + self.lanes // 2))

    def weaving(self, few: int, k: int) -> list[Place]:
        """What vector ``k`` of a run is made of, in which ``few`` vectors take turns."""
        return weaving(self.lanes, few, k)

    def unweaving(self, few: int, k: int) -> list[Place]:
        """What vector ``k`` of ``few`` is made of, which take turns in a run."""
        elements = range(k, few * self.lanes, few)
        return [(e // self.lanes, e % self.lanes) for e in elements]

    def woven(self, sources: Sequence[str], places: Sequence[Place]) -> str:
        """A vector whose lanes come from several ones; lanes of vectors that there are not have no meaning."""
        return joined(self.lanes, sources, places)


def weaving(lanes: int, few: int, k: int) -> list[Place]:
    """What vector ``k`` of a run is made of, in which ``few`` vectors take turns."""
    return [(e % few, e // few) for e in range(k * lanes, (k + 1) * lanes)]


def joined(lanes: int, sources: Sequence[str], places: Sequence[Place]) -> str:
    """A vector whose lanes come from several ones; lanes of vectors that there are not have no meaning."""
    value, others = sources[0], sources[1:] or sources[:1]
    taken = [lane if vector == 0 else 0 for vector, lane in places]
    for s, other in enumerate(others, 1):
        picked = [lanes + lane if vector == s else t for t, (vector, lane) in zip(taken, places, strict=True)]
        value = f"__builtin_shufflevector({value}, {other}, {', '.join(map(str, picked))})"
        taken = list(range(lanes))
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
    parts = context.call.parts
    return Moves(m.way.value, source, result, lanes_of(y.dtype, lanes), parts is not None and parts.loop == "n")
