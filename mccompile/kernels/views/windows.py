"""Sliding windows computed in a fixed order: how far behind its reads a kernel writes.

Worked example: a window of 3 without padding over x[6] gives y[4]. Result o is written when x[o .. o + 2] has been
read, and only x[o + 1] and what follows is read after it: y[o] may lie where x[o] was, so y may begin where x does.
With a pad of 1, x[o] is read once more for the next result: y must begin an element (4 bytes) before x.

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> def behind(pad, outputs):
...     pool = f"{{mode='max', kernel=(3,), strides=(1,), pads=({pad}, {pad}), dilations=(1,)}} params{{}}"
...     module = parse_module(f'''kernels @g target=generic {{
...       buffer x : f32[1,1,6] arena align=4 role=input
...       buffer y : f32[1,1,{outputs}] arena align=4 role=output
...       call pool.generic pool {pool} (x) -> y
...     }}''', lookup, params_of)
...     (call,) = module.body.linear()
...     return distance(call, call.op, np.arange(1), channels_last=False)
>>> behind(pad=0, outputs=4), behind(pad=1, outputs=6)
(0, 4)
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import Call
from mccompile.ir.scalar import Array
from mccompile.ir.views import View
from mccompile.ops.window import Window

MOST_ELEMENTS = 1 << 20
"""Results of more elements are not looked at: memory is not what their targets lack."""


@dataclass(frozen=True)
class Order:
    """``channels_last``: results are written pixel by pixel, all channels of one in a row; else channel by channel.

    Each element is written when all that it takes has been read, before anything for the next is. With
    ``pixel_buffer`` the results of a pixel are kept until all of them are known, so that they may take the place of
    what they were computed from. With ``by_extents`` strides that are products of extents are printed as such: code
    that several calls share has fewer parameters.
    """

    channels_last: bool = False
    pixel_buffer: bool = False
    by_extents: bool = False


def covered(results: int, kernel: int, stride: int, dilation: int) -> int:
    """Elements from the first to the last that so many windows beside each other take along an axis."""
    return (results - 1) * stride + (kernel - 1) * dilation + 1


def tiles_inside(start: int, size: int, out: int, extent: int, window: tuple[int, int, int]) -> int:
    """How many whole tiles of ``size`` results, of the ``out`` of a line, lie one behind the other from ``start`` on
    and read nothing outside of the line. ``window`` is its stride, its distance from the first tap to the last,
    and its pad.

    >>> tiles_inside(0, 4, 10, 10, (1, 2, 1)), tiles_inside(4, 4, 10, 10, (1, 2, 1))
    (0, 1)
    """
    stride, reach, pad = window
    if start * stride < pad:
        return 0
    results = min(out, -(-(extent + pad - reach) // stride))
    return max((results - start) // size, 0)


def channels_innermost(view: View) -> bool:
    """True if the channels of a pixel lie closer to each other than pixels do."""
    if view.rank < 3:
        return False
    strides = view.axis_strides()
    pixels = [s for s, e in zip(strides[2:], view.shape[2:], strict=True) if e > 1]
    return view.shape[1] > 1 and bool(pixels) and all(strides[1] < s for s in pixels)


def distance(call: Call, window: Window, channels: Array, channels_last: bool) -> int | None:
    """The least distance in bytes of operand 0 behind result 0 at which nothing is overwritten before it is read.

    Args:
        call: its result has axes batch, channel, space; each written once, in the order of ``channels_last``.
        channels: the lowest channel of the operand that each channel of the result takes.

    Returns:
        None if the two must lie apart.
    """
    x, y = call.reads[0], call.results[0]
    assert x is not None
    strides = (*x.axis_strides(), *y.axis_strides()) if x.linear and y.linear else (-1,)
    if min(strides) < 0 or not 0 < y.count <= MOST_ELEMENTS or len(call.results) > 1 or x.buffer.halo:
        return None
    if x.shape[0] != y.shape[0]:  # only text has such calls
        return None
    gap = _gap(_lies(x), _lies(y), window, tuple(channels.tolist()), channels_last)
    return max(gap, 0) if gap < y.buffer.nbytes else None


_Lies = tuple[tuple[int, ...], tuple[int, ...], int, int]
"""Where the elements of a view lie in its buffer: extents and strides by axis, offset, bytes of an element."""


def _lies(view: View) -> _Lies:
    return tuple(view.shape), tuple(view.axis_strides()), view.offset, view.dtype.nbytes


@functools.lru_cache(maxsize=1000)
def _gap(x: _Lies, y: _Lies, window: Window, channels: tuple[int, ...], channels_last: bool) -> int:
    """See `distance`. Layers alike are looked at once."""
    written = _places(y, [np.arange(e) for e in y[0]]) * y[3]
    taps = (_first_taps(window, a, y[0], x[0]) for a in range(len(x[0]) - 2))
    read = _places(x, [np.arange(x[0][0]), np.array(channels), *taps]) * x[3]
    if channels_last:
        written, read = (np.moveaxis(a, 1, -1) for a in (written, read))
    after = np.minimum.accumulate(read.reshape(-1)[::-1])[::-1][1:]
    return int((written.reshape(-1)[:-1] + y[3] - after).max(initial=0))


def ascends(view: View) -> bool:
    """True if each element lies behind the one before, in the order of the axes."""
    if not view.linear:
        return False
    reach = 0
    for extent, stride in zip(view.shape[::-1], view.axis_strides()[::-1], strict=True):
        if extent > 1 and stride <= reach:
            return False
        reach += stride * (extent - 1)
    return True


def element_gap(x: View, y: View) -> int | None:
    """As `distance`, of a kernel that goes through a result which `ascends`, and reads of an operand of the same
    shape what belongs to an element before it writes that; None if the two must lie apart.

    The half of a row of 4 that a gate multiplies with the other half: y[r, c] lies at 2 r + c, x[r, c] at 4 r + c,
    and x[r, c + 2] behind that, so that nothing is overwritten early. Where x is one row for all, y goes on alone:

    >>> from mccompile.ir.kernel import Buffer
    >>> from mccompile.ir.types import F32, TensorType, row_major
    >>> x, y = (Buffer(n, TensorType(F32, s), "arena", 4) for n, s in (("x", (3, 4)), ("y", (3, 2))))
    >>> views = [View(b, (3, 2), row_major(2), strides) for b, strides in ((x, (4, 1)), (x, (0, 1)), (y, (2, 1)))]
    >>> [element_gap(v, views[2]) for v in views[:2]]
    [0, 16]
    """
    if not x.linear or x.buffer.halo or y.buffer.halo:
        return None
    gap = y.offset * y.dtype.nbytes - x.offset * x.dtype.nbytes
    for extent, read, written in zip(y.shape, x.axis_strides(), y.axis_strides(), strict=True):
        gap += (extent - 1) * max(written * y.dtype.nbytes - read * x.dtype.nbytes, 0)
    return max(gap, 0) if gap < y.buffer.nbytes else None


def tiles_distance(call: Call, first: Sequence[Array], last: Sequence[Array]) -> int | None:
    """As `distance`, of a kernel that goes by tiles and reads all that a tile takes before it writes the tile.

    Args:
        call: operand 0 and result 0 have an axis each for the grid of tiles, in the order of its loops.
        first: for each axis of the operand, the lowest coordinate that the tiles along an axis of the grid read.
        last: for each axis of the result, the highest coordinate that they write. Both are broadcast to the grid.

    >>> from mccompile.ir.kernel import Buffer
    >>> from mccompile.ir.types import F32, TensorType, row_major
    >>> from mccompile.ops.registry import lookup
    >>> x, y = (Buffer(name, TensorType(F32, (1, 6, 2)), "arena", 4) for name in "xy")
    >>> views = [View(b, (6, 2), row_major(2), (2, 1)) for b in (x, y)]
    >>> call = Call("matmul.packed", lookup("matmul")(), None, (views[0],), (views[1],))
    >>> rows = np.arange(0, 6, 2)[:, None]  # tiles of two rows, one column after the other
    >>> tiles_distance(call, [rows, np.zeros((1, 2), int)], [rows + 1, np.arange(2)[None, :]])
    12
    """
    x, y = call.reads[0], call.results[0]
    assert x is not None
    strides = (*x.axis_strides(), *y.axis_strides()) if x.linear and y.linear else (-1,)
    if min(strides) < 0 or not 0 < y.count <= MOST_ELEMENTS or len(call.results) > 1 or x.buffer.halo:
        return None
    read = _sum_of(x, first) * x.dtype.nbytes
    written = (_sum_of(y, last) + 1) * y.dtype.nbytes
    read, written = (a.reshape(-1) for a in np.broadcast_arrays(read, written))
    after = np.minimum.accumulate(read[::-1])[::-1][1:]
    gap = int((written[:-1] - after).max(initial=0))
    return max(gap, 0) if gap < y.buffer.nbytes else None


def places_behind(
    call: Call, first: Sequence[Array], last: Sequence[Array], rows: tuple[int, int], tile: int
) -> int | None:
    """As `distance`, of a kernel that reads all that a tile of pixels takes before it stores the tile.

    Args:
        call: operand 0 has the lowest and result 0 the highest element of a pixel at coordinates ``first`` and
            ``last``, which are broadcast to grids of as many pixels, in the order in which the kernel takes them.
        rows: how many runs of how many pixels; a tile has ``tile`` of them and ends with a run.
    """
    x, y = call.reads[0], call.results[0]
    assert x is not None
    strides = (*x.axis_strides(), *y.axis_strides()) if x.linear and y.linear else (-1,)
    if min(strides) < 0 or not 0 < y.count <= MOST_ELEMENTS or len(call.results) > 1 or x.buffer.halo:
        return None
    read = _sum_of(x, first).reshape(rows) * x.dtype.nbytes
    written = (_sum_of(y, last).reshape(rows) + 1) * y.dtype.nbytes
    tiles = -(-rows[1] // tile)
    padded = np.pad(read, ((0, 0), (0, tiles * tile - rows[1])), mode="edge").reshape(-1, tile).min(axis=1)
    ends = np.pad(written, ((0, 0), (0, tiles * tile - rows[1])), mode="edge").reshape(-1, tile).max(axis=1)
    after = np.minimum.accumulate(padded[::-1])[::-1][1:]
    gap = int((ends[:-1] - after).max(initial=0))
    return max(gap, 0) if gap < y.buffer.nbytes else None


def _sum_of(view: View, coordinates: Sequence[Array]) -> Array:
    """The place in the buffer of each element at coordinates that are broadcast to each other."""
    total = np.full((1,), view.offset, np.int64)
    for stride, at in zip(view.axis_strides(), coordinates, strict=True):
        total = total + at * stride
    return total


def _places(lies: _Lies, coordinates: Sequence[Array]) -> Array:
    """The place in the buffer of each element at the grid of some coordinates per axis."""
    shape, strides, offset, _ = lies
    total = np.full((1,) * len(shape), offset, np.int64)
    for axis, (stride, at) in enumerate(zip(strides, coordinates, strict=True)):
        total = total + (at * stride).reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return total


def _first_taps(window: Window, a: int, y: Sequence[int], x: Sequence[int]) -> Array:
    """For each coordinate of the result along a spatial axis, the lowest of the operand in its window.

    A window altogether in the padding counts as if it read the first element.
    """
    start = np.arange(y[2 + a]) * window.strides[a] - window.pads[a]
    skipped = -(np.minimum(start, 0) // window.dilations[a])
    first = start + skipped * window.dilations[a]
    inside = (skipped < window.kernel[a]) & (first < x[2 + a])
    return np.where(inside, first, 0)
