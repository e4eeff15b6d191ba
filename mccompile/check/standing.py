"""What a quantised network has rounded where a layer makes floats of it at once, or moves them before anyone sees it.

    y = (q - 3) * 0.5, theirs q = [7, 4]; got y = [2.5, 0.5]    -> q, [8, 4]

The floats of the steps around the reference's own are computed by the nodes of the imported graph that lie between.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np

from mccompile.check.heads import rounds
from mccompile.check.parts import part_of
from mccompile.ir.dims import symbols
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.op import op_at
from mccompile.ops.movement import Movement
from mccompile.ops.reshape import Reshape

Array = np.ndarray[Any, np.dtype[Any]]

_ROWS = re.compile(r"\.rows(\.\d+)?$")
"""What the name of a strip of rows ends with (`stream-rows`)."""
_NUMBER = re.compile(r"\.\d+$")
"""What a name ends with that is taken by another value."""
ROUNDED = 1e-5
"""How far floats may be off that stand for a rounded number, relative to the largest."""


def standing_for(
    v: Value, got: Array, imported: Graph, theirs: Mapping[str, Array], known: Set[str], extents: Mapping[str, int]
) -> tuple[str, Array, Array, Array] | None:
    """The one of the ``known`` that floats stand for, where the layer that rounds makes floats at once; what they say
    that it is, or else as wrong as may be; the reference's floats; and the place of each of them there. None where
    they stand for none. Channels that nothing reads may be gone.

        y = (q - 3) * 0.5, theirs q = [7, 4]; got y = [2.5, 0.5]    -> q, [8, 4], [2, 0.5]
    """
    if not v.dtype.is_float:
        return None
    found = _from_rounded(v.name, imported, known)
    copy = found is None  # one of another shape may have its name with a number, and more of it than ties tell
    found = _from_rounded(_NUMBER.sub("", v.name), imported, known) if found is None else found
    if found is None:
        return _whole(v, got, theirs, known)
    q, chain = found
    want = theirs[q.name]
    info = np.iinfo(want.dtype)
    # Floats may be off by more of the small steps of 16 bits.
    reach = 2 if want.dtype.itemsize == 1 else 8
    away = (0, *range(-reach, 0), *range(1, reach + 1))
    steps = [np.clip(want.astype(np.int64) + k, info.min, info.max).astype(want.dtype) for k in away]
    floats = [_through(chain, q, step, imported, extents) for step in steps]
    in_place = floats[0].shape == want.shape and all(node.op.elementwise is not None for node in chain)
    if not copy and in_place and (part := part_of(got, floats[0], moves=False)):
        floats, steps, want = [f[part] for f in floats], [step[part] for step in steps], want[part]
    places = _places(chain, want, extents)
    if places is None or floats[0].shape != places.shape or places.size != got.size:
        return None
    if copy:
        floats, places = [f.reshape(got.shape) for f in floats], places.reshape(got.shape)
    if places.shape != got.shape:
        return None
    apart = np.abs(np.stack(floats) - got)
    stands = np.choose(apart.argmin(axis=0), [step.reshape(-1)[places] for step in steps])
    above, below = reach + 1, reach  # a step to either side
    two = floats[above] - floats[below]
    allowed = 0.1 * np.abs(two) + ROUNDED * np.abs(floats[0]).max(initial=0.0)
    near = apart.min(axis=0) <= allowed
    if not near.all() and not copy and steps[0].size == theirs[q.name].size:  # as far as they go in a line
        with np.errstate(all="ignore"):
            apart_by = (steps[above].astype(np.float64) - steps[below]).reshape(-1)[places]
            guess = np.rint(apart_by * (got - floats[0].astype(np.float64)) / two)
        guess = back(np.where(near, 0.0, np.nan_to_num(guess)), places, want.shape)
        far = np.clip(want + guess, info.min, info.max).astype(want.dtype)
        told = ~near & (np.abs(_through(chain, q, far, imported, extents) - got) <= allowed)
        stands, near = np.where(told, far.reshape(-1)[places], stands), near | told
    if copy and np.count_nonzero(near & (stands == want.reshape(-1)[places])) * 100 < 99 * got.size:
        return None
    strange = np.where(want > 0, info.min, info.max).astype(want.dtype).reshape(-1)[places]
    return q.name, back(np.where(near, stands, strange), places, want.shape), floats[0], places


def _whole(
    v: Value, got: Array, theirs: Mapping[str, Array], known: Set[str]
) -> tuple[str, Array, Array, Array] | None:
    """What floats stand for that are the rounded numbers themselves, less their zero point, for products of floats
    (`integer-products`); the zero point is what most of them are apart. Those whose channels were put into another
    order (`pair-channels`) have more behind their name.

        theirs q = [7, 4, 6], q.whole = [5, 1, 3]    -> q, [8, 4, 6], [4, 1, 3]

    Strips of rows are parts of it, each judged for itself.
    """
    whole = _ROWS.sub("", v.name)
    name, _, behind = whole.rpartition(".whole")
    want = theirs.get(name)
    strip = whole != v.name
    if (behind and not _NUMBER.fullmatch(behind)) or (name not in known and not strip) or want is None:
        return None
    want = _strip_of(want, got) if strip else want
    if want is None or want.shape != got.shape or want.dtype.kind not in "iu" or not got.size:
        return None
    zero = np.rint(np.median(want.astype(np.float64) - got))
    info = np.iinfo(want.dtype)
    stands = np.clip(np.rint(got + zero), info.min, info.max).astype(want.dtype)
    return name, stands, (want - zero).astype(got.dtype), np.arange(want.size).reshape(want.shape)


def _strip_of(want: Array, got: Array) -> Array | None:
    """The rows of ``want``, of axis 2, that ``got`` is, but for a zero point; None if their other extents differ.

        want [[[3, 9], [5, 5], [7, 1]]], got [[[4, 4], [6, 0]]]    -> [[[5, 5], [7, 1]]]
    """
    if want.ndim < 3 or want.shape[:2] + want.shape[3:] != got.shape[:2] + got.shape[3:] or not got.size:
        return None
    rows, some = got.shape[2], np.unravel_index(np.linspace(0, got.size - 1, 4096, dtype=np.int64), got.shape)
    alike = []
    for k in range(want.shape[2] - rows + 1):
        apart = want[:, :, k : k + rows][some] - got[some]
        alike.append(np.count_nonzero(apart == np.rint(np.median(apart))))
    first = int(np.argmax(alike)) if alike else 0
    return want[:, :, first : first + rows]


def back(array: Array, places: Array, shape: tuple[int, ...]) -> Array:
    """An array whose elements are moved to their ``places``."""
    found = np.empty_like(array, shape=array.size)
    found[places.reshape(-1)] = array.reshape(-1)
    return found.reshape(shape)


def _from_rounded(name: str, imported: Graph, known: Set[str]) -> tuple[Value, list[Node]] | None:
    """The one of the ``known`` that the value of this name is made of, by nodes that compute each element of one
    element and of constants, or move them; and these nodes. Behind what is rounded and not among them nothing is told
    of others."""
    producers = {r: n for n in imported.nodes for r in n.results[:1]}
    value = next((r for r in producers if r.name == name), None)
    chain: list[Node] = []
    while value is not None and (made := producers.get(value)) is not None:
        read = {o for o in made.operands if o is not None and o not in imported.constants}
        moves = isinstance(made.op, Movement | Reshape) and len(made.operands) == 1
        if len(read) != 1 or not (made.op.elementwise is not None or moves) or imported.counted(made):
            return None
        chain.insert(0, made)
        (value,) = read
        if value.name in known:
            return value, chain
        if rounds(value):
            return None
    return None


def _through(
    chain: Sequence[Node], q: Value, step: Array, imported: Graph, extents: Mapping[str, int]
) -> Array:
    """What a chain of nodes makes of a rounded tensor."""
    values: dict[Value, Array] = {q: step}
    for node in chain:
        values |= {o: imported.array(o) for o in node.operands if o in imported.constants}
        values[node.results[0]] = node.evaluate(values, extents=extents)[0]
    return values[chain[-1].results[0]]


def _places(chain: Sequence[Node], q: Array, extents: Mapping[str, int]) -> Array | None:
    """The place in a rounded tensor of each element that a chain makes of it; None where one stands in several
    places, or in none."""
    found = np.arange(q.size).reshape(q.shape)
    for node in chain:
        if node.op.elementwise is None:
            found = op_at(node.op, extents).evaluate(found)[0]
    return found if np.array_equal(np.sort(found, axis=None), np.arange(q.size)) else None


def carried(mask: Array, of: Value, name: str, nodes: Sequence[Node], extents: Mapping[str, int]) -> Array | None:
    """Where elements of a tensor, of which the mask tells some, lie in the one of that name, which is made of it
    element by element, or by what moves it; None if it is made of it in another way, or not at all. Of tensors whose
    extents are not among the ``extents``, but counted, nothing is told.

        q [0, 1], joined with [0, 0, 0]    -> [0, 1, 0, 0, 0]
    """
    masks = {of: mask}
    for node in nodes:
        read = [v for v in node.operands if v is not None]
        counted = any(s.name not in extents for s in symbols(*(e for v in read for e in v.shape)))
        if counted or not any(v in masks for v in read):
            continue
        own = [masks.get(v, np.zeros(v.type.at(extents).shape, bool)) for v in read]
        if node.op.elementwise is not None:
            found = functools.reduce(np.logical_or, own)
        elif node.op.hands_on and len({v.dtype for v in read}) == 1 and len(node.results) == 1:
            as_numbers = (a.astype(np.uint8) for a in own)  # windows are filled with the least number of a type
            found = np.asarray(op_at(node.op, extents).evaluate(*as_numbers)[0], bool)
        else:
            continue
        (result,) = node.results
        if result.name == name:
            return found
        masks[result] = found
    return None
