"""Operators whose results have extents that are computed at run time: ConstantOfShape, Expand, Tile.

Worked example: of ConstantOfShape(s) with s of two elements the model states ["rows", 4]. The kernel that reads s
counts rows, up to what ``--bound rows=N`` says, and ends the program where the other element is not 4.
"""

from __future__ import annotations

from mccompile.ir.dims import varies
from mccompile.ops.elements import Elements, any_of
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.run_time import RunTime
from mccompile.ops.shape_sources import repeated_element
from mccompile.ops.tile import Tile


def import_constant_of_shape(n: Import) -> None:
    e = Elements(n)
    shape = tuple(e.result(a, g) for a, g in enumerate(e.of(0, "shape")))
    n.emit(Expand(shape), [repeated_element(n, len(shape))])


def import_expand(n: Import) -> None:
    """An axis that is no single element stays as it is: what is given is that extent or 1."""
    x, e = n.input(0), Elements(n)
    given = e.of(1, "shape")
    rank = max(len(x.shape), len(given))
    own = (*(1,) * (rank - len(x.shape)), *x.shape)
    shape = list(own)
    for a, g in enumerate(given, rank - len(given)):
        if own[a] == 1:
            shape[a] = e.result(a, g)
        else:
            e.require(any_of([g.equals(1), g.equals(e.extent(own[a]))]))
    n.emit(Expand(tuple(shape)), [n.reshape(x, own, "column")])


def import_tile(n: Import) -> None:
    x, e = n.input(0), Elements(n)
    given = e.of(1, "repeats")
    if len(given) != len(x.shape) or varies(x.shape) or 0 in x.shape:
        raise n.error(f"{len(given)} repeats of the run do not fit {x.type}")
    repeats = []
    for a, (g, extent) in enumerate(zip(given, x.shape, strict=True)):
        stated, low = n.declared_extent(a), 0
        if stated is not None:
            low = most = stated // extent
        else:
            most = g.known if g.known is not None else n.largest(a) // extent
        repeats.append(e.number(f"repeats{a}", g, low, most))
    n.emit(Tile(tuple(repeats)), [x])


RUN_TIME = {
    "ConstantOfShape": RunTime(import_constant_of_shape, (0,)),
    "Expand": RunTime(import_expand),
    "Tile": RunTime(import_tile),
}
