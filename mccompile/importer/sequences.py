"""Sequences of tensors, which exist at compile time only: tuples of graph values, or of a length of the run, rows.

    s = [];  for t: s = SequenceInsert(s, f(t))      is      `Rows` of f(t), what a loop stacks
    ConcatFromSequence(s, axis=1, new_axis=1)        is      these rows with their first axis moved to 1
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from itertools import accumulate

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.extent_rules import MAX_NUMBERS, Numbers, are_whole, whole_numbers
from mccompile.ir.dims import UndecidedError, minimum, require_equal, span, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph, Value
from mccompile.ir.op import TypeRuleError
from mccompile.onnxio import OnnxNode
from mccompile.ops.concat import Concat, made_longer, with_elements
from mccompile.ops.frontend import Import
from mccompile.ops.gather import Gather
from mccompile.ops.slice import Slice
from mccompile.ops.transpose import Transpose


@dataclass(frozen=True)
class Rows:
    """A sequence of tensors of one type, which are the rows of ``value``."""

    value: Value


Known = Value | tuple[Value, ...] | Rows
"""What an ONNX name stands for: a tensor or a sequence of tensors."""


def takes_sequences(node: OnnxNode, inputs: Sequence[Known | None]) -> bool:
    """True for the operators of this module, and for Identity of a sequence."""
    if node.domain:
        return False
    return node.op_type in OPERATORS or (node.op_type == "Identity" and isinstance(inputs[0], tuple | Rows))


def resolve(
    graph: Graph, node: OnnxNode, inputs: Sequence[Known | None], varying: MutableMapping[Value, Numbers]
) -> Known:  # fmt: skip
    """The result of a node that makes or reads a sequence; ``varying`` are tensors of which some elements are extents
    of the run, to which those of the result are added. CompileError where it depends on data."""
    first = inputs[0] if inputs else None
    if node.op_type == "Identity":
        assert first is not None
        return first
    n = Import(graph, node, [v if isinstance(v, Value) else None for v in inputs], extents=varying)
    if isinstance(first, Rows):
        if node.op_type not in _OF_ROWS:
            raise n.error("its sequence has a length that the run says", f"{', '.join(_OF_ROWS)} take such")
        return _OF_ROWS[node.op_type](n, first.value)
    try:
        return OPERATORS[node.op_type](n, inputs)
    except UndecidedError as e:
        raise n.undecided(e) from e


def length_of_rows(node: OnnxNode, inputs: Sequence[Known | None]) -> int | None:
    """How long the sequence is whose length a node asks for; None for other nodes, and where it is known."""
    first = inputs[0] if inputs else None
    return first.value.shape[0] if node.op_type == "SequenceLength" and isinstance(first, Rows) else None


def stack(n: Import, parts: Sequence[Value], axis: int, suffix: str) -> Value:
    """Tensors of one shape along a new axis."""
    first = parts[0]
    if any(p.shape != first.shape or p.dtype != first.dtype for p in parts):
        raise n.error(f"tensors of different types, {first.type} and others, cannot be stacked")
    shape = (*first.shape[:axis], 1, *first.shape[axis:])
    return join(n, [n.reshape(p, shape, f"{suffix}.{i}") for i, p in enumerate(parts)], axis, suffix)


def join(n: Import, parts: Sequence[Value], axis: int, suffix: str) -> Value:
    """Tensors one after the other along an axis; constants make a constant, extents of the run stay extents."""
    kept, longer = with_elements(parts, axis)
    found = _joined(n, kept, axis, suffix)
    return made_longer(n, found, axis, longer, f"{suffix}.longer") if longer else found


def _joined(n: Import, kept: Sequence[Value], axis: int, suffix: str) -> Value:
    if len(kept) == 1:
        return kept[0]
    numbers, constant = _numbers(n, kept), all(p in n.graph.constants for p in kept)
    if numbers or constant:
        try:
            Concat(axis).infer(*(p.type for p in kept))
        except TypeRuleError as e:
            raise n.error(str(e)) from e
    if numbers:
        return n.told(suffix, np.concatenate(numbers, axis), kept[0].dtype)
    if constant:
        return n.constant(suffix, np.concatenate([n.graph.array(p) for p in kept], axis))
    return n.inner(Concat(axis), kept, suffix)


def _numbers(n: Import, parts: Sequence[Value]) -> list[Numbers]:
    """The elements of tensors of one type of which some are extents of the run; none where one has others."""
    found = [n.elements(p) for p in parts]
    told = [a for a in found if a is not None]
    few = sum(a.size for a in told) <= MAX_NUMBERS and len({p.dtype for p in parts}) == 1
    if len(told) < len(found) or not few or not any(a.dtype == object for a in told) or not all(map(are_whole, told)):
        return []
    return [whole_numbers(a) for a in told]


def take_range(n: Import, x: Value, axis: int, start: int, count: int, suffix: str) -> Value:
    """``count`` elements of an axis from ``start``."""
    numbers, known = n.elements(x), not varies([start, count])
    if numbers is not None and numbers.dtype == object and known:
        return n.told(suffix, numbers[(slice(None),) * axis + (slice(start, start + count),)], x.dtype)
    if (x in n.graph.constants and known) or (count == 0 and not x.type.varies):
        array = n.graph.array(x) if count else np.zeros(x.shape, x.dtype.numpy)
        return n.constant(suffix, array[(slice(None),) * axis + (slice(start, start + count),)])
    if count == x.shape[axis]:
        return x
    starts = tuple(start if a == axis else 0 for a in range(len(x.shape)))
    extents = tuple(count if a == axis else e for a, e in enumerate(x.shape))
    return n.inner(Slice(starts, (1,) * len(starts), extents), [x], suffix)


# -- operators ---------------------------------------------------------------------------------------------
def _sequence(n: Import, inputs: Sequence[Known | None]) -> tuple[Value, ...]:
    if not isinstance(inputs[0], tuple):
        raise n.error("input 0 must be a sequence")
    return inputs[0]


def _tensor(n: Import, inputs: Sequence[Known | None], i: int) -> Value:
    value = inputs[i] if i < len(inputs) else None
    if not isinstance(value, Value):
        raise n.error(f"input {i} must be a tensor")
    return value


def _position(n: Import, inputs: Sequence[Known | None], i: int, default: int, last: int) -> int:
    """The position that input ``i`` states, counted from the end if negative."""
    if i >= len(inputs) or inputs[i] is None:
        return default
    at = int(n.one(i, "position"))
    if not -last - 1 <= at <= last:
        raise n.error(f"position {at} is outside of a sequence of {last + 1}")
    return at + last + 1 if at < 0 else at


def _construct(n: Import, inputs: Sequence[Known | None]) -> Known:
    return tuple(_tensor(n, inputs, i) for i in range(len(inputs)))


def _insert(n: Import, inputs: Sequence[Known | None]) -> Known:
    items, new = _sequence(n, inputs), _tensor(n, inputs, 1)
    if len(inputs) < 3 or inputs[2] is None:
        return (*items, new)
    at = int(n.one(2, "position"))
    if not -len(items) <= at <= len(items):
        raise n.error(f"position {at} is outside of a sequence of {len(items)}")
    at = at + len(items) if at < 0 else at
    return (*items[:at], new, *items[at:])


def _erase(n: Import, inputs: Sequence[Known | None]) -> Known:
    items = _sequence(n, inputs)
    at = _position(n, inputs, 1, len(items) - 1, len(items) - 1)
    return (*items[:at], *items[at + 1 :])


def _at(n: Import, inputs: Sequence[Known | None]) -> Known:
    items = _sequence(n, inputs)
    if n.optional(1) is not None and not n.is_const(1) and items:  # the run says which
        return n.inner(Gather(0), [stack(n, items, 0, "items"), n.reshape(n.input(1), (), "at")], "item")
    return items[_position(n, inputs, 1, 0, len(items) - 1)]


def _length(n: Import, inputs: Sequence[Known | None]) -> Known:
    return n.constant("length", np.array(len(_sequence(n, inputs)), np.int64))


def _split(n: Import, inputs: Sequence[Known | None]) -> Known:
    x = _tensor(n, inputs, 0)
    axis = n.axis(n.attr("axis", 0), len(x.shape))
    extent, drop = x.shape[axis], False
    if varies([extent]) and (len(inputs) < 2 or inputs[1] is None):
        return _rows_of(n, x, axis, bool(n.attr("keepdims", 1)))
    if len(inputs) < 2 or inputs[1] is None:
        sizes, drop = (1,) * extent, not n.attr("keepdims", 1)
    elif n.input(1).shape:
        sizes = n.ints(1, "split")
    else:
        size = n.ints(1, "split")[0]
        if size < 1:
            raise n.error(f"parts of {size} elements")
        many = (extent + size - 1) // size
        if varies([many]):
            raise n.error(f"how many parts of {size} elements axis {axis} of {x.type} has depends on the run",
                          "give it a range in which there are as many")  # fmt: skip
        sizes = tuple(minimum(size, extent - i * size) for i in range(many))
    require_equal(sum(sizes), extent)
    if sum(sizes) != extent or any(span(size)[0] < 0 for size in sizes):
        raise n.error(f"parts {list(sizes)} do not make up axis {axis} of {x.type}")
    starts = accumulate(sizes, initial=0)
    parts = [take_range(n, x, axis, s, c, f"part{i}") for i, (s, c) in enumerate(zip(starts, sizes, strict=False))]
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return tuple(n.reshape(p, shape, f"item{i}") if drop else p for i, p in enumerate(parts))


def _concat(n: Import, inputs: Sequence[Known | None]) -> Known:
    items, new = _sequence(n, inputs), bool(n.attr("new_axis", 0))
    if not items:
        raise n.error("an empty sequence has no concatenation")
    axis = n.axis(n.required("axis", int), len(items[0].shape) + new)
    return stack(n, items, axis, "joined") if new else join(n, items, axis, "joined")


# -- of a length that the run says -------------------------------------------------------------------------
def _moved(n: Import, x: Value, source: int, to: int, suffix: str) -> Value:
    """An axis moved to another place."""
    perm = [a for a in range(len(x.shape)) if a != source]
    perm.insert(to, source)
    return x if source == to else n.inner(Transpose(tuple(perm)), [x], suffix)


def _rows_of(n: Import, x: Value, axis: int, keep: bool) -> Rows:
    """The parts of one element along an axis."""
    rows = _moved(n, x, axis, 0, "rows")
    shape = (*rows.shape[1 : axis + 1], 1, *rows.shape[axis + 1 :])
    return Rows(n.reshape(rows, (rows.shape[0], *shape), "parts") if keep else rows)


def _joined_rows(n: Import, rows: Value) -> Known:
    """All rows along a new axis, or one after the other along one of their own."""
    new, rank = bool(n.attr("new_axis", 0)), len(rows.shape) - 1
    axis = n.axis(n.required("axis", int), rank + new)
    moved = _moved(n, rows, 0, axis, "moved")
    if new:
        return moved
    shape = moved.shape
    return n.reshape(moved, (*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]), "joined")


def _row(n: Import, rows: Value) -> Known:
    """One row; a position below 0 counts from the end."""
    return n.inner(Gather(0), [rows, n.reshape(n.input(1), (), "at")], "item")


_OF_ROWS: dict[str, Callable[[Import, Value], Known]] = {"ConcatFromSequence": _joined_rows, "SequenceAt": _row}
"""What may be asked of such a sequence, beside its length."""


def _has_element(n: Import, inputs: Sequence[Known | None]) -> Known:
    return n.constant("present", np.array(bool(inputs) and inputs[0] is not None))


def _element(n: Import, inputs: Sequence[Known | None]) -> Known:
    if not inputs or inputs[0] is None:
        raise n.error("an optional value without an element is not supported")
    return inputs[0]


OPERATORS: dict[str, Callable[[Import, Sequence[Known | None]], Known]] = {
    "SequenceEmpty": lambda n, inputs: (),
    "SequenceConstruct": _construct,
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _at,
    "SequenceLength": _length,
    "SplitToSequence": _split,
    "ConcatFromSequence": _concat,
    "Optional": _element,
    "OptionalGetElement": _element,
    "OptionalHasElement": _has_element,
}


def require_tensor(node: OnnxNode, name: str, value: Known) -> Value:
    """A value that must be no sequence."""
    if isinstance(value, Rows):
        raise CompileError(
            f"{name!r} is a sequence whose length the run says, {node.op_type} needs a tensor",
            where=f"node {node.index} {node.name!r}",
        )
    if isinstance(value, tuple):
        raise CompileError(
            f"{name!r} is a sequence of {len(value)} tensors, {node.op_type} needs a tensor",
            where=f"node {node.index} {node.name!r}",
        )
    return value
