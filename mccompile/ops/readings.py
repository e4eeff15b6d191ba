"""Arguments that are computed at run time, where few values of them are possible: by the shape that the model states
for the result, or because an axis is one of few.

Worked example: of x[3, 2, 2] ReduceSum(x, axes) without its reduced axes is stated to be [3, 2]. So ``axes`` is one
number, 1 or 2 (or -2, -1): two *readings*. The program has the kernels of both, each made as if the axes were
constants, runs those of the reading that holds, and ends with MCC_E_DIM where none does.

Most arguments have one reading: the shape of a Reshape is that of its result. Then nothing but the check is left.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import varies
from mccompile.ir.scalar import Array
from mccompile.ops.elements import Elements, Test, Whole, all_of, any_of, total, wrapped
from mccompile.ops.frontend import Import
from mccompile.ops.stated import Shape

MAX_READINGS = 8
"""So many ways to compute a node are worth their code."""


@dataclass(frozen=True)
class Reading:
    """What inputs of a node may be taken for: constants by input, and the test whether that is what they are."""

    values: Mapping[int, Array]
    holds: Test


Reader = Callable[[Import, Elements], "list[Reading] | None"]
"""The readings of a node; None where they are not few, or not known."""


@dataclass(frozen=True)
class Row:
    """How an operator reads arguments, and which inputs these are."""

    reader: Reader
    arguments: tuple[int, ...] = (1,)


def _one(i: int, values: Sequence[int], holds: Test, like: Import) -> list[Reading]:
    return [Reading({i: _array(like, i, values)}, holds)]


def _array(n: Import, i: int, values: Sequence[int]) -> Array:
    """Numbers in the shape and element type of input ``i``."""
    return np.array(values, n.input(i).dtype.numpy).reshape(n.input(i).shape)


def _equal(given: Sequence[Whole], wanted: Sequence[int]) -> Test:
    if len(given) != len(wanted):
        return any_of([])
    return all_of(g.equals(w) for g, w in zip(given, wanted, strict=True))


def _shape(n: Import, output: int = 0) -> tuple[int, ...] | None:
    """The shape that the model states of an output, where all of it are numbers."""
    stated = n.declared(output)
    return None if stated is None or varies(stated) else stated


# -- arguments that are the result's shape -----------------------------------------------------------------------
def _extents(i: int, axes: Callable[[Import, tuple[int, ...]], Sequence[int] | None]) -> Reader:
    """Input ``i`` is what ``axes`` finds in the shape of result 0, and nothing else."""

    def read(n: Import, e: Elements) -> list[Reading] | None:
        stated = _shape(n)
        wanted = None if stated is None else axes(n, stated)
        if wanted is None or len(wanted) != n.input(i).type.count:
            return None
        return _one(i, wanted, _equal(e.of(i, "extents"), wanted), n)

    return read


def _whole(n: Import, stated: tuple[int, ...]) -> Sequence[int]:
    return stated


def _at_axis(name: str, default: int) -> Callable[[Import, tuple[int, ...]], Sequence[int]]:
    def pick(n: Import, stated: tuple[int, ...]) -> Sequence[int]:
        return [stated[n.axis(n.attr(name, default), len(stated))]]

    return pick


def _repeats(n: Import, stated: tuple[int, ...]) -> Sequence[int] | None:
    x = n.input(0).shape
    if len(x) != len(stated) or varies(x) or 0 in x:
        return None
    return [s // e for s, e in zip(stated, x, strict=True)]


def _solved(shape: Shape, count: int) -> tuple[int, ...] | None:
    """A shape of ``count`` elements of which at most one extent is not stated as a number: that follows from the
    others."""
    stated = [e if isinstance(e, int) and not varies([e]) else None for e in shape]
    known = [e for e in stated if e is not None]
    if len(known) == len(shape):
        return tuple(known) or None
    rest = math.prod(known)
    if varies([count]) or len(known) < len(shape) - 1 or not rest or count % rest:
        return None
    return tuple(count // rest if e is None else e for e in stated)


def _reshape(n: Import, e: Elements) -> list[Reading] | None:
    """An extent may be given as -1 (once), or as 0 where it is that of the operand."""
    x = n.input(0).shape
    stated = _solved(n.stated.shapes.get(n.node.outputs[0], ()), n.input(0).type.count)
    if stated is None or len(stated) != n.input(1).type.count or varies(x):
        return None
    given, copies = e.of(1, "shape"), not n.flag("allowzero")
    tests = []
    for i, (g, s) in enumerate(zip(given, stated, strict=True)):
        test = g.equals(-1) | g.equals(s)
        if copies and s != 0:
            test = test | (g.equals(0) if i < len(x) and x[i] == s else any_of([]))
        tests.append(test)
    once = total(g.equals(-1).otherwise(1, 0) for g in given).below(2)
    return _one(1, stated, all_of([*tests, once]), n)


def _expand(n: Import, e: Elements) -> list[Reading] | None:
    stated, x = _shape(n), n.input(0).shape
    if stated is None or varies(x) or n.input(1).type.count > len(stated) or len(x) > len(stated):
        return None
    given, rank = e.of(1, "shape"), len(stated)
    own = (*(1,) * (rank - len(x)), *x)
    wanted = stated[rank - len(given) :]
    tests = []
    for g, s, d in zip(given, wanted, own[rank - len(given) :], strict=True):
        tests.append(g.equals(s) | g.equals(1) if d == s else g.equals(s))
    tests += [Whole.of(s).equals(d) for s, d in zip(stated, own[: rank - len(given)], strict=False)]
    return _one(1, wanted, all_of(tests), n)


def _col2im(n: Import, e: Elements) -> list[Reading] | None:
    """The image is that of the result; blocks have as many elements as the operand has rows for a channel."""
    stated, x = _shape(n), n.input(0).shape
    if stated is None or varies(x) or len(x) != 3 or min(stated) < 1 or x[1] % stated[1]:
        return None
    image, found = stated[2:], []
    for block in _factors(x[1] // stated[1], len(image)):
        holds = _equal(e.of(1, "image_shape"), image) & _equal(e.of(2, "block_shape"), block)
        if holds.known is not False and math.prod(_columns(n, image, block)) == x[2]:
            found.append(Reading({1: _array(n, 1, image), 2: _array(n, 2, block)}, holds))
    return found


def _factors(product: int, count: int) -> list[tuple[int, ...]]:
    """All ways to write a number as a product of ``count`` factors."""
    if count <= 1:
        return [(product,) * count] if count or product == 1 else []
    first = [f for f in range(1, product + 1) if product % f == 0]
    return [(f, *rest) for f in first for rest in _factors(product // f, count - 1)]


def _columns(n: Import, image: Sequence[int], block: Sequence[int]) -> list[int]:
    ones = (1,) * len(image)
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    pads = n.attr("pads", (0,) * (2 * len(image)))
    free = [e + b + t for e, b, t in zip(image, pads, pads[len(image) :], strict=False)]
    return [(f - d * (b - 1) - 1) // s + 1 for f, d, b, s in zip(free, dilations, block, strides, strict=True)]


def _split(n: Import, e: Elements) -> list[Reading] | None:
    stated = [_shape(n, i) for i in range(len(n.node.outputs))]
    axis = n.axis(n.attr("axis", 0), len(n.input(0).shape))
    known = [s[axis] for s in stated if s is not None]
    if len(known) != len(stated) or n.input(1).type.count != len(known):
        return None
    return _one(1, known, _equal(e.of(1, "split"), known), n)


def _topk(n: Import, e: Elements) -> list[Reading] | None:
    stated = _shape(n, 0) or _shape(n, 1)
    if stated is None or n.input(1).type.count != 1:
        return None
    k = [stated[n.axis(n.attr("axis", -1), len(stated))]]
    return _one(1, k, _equal(e.of(1, "k"), k), n)


def _resize(n: Import, e: Elements) -> list[Reading] | None:
    """Sizes. Where they keep the aspect ratio, one axis gets what it is given, and tells the scale of all."""
    stated, x = _shape(n), n.input(0).shape
    if n.optional(3) is None or stated is None or len(stated) != len(x) or varies(x):
        return None
    axes = n.axes(n.attr("axes", tuple(range(len(x)))), len(x))
    if len(axes) != n.input(3).type.count:
        return None
    wanted, given = [stated[a] for a in axes], e.of(3, "sizes")
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return _one(3, wanted, _equal(given, wanted), n)
    own = [x[a] for a in axes]
    return [_scaled_by(n, i, wanted, own, given, policy == "not_larger") for i in range(len(axes))]


def _scaled_by(
    n: Import, axis: int, wanted: Sequence[int], own: Sequence[int], given: Sequence[Whole], least: bool
) -> Reading:
    """The reading that sizes are to scale as ``axis`` says, which is the ``least`` of all scales or the largest."""
    top, bottom = wanted[axis], own[axis]
    sizes = [-(-top * e // bottom) if least else top * e // bottom for e in own]
    tests = [given[axis].equals(top)]
    for g, e in zip(given, own, strict=True):
        less = (g * bottom).below(top * e) if least else Whole.of(top * e).below(g * bottom)
        tests.append(less.negated())
    rounded = [(2 * top * e + bottom) // (2 * bottom) for e in own]
    tests.append(Whole.of(int(rounded == list(wanted))).equals(1))
    return Reading({3: _array(n, 3, sizes)}, all_of(tests))


def _center_crop_pad(n: Import, e: Elements) -> list[Reading] | None:
    stated, rank = _shape(n), len(n.input(0).shape)
    axes = n.axes(n.attr("axes", tuple(range(rank))), rank)
    if stated is None or len(axes) != n.input(1).type.count:
        return None
    wanted = [stated[a] for a in axes]
    return _one(1, wanted, _equal(e.of(1, "shape"), wanted), n)


def _affine_grid(n: Import, e: Elements) -> list[Reading] | None:
    """Of [batch, channels, height, width] the result [batch, height, width, 2] tells all but the channels, on which
    nothing depends."""
    stated = _shape(n)
    if stated is None or n.input(1).type.count != len(stated):
        return None
    size = e.of(1, "size")
    holds = size[0].equals(stated[0]) & _equal(size[2:], stated[1:-1])
    return _one(1, (stated[0], 1, *stated[1:-1]), holds, n)


# -- axes ----------------------------------------------------------------------------------------------------------
def _axis(i: int, what: str = "axis") -> Reader:
    """Any axis of input 0, where it may be one of few."""

    def read(n: Import, e: Elements) -> list[Reading] | None:
        rank = len(n.input(0).shape)
        if not 0 < rank <= MAX_READINGS or n.input(i).type.count != 1:
            return None
        given = wrapped(e.of(i, what)[0], rank)
        return [Reading({i: _array(n, i, [a])}, given.equals(a)) for a in range(rank)]

    return read


def _transform(n: Import, e: Elements) -> list[Reading] | None:
    """DFT: of one side the result has another extent along its axis."""
    stated, x = _shape(n), n.input(0).shape
    found = _axis(2)(n, e)
    if found is None or (n.flag("onesided") and stated is None):
        return None
    if stated is None:
        return found[:-1]
    alike = [a for a in range(len(x) - 1) if _without(stated, (a, len(x) - 1)) == _without(x, (a, len(x) - 1))]
    return [found[a] for a in alike]


def _frames(n: Import, e: Elements) -> list[Reading] | None:
    """STFT: the frames [batch, frames, bins, 2] tell the step between them, and how long they are."""
    stated, window = _shape(n), n.optional(2)
    available = n.input(0).shape[1]
    if stated is None or len(stated) != 4 or varies([available]):
        return None
    _, frames, bins, _ = stated
    lengths = [2 * bins - 2, 2 * bins - 1] if n.flag("onesided", True) else [bins]
    found = []
    for length in lengths if window is None else window.shape:
        if not 1 <= length <= available:
            continue
        holds = e.of(3, "frame_length")[0].equals(length) if n.optional(3) is not None else all_of([])
        for step in range(1, available + 1):
            if (available - length) // step + 1 == frames:
                values = {1: _array(n, 1, [step])}
                if n.optional(3) is not None:
                    values[3] = _array(n, 3, [length])
                found.append(Reading(values, holds & e.of(1, "frame_step")[0].equals(step)))
    return found


def _are(given: Sequence[Whole], rank: int, axes: Iterable[int]) -> Test:
    """Whether numbers are some axes in any order, each once."""
    chosen = set(axes)
    counted = [total(wrapped(g, rank).equals(a).otherwise(1, 0) for g in given) for a in range(rank)]
    return all_of(c.equals(int(a in chosen)) for a, c in enumerate(counted))


def _axes_of(n: Import, e: Elements, i: int, rank: int, fit: Callable[[tuple[int, ...]], bool], alike: bool) -> (
    list[Reading] | None
):
    """The sets of as many axes as input ``i`` has that ``fit``; ``alike``: all of them mean the same."""
    count = n.input(i).type.count
    if count > rank or math.comb(rank, count) > 256:
        return None
    given = e.of(i, "axes")
    sets = [s for s in itertools.combinations(range(rank), count) if fit(s)]
    tests = [_are(given, rank, s) for s in sets]
    if alike and sets:
        return _one(i, sets[0], any_of(tests), n)
    return [Reading({i: _array(n, i, s)}, t) for s, t in zip(sets, tests, strict=True)]


def _without(shape: Sequence[int], axes: Iterable[int]) -> tuple[int, ...]:
    gone = set(axes)
    return tuple(e for a, e in enumerate(shape) if a not in gone)


def _unsqueeze(n: Import, e: Elements) -> list[Reading] | None:
    stated, x = _shape(n), n.input(0).shape
    if stated is None or varies(x) or len(stated) != len(x) + n.input(1).type.count:
        return None
    return _axes_of(n, e, 1, len(stated), lambda s: _inserted(stated, s) == x, True)


def _inserted(stated: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...] | None:
    return _without(stated, axes) if all(stated[a] == 1 for a in axes) else None


def _squeeze(n: Import, e: Elements) -> list[Reading] | None:
    stated, x = _shape(n), n.input(0).shape
    if stated is None or varies(x):
        return None
    return _axes_of(n, e, 1, len(x), lambda s: _inserted(x, s) == stated, True)


def _reduce(n: Import, e: Elements) -> list[Reading] | None:
    """Without its reduced axes a shape may be that of several readings; with them it tells which ones are."""
    stated, x = _shape(n), n.input(0).shape
    if stated is None or varies(x):
        return None
    if not n.flag("keepdims", True):
        return _axes_of(n, e, 1, len(x), lambda s: _without(x, s) == stated, False)
    if len(stated) != len(x) or any(s not in (1, d) for s, d in zip(stated, x, strict=True)):
        return []
    given = [wrapped(g, len(x)) for g in e.of(1, "axes")]
    tests = [(g.below(0) | Whole.of(len(x) - 1).below(g)).negated() for g in given]
    for a, (s, d) in enumerate(zip(stated, x, strict=True)):
        if d != 1:  # of an axis of one element it means nothing whether it is reduced
            found = any_of(g.equals(a) for g in given)
            tests.append(found if s != d else found.negated())
    pairs = list(enumerate(zip(stated, x, strict=True)))
    axes = [a for a, (s, d) in pairs if s != d] or [a for a, (_, d) in pairs if d == 1][:1]
    return [Reading({1: np.array(axes, np.int64)}, all_of(tests))] if axes else []


_REDUCE = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
    "ReduceSum", "ReduceSumSquare",
)  # fmt: skip

READINGS: Mapping[str, Row] = {
    **dict.fromkeys(_REDUCE, Row(_reduce)),
    **dict.fromkeys(("CumSum", "CumProd"), Row(_axis(1))),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), Row(_extents(0, _whole), (0,))),
    "AffineGrid": Row(_affine_grid),
    "CenterCropPad": Row(_center_crop_pad),
    "Col2Im": Row(_col2im, (1, 2)),
    "ConstantOfShape": Row(_extents(0, _whole), (0,)),
    "DFT": Row(_transform, (2,)),
    "Expand": Row(_expand),
    "OneHot": Row(_extents(1, _at_axis("axis", -1))),
    "Reshape": Row(_reshape),
    "Resize": Row(_resize, (3,)),
    "STFT": Row(_frames, (1, 3)),
    "Split": Row(_split),
    "Squeeze": Row(_squeeze),
    "Tile": Row(_extents(1, _repeats)),
    "TopK": Row(_topk),
    "Unsqueeze": Row(_unsqueeze),
}
"""By operator of ai.onnx."""


def readings(n: Import, e: Elements) -> list[Reading] | None:
    """What arguments of a node that are known at run time only may be. None: they are no arguments, or too many are
    possible."""
    row = None if n.node.domain else READINGS.get(n.op_type)
    if row is None or all(n.optional(i) is None or n.has_numbers(i) for i in row.arguments):
        return None
    found = row.reader(n, e)
    if found is None:
        return None
    found = [r for r in found if r.holds.known is not False]
    return None if len(found) > MAX_READINGS else found
