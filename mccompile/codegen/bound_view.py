"""A view of a kernel's call as its template sees it: it indexes, loads and stores in C."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.codegen.arithmetic import scaled, total
from mccompile.codegen.code import Code, closed, code, opened, wrapped
from mccompile.codegen.uses import Uses
from mccompile.ir.dims import Dim, bound, may_be_none
from mccompile.ir.errors import InternalError
from mccompile.ir.types import DType, Factor, is_linear
from mccompile.ir.views import View


@dataclass(frozen=True)
class BoundView:
    """A view as C: a pointer parameter ``name`` and numbers that are literals, or parameters if in ``args``."""

    name: str
    view: View
    args: frozenset[str] = frozenset()
    extents_of: str = ""
    uses: Uses = field(default_factory=Uses, compare=False, repr=False)

    @property
    def dtype(self) -> DType:
        return self.view.dtype

    @property
    def ctype(self) -> str:
        """The C type of a stored element."""
        return self.dtype.c

    @property
    def compute(self) -> str:
        """The C type of an element in an expression."""
        return self.dtype.compute.c

    @property
    def rank(self) -> int:
        return self.view.rank

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents as compile-time numbers, for decisions: bounds where they vary. Print extents with `e`."""
        return tuple(map(bound, self.view.shape))

    def extent(self, axis: int) -> int:
        """The extent of an axis to count with: what is made of one that varies is printed as C of its symbols."""
        return self.view.shape[axis]

    def may_be_none(self, first: int, stop: int | None = None) -> bool:
        """Whether one of these extents may be 0 in some run."""
        return may_be_none(self.view.shape[first:stop])

    @property
    def dense(self) -> bool:
        """Whether neighbours on the last axis lie side by side: a stride that is 0 or 1 is 1 where there are any."""
        return self.view.linear and (self.shape[-1] == 1 or bound(self.view.axis_strides()[-1]) == 1)

    @property
    def backwards(self) -> bool:
        """Whether it is known that an axis is walked from its last element on, as in a slice of negative steps."""
        known = (self._known_stride(i) for i in range(len(self.view.strides)))
        return any(bound(s) < 0 for s in known if s is not None)

    def e(self, axis: int) -> str:
        """The extent of a logical axis, as printed."""
        return self._number(f"{self.name}_e{axis}", self.view.shape[axis])

    def repeats(self, axis: int) -> bool:
        """Whether all elements along a logical axis are one, as after a broadcast: `index` leaves the axis out."""
        return all(s == 0 for f, s in zip(self.view.factors, self.view.strides, strict=True) if f.axis == axis)

    def s(self, factor: int) -> str:
        """The stride of a stored axis, as printed; with ``extents_of`` as the product of extents, if it is one."""
        inner = [f.axis for f in self.view.factors[factor + 1 :]]
        if self.extents_of and self.view.linear and self.view.by_extents()[factor]:
            names = (self._number(f"{self.extents_of}_e{a}", self.view.shape[a]) for a in inner)
            return functools.reduce(scaled, names, "1")
        return self._number(f"{self.name}_s{factor}", self.view.strides[factor])

    def is_stored_as_one(self, axis: int) -> bool:
        """Whether neighbours along a logical axis are as far apart everywhere."""
        own = tuple(f for f in self.view.factors if f.axis == axis)
        return len(own) == 1 and is_linear(own)

    def step(self, axis: int) -> str:
        """The stride of a logical axis that is stored as one, as printed."""
        return self.s([f.axis for f in self.view.factors].index(axis))

    def _number(self, name: str, value: int) -> str:
        if name in self.args:
            return self.uses.number(name)
        return wrapped(value) if isinstance(value, Dim) else str(value)

    def known(self, axis: int) -> int | None:
        """The extent of an axis, for decisions; None if a C parameter says it."""
        extent = self.view.shape[axis]
        return None if f"{self.name}_e{axis}" in self.args or isinstance(extent, Dim) else extent

    def coordinate(self, axis: int, name: str) -> str:
        """The loop variable of an axis: ``name``, or "0" where the axis is known to have extent 1."""
        return "0" if self.known(axis) == 1 else name

    def coordinates(self, prefix: str = "i", first: int = 0, stop: int | None = None) -> list[str]:
        """The loop variables of axes, ``i0 i1 ...`` or "0"."""
        axes = range(first, self.rank if stop is None else stop)
        return [self.coordinate(a, f"{prefix}{d}") for d, a in enumerate(axes)]

    def extents(self, first: int = 0, stop: int | None = None) -> list[str]:
        """The extents of axes, as printed."""
        return [self.e(a) for a in range(first, self.rank if stop is None else stop)]

    def extents_along(self, coordinates: Sequence[str]) -> list[str]:
        """The extents of the axes whose coordinates are variables, as printed; 1 for the others, which no parameter
        is asked for."""
        return ["1" if name == "0" else self.e(a) for a, name in enumerate(coordinates)]

    def _steps(self, factor: int) -> bool:
        """Whether there is another number of places on a stored axis than one, or may be: `coordinate` has a name
        for it, which tile functions take, where there is none or one, too."""
        f = self.view.factors[factor]
        return (f.extent(self.view.shape) != 1 or f.div > 1 or f.mod > 0) and self._known_stride(factor) != 0

    def _known_stride(self, factor: int) -> int | None:
        """The stride of a stored axis; None if a C parameter says it."""
        return None if f"{self.name}_s{factor}" in self.args else self.view.strides[factor]

    def index(self, *coordinates: str | int) -> Code:
        """The C index of the element at logical coordinates."""
        if len(coordinates) != self.rank:
            raise InternalError(f"{len(coordinates)} coordinates for {self.name} of rank {self.rank}")
        terms = []
        for i, f in enumerate(self.view.factors):
            place = _factor_c(f, coordinates[f.axis])
            if self._steps(i) and place != "0":
                terms.append(scaled(place, self.s(i)))
        return total(*terms)

    def varies(self, axis: int) -> bool:
        """False if all elements along an axis are one."""
        return any(f.axis == axis and self._steps(i) for i, f in enumerate(self.view.factors))

    def element(self, *coordinates: str | int) -> Code:
        """The element at coordinates, as it is stored."""
        return closed(f"{self.name}[{self.index(*coordinates)}]")

    def load(self, *coordinates: str | int) -> Code:
        """The element at coordinates, in the compute type."""
        element = self.element(*coordinates)
        return self.uses.say("mcc_f16_to_f32({0})", element) if self.dtype.name == "f16" else element

    def walk(self) -> Code:
        """The C index under loops ``i0 i1 ...`` over the stored axes, whatever the layout."""
        extents = [f.extent(self.view.shape) for f in self.view.factors]
        return total(*(scaled(f"i{i}", self.s(i)) for i, e in enumerate(extents) if e > 1))

    def stored(self, value: str) -> Code:
        """``value`` (compute type) as it is stored."""
        return self.uses.say("mcc_f32_to_f16({0})", value) if self.dtype.name == "f16" else code(value)

    def put(self, value: str, *coordinates: str | int) -> str:
        """The statement that stores ``value`` (compute type) at coordinates."""
        return f"{self.element(*coordinates)} = {self.stored(value)};"


def _factor_c(f: Factor, coordinate: str | int) -> Code:
    if f.mod:
        return opened(f"{wrapped(coordinate)} % {f.mod}")
    return opened(f"{wrapped(coordinate)} / {f.div}") if f.div > 1 else code(coordinate)
