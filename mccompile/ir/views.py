"""Buffers of memory and views of them: which elements of a buffer a kernel reads or writes, and in which order.

    buffer x: f32[2,3] with a halo of 1 around the last axis      x[2,3]{5,1} +1: rows of 5 elements, of which it
                                                                  sees 3, behind the first one
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from mccompile._cached import cached
from mccompile._dataclass import dataclass
from mccompile.ir.affine import Affine
from mccompile.ir.dims import Dim, bound, exact, shares, span, value, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.scalar import Array
from mccompile.ir.types import DType, Factor, Layout, Shape, TensorType, is_linear, row_major

Halo = tuple[tuple[int, int], ...]

MAX_ALIGN = 4096
"""What a buffer may ask its address to be a multiple of, in bytes."""


@dataclass(eq=False)
class Buffer:
    """A stretch of memory: a tensor's stored extents, with a halo of ``fill`` around them.

    ``space`` is "arena" or "blob" ("record" for constants that only a `Logical` view names), or "caller": memory of
    its own that the application lends as an input, which is never written, or as an output. ``role`` is "input",
    "output", "scratch", "count" (into which a kernel counts an extent) or "" (a temporary or weights).
    ``room`` are extents that strides come from instead of the tensor's own, where those vary and elements have to
    stay in their places. ``data`` holds a blob buffer's elements. ``region`` is the
    memory that the planner chose where the arena has several, else "". Its type, halo and room stay as they are made.
    """

    name: str
    type: TensorType
    space: str
    align: int
    halo: Halo = ()
    fill: float = 0
    role: str = ""
    data: Array | None = None
    region: str = ""
    room: Shape = ()

    @property
    def kept(self) -> bool:
        """Whether it has to hold to the end of a run."""
        return self.role in ("output", "count")

    @property
    def extents(self) -> Shape:
        """Stored extents, halo included."""
        return self.extents_of(self.type)

    def extents_of(self, type_: TensorType) -> Shape:
        """The `extents` where its tensor is a case of its type."""
        stored = self.room or type_.stored_shape
        if not self.halo:
            return stored
        return tuple(e + lo + hi for e, (lo, hi) in zip(stored, self.halo, strict=True))

    @cached
    def elements(self) -> int:
        """At the bounds of what is known at run time only, for which memory is planned; at least one, as arrays have
        in C."""
        return max(bound(math.prod(self.extents)), 1)

    @cached
    def nbytes(self) -> int:
        return self.elements * self.type.dtype.nbytes


@dataclass(frozen=True)
class View:
    """Elements of a buffer under logical coordinates.

    The element at ``coordinate`` lies at ``offset + sum(strides[f] * factors[f](coordinate))`` elements.
    A stride of 0 repeats an element (broadcast), a negative one runs backwards.
    """

    buffer: Buffer
    shape: Shape
    factors: Layout
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        return self.buffer.type.dtype

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @cached
    def linear(self) -> bool:
        return is_linear(self.factors)

    @cached
    def fault(self) -> str:
        """Why it is no view of its buffer: found once, for modules are verified after each pass; "" if it is one."""
        stored = {f.axis for f in self.factors}
        if len(self.strides) != len(self.factors) or stored != set(range(self.rank)):
            return f"has {self.rank} axes and {len(self.strides)} strides"
        if any(bound(e) < 0 for e in self.shape):
            return "has an extent below 0"
        if self.is_inside:
            return ""
        low, high = self.covered()
        return f"covers [{low}, {high}] of {self.buffer.elements} elements"

    @cached
    def is_inside(self) -> bool:
        """Whether it is known to lie inside of its buffer, or has no elements."""
        low, high = self.covered()
        return not bound(self.count) or (low >= 0 and high < self.buffer.elements) or self._is_inside_by_axes()

    def _is_inside_by_axes(self) -> bool:
        """Whether it is known to stay inside of each stored axis of its buffer: where two axes vary, their ranges
        tell what that of an offset, top * pitch + left, does not."""
        if not self.varies:
            return False
        extents = self.buffer.extents
        pitches = _dense_strides(extents)
        before, behind = [0] * len(extents), [0] * len(extents)
        for f, s in zip(self.factors, self.strides, strict=True):
            reach = f.extent(self.shape) - 1
            if reach == 0 or s == 0:  # of extents that may be 0 nothing is asked
                continue
            steps = [(exact(s, pitch), axis) for axis, pitch in enumerate(pitches) if extents[axis] != 1]
            step, axis = next((found for found in steps if found[0] is not None), (None, 0))
            if step is None:
                return False
            beyond = before if span(step)[0] < 0 else behind
            beyond[axis] += step * reach
        least = [-span(less)[0] for less in before]
        most = [e - 1 - more for e, more in zip(extents, behind, strict=True)]

        def fits(at: tuple[int, ...]) -> bool:
            ends = zip(at, least, most, strict=True)
            return all(span(one)[0] >= low and span(high - one)[0] >= 0 for one, low, high in ends)

        return any(map(fits, _coordinates(self.offset, extents, pitches)))

    def covered(self) -> tuple[int, int]:
        """Between which elements of its buffer it lies, as far as the ranges of its extents tell."""
        first = last = self.offset
        for f, s in zip(self.factors, self.strides, strict=True):
            reach = s * (f.extent(self.shape) - 1)  # of extents that may be 0 as well: then nothing is touched
            first, last = (first + reach, last) if span(s)[0] < 0 else (first, last + reach)
        return span(first)[0], bound(last)

    @property
    def varies(self) -> bool:
        """Whether an extent, a stride or the offset is known at run time only."""
        return varies((*self.shape, *self.strides, self.offset))

    def at(self, values: Mapping[str, int]) -> View:
        """The view where symbols of extents have values."""
        return self.with_numbers(lambda n: value(n, values))

    def with_numbers(self, change: Callable[[int], int]) -> View:
        """The view with extents, strides and offset changed, where they vary."""
        if not self.varies:
            return self
        shape, strides = (tuple(map(change, of)) for of in (self.shape, self.strides))
        return View(self.buffer, shape, self.factors, strides, change(self.offset))

    def by_extents(self) -> tuple[bool, ...]:
        """For each stored axis, whether its stride is the product of the extents of those behind it."""
        extents = [f.extent(self.shape) for f in self.factors]
        products = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
        return tuple(p == s or e == 1 for p, s, e in zip(products, self.strides, extents, strict=True))

    def axis_strides(self) -> tuple[int, ...]:
        """The stride of each logical axis. InternalError unless `linear`."""
        return self._axis_strides

    @cached
    def _axis_strides(self) -> tuple[int, ...]:
        if not self.linear:
            raise InternalError("a blocked view has no single stride per axis")
        table = {f.axis: s for f, s in zip(self.factors, self.strides, strict=True)}
        return tuple(table[a] for a in range(self.rank))

    def along(self, axes: Sequence[int]) -> View:
        """The view along some of its axes, in this order, the others held at 0. InternalError unless `linear`."""
        strides = self.axis_strides()
        shape, steps = (tuple(of[a] for a in axes) for of in (self.shape, strides))
        return View(self.buffer, shape, row_major(len(axes)), steps, self.offset)

    def turned(self, axes: Sequence[int]) -> View:
        """The view with its elements in the opposite order along some axes. InternalError unless `linear`."""
        strides = list(self.axis_strides())
        offset = self.offset
        for a in axes:
            offset += strides[a] * (self.shape[a] - 1)
            strides[a] = -strides[a]
        return View(self.buffer, self.shape, row_major(self.rank), tuple(strides), offset)

    def by_steps(self) -> list[int]:
        """The axes, those with the largest steps first. InternalError unless `linear`."""
        strides = self.axis_strides()
        return sorted(range(self.rank), key=lambda a: -abs(bound(strides[a])))

    @property
    def dense(self) -> bool:
        """True if the view covers its whole buffer in row-major order without a halo."""
        return self.gapless and self.offset == 0 and self.count == self.buffer.elements

    @property
    def gapless(self) -> bool:
        """True if elements follow each other in row-major order: f32[2,3] with strides (3, 1), not with (4, 1)."""
        if not self.linear:
            return False
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.axis_strides()), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    def same_elements(self, other: View) -> bool:
        """True if both address their buffers alike, so that one may overwrite the other in place."""
        mine = [(e, s) for e, s in zip(self._extents(), self.strides, strict=True) if e != 1]
        theirs = [(e, s) for e, s in zip(other._extents(), other.strides, strict=True) if e != 1]
        return self.shape == other.shape and self.offset == other.offset and mine == theirs

    def _extents(self) -> list[int]:
        return [f.extent(self.shape) for f in self.factors]

    def broadcast(self, shape: Shape) -> View:
        """The view under numpy's broadcast to ``shape``."""
        if shape == self.shape:
            return self
        shift = len(shape) - self.rank
        factors = [Factor(i) for i in range(shift)] + [Factor(f.axis + shift, f.div, f.mod) for f in self.factors]
        strides = [0] * shift
        for f, s in zip(self.factors, self.strides, strict=True):
            grown = self.shape[f.axis] == 1 and shape[f.axis + shift] != 1
            strides.append(0 if grown else s)
        return View(self.buffer, shape, tuple(factors), tuple(strides), self.offset)

    def reshape(self, shape: Shape) -> View | str:
        """The view under another shape of as many elements, or the reason why there is none."""
        if not self.linear:
            return "the layout is blocked"
        if self.gapless:
            return View(self.buffer, shape, row_major(len(shape)), _dense_strides(shape), self.offset)
        strides = _split(_runs(self.shape, self.axis_strides()), shape)
        if strides is None:
            return "the elements do not follow one stride per axis"
        return View(self.buffer, shape, row_major(len(shape)), strides, self.offset)

    def walk(self, maps: tuple[Affine, ...], loops: Shape) -> View | str:
        """The view of a loop nest: loop coordinates in, elements at the mapped coordinates out."""
        if not self.linear:
            return "the layout is blocked"
        strides = self.axis_strides()
        steps = [sum(s * m.coefs[k] for s, m in zip(strides, maps, strict=True)) for k in range(len(loops))]
        start = self.offset + sum(s * m.const for s, m in zip(strides, maps, strict=True))
        return View(self.buffer, loops, row_major(len(loops)), tuple(steps), start)


def _coordinates(place: int, extents: Shape, pitches: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Coordinates of a place in an array whose axes have such extents and pitches: ways to take a sum apart, by which
    of the axes that vary have a part in it. None of them need be in its range.

    >>> from mccompile.ir.dims import symbol
    >>> h, w = symbol("h", 1, 99), symbol("w", 1, 99)
    >>> for found in _coordinates(h // 2 * (w + 2) + w // 2, (h + 2, w + 2), (w + 2, 1)): print(found)
    ((h//2), (w//2))
    (0, (h//2)*w+2*(h//2)+(w//2))
    """
    if not pitches:
        if place == 0:
            yield ()
        return
    pitch, others = pitches[0], pitches[1:]
    parts = [0] if extents[0] == 1 else shares(place, pitch)
    for part in dict.fromkeys([*parts, 0] if isinstance(pitch, Dim) else parts):
        for rest in _coordinates(place - part * pitch, extents[1:], others):
            yield part, *rest


def _dense_strides(extents: Shape) -> tuple[int, ...]:
    strides, step = [], 1
    for e in reversed(extents):
        strides.append(step)
        step *= e
    return tuple(reversed(strides))


def _runs(shape: Shape, strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(extent, stride) of axes of more than one element; neighbours that one stride walks through are one."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == stride * extent and extent != 1:
            runs[-1] = (runs[-1][0] * extent, stride)
        elif extent != 1:
            runs.append((extent, stride))
    return runs


def _split(runs: list[tuple[int, int]], shape: Shape) -> tuple[int, ...] | None:
    """The strides of axes that ``runs`` are cut into, None if an axis would take from two runs."""
    left = iter(runs)
    extent, stride = 1, 0
    strides = []
    for e in shape:
        if e == 1:
            strides.append(0)
            continue
        if extent == 1:
            extent, stride = next(left)
        rest = exact(extent, e)
        if rest is None:
            return None
        extent = rest
        strides.append(stride * extent)
    return tuple(strides)


def whole(buffer: Buffer, case: TensorType | None = None) -> View:
    """The view of a buffer's tensor: the inside of its halo, in the tensor's layout. ``case`` is what its type may be
    where symbols of extents have values."""
    type_ = buffer.type if case is None else case
    strides = _dense_strides(buffer.extents_of(type_))
    offset = sum(lo * s for (lo, _), s in zip(buffer.halo, strides, strict=False))
    return View(buffer, type_.shape, type_.factors, strides, offset)


def held(buffer: Buffer, type_: TensorType) -> View | str:
    """The view of a tensor whose elements a buffer has: of the buffer's own, a case of it or a reshape; or the reason
    why there is none."""
    if type_.shape == buffer.type.shape:
        return whole(buffer)
    return whole(buffer, type_) if type_.is_case_of(buffer.type) else whole(buffer).reshape(type_.shape)


def stored_alike(a: TensorType, b: TensorType) -> bool:
    """True if a tensor and its reshape have their elements in the same places."""
    if a.layout is None and b.layout is None:
        return True
    if not a.linear or not b.linear:
        return False
    seen, own = whole(Buffer("", a, "arena", 1)).reshape(b.shape), whole(Buffer("", b, "arena", 1))
    return not isinstance(seen, str) and seen.same_elements(own.along(range(own.rank)))


def verify_view(view: View) -> None:
    """Raises InternalError if a view is none of its buffer's elements."""
    if view.fault:
        raise InternalError(f"a view of {view.buffer.name} {view.fault}")
