"""Operators that only move text: as they move numbers, and all bytes of an element with it.

    Gather(["on", "off"], [1, 1])      is      rows 1 and 1 of u8[2,3], which are "off" and "off"

The bytes are the last axis. So most are the operator of numbers with its axes counted from the first one, and with an
argument for the bytes: Tile(["on", "off"], [2]) is Tile of u8[2,3] by [2, 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.ir.dims import exact
from mccompile.ir.graph import Value
from mccompile.ir.types import I64
from mccompile.onnxio import AttrValue
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.registry import front_ends, onnx_op, run_time_forms
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
        left = exact(math.prod(own), rest) if rest != 0 else 0
        shape[shape.index(-1)] = -1 if left is None else left
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


# -- by the operators of numbers ---------------------------------------------------------------------------
def _over_bytes(n: Import, inputs: Sequence[Value | None], **attributes: AttrValue) -> None:
    """Convert the node with these inputs and attributes as if its texts were rows of numbers."""
    view = n.altered(inputs, **attributes)
    form = run_time_forms().get(n.op_type)
    convert = front_ends()["", n.op_type].convert if form is None or not form.wanted(view) else form.convert
    convert(view)
    n.attributes_read |= view.attributes_read
    n.outputs = view.outputs
    n.narrow_result, n.outputs_alike = "string", True


def _own_axis(n: Import, name: str, default: int) -> int:
    """An axis of the texts, counted from the first."""
    return n.axis(n.attr(name, default), len(_own(n)))


def _with_room(n: Import, first: int, second: int) -> list[Value | None]:
    """The inputs, of which two are texts of one room, the larger."""
    found = list(n.inputs)
    room = max(n.input(first).shape[-1], n.input(second).shape[-1])
    for i in (first, second):
        found[i] = widened(n, n.input(i), room, f"input{i}")
    return found


def _with_more(n: Import, i: int, number: int, what: str) -> list[Value | None]:
    """The inputs, of which one has a number more, for the bytes."""
    found = list(n.inputs)
    found[i] = n.told(what, np.array([*n.ints(i, what), number], object), I64)
    return found


def _for_each_byte(n: Import, indices: Value, room: int) -> Value:
    """Indices of texts, as those of their bytes."""
    shape = (*indices.shape, room)
    column = n.reshape(indices, (*indices.shape, 1), "indices")
    if column not in n.graph.constants:
        return n.inner(Expand(shape), [column], "each")
    array = n.graph.array(column)
    n.require_foldable(array.nbytes * room, "indices")
    return n.constant("each", np.broadcast_to(array, shape))


@onnx_op("Where", domain=TEXT, tolerance={})
def import_where(n: Import) -> None:
    condition, *texts = _with_room(n, 1, 2)
    assert condition is not None
    _over_bytes(n, [n.reshape(condition, (*condition.shape, 1), "condition"), *texts])


@onnx_op("Slice", domain=TEXT, tolerance={})
def import_slice(n: Import) -> None:
    inputs = list(n.inputs)
    if n.optional(3) is not None:
        inputs[3] = n.constant("axes", np.array(n.axes(n.ints(3, "axes"), len(_own(n))), np.int64))
    elif n.input(1).type.count > len(_own(n)):
        raise n.error(f"{n.input(1).type.count} starts for {len(_own(n))} axes")
    _over_bytes(n, inputs)


@onnx_op("Split", domain=TEXT, tolerance={})
def import_split(n: Import) -> None:
    _over_bytes(n, n.inputs, axis=_own_axis(n, "axis", 0))


@onnx_op("Compress", domain=TEXT, tolerance={})
def import_compress(n: Import) -> None:
    if n.attr("axis") is not None:
        _over_bytes(n, n.inputs, axis=_own_axis(n, "axis", 0))
        return
    x = n.input(0)
    _over_bytes(n, [n.reshape(x, (math.prod(_own(n)), x.shape[-1]), "flat"), n.input(1)], axis=0)


@onnx_op("Expand", domain=TEXT, tolerance={})
def import_expand(n: Import) -> None:
    _over_bytes(n, _with_more(n, 1, n.input(0).shape[-1], "shape"))


@onnx_op("Tile", domain=TEXT, tolerance={})
def import_tile(n: Import) -> None:
    _over_bytes(n, _with_more(n, 1, 1, "repeats"))


@onnx_op("ReverseSequence", domain=TEXT, tolerance={})
def import_reverse_sequence(n: Import) -> None:
    if len(_own(n)) < 2:
        raise n.error("a batch of sequences has two axes")
    _over_bytes(n, n.inputs)


@onnx_op("GatherElements", domain=TEXT, tolerance={})
def import_gather_elements(n: Import) -> None:
    x = n.input(0)
    _over_bytes(n, [x, _for_each_byte(n, n.input(1), x.shape[-1])], axis=_own_axis(n, "axis", 0))


@onnx_op("GatherND", domain=TEXT, tolerance={})
def import_gather_nd(n: Import) -> None:
    _require_tuples(n, n.attr("batch_dims", 0))
    _over_bytes(n, n.inputs)


@onnx_op("ScatterElements", domain=TEXT, tolerance={})
def import_scatter_elements(n: Import) -> None:
    _require_written(n)
    x, indices, updates = _with_room(n, 0, 2)
    assert x is not None
    assert indices is not None
    _over_bytes(n, [x, _for_each_byte(n, indices, x.shape[-1]), updates], axis=_own_axis(n, "axis", 0))


@onnx_op("ScatterND", domain=TEXT, tolerance={})
def import_scatter_nd(n: Import) -> None:
    _require_written(n)
    _require_tuples(n, 0)
    _over_bytes(n, _with_room(n, 0, 2))


def _require_tuples(n: Import, batch: int) -> None:
    """CompileError for tuples of indices that reach into the bytes."""
    depth, rank = (n.input(1).shape or (0,))[-1], len(_own(n))
    if not 0 <= batch < max(rank, 1) or depth > rank - batch:
        raise n.error(f"tuples of {depth} indices behind {batch} batch axes do not fit {rank} axes of texts")


def _require_written(n: Import) -> None:
    """CompileError for texts that are to be added up."""
    if n.attr("reduction", "none") != "none":
        raise n.error(f"texts have no reduction {n.attr('reduction')!r}")
