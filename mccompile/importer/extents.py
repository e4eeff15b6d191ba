"""Arithmetic on extents that are known at run time only, while a model is imported.

Worked example: of x[n, 12, 64] exporters write Reshape(x, Concat([Gather(Shape(x), 0)], [768])). Shape gives the
numbers n, 12, 64, which numpy keeps as objects; Gather takes n, Concat makes n, 768 of it, and Reshape is told these
extents. None of these nodes is left in the program. Where a number is wanted as a tensor, `ops.extents` stores it.

>>> from mccompile.ir.dims import symbol
>>> node = OnnxNode("Mul", ("a", "b"), ("c",))
>>> computed(node, [np.array([symbol("n", 1, 8), 3], object), np.array(2)])
[array([2*n, 6], dtype=object)]
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, UndecidedError, maximum, minimum, span, symbols, varies
from mccompile.onnxio import OnnxNode, dtype_name

Numbers = np.ndarray[Any, np.dtype[Any]]
"""An array of objects: whole numbers, and extents."""

MAX_NUMBERS = 4096
"""Shapes have few numbers: longer tensors are data."""

MAX_WHOLE = 2.0**53
"""Floats from there on, infinite ones too, are no numbers of elements."""
EXACT_F32 = 2**24
"""Whole numbers below are floats of 32 bits."""


def cast_to(node: OnnxNode) -> str | None:
    """The element type that Cast asks for; None where it says none, which its front end refuses."""
    to = node.attrs.get("to")
    return dtype_name(to) if isinstance(to, int) else None


def asked(node: OnnxNode, shape: Sequence[int]) -> Numbers | None:
    """What Shape and Size answer of a tensor; None for other operators, and where all numbers are known."""
    if node.domain or node.op_type not in ("Shape", "Size") or not varies(shape):
        return None
    if node.op_type == "Size":
        return _objects([functools.reduce(lambda a, b: a * b, shape, 1)]).reshape(())
    start, end = node.attrs.get("start"), node.attrs.get("end")
    chosen = slice(start if isinstance(start, int) else None, end if isinstance(end, int) else None)
    return _objects(shape[chosen])


def written(node: OnnxNode) -> Numbers | None:
    """The numbers of a Constant, as expansions write extents; None for other operators and constants."""
    value = node.attrs.get("value")
    held = node.op_type == "Constant" and isinstance(value, np.ndarray) and value.dtype == object
    return value if held and isinstance(value, np.ndarray) else None


def computed(node: OnnxNode, inputs: Sequence[Numbers | None], floats: bool = False) -> list[Numbers] | None:
    """What a node makes of numbers, by output; None if it is no arithmetic on shapes, or depends on what varies.
    ``floats``: they are floats, whose quotients are not rounded."""
    rule = _exact if floats and node.op_type == "Div" else _RULES.get(node.op_type)
    if node.domain or rule is None or any(a is not None and a.size > MAX_NUMBERS for a in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            found = rule(node, [_whole(a) for a in inputs if a is not None])
    except (UndecidedError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # then it is an operator like any other: computed when the program runs, or refused
    parts = found if node.op_type == "Split" else [found]
    if any(not isinstance(part, Dim) and np.size(part) > MAX_NUMBERS for part in parts):
        return None
    return [_objects(part) for part in parts]


@dataclass(frozen=True)
class Ratios:
    """Floats that are extents over whole numbers, until they are rounded: h * 0.5 is h / 2."""

    over: Numbers
    by: int

    def rounded(self, node: OnnxNode) -> Numbers | None:
        """The numbers that Floor, Ceil or a Cast to whole numbers makes of them, none of which is negative. Exact in
        f32, too: below 2^24 no quotient is rounded to the next whole number."""
        up = node.op_type == "Ceil"
        if node.domain or not (up or node.op_type == "Floor" or cast_to(node) in ("i32", "i64")):
            return None
        found = [(n + (self.by - 1 if up else 0)) // self.by for n in self.over.reshape(-1)]
        return _objects(found).reshape(self.over.shape)


def ratios(node: OnnxNode, inputs: Sequence[Numbers | None]) -> Ratios | None:
    """What Mul and Div make of extents, as floats, and one number; None for what is no such ratio.

    >>> from mccompile.ir.dims import symbol
    >>> node = OnnxNode("Mul", ("h", "scale"), ("y",))
    >>> ratios(node, [np.array([symbol("h", 1, 99)], object), np.array(0.75)])
    Ratios(over=array([3*h], dtype=object), by=4)
    """
    if node.domain or node.op_type not in ("Mul", "Div") or len(inputs) != 2:
        return None
    left, right = inputs
    if node.op_type == "Mul" and left is not None and left.dtype.kind == "f":
        left, right = right, left
    if left is None or right is None or left.dtype != object or right.dtype.kind != "f" or right.size != 1:
        return None
    times, by = float(right.reshape(-1)[0]).as_integer_ratio() if np.isfinite(right).all() else (0, 1)
    if node.op_type == "Div":
        times, by = by, times
    low, high = zip(*(span(n * times) for n in left.reshape(-1)), strict=True)
    if times <= 0 or by <= 0 or min(low) < 0 or max(high) >= EXACT_F32 or left.size > MAX_NUMBERS:
        return None
    over = _objects([n * times for n in left.reshape(-1)])
    return Ratios(over.reshape(np.broadcast_shapes(left.shape, right.shape)), by)


def _whole(a: Numbers) -> Numbers:
    """An array with its floats as whole numbers. ValueError for what is none."""
    if a.dtype.kind == "f":
        if not np.all((a == np.floor(a)) & (abs(a) < MAX_WHOLE)):
            raise ValueError("extents are whole")
        a = a.astype(np.int64)
    return a.astype(object)


def _objects(found: Any) -> Numbers:
    shape = np.shape(found) if not isinstance(found, Dim) else ()
    out = np.empty(shape, object)
    if shape:
        flat = np.asarray(found, object).reshape(-1)
        out.reshape(-1)[:] = flat
    else:
        out[()] = found.item() if isinstance(found, np.ndarray) else found
    return out


Rule = Callable[[OnnxNode, list[Numbers]], Any]
"""What an operator makes of numbers: an array, or a number."""


def _known(numbers: Numbers) -> list[int]:
    """Numbers of which none varies: indices, axes, extents of what numpy is to make."""
    if varies(numbers.reshape(-1)):
        raise UndecidedError("indices and shapes of numbers have to be known")
    return [int(i) for i in numbers.reshape(-1)]


def _gather(node: OnnxNode, x: list[Numbers]) -> Any:
    axis, indices = node.attrs.get("axis", 0), np.array(_known(x[1]), np.int64).reshape(x[1].shape)
    return np.take(x[0], indices, axis=axis if isinstance(axis, int) else 0)


def _slice(node: OnnxNode, x: list[Numbers]) -> Any:
    starts, ends, *rest = map(_known, x[1:])
    axes = rest[0] if rest else range(len(starts))
    steps = rest[1] if len(rest) > 1 else [1] * len(starts)
    at = [slice(None)] * x[0].ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        at[axis] = slice(start, end, step)
    return x[0][tuple(at)]


def _split(node: OnnxNode, x: list[Numbers]) -> list[Numbers]:
    axis, count = node.attrs.get("axis", 0), len(node.outputs)
    at = axis if isinstance(axis, int) else 0
    share = -(-x[0].shape[at] // count)
    sizes = _known(x[1]) if len(x) > 1 else [share] * (count - 1)
    return np.split(x[0], np.cumsum(sizes)[: count - 1], at)


def _axes(x: list[Numbers]) -> tuple[int, ...] | None:
    return tuple(_known(x[1])) if len(x) > 1 else None


def _unsqueeze(node: OnnxNode, x: list[Numbers]) -> Any:
    return np.expand_dims(x[0], _axes(x) or ())


def _reduced(step: Callable[[int, int], int]) -> Rule:
    def rule(node: OnnxNode, x: list[Numbers]) -> Any:
        if x[0].ndim != 1:
            raise ValueError("only vectors of extents are reduced")
        total = functools.reduce(step, x[0])
        return _objects([total]) if node.attrs.get("keepdims", 1) else total

    return rule


def _elementwise(step: Callable[[int, int], int]) -> Callable[[Numbers, Numbers], Numbers]:
    """A step of two numbers as one of arrays. Of no axes numpy gives the extent itself, which it would take for its
    bound in the next step: it becomes an array again."""
    function = np.frompyfunc(step, 2, 1)
    return lambda a, b: _objects(function(a, b))


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


def _modulo(a: int, b: int) -> int:
    """What is left by `_divide`; of the extents of an image what its padding to whole windows is computed of."""
    return a - _divide(a, b) * b


def _exact(node: OnnxNode, x: list[Numbers]) -> Any:
    found = _each(_divide)(node, x)
    if not np.all(np.frompyfunc(lambda whole, by, of: whole * by == of, 3, 1)(found, x[1], x[0])):
        raise UndecidedError("the quotient is no whole number")
    return found


def _reshape(node: OnnxNode, x: list[Numbers]) -> Any:
    return x[0].reshape(_known(x[1]))


def _clip(node: OnnxNode, x: list[Numbers]) -> Any:
    found = x[0]
    limits = iter(x[1:])
    for name, step in zip(node.inputs[1:], (maximum, minimum), strict=False):
        if name:
            found = _elementwise(step)(found, next(limits))
    return found


def _transpose(node: OnnxNode, x: list[Numbers]) -> Any:
    perm = node.attrs.get("perm")
    axes = [axis for axis in perm if isinstance(axis, int)] if isinstance(perm, tuple) else None
    return np.transpose(x[0], axes)


def _expand(node: OnnxNode, x: list[Numbers]) -> Any:
    wanted = tuple(_known(x[1]))
    return np.broadcast_to(x[0], np.broadcast_shapes(x[0].shape, wanted))


def _concat(node: OnnxNode, x: list[Numbers]) -> Any:
    axis = node.attrs.get("axis", 0)
    return np.concatenate(x, axis=axis if isinstance(axis, int) else 0)


def _where(node: OnnxNode, x: list[Numbers]) -> Any:
    if varies(x[0].reshape(-1)):
        raise UndecidedError("the condition varies")
    return np.where(x[0].astype(bool), x[1], x[2])


def _compared(step: Callable[[int, int], bool]) -> Rule:
    def exact(a: int, b: int) -> int:
        """Numbers that begin at 0, as those of turns and counts do, are no axes, which are taken for several."""
        low, high = span(a - b)
        decided = {step(low, 0), step(high, 0), step(0, 0) if low <= 0 <= high else step(low, 0)}
        if len(decided) > 1:
            raise UndecidedError("the order of numbers that vary")
        return int(decided.pop())

    def rule(a: int, b: int) -> int:
        return exact(a, b) if any(s.low == 0 for s in symbols(a, b)) else int(step(a, b))

    return _each(rule)


def _equal(a: int, b: int) -> bool:
    """Whether two extents are the same number; UndecidedError where that depends on what varies."""
    if isinstance(a, Dim) or isinstance(b, Dim):
        if a == b:
            return True
        return not (a < b or a > b)
    return a == b


def _same(node: OnnxNode, x: list[Numbers]) -> Any:
    return x[0]


_RULES: Mapping[str, Rule] = {
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Split": _split,
    "Reshape": _reshape,
    "Expand": _expand,
    "Transpose": _transpose,
    "Tile": lambda node, x: np.tile(x[0], _known(x[1])),
    "Squeeze": lambda node, x: np.squeeze(x[0], _axes(x)),
    "Unsqueeze": _unsqueeze,
    "Cast": _same,
    "Identity": _same,
    "Floor": _same,
    "Ceil": _same,
    "Round": _same,
    "Add": _each(lambda a, b: a + b),
    "Sub": _each(lambda a, b: a - b),
    "Mul": _each(lambda a, b: a * b),
    "Div": _each(_divide),
    "Mod": _each(_modulo),
    "Clip": _clip,
    "Min": _each(minimum),
    "Max": _each(maximum),
    "Neg": lambda node, x: -x[0],
    "Abs": lambda node, x: abs(x[0]),
    "ReduceProd": _reduced(lambda a, b: a * b),
    "ReduceSum": _reduced(lambda a, b: a + b),
    "ReduceMax": _reduced(maximum),
    "ReduceMin": _reduced(minimum),
    "Where": _where,
    "Equal": _compared(_equal),
    "Greater": _compared(lambda a, b: a > b),
    "Less": _compared(lambda a, b: a < b),
    "GreaterOrEqual": _compared(lambda a, b: a >= b),
    "LessOrEqual": _compared(lambda a, b: a <= b),
}
"""What exporters make of shapes. Operators of one meaning for floats and whole numbers alike."""
