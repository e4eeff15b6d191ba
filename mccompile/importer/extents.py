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
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, UndecidedError, maximum, minimum, reach, span, symbols, value, varies
from mccompile.ir.types import F16, F32, F64, I64, DType
from mccompile.onnxio import OnnxNode, dtype_name
from mccompile.ops.extents import holds
from mccompile.ops.slice import clamp_range

Numbers = np.ndarray[Any, np.dtype[Any]]
"""An array of objects: whole numbers, and extents."""

MAX_NUMBERS = 4096
"""Shapes have few numbers: longer tensors are data."""

MAX_WHOLE = 2.0**53
"""Floats from there on, infinite ones too, are no numbers of elements."""
MAX_ATOMS = 256
"""Of what is written with more atoms, nothing is computed in advance."""
MAX_REACH = 2**61
"""Nor of what is larger on the way: C computes extents in 64 bits."""


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


def computed(node: OnnxNode, inputs: Sequence[Numbers | None], dtype: DType = I64) -> list[Numbers] | None:
    """What a node makes of numbers, by output; None if it is no arithmetic on shapes, or depends on what varies.
    ``dtype`` is their element type: quotients of floats are not rounded, and sums of no type may leave it."""
    rule = _RULES_OF_FLOATS.get(dtype, _RULES).get(node.op_type)
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


def supposed(node: OnnxNode, inputs: Sequence[Numbers | None]) -> bool | None:
    """What a comparison says where an axis that varies is never taken for one of extent 1, nor for an empty one
    (`ir.dims`); None where that is no answer. Exporters ask so whether an axis can be squeezed: `importer.control`
    has the branch for axes of several elements where it cannot have both.

    >>> from mccompile.ir.dims import symbol
    >>> n, one = np.array([symbol("n", 1, 8)], object), np.array([1])
    >>> node = OnnxNode("Equal", ("n", "one"), ("c",))
    >>> computed(node, [n, one]), supposed(node, [n, one])
    (None, False)
    """
    step = None if node.domain else _COMPARED.get(node.op_type)
    if any(a is None or a.size != 1 or a.dtype.kind not in "Oiu" for a in inputs):
        return None
    known = [_whole(a).reshape(-1) for a in inputs if a is not None]
    if step is None or not all(_counts_elements(a[0]) for a in known):
        return None
    try:
        return bool(step(known[0][0], known[1][0]))
    except UndecidedError:
        return None


def _counts_elements(number: int) -> bool:
    """Whether a number may be the extent of an axis that has several elements unless what it is made of is little:
    n + 2, n // 2, n * m; not n % 2, which may be nothing, nor n % 2 + 1, which is 1 again and again."""
    if not isinstance(number, Dim):
        return True
    own = symbols(number)
    if any(s.low == 0 for s in own) or span(number)[0] < 1:
        return False
    if len(own) > 1 or len(own[0].values) > MAX_NUMBERS:
        return True
    one = [value(number, {own[0].name: n}) == 1 for n in own[0].values]
    return one == sorted(one, reverse=True)


def combined(node: OnnxNode, told: Sequence[bool | Numbers | None]) -> bool | None:
    """What logic makes of conditions that are `supposed`, and of constants of one element; None for anything else."""
    step = None if node.domain else _LOGIC.get(node.op_type)
    if step is None or not any(isinstance(t, bool) for t in told):
        return None
    if any(t is None or (not isinstance(t, bool) and t.size != 1) for t in told):
        return None
    return step(*(bool(np.reshape(t, ())) for t in told if t is not None))


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


def ratios(node: OnnxNode, inputs: Sequence[Numbers | None], dtype: DType) -> Ratios | None:
    """What Mul and Div make of extents, as floats, and one number; None for what is no such ratio, or may be rounded.

    >>> from mccompile.ir.dims import symbol
    >>> from mccompile.ir.types import F32
    >>> node = OnnxNode("Mul", ("h", "scale"), ("y",))
    >>> ratios(node, [np.array([symbol("h", 1, 99)], object), np.array(0.75)], F32)
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
    if times <= 0 or by <= 0 or min(span(n)[0] for n in left.reshape(-1)) < 0 or left.size > MAX_NUMBERS:
        return None
    over = _objects([n * times for n in left.reshape(-1)])
    if not holds(dtype, *over.reshape(-1)):
        return None
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


def _require_short(*numbers: int) -> None:
    """UndecidedError for what would be computed of very much, or leave 64 bits on the way."""
    for n in numbers:
        if isinstance(n, Dim) and (n.atoms > MAX_ATOMS or reach(n) > MAX_REACH):
            raise UndecidedError("an extent is computed of too much")


def _reduced(step: Callable[[int, int], int], dtype: DType = I64) -> Rule:
    """The rule of numbers of a type, which has to have what is computed on the way, too."""

    def joined(a: int, b: int) -> int:
        total = step(a, b)
        _require_short(total)
        if not holds(dtype, total):
            raise UndecidedError(f"{total} may be no {dtype}")
        return total

    def rule(node: OnnxNode, x: list[Numbers]) -> Any:
        if x[0].ndim != 1:
            raise ValueError("only vectors of extents are reduced")
        axes = _axes(node, x)
        if not axes and node.attrs.get("noop_with_empty_axes", 0):
            return x[0]
        total = functools.reduce(joined, x[0])
        return _objects([total]) if node.attrs.get("keepdims", 1) else total

    return rule


def _elementwise(step: Callable[[int, int], int]) -> Callable[[Numbers, Numbers], Numbers]:
    """A step of two numbers as one of arrays. Of no axes numpy gives the extent itself, which it would take for its
    bound in the next step: it becomes an array again."""
    function = np.frompyfunc(step, 2, 1)

    def applied(a: Numbers, b: Numbers) -> Numbers:
        _require_few(np.broadcast_shapes(a.shape, b.shape))
        found = _objects(function(a, b))
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
        varies_or_truncated = truncated or isinstance(a, Dim) or isinstance(b, Dim)
        return a - (_divide(a, b) if varies_or_truncated else a // b) * b

    return _each(left)(node, x)


def _exact(node: OnnxNode, x: list[Numbers]) -> Any:
    found = _each(_divide)(node, x)
    if not np.all(np.frompyfunc(lambda whole, by, of: whole * by == of, 3, 1)(found, x[1], x[0])):
        raise UndecidedError("the quotient is no whole number")
    return found


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

_LOGIC: Mapping[str, Callable[..., bool]] = {
    "Not": operator.not_,
    "And": operator.and_,
    "Or": operator.or_,
    "Identity": operator.truth,
    "Cast": operator.truth,
}

_COMPARED: Mapping[str, Callable[[int, int], bool]] = {
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
    "Clip": _clip,
    "Min": _each(minimum),
    "Max": _each(maximum),
    "Neg": lambda node, x: -x[0],
    "Abs": lambda node, x: abs(x[0]),
    **{name: _reduced(step) for name, step in _REDUCED.items()},
    "Where": _where,
    **{name: _compared(step) for name, step in _COMPARED.items()},
}
"""What exporters make of shapes. Operators of one meaning for floats and whole numbers alike."""


def _of_floats(dtype: DType) -> Mapping[str, Rule]:
    return {**_RULES, "Div": _exact, **{name: _reduced(step, dtype) for name, step in _REDUCED.items()}}


_RULES_OF_FLOATS = {dtype: _of_floats(dtype) for dtype in (F16, F32, F64)}
