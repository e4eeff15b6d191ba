"""Calls of kernels as ``run`` makes them: C with places in it that a loop may look up (`series`).

Worked example: a kernel is given an address and twice a count, plus one. The loop may take both from elsewhere.

>>> from mccompile.ir.dims import symbol
>>> from mccompile.ir.types import F32, I32, TensorType
>>> x = Buffer("x", TensorType(F32, (9,)), "arena", 64)
>>> k = Buffer("k", TensorType(I32, (1,)), "arena", 64)
>>> naming = Naming({x: "a->x.v", k: "a->k.v"}, {}, {"k": k})
>>> naming.place(x, 3)
Place(c='a->x.v + 3', base='a', member='x.v', offset=12, item=4, read='')
>>> count = naming.number(2 * symbol("k", 0, 9) + 1)
>>> count.pattern, count.c, count.places[0].read
('2 * {} + 1', '2 * a->k.v[0] + 1', 'int32_t')
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, islice
from string import Formatter

from mccompile._dataclass import dataclass
from mccompile.codegen.c_extent import c_extent
from mccompile.codegen.kernels import Invocation
from mccompile.codegen.long_sums import LongSums
from mccompile.ir.dims import Dim, maximum, may_be_none, minimum
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.views import Buffer, View

NUMBER = "number"
"""The base of what the table says itself."""


@dataclass(frozen=True)
class Place:
    """What may be another one in another turn: ``c`` in C; and of what lies in a ``member`` of the arena or the
    weights, by which local these go, and how many bytes behind the beginning of the member, of elements of ``item``
    bytes. A number that is kept there is ``read`` as this type of C. A number that is known has `NUMBER` for a local,
    is a ``member`` of the table, and there ``read`` as this type."""

    c: str
    base: str = ""
    member: str = ""
    offset: int = 0
    item: int = 1
    read: str = ""


@dataclass(frozen=True)
class Given:
    """C with ``{}`` for each of its places."""

    pattern: str
    places: tuple[Place, ...] = ()

    @property
    def c(self) -> str:
        return self.with_places(iter([p.c for p in self.places]))

    @property
    def form(self) -> tuple[object, ...]:
        """What it has in common with that of other turns."""
        return (self.pattern, *((p.base, p.read) if p.base else p.c for p in self.places))

    def with_places(self, places: Iterator[str]) -> str:
        """It with the next of these."""
        return self.pattern.format(*islice(places, len(self.places)))


def given(place: Place) -> Given:
    """A place alone."""
    return Given("{}", (place,))


def number_given(n: int) -> Place:
    """A number that a kernel is given."""
    return Place(str(n), NUMBER, f"{n}u", read="int32_t") if n >= 0 else Place(str(n))


def size_given(nbytes: int) -> Place:
    """A size that hooks are given."""
    return Place(f"{nbytes}u", NUMBER, f"{nbytes}u")


@dataclass(frozen=True)
class RunCall:
    """A call that a loop could make: its kernel, arguments, what it writes of so many bytes, whether it answers a
    status; and what stands before it."""

    kernel: str
    arguments: tuple[Given, ...]
    traced: tuple[tuple[Given, Given], ...]
    checked: bool
    before: tuple[Given, ...] = ()

    @property
    def c(self) -> str:
        return f"{self.kernel}({', '.join(a.c for a in self.arguments)})"

    @property
    def parts(self) -> tuple[tuple[Given, ...], ...]:
        """What stands before it, what it is given, and what hooks are."""
        return self.before, self.arguments, tuple(chain.from_iterable(self.traced))

    @property
    def form(self) -> tuple[object, ...]:
        """What calls of one series have in common."""
        return self.kernel, self.checked, *(tuple(g.form for g in part) for part in self.parts)

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(chain.from_iterable(g.places for part in self.parts for g in part))


@dataclass(frozen=True)
class Naming:
    """How ``run`` names what calls are given: ``arrays`` are the C of buffers, ``held`` that of symbols, but for
    those that ``counts`` has the buffers of. ``sums`` are kept, as constants or as elements of an array."""

    arrays: Mapping[Buffer, str]
    held: Mapping[str, str]
    counts: Mapping[str, Buffer]
    sums: LongSums | None = None
    in_array: bool = False

    def place(self, b: Buffer, at: int = 0, read: bool = False) -> Place:
        """Element ``at`` of a buffer, or what is ``read`` there."""
        c = f"{self.arrays[b]}[{at}]" if read else self.arrays[b] + (f" + {at}" if at else "")
        local, _, member = self.arrays[b].partition("->")
        if local not in ("a", "w"):
            return Place(c)
        nbytes = b.type.dtype.nbytes
        return Place(c, local, member, at * nbytes, nbytes, b.type.dtype.c if read else "")

    def number(self, n: int) -> Given:
        """A number, which may be known at run time only."""
        return self._plain(n if self.sums is None else self.sums.short(n))

    def pointer(self, view: View) -> Given:
        """Where a view begins."""
        at = _begin(view)
        if not isinstance(at, Dim):
            return given(self.place(view.buffer, at))
        behind = self.number(at)
        whole = " " not in behind.pattern  # otherwise a part of it might be taken for an address
        offset = behind.pattern if whole else f"({behind.pattern})"
        return Given(f"{self.arrays[view.buffer]} + {offset}", behind.places)

    def call(self, call: Invocation) -> RunCall | None:
        """The call that a step makes; None for one that has nothing to do."""
        if call.kernel is None:
            return None
        pointers = [self.pointer(v) for v in call.pointers]
        numbers = [self._argument(n) for n in call.numbers]
        written = dict.fromkeys(v.buffer for v in results(call.step))
        traced = tuple((given(self.place(b)), given(size_given(b.nbytes))) for b in written)
        checked = call.kernel.head.answers_status
        return RunCall(call.kernel.name, (*pointers, *numbers), traced, checked, self._taken())

    def _argument(self, n: int | str) -> Given:
        if isinstance(n, str):
            return Given(n)
        return self.number(n) if isinstance(n, Dim) else given(number_given(n))

    def _taken(self) -> tuple[Given, ...]:
        """What sums are, which were kept since the last time."""
        return () if self.sums is None else tuple(self._kept(name, n) for name, n in self.sums.taken())

    def _kept(self, name: str, n: int) -> Given:
        to, value = self._symbol(name), self._plain(n)
        declared = "" if self.in_array else "const int32_t "
        return Given(f"{declared}{to.pattern} = {value.pattern};", (*to.places, *value.places))

    def _plain(self, n: int) -> Given:
        """A number by all symbols that it has."""
        names: dict[str, int] = {}
        text = c_extent(n, lambda name: f"{{{names.setdefault(name, len(names))}}}")
        symbols = [self._symbol(name) for name in names]
        fields = [symbols[int(field)] for _, field, _, _ in Formatter().parse(text) if field is not None]
        return Given(text.format(*(s.pattern for s in symbols)), tuple(chain.from_iterable(s.places for s in fields)))

    def _symbol(self, name: str) -> Given:
        if name in self.counts:
            return given(self.place(self.counts[name], read=True))
        if self.sums is None or name not in self.sums.index:
            return Given(self.held[name])
        if not self.in_array:
            return Given(name)
        index = self.sums.index[name]
        return Given("sums[{}]", (Place(str(index), NUMBER, f"{index}u"),))


def _begin(view: View) -> int:
    """Where a view begins in its buffer. One that has no element in some run begins within it all the same: of x[n]
    read backwards to y[n - 3], y begins at n - 4, and where n is 3 that is no address of C."""
    if not may_be_none(view.shape):
        return view.offset
    return minimum(maximum(view.offset, 0), view.buffer.elements)


def results(step: Call | Fill) -> tuple[View, ...]:
    """What a step writes."""
    return step.results if isinstance(step, Call) else (step.view,)
