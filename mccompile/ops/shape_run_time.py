"""Operators whose results have extents that are computed at run time: ConstantOfShape, Expand, Reshape, Split, Tile.

Worked example: of ConstantOfShape(s) with s of two elements the model states ["rows", 4]. The kernel that reads s
counts rows, up to what ``--bound rows=N`` says, and ends the program where the other element is not 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mccompile.ir.dims import bound, exact, minimum, require_equal, span, symbols, varies
from mccompile.ops.elements import Elements, Whole, all_of, any_of, total
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.run_time import RunTime
from mccompile.ops.shape_sources import repeated_element
from mccompile.ops.slice import Slice
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
    if len(given) != len(x.shape) or 0 in x.shape:
        raise n.error(f"{len(given)} repeats of the run do not fit {x.type}")
    repeats = []
    for a, (g, extent) in enumerate(zip(given, x.shape, strict=True)):
        told = e.told(g)
        if told is None or span(told)[0] < 0:
            told = e.number(f"repeats{a}", g, *_repeats(n, a, extent))
        repeats.append(told)
    n.emit(Tile(tuple(repeats)), [x])


def _repeats(n: Import, axis: int, extent: int) -> tuple[int, int]:
    """How many copies lie along an axis, from and to: as the model states, or as many as there may be."""
    stated = n.declared_extent(axis)
    if stated is not None and not varies((extent,)):
        return stated // extent, stated // extent
    return 0, (n.largest(axis) if stated is None else stated) // max(span(extent)[0], 1)


def import_reshape(n: Import) -> None:
    """Each extent of the result is given by extents or stated by the model, but one that follows from the others."""
    x, e = n.input(0), Elements(n)
    given, copies = e.of(1, "shape"), not n.flag("allowzero")
    shape = [_reshaped(n, e, i, g, copies) for i, g in enumerate(given)]
    if shape.count(None) > 1:
        stated = n.stated.shapes.get(n.node.outputs[0], ())
        named = [s if isinstance(s, int) else None for s in stated] if len(stated) == len(shape) else shape
        shape = [s if own is None else own for own, s in zip(shape, named, strict=True)]
    open_, rest = shape.count(None), math.prod(s for s in shape if s is not None)
    left = exact(x.type.count, rest) if rest else None
    if open_ > 1 or left is None or (open_ == 0 and left != 1):
        if open_ <= 1 and rest and all(_told(n, e.told(g)) is not None for g in given):
            _require_whole(x.shape, [s for s in shape if s is not None], open_ > 0)
        raise n.error(
            f"the shape of the result does not follow from {x.type} and what is known of it: "
            f"{', '.join('?' if s is None else str(s) for s in shape)}",
            "state the shape of the result in the model, or fix what it depends on with --constant",
        )
    whole = tuple(left if s is None else s for s in shape)
    for i, (g, extent) in enumerate(zip(given, whole, strict=True)):
        if _told(n, e.told(g)) is None:
            copied = copies and i < len(x.shape) and x.shape[i] == extent
            e.require(any_of([g.equals(-1), g.equals(e.extent(extent)), *([g.equals(0)] if copied else [])]))
    e.require(total(g.equals(-1).otherwise(1, 0) for g in given).below(2))
    n.emit_reshape(whole)


def _require_whole(shape: Sequence[int], given: Sequence[int], rest: bool) -> None:
    """UndecidedError where it depends on extents that the caller gives whether as many elements, or with ``rest`` a
    multiple of as many, are ``given`` as there are: it says on which, and which multiples of them would do."""
    own, others = list(shape), []
    for extent in given:
        if extent in own:
            own.remove(extent)
        else:
            others.append(extent)
    left, right = math.prod(own), math.prod(others)
    require_equal(left // right * right if rest else right, left)


def _reshaped(n: Import, e: Elements, axis: int, given: Whole, copies: bool) -> int | None:
    """An extent of the result of Reshape; None where it has to follow from the others."""
    x, told = n.input(0).shape, _told(n, e.told(given))
    if told is None:
        return n.declared_extent(axis)
    if told == 0 and copies and axis < len(x):
        return x[axis]
    return None if told == -1 else told


def _told(n: Import, told: int | None) -> int | None:
    """A number of the shape of Reshape; None also where the run has counted it elsewhere, and no axis of the input
    has it: that says how many rows there are, too, and the run has to compare both."""
    if told is None:
        return None
    counted = {s for s in symbols(told) if s.name in n.stated.taken}
    return told if counted <= {*symbols(n.input(0).type.count)} else None


def import_split(n: Import) -> None:
    """The last part is what the others leave."""
    x, e = n.input(0), Elements(n)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    given, extent = e.of(1, "split"), x.shape[axis]
    if len(given) != len(n.node.outputs):
        raise n.error(f"{len(given)} parts for {len(n.node.outputs)} outputs")
    e.require(all_of([*(g.below(0).negated() for g in given), total(given).equals(e.extent(extent))]))
    first = 0
    for i, g in enumerate(given):
        size = extent - first
        if i + 1 < len(given):
            stated = n.stated.extent(n.node.outputs[i], axis)
            low, high = (0, bound(extent)) if stated is None else (stated, stated)
            size = minimum(e.number(f"part{i}", g, low, high), size)
        starts = tuple(first if a == axis else 0 for a in range(len(x.shape)))
        extents = tuple(size if a == axis else s for a, s in enumerate(x.shape))
        if n.node.outputs[i]:
            n.bind(i, n.inner(Slice(starts, (1,) * len(starts), extents), [x], f"part{i}"))
        first = first + size


RUN_TIME = {
    "ConstantOfShape": RunTime(import_constant_of_shape, (0,)),
    "Expand": RunTime(import_expand),
    "Reshape": RunTime(import_reshape, undecided=True),
    "Split": RunTime(import_split, undecided=True),
    "Tile": RunTime(import_tile),
}
