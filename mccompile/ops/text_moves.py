"""Operators that only move text: as they move numbers, and all bytes of an element with it.

    Gather(["on", "off"], [1, 1])      is      rows 1 and 1 of u8[2,3], which are "off" and "off"
"""

from __future__ import annotations

import math

from mccompile.ir.graph import Value
from mccompile.ops.concat import Concat
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.registry import onnx_op
from mccompile.ops.text import TEXT, widened
from mccompile.ops.transpose import Transpose


def _shaped(n: Import, shape: tuple[int, ...]) -> None:
    """Let output 0 be input 0 in a shape of texts."""
    n.narrow_result = "string"
    n.bind(0, n.reshape(n.input(0), (*shape, n.input(0).shape[-1]), "shaped"))


def _own(n: Import) -> tuple[int, ...]:
    """The shape of the texts of input 0."""
    return n.input(0).shape[:-1]


@onnx_op("Reshape", domain=TEXT, tolerance={})
def import_reshape(n: Import) -> None:
    own, keep_zero = _own(n), n.flag("allowzero")
    shape = [own[i] if e == 0 and not keep_zero and i < len(own) else e for i, e in enumerate(n.ints(1, "shape"))]
    if shape.count(-1) == 1:
        rest = math.prod(e for e in shape if e != -1)
        shape[shape.index(-1)] = math.prod(own) // rest if rest else 0
    if math.prod(shape) != math.prod(own):
        raise n.error(f"{list(own)} texts cannot be reshaped to {shape}")
    _shaped(n, tuple(shape))


@onnx_op("Flatten", domain=TEXT, tolerance={})
def import_flatten(n: Import) -> None:
    own, given = _own(n), n.attr("axis", 1)
    axis = given if 0 <= given <= len(own) else n.axis(given, len(own))
    _shaped(n, (math.prod(own[:axis]), math.prod(own[axis:])))


@onnx_op("Squeeze", domain=TEXT, tolerance={})
def import_squeeze(n: Import) -> None:
    own = _own(n)
    given = [a for a, e in enumerate(own) if e == 1] if n.optional(1) is None else n.ints(1, "axes")
    axes = {n.axis(a, len(own)) for a in given}
    if any(own[a] != 1 for a in axes):
        raise n.error(f"axes {sorted(axes)} of {list(own)} texts do not all have the extent 1")
    _shaped(n, tuple(e for a, e in enumerate(own) if a not in axes))


@onnx_op("Unsqueeze", domain=TEXT, tolerance={})
def import_unsqueeze(n: Import) -> None:
    left, given = list(_own(n)), n.ints(1, "axes")
    for axis in sorted(n.axes(given, len(left) + len(given))):
        left.insert(axis, 1)
    _shaped(n, tuple(left))


@onnx_op("Transpose", domain=TEXT, tolerance={})
def import_transpose(n: Import) -> None:
    rank = len(_own(n))
    perm = tuple(n.attr("perm", tuple(reversed(range(rank)))))
    n.narrow_result = "string"
    n.emit(Transpose((*perm, rank)), [n.input(0)])


@onnx_op("Gather", domain=TEXT, tolerance={})
def import_gather(n: Import) -> None:
    axis = n.axis(n.attr("axis", 0), len(_own(n)))
    n.narrow_result = "string"
    n.emit(Gather(axis), [n.input(0), n.input(1)])


@onnx_op("ArrayFeatureExtractor", domain=TEXT, tolerance={})
def import_array_feature_extractor(n: Import) -> None:
    """Columns, chosen by their numbers."""
    own, columns = _own(n), n.input(1)
    if not own:
        raise n.error("a scalar has no features")
    found = n.inner(Gather(len(own) - 1), [n.input(0), n.reshape(columns, (columns.type.count,), "columns")], "found")
    n.narrow_result = "string"
    n.bind(0, found if len(own) > 1 else n.reshape(found, (1, *found.shape), "row"))


@onnx_op("Concat", domain=TEXT, tolerance={})
def import_concat(n: Import) -> None:
    """Texts of one room, the largest."""
    axis = n.axis(n.required("axis", int), len(_own(n)))
    given: list[Value] = [v for v in n.inputs if v is not None]
    given = [v for v in given if v.shape[axis] != 0] or given[:1]
    room = max(v.shape[-1] for v in given)
    wide = [widened(n, v, room, f"input{i}") for i, v in enumerate(given)]
    n.narrow_result = "string"
    if len(wide) == 1:
        n.bind(0, wide[0])
    else:
        n.emit(Concat(axis), wide)
