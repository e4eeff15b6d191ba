"""What operators make of numbers of which some are extents of the run: a rule for each, of arrays of objects."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from mccompile.importer import fold_values
from mccompile.ir.dims import Dim, UndecidedError, maximum, minimum, reach, span, varies
from mccompile.ir.types import F16, F32, F64, I64, DType
from mccompile.onnxio import OnnxNode
from mccompile.ops.extents import holds
from mccompile.ops.registry import folding
from mccompile.ops.slice import clamp_range

Numbers = np.ndarray[Any, np.dtype[Any]]
"""An array of objects: whole numbers, and extents."""

MAX_NUMBERS = 4096
"""Shapes have few numbers: longer tensors are data."""

MAX_WHOLE = 2.0**53
"""Floats from there on, infinite ones too, are no numbers of elements."""
MAX_ATOMS = 256
"""Of what is written with more atoms, nothing is computed in advance."""
MAX_MOVED_BYTES = 256 * MAX_NUMBERS
"""What takes more room, by a bound that is rough, is not moved in advance."""
MAX_EXPONENT = 8
"""Nor are higher powers computed."""
MAX_REACH = 2**61
"""Nor of what is larger on the way: C computes extents in 64 bits."""


def are_whole(a: Numbers) -> bool:
    """Whether an array has no floats, or such as are numbers of elements."""
    return a.dtype.kind != "f" or bool(np.all((a == np.floor(a)) & (abs(a) < MAX_WHOLE)))


def whole_numbers(a: Numbers) -> Numbers:
    """An array with its floats as whole numbers. ValueError for what is none."""
    if not are_whole(a):
        raise ValueError("extents are whole")
    return (a.astype(np.int64) if a.dtype.kind == "f" else a).astype(object)


def objects(found: Any) -> Numbers:
    shape = np.shape(found) if not isinstance(found, Dim) else ()
    out = np.empty(shape, object)
    if shape:
        flat = np.asarray(found, object).reshape(-1)
        out.reshape(-1)[:] = flat
    else:
        out[()] = found.item() if isinstance(found, np.ndarray) else found
    return out


Rule = Callable[[OnnxNode, list[Numbers]], Any]
"""What an operator makes of numbers, absent inputs left out: an array, or a number."""


def _input(node: OnnxNode, x: list[Numbers], place: int) -> Numbers | None:
    """An optional input by its place in the node; None where it is absent."""
    if place >= len(node.inputs) or not node.inputs[place]:
        return None
    return x[sum(map(bool, node.inputs[:place]))]


def _known(numbers: Numbers) -> list[int]:
    """Numbers of which none varies: indices, axes, extents of what numpy is to make."""
    if varies(numbers.reshape(-1)):
        raise UndecidedError("indices and shapes of numbers have to be known")
    return [int(i) for i in numbers.reshape(-1)]


def _require_few(shape: Sequence[int]) -> None:
    """UndecidedError for more numbers than are followed, before there is memory for them. np.tile repeats along one
    axis after the other: an extent of 0 does not make the others smaller."""
    if math.prod(max(e, 1) for e in shape) > MAX_NUMBERS:
        raise UndecidedError(f"no more than {MAX_NUMBERS} numbers are computed of extents")


def _gather(node: OnnxNode, x: list[Numbers]) -> Any:
    axis, indices = node.attrs.get("axis", 0), np.array(_known(x[1]), np.int64).reshape(x[1].shape)
    return np.take(x[0], indices, axis=axis if isinstance(axis, int) else 0)


def _slice(node: OnnxNode, x: list[Numbers]) -> Any:
    starts, ends = _known(x[1]), _known(x[2])
    stated_axes, stated_steps = _input(node, x, 3), _input(node, x, 4)
    axes = range(len(starts)) if stated_axes is None else _known(stated_axes)
    steps = [1] * len(starts) if stated_steps is None else _known(stated_steps)
    found = x[0]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        first, count = clamp_range(start, end, step, x[0].shape[axis])
        found = np.take(found, range(first, first + count * step, step), axis)
    return found


def _split(node: OnnxNode, x: list[Numbers]) -> list[Numbers]:
    axis, count = node.attrs.get("axis", 0), len(node.outputs)
    at = axis if isinstance(axis, int) else 0
    share = -(-x[0].shape[at] // count)
    stated = _input(node, x, 1)
    sizes = [share] * (count - 1) if stated is None else _known(stated)
    return np.split(x[0], np.cumsum(sizes)[: count - 1], at)


def _axes(node: OnnxNode, x: list[Numbers]) -> tuple[int, ...] | None:
    stated = _input(node, x, 1)
    return None if stated is None else tuple(_known(stated))


def _squeeze(node: OnnxNode, x: list[Numbers]) -> Any:
    return np.squeeze(x[0], _axes(node, x))


def _unsqueeze(node: OnnxNode, x: list[Numbers]) -> Any:
    return np.expand_dims(x[0], _axes(node, x) or ())


def are_short(*numbers: int) -> bool:
    """Whether no number is computed of very much, or leaves 64 bits on the way."""
    return all(n.atoms <= MAX_ATOMS and reach(n) <= MAX_REACH for n in numbers if isinstance(n, Dim))


def _require_short(*numbers: int) -> None:
    """UndecidedError for numbers that are not short."""
    if not are_short(*numbers):
        raise UndecidedError("an extent is computed of too much")


def _within(step: Callable[[int, int], int], dtype: DType) -> Callable[[int, int], int]:
    """A step of several, of which the element type has to have what each gives."""

    def joined(a: int, b: int) -> int:
        total = step(a, b)
        _require_short(total)
        if not holds(dtype, total):
            raise UndecidedError(f"{total} may be no {dtype}")
        return total

    return joined


def _reduced(step: Callable[[int, int], int], dtype: DType = I64) -> Rule:
    """The rule of numbers of a type, which has to have what is computed on the way, too."""
    joined = _within(step, dtype)

    def rule(node: OnnxNode, x: list[Numbers]) -> Any:
        if x[0].ndim != 1:
            raise ValueError("only vectors of extents are reduced")
        axes = _axes(node, x)
        if not axes and node.attrs.get("noop_with_empty_axes", 0):
            return x[0]
        total = functools.reduce(joined, x[0])
        return objects([total]) if node.attrs.get("keepdims", 1) else total

    return rule


def _elementwise(step: Callable[[int, int], int]) -> Callable[[Numbers, Numbers], Numbers]:
    """A step of two numbers as one of arrays. Of no axes numpy gives the extent itself, which it would take for its
    bound in the next step: it becomes an array again."""
    function = np.frompyfunc(step, 2, 1)

    def applied(a: Numbers, b: Numbers) -> Numbers:
        _require_few(np.broadcast_shapes(a.shape, b.shape))
        found = objects(function(a, b))
        _require_short(*found.reshape(-1))
        return found

    return applied


def _each(step: Callable[[int, int], int]) -> Rule:
    function = _elementwise(step)
    return lambda node, x: functools.reduce(function, x)


def _divide(a: int, b: int) -> int:
    """Whole numbers divide towards zero, which for extents is downwards."""
    if not isinstance(a, Dim) and not isinstance(b, Dim):
        return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if a < 0 or b <= 0:
        raise UndecidedError("the quotient of negative extents")
    return a // b


def _modulo(node: OnnxNode, x: list[Numbers]) -> Any:
    """What is left by `_divide`, or of numbers without `fmod` by a quotient that is rounded down: what an image is
    padded by to whole windows."""
    truncated = bool(node.attrs.get("fmod", 0))

    def left(a: int, b: int) -> int:
        if truncated:
            return a - _divide(a, b) * b
        if varies((a, b)) and b <= 0:
            raise UndecidedError("what is left by a quotient of an extent and no positive number")
        return a - a // b * b

    return _each(left)(node, x)


def _exact(node: OnnxNode, x: list[Numbers]) -> Any:
    found = _each(_divide)(node, x)
    if not np.all(np.frompyfunc(lambda whole, by, of: whole * by == of, 3, 1)(found, x[1], x[0])):
        raise UndecidedError("the quotient is no whole number")
    return found


def _sign(node: OnnxNode, x: list[Numbers]) -> Any:
    return _elementwise(minimum)(_elementwise(maximum)(x[0], objects(-1)), objects(1))


def _reshape(node: OnnxNode, x: list[Numbers]) -> Any:
    return x[0].reshape(_known(x[1]))


def _clip(node: OnnxNode, x: list[Numbers]) -> Any:
    found = x[0]
    for place, step in ((1, maximum), (2, minimum)):
        limit = _input(node, x, place)
        if limit is not None:
            found = _elementwise(step)(found, limit)
    return found


def _transpose(node: OnnxNode, x: list[Numbers]) -> Any:
    perm = node.attrs.get("perm")
    axes = [axis for axis in perm if isinstance(axis, int)] if isinstance(perm, tuple) else None
    return np.transpose(x[0], axes)


def _expand(node: OnnxNode, x: list[Numbers]) -> Any:
    shape = np.broadcast_shapes(x[0].shape, tuple(_known(x[1])))
    _require_few(shape)
    return np.broadcast_to(x[0], shape)


def _tile(node: OnnxNode, x: list[Numbers]) -> Any:
    repeats = _known(x[1])
    _require_few([*x[0].shape, *repeats])
    return np.tile(x[0], repeats)


def _concat(node: OnnxNode, x: list[Numbers]) -> Any:
    axis = node.attrs.get("axis", 0)
    _require_few([sum(part.size for part in x)])
    return np.concatenate(x, axis=axis if isinstance(axis, int) else 0)


def _where(node: OnnxNode, x: list[Numbers]) -> Any:
    if varies(x[0].reshape(-1)):
        raise UndecidedError("the condition varies")
    _require_few(np.broadcast_shapes(*(a.shape for a in x)))
    return np.where(x[0].astype(bool), x[1], x[2])


def _moved(node: OnnxNode, x: list[Numbers]) -> Any:
    """What an operator makes that only moves numbers: of their places, counted from 1, as 0 is what Pad adds."""
    if node.attrs.get("reduction", "none") != "none":
        raise UndecidedError("what is written is added to what is there")
    held: list[int] = [0]
    places: list[np.ndarray | None] = []
    for i, name in enumerate(node.inputs):
        numbers = _input(node, x, i)
        if numbers is None or not name:
            places.append(None)
        elif i in _MOVED[node.op_type]:
            places.append(np.arange(len(held), len(held) + numbers.size, dtype=np.int64).reshape(numbers.shape))
            held += list(numbers.reshape(-1))
        else:
            dtype = bool if node.op_type == "Compress" else np.int64
            places.append(np.array(_known(numbers)).astype(dtype).reshape(numbers.shape))
    if folding(node.domain, node.op_type).bound(node.attrs, places) > MAX_MOVED_BYTES:
        raise UndecidedError(f"no more than {MAX_NUMBERS} numbers are computed of extents")
    (found,) = fold_values.computed(node, places)
    return objects([held[at] for at in found.reshape(-1)]).reshape(found.shape)


def _power(a: int, b: int) -> int:
    if isinstance(b, Dim) or not 0 <= b < MAX_EXPONENT:
        raise UndecidedError("the power of an extent by an extent")
    found = 1
    for _ in range(b):
        found *= a
        _require_short(found)
    return found


def _running(step: Callable[[int, int], int], start: int, dtype: DType = I64) -> Rule:
    """The rule of sums and products up to each number of a vector."""

    def rule(node: OnnxNode, x: list[Numbers]) -> Any:
        if x[0].ndim != 1 or _known(x[1]) not in ([0], [-1]):
            raise ValueError("only vectors of extents are summed up")
        backwards, left_out = bool(node.attrs.get("reverse", 0)), bool(node.attrs.get("exclusive", 0))
        numbers = list(x[0][::-1] if backwards else x[0])
        if not numbers:
            return x[0]
        join = _within(step, dtype)
        found = list(accumulate(numbers, join))
        found = [start, *found[:-1]] if left_out else found
        return objects(found[::-1] if backwards else found)

    return rule


def _compared(step: Callable[[int, int], bool]) -> Rule:
    def exact(a: int, b: int) -> int:
        """Of all that varies, also where extents are taken for several elements."""
        low, high = span(a - b)
        decided = {step(low, 0), step(high, 0), step(0, 0) if low <= 0 <= high else step(low, 0)}
        if len(decided) > 1:
            raise UndecidedError("the order of numbers that vary")
        return int(decided.pop())

    return _each(exact)


def _equal(a: int, b: int) -> bool:
    """Whether two extents are the same number; UndecidedError where that depends on what varies."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        if a == b:
            return True
        return not (a < b or a > b)
    return a == b


def _same(node: OnnxNode, x: list[Numbers]) -> Any:
    return x[0]


_REDUCED: Mapping[str, Callable[[int, int], int]] = {
    "ReduceProd": operator.mul,
    "ReduceSum": operator.add,
    "ReduceMax": maximum,
    "ReduceMin": minimum,
}

_RUNNING: Mapping[str, tuple[Callable[[int, int], int], int]] = {
    "CumSum": (operator.add, 0),
    "CumProd": (operator.mul, 1),
}

_MOVED: Mapping[str, tuple[int, ...]] = {
    "Compress": (0,),
    "Flatten": (0,),
    "GatherElements": (0,),
    "GatherND": (0,),
    "Pad": (0, 2),
    "ScatterElements": (0, 2),
    "ScatterND": (0, 2),
}
"""The inputs whose elements an operator moves; its others say where to."""

COMPARED: Mapping[str, Callable[[int, int], bool]] = {
    "Equal": _equal,
    "Greater": operator.gt,
    "Less": operator.lt,
    "GreaterOrEqual": operator.ge,
    "LessOrEqual": operator.le,
}

_RULES: Mapping[str, Rule] = {
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Tile": _tile,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Cast": _same,
    "Identity": _same,
    "Floor": _same,
    "Ceil": _same,
    "Round": _same,
    "Add": _each(operator.add),
    "Sub": _each(operator.sub),
    "Mul": _each(operator.mul),
    "Div": _each(_divide),
    "Mod": _modulo,
    "Pow": _each(_power),
    "Relu": lambda node, x: _elementwise(maximum)(x[0], objects(0)),
    "Clip": _clip,
    "Min": _each(minimum),
    "Max": _each(maximum),
    "Neg": lambda node, x: -x[0],
    "Abs": lambda node, x: abs(x[0]),
    "Sign": _sign,
    **{name: _reduced(step) for name, step in _REDUCED.items()},
    **{name: _running(*step) for name, step in _RUNNING.items()},
    **dict.fromkeys(_MOVED, _moved),
    "Where": _where,
    **{name: _compared(step) for name, step in COMPARED.items()},
}
"""What exporters make of shapes. Operators of one meaning for floats and whole numbers alike."""


def _of_floats(dtype: DType) -> Mapping[str, Rule]:
    reduced = {name: _reduced(step, dtype) for name, step in _REDUCED.items()}
    running = {name: _running(*step, dtype) for name, step in _RUNNING.items()}
    return {**_RULES, "Div": _exact, **reduced, **running}


_OF_FLOATS = {dtype: _of_floats(dtype) for dtype in (F16, F32, F64)}


def rule_of(op_type: str, dtype: DType) -> Rule | None:
    """The rule of an operator of elements of a type; None for what is no arithmetic on shapes."""
    return _OF_FLOATS.get(dtype, _RULES).get(op_type)
