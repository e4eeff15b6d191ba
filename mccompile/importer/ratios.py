"""Floats that are extents over whole numbers, until they are rounded: floor((t - 1) / 2 + 1) is (t + 1) // 2.

A ratio is followed as long as the roundings of floats are known to change no whole number behind it:

- Over a power of two, floats of few bits are the ratio itself: it may be added to, multiplied and divided.
- Over another number, 3 say, a float is off by some last places, which `wrong` counts. Only sums are followed then,
  and products by powers of two: such a sum is whole where the quotient ends in binary, so that nothing was rounded,
  and else 1 / 3 or more away from the next whole number. (1 / 49 * 49 is less than 1.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.extent_rules import MAX_NUMBERS, Numbers, are_short, objects
from mccompile.importer.extents import computed
from mccompile.ir.dims import span
from mccompile.ir.types import DTYPES, DType
from mccompile.onnxio import OnnxNode, dtype_name
from mccompile.ops.extents import holds

_MOVED = ("Identity", "Reshape", "Squeeze", "Unsqueeze", "Gather", "Slice")
"""Operators that only move numbers, of which the first input is that of numbers."""


def cast_to(node: OnnxNode) -> str | None:
    """The element type that Cast asks for; None where it says none, which its front end refuses."""
    to = node.attrs.get("to")
    return dtype_name(to) if isinstance(to, int) else None


@dataclass(frozen=True)
class Ratios:
    """Numbers ``over`` one by which they are divided, as floats of ``dtype``, or of a type of more bits.

    The floats differ from the ratios by less than ``wrong`` times the relative error of a rounding, over ``by``.
    """

    over: Numbers
    by: int
    dtype: DType
    wrong: int = 0

    @property
    def exact(self) -> bool:
        """Whether nothing was rounded."""
        return self.by & (self.by - 1) == 0

    @property
    def largest(self) -> int:
        """The largest magnitude of the numbers."""
        return max((abs(end) for n in self.over.reshape(-1) for end in span(n)), default=0)

    def known(self) -> Ratios | None:
        """The ratios, where the rounding of what they are makes the same of the floats."""
        least = np.finfo(self.dtype.numpy.name).smallest_normal
        if self.by > 1 / float(least) or not holds(self.dtype, self.largest + 1, self.wrong + 1):
            return None
        return self if are_short(*self.over.reshape(-1)) else None

    def whole(self) -> Numbers | None:
        """The numbers that they are, where nothing is left to be rounded."""
        found = [n // self.by for n in self.over.reshape(-1)]
        same = all(n * self.by == of for n, of in zip(found, self.over.reshape(-1), strict=True))
        return _shaped(found, self.over.shape) if self.exact and same else None

    def plus(self, numbers: Sequence[Fraction]) -> Ratios:
        """A number added to each."""
        by = math.lcm(self.by, *(number.denominator for number in numbers))
        more = [number.numerator * (by // number.denominator) for number in numbers]
        total = [n * (by // self.by) + m for n, m in zip(self.over.reshape(-1), more, strict=True)]
        return Ratios(_shaped(total, self.over.shape), by, self.dtype, self.wrong * (by // self.by))._rounded()

    def negative(self) -> Ratios:
        return replace(self, over=_shaped([-n for n in self.over.reshape(-1)], self.over.shape))

    def times(self, numbers: Sequence[Fraction]) -> Ratios | None:
        """Each times a number; None where floats that are rounded would be rounded again."""
        if not self.exact and not all(map(_is_power_of_two, numbers)):
            return None
        factors = [number / self.by for number in numbers]
        by = math.lcm(*(f.denominator for f in factors))
        whole = [f.numerator * (by // f.denominator) for f in factors]
        over = [n * w for n, w in zip(self.over.reshape(-1), whole, strict=True)]
        wrong = self.wrong * max(map(abs, whole), default=0)
        product = Ratios(_shaped(over, self.over.shape), by, self.dtype, wrong)
        return product._rounded() if self.exact else product

    def as_floats(self, dtype: DType) -> Ratios:
        """The floats of another type, or what is computed in it."""
        if dtype.numpy.itemsize >= self.dtype.numpy.itemsize:
            return self
        return replace(self, dtype=dtype)._rounded()

    def _rounded(self) -> Ratios:
        """What was computed of floats becomes a float again."""
        return self if self.exact else replace(self, wrong=self.wrong + self.largest + 1)

    def to_whole(self, node: OnnxNode) -> Numbers | None:
        """The numbers that Floor, Ceil or a Cast to whole numbers makes of them."""
        up, cast = node.op_type == "Ceil", node.op_type == "Cast" and cast_to(node) in ("i32", "i64")
        if node.domain or not (up or cast or node.op_type == "Floor"):
            return None
        if cast and any(span(n)[0] < 0 for n in self.over.reshape(-1)):  # which is rounded up
            return None
        return _shaped([(n + (self.by - 1 if up else 0)) // self.by for n in self.over.reshape(-1)], self.over.shape)


def _shaped(numbers: Sequence[int], shape: tuple[int, ...]) -> Numbers:
    return objects(numbers).reshape(shape)


def _is_power_of_two(number: Fraction) -> bool:
    return all(n & (n - 1) == 0 for n in (abs(number.numerator), number.denominator))


def ratios(node: OnnxNode, inputs: Sequence[Numbers | Ratios | None], dtype: DType) -> Ratios | None:
    """What a node makes of ratios, or of extents as floats, and numbers; None for what is no such ratio, or may be
    rounded.

    >>> from mccompile.ir.dims import symbol
    >>> from mccompile.ir.types import F32
    >>> h, number = np.array([symbol("h", 1, 99)], object), np.array(0.75)
    >>> found = ratios(OnnxNode("Mul", ("h", "scale"), ("y",)), [h, number], F32)
    >>> found.over, found.by
    (array([3*h], dtype=object), 4)
    >>> ratios(OnnxNode("Sub", ("y", "less"), ("z",)), [found, number], F32).to_whole(OnnxNode("Floor", (), ()))
    array([((3*h+1)//4)-1], dtype=object)
    """
    if node.domain or not dtype.is_float or not inputs:
        return None
    first = inputs[0]
    if isinstance(first, Ratios) and node.op_type in _MOVED:
        moved = computed(node, [first.over, *(a for a in inputs[1:] if not isinstance(a, Ratios))])
        return None if moved is None else replace(first, over=moved[0])
    if isinstance(first, Ratios) and node.op_type == "Neg":
        return first.negative()
    if isinstance(first, Ratios) and node.op_type == "Cast":
        to = DTYPES.get(cast_to(node) or "")
        return first.as_floats(to).known() if to is not None and to.is_float else None
    found = _with_number(node, inputs, dtype) if len(inputs) == 2 else None
    return None if found is None else found.known()


def _with_number(node: OnnxNode, inputs: Sequence[Numbers | Ratios | None], dtype: DType) -> Ratios | None:
    """A sum, difference, product or quotient of ratios and numbers."""
    if node.op_type not in ("Add", "Sub", "Mul", "Div"):
        return None
    left, right = inputs
    turned = not isinstance(right, np.ndarray) or right.dtype == object
    if turned:
        left, right = right, left
    if not isinstance(right, np.ndarray) or right.dtype.kind != "f" or not np.isfinite(right).all():
        return None
    if isinstance(left, np.ndarray) and left.dtype == object:
        left = Ratios(left, 1, dtype)
    if not isinstance(left, Ratios):
        return None
    try:
        shape = np.broadcast_shapes(left.over.shape, right.shape)
    except ValueError:  # whoever converts the node says so
        return None
    if math.prod(shape) > MAX_NUMBERS:
        return None
    given = replace(left, over=np.broadcast_to(left.over, shape)).as_floats(dtype)
    numbers = [Fraction(float(number)) for number in np.broadcast_to(right, shape).reshape(-1)]
    match node.op_type:
        case "Add":
            return given.plus(numbers)
        case "Sub":
            return given.negative().plus(numbers) if turned else given.plus([-number for number in numbers])
        case "Mul":
            return given.times(numbers)
        case "Div" if all(numbers) and not turned:
            return given.times([1 / number for number in numbers])
    return None
