"""What is said of the shapes of results: by the model, and by whoever compiles it; names of extents."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound, identifier
from mccompile.ir.names import free_name

Shape = tuple[int | str | None, ...]
"""Extents, and names or None for those that are not known."""


@dataclass
class Stated:
    """``shapes`` that the model states of values, which may be wrong: who uses them has them checked when the program
    runs. ``bounds`` are the most that extents may be which it finds out then, by name; ``asked`` were used.
    ``taken`` are the names that such extents have, in all graphs of the program, ``given`` those of extents that the
    caller gives. ``dtypes``: element types by value, as the model states them or as follows from it.
    """

    shapes: dict[str, Shape] = field(default_factory=dict)
    bounds: Mapping[str, int] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    given: Collection[str] = ()
    dtypes: Mapping[str, str] = field(default_factory=dict)

    def fresh(self, base: str) -> str:
        """A name for an extent that is found out when the program runs, which no other extent of it has."""
        name = free_name(base, {*self.taken, *self.given})
        self.taken.add(name)
        return name

    def whole(self, value: str) -> tuple[int, ...] | None:
        """The shape of a value, where all its extents are stated."""
        shape = self.shapes.get(value)
        extents = tuple(e for e in shape or () if isinstance(e, int))
        return extents if shape is not None and len(extents) == len(shape) else None

    def extent(self, value: str, axis: int) -> int | None:
        """One extent of a value that is a number. One of the caller says only how large a computed one may be."""
        found = self._stated(value, axis)
        return found if isinstance(found, int) and not isinstance(found, Dim) else None

    def name(self, value: str, axis: int) -> str:
        """What an extent of a value is called: as in the model, or after the value and the axis."""
        found = self._stated(value, axis)
        return found if isinstance(found, str) and found else f"{identifier(value)}_{axis}"

    def bound(self, value: str, axis: int) -> int | None:
        """The most that an extent may be, if that was said."""
        name = self.name(value, axis)
        self.asked.update({name} & set(self.bounds))
        stated = self._stated(value, axis)
        return self.bounds.get(name, bound(stated) if isinstance(stated, Dim) else None)

    def _stated(self, value: str, axis: int) -> int | str | None:
        shape = self.shapes.get(value, ())
        return shape[axis] if axis < len(shape) else None
