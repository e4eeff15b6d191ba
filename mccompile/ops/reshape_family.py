"""The ONNX operators that only rename axes: Reshape, Flatten, Squeeze, Unsqueeze, Identity."""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir.dims import exact
from mccompile.ops.elements import single
from mccompile.ops.folding import Folding, shaped_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _factors(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes of equal size."""
    parts = d.shape(4, 1, 3)
    cut = d.int(1, 3)
    return parts, (math.prod(parts[:cut]), math.prod(parts[cut:]))


def _sample_reshape(d: Draw) -> Case:
    shape, target = _factors(d)
    wanted = list(target)
    if d.bool():
        wanted[d.int(0, 1)] = -1
    return Case([d.array(shape), np.array(wanted, dtype=np.int64)], {}, frozenset({1}))


@onnx_op("Reshape", sample=_sample_reshape, folding=Folding(shaped_bytes))
def import_reshape(n: Import) -> None:
    x, wanted = n.input(0), list(n.ints(1, "shape"))
    copies = not n.flag("allowzero")
    for i, extent in enumerate(wanted):
        if extent == 0 and copies:
            if i >= len(x.shape):
                raise n.error(f"extent {i} of the shape is 0 (copy), but the input has {len(x.shape)} axes")
            wanted[i] = x.shape[i]
    if wanted.count(-1) > 1:
        raise n.error("the shape has more than one -1")
    if -1 in wanted:
        rest = math.prod(e for e in wanted if e != -1)
        count = x.type.count
        if rest and (whole := exact(count, rest)) is not None:
            wanted[wanted.index(-1)] = whole
        elif rest == 0 or count % rest:  # UndecidedError where it may be right in some run
            raise n.error(f"{x.type} cannot be reshaped to {wanted}")
    n.emit_reshape(tuple(wanted))


@onnx_op("Flatten", sample=lambda d: Case([d.array(d.shape(4, 1, 3))], {"axis": d.int(-4, 4)}))
def import_flatten(n: Import) -> None:
    shape = n.input(0).shape
    axis = n.attr("axis", 1)
    axis = axis + len(shape) if axis < 0 else axis
    if not 0 <= axis <= len(shape):
        raise n.error(f"axis {n.attr('axis', 1)} is outside of rank {len(shape)}")
    n.emit_reshape((math.prod(shape[:axis]), math.prod(shape[axis:])))


def _sample_squeeze(d: Draw) -> Case:
    if d.bool():
        return Case([d.array((1, d.int(1, 4), 1)), None])
    axes = np.array([d.choice([0, 2, -1])], dtype=np.int64)
    return Case([d.array((1, d.int(1, 4), 1)), axes], {}, frozenset({1}))


@onnx_op("Squeeze", sample=_sample_squeeze)
def import_squeeze(n: Import) -> None:
    x = n.input(0)
    if n.optional(1) is None:
        axes = [i for i, e in enumerate(x.shape) if e == 1]
    else:
        axes = [n.axis(a, len(x.shape)) for a in n.ints(1, "axes")]
        x = single(n, x, axes)
    if any(x.shape[a] != 1 for a in axes):
        raise n.error(f"axes {axes} of {list(x.shape)} are not all of extent 1")
    n.emit_reshape(tuple(e for i, e in enumerate(x.shape) if i not in axes), x)


@onnx_op(
    "Unsqueeze",
    sample=lambda d: Case(
        [d.array(d.shape(2)), np.array(d.choice([[0], [1, -1], [3, 0]]), dtype=np.int64)], {}, frozenset({1})
    ),
)
def import_unsqueeze(n: Import) -> None:
    shape = n.input(0).shape
    given = n.ints(1, "axes")
    rank = len(shape) + len(given)
    axes = n.axes(given, rank)
    rest = iter(shape)
    n.emit_reshape(tuple(1 if i in axes else next(rest) for i in range(rank)))


@onnx_op("Identity", sample=lambda d: Case([d.array(d.shape(3))]))
def import_identity(n: Import) -> None:
    n.bind(0, n.input(0))
