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
import operator
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mccompile.importer.extent_rules import COMPARED, MAX_NUMBERS, Numbers, objects, rule_of, whole_numbers
from mccompile.ir.dims import Dim, UndecidedError, span, symbols, value, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.types import I64, DType
from mccompile.onnxio import OnnxNode


def asked(node: OnnxNode, shape: Sequence[int]) -> Numbers | None:
    """What Shape and Size answer of a tensor; None for other operators, and where all numbers are known."""
    if node.domain or node.op_type not in ("Shape", "Size") or not varies(shape):
        return None
    if node.op_type == "Size":
        return objects([functools.reduce(lambda a, b: a * b, shape, 1)]).reshape(())
    start, end = node.attrs.get("start"), node.attrs.get("end")
    chosen = slice(start if isinstance(start, int) else None, end if isinstance(end, int) else None)
    return objects(shape[chosen])


def written(node: OnnxNode) -> Numbers | None:
    """The numbers of a Constant, as expansions write extents; None for other operators and constants."""
    value = node.attrs.get("value")
    held = node.op_type == "Constant" and isinstance(value, np.ndarray) and value.dtype == object
    return value if held and isinstance(value, np.ndarray) else None


def computed(node: OnnxNode, inputs: Sequence[Numbers | None], dtype: DType = I64) -> list[Numbers] | None:
    """What a node makes of numbers, by output; None if it is no arithmetic on shapes, or depends on what varies.
    ``dtype`` is their element type: quotients of floats are not rounded, and sums of no type may leave it."""
    rule = rule_of(node.op_type, dtype)
    if node.domain or rule is None or any(a is not None and a.size > MAX_NUMBERS for a in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            found = rule(node, [whole_numbers(a) for a in inputs if a is not None])
    except (CompileError, UndecidedError, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # then it is an operator like any other: computed when the program runs, or refused
    parts = found if node.op_type == "Split" else [found]
    if any(not isinstance(part, Dim) and np.size(part) > MAX_NUMBERS for part in parts):
        return None
    return [objects(part) for part in parts]


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
    step = None if node.domain else COMPARED.get(node.op_type)
    if any(a is None or a.size != 1 or a.dtype.kind not in "Oiu" for a in inputs):
        return None
    known = [whole_numbers(a).reshape(-1) for a in inputs if a is not None]
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


_LOGIC: Mapping[str, Callable[..., bool]] = {
    "Not": operator.not_,
    "And": operator.and_,
    "Or": operator.or_,
    "Identity": operator.truth,
    "Cast": operator.truth,
}
