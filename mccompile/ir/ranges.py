"""Ranges of values, channel by channel: interval arithmetic over scalar expressions.

A range whose ends are equal is a value known at compile time. Ends are float64; arithmetic that rounds at run time
widens a range by more than the rounding can be, fused multiply-adds included. NaN is not covered: a range says what
a value is if no NaN goes in.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.scalar import FUNCTIONS, Array
from mccompile.ir.types import BOOL, DType, dtype_of

_EXACT = 2.0**53 - 1
"""Integers beyond this may be others as float64: 2**53 + 1 is 2**53."""


@dataclass(frozen=True)
class Range:
    """``low <= value <= high`` for each channel; both arrays have one element per channel."""

    low: Array
    high: Array

    @property
    def known(self) -> Array:
        """True for the channels of one value."""
        return np.asarray((self.low == self.high) & np.isfinite(self.low))

    @property
    def zero(self) -> Array:
        """True for the channels that are 0."""
        return np.asarray((self.low == 0) & (self.high == 0))

    def whole(self) -> Range:
        """The range of all channels together, as one channel."""
        return Range(self.low.min(keepdims=True), self.high.max(keepdims=True))

    def over(self, count: int) -> Range:
        """The range of one channel, ``count`` times."""
        return Range(np.repeat(self.low, count), np.repeat(self.high, count))

    def with_zero(self) -> Range:
        return Range(np.minimum(self.low, 0), np.maximum(self.high, 0))


def anything(dtype: DType, count: int = 1) -> Range:
    """What is known of elements of ``dtype`` of which nothing is known."""
    low, high = _ends(dtype)
    return Range(np.full(count, low), np.full(count, high))


def _ends(dtype: DType) -> tuple[float, float]:
    """The least and the greatest element that there may be."""
    return (-math.inf, math.inf) if dtype.is_float else (float(dtype.ends[0]), float(dtype.ends[1]))


def of_array(array: Array, axis: int | None) -> Range:
    """The range of a constant's elements along ``axis``, of all of them for None. NaN makes it unbounded."""
    others = tuple(a for a in range(array.ndim) if a != axis)
    low, high = (np.atleast_1d(end).astype(np.float64) for end in (array.min(others), array.max(others)))
    missing = np.isnan(low) | np.isnan(high)
    found = Range(np.where(missing, -np.inf, low), np.where(missing, np.inf, high))
    return found if array.dtype.kind not in "iu" else _fitting(found.low, found.high, dtype_of(array))


def step(dtype: DType) -> float:
    """More than the relative error of one rounded operation; 0 for integers."""
    return {"f16": 2.0**-9, "f32": 2.0**-22, "f64": 2.0**-50}.get(dtype.name, 0.0)


def error(size: Array, dtype: DType, count: int = 1) -> Array:
    """More than the error of ``count`` rounded operations on what is up to ``size`` large: products of small
    numbers become denormal, or 0. Nothing where all are 0, or for what has no end; nothing for integers."""
    if not dtype.is_float:
        return np.zeros_like(size)
    least = float(np.finfo(dtype.numpy.name).tiny)
    return np.where(np.isfinite(size) & (size > 0), (size * step(dtype) + least) * count, 0)


def widened(low: Array, high: Array, by: Array | float) -> Range:
    return Range(low - by, high + by)


def of_expression(body: ex.Expr, variable: Callable[[int], Range]) -> Range:
    """The range of an expression; ``variable`` gives those of its variables (`ex.ACC` too)."""

    def made(e: ex.Expr, of: Callable[[ex.Expr], Range]) -> Range:
        match e:
            case ex.Var(index=index):
                return variable(index)
            case ex.Num():
                return _of_number(e)
            case ex.Convert(operand=operand):
                return _converted(of(operand), operand.dtype, e.dtype)
            case ex.Lookup(operand=operand):
                return _looked_up(e, of(operand))
            case ex.Apply(operands=operands):
                return _applied(e, [of(a) for a in operands])
        return anything(e.dtype)

    with np.errstate(all="ignore"):
        return ex.OfParts(made)(body)


@functools.lru_cache(maxsize=1024)
def _of_number(e: ex.Num) -> Range:
    """Most leaves of expressions are the same few numbers."""
    found = of_array(np.asarray(e.value).astype(e.dtype.numpy), None)
    for end in (found.low, found.high):
        end.setflags(write=False)
    return found


def _converted(a: Range, source: DType, target: DType) -> Range:
    """Conversions never fall, but integers that wrap do, and what is not 0 becomes true."""
    if target == BOOL:
        return Range(np.where(a.known & (a.low != 0), 1.0, 0.0), np.where(a.zero, 0.0, 1.0))
    if not source.is_float and not target.is_float:
        return _fitting(a.low, a.high, target)
    ends = (a.low, a.high)
    if source.is_float:
        ends = (a.low.astype(source.numpy), a.high.astype(source.numpy))
    low, high = (ex.saturating_cast(end, target.numpy).astype(np.float64) for end in ends)
    return Range(low, high)


def _looked_up(e: ex.Lookup, a: Range) -> Range:
    """The elements of a table that the operand reaches, in the order of the numbers that it may be."""
    info = np.iinfo(e.operand.dtype.numpy.name)
    numbers = np.arange(info.min, info.max + 1)
    elements = e.elements[numbers.astype(e.operand.dtype.numpy).view(np.uint8)].astype(np.float64)
    low = np.clip(np.ceil(a.low), info.min, info.max).astype(int) - info.min
    high = np.clip(np.floor(a.high), info.min, info.max).astype(int) - info.min
    reached = [elements[p : q + 1] for p, q in zip(np.atleast_1d(low), np.atleast_1d(high), strict=True)]
    least, most = np.array([r.min() for r in reached]), np.array([r.max() for r in reached])
    return Range(np.where(np.isnan(least), -np.inf, least), np.where(np.isnan(most), np.inf, most))


def stored(a: Range, dtype: DType) -> Range:
    """The range after elements were stored as ``dtype``: f16 rounds."""
    if dtype.name != "f16":
        return a
    with np.errstate(over="ignore"):
        return Range(a.low.astype(np.float16).astype(np.float64), a.high.astype(np.float16).astype(np.float64))


def ends_within(low: Array, high: Array, size: Array, dtype: DType) -> tuple[Array, Array]:
    """The ends of sums of integers whose terms together are at most ``size`` large: all numbers of the type where
    that may wrap, or is too large to be told apart."""
    least, most = _ends(dtype)
    fits = size <= min(most, _EXACT)
    whole = _fitting(np.where(fits, low, least), np.where(fits, high, most), dtype)
    return whole.low, whole.high


def held(a: Range, dtype: DType) -> Range:
    """The range of what is computed in ``dtype``: integers that leave it wrap, and may be any of it."""
    return a if dtype.is_float else _fitting(a.low, a.high, dtype)


def _fitting(low: Array, high: Array, dtype: DType) -> Range:
    """A range of integers, unbounded where they may wrap or are too large to be told apart."""
    least, most = _ends(dtype)
    fits = (low >= max(least, -_EXACT)) & (high <= min(most, _EXACT))
    if fits.all():
        return Range(low, high)
    return Range(np.where(fits, low, least), np.where(fits, high, most))


def _applied(e: ex.Apply, args: list[Range]) -> Range:
    """A function: of known values as the function itself says, else by the rule of the function."""
    rule = _RULES.get(e.fn)
    found = anything(e.dtype) if rule is None else rule(e.operands[-1].dtype, *args)
    count = max(found.low.size, *(a.low.size for a in args))
    low, high = (end if end.size == count else np.broadcast_to(end, count) for end in (found.low, found.high))
    known = functools.reduce(np.logical_and, (_told_apart(a, o.dtype) for a, o in zip(args, e.operands, strict=True)))
    if not known.any():
        return Range(low, high)
    values = [a.low.astype(o.dtype.numpy) for a, o in zip(args, e.operands, strict=True)]
    point = np.broadcast_to(np.asarray(FUNCTIONS[e.fn].numpy(*values)).astype(np.float64), count)
    known = np.broadcast_to(known, count) & (~np.isnan(point) if e.dtype.is_float else np.abs(point) <= _EXACT)
    return Range(np.where(known, point, low), np.where(known, point, high))


def _told_apart(a: Range, dtype: DType) -> Array:
    """True for the channels of one value that is not the float64 of several integers."""
    return a.known if dtype.is_float else np.asarray(a.known & (np.abs(a.low) <= _EXACT))


def _rounded(dtype: DType, low: Array, high: Array, size: Array) -> Range:
    """Ends of an operation that rounds: widened for floats, and checked for overflow."""
    low, high = np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
    if not dtype.is_float:
        return _fitting(low, high, dtype)
    most = np.finfo(dtype.numpy.name).max
    wide = widened(low, high, error(size, dtype))
    return Range(np.where(wide.low < -most, -np.inf, wide.low), np.where(wide.high > most, np.inf, wide.high))


def _size(a: Range) -> Array:
    return np.maximum(np.abs(a.low), np.abs(a.high))


def _add(dtype: DType, a: Range, b: Range) -> Range:
    return _rounded(dtype, a.low + b.low, a.high + b.high, _size(a) + _size(b))


def _sub(dtype: DType, a: Range, b: Range) -> Range:
    return _rounded(dtype, a.low - b.high, a.high - b.low, _size(a) + _size(b))


def _corners(dtype: DType, a: Range, b: Range, fn: Callable[[Array, Array], Array]) -> Range:
    ends = np.broadcast_arrays(*(fn(p, q) for p in (a.low, a.high) for q in (b.low, b.high)))
    found = np.stack(ends)
    unclear = np.isnan(found).any(0)  # 0 * inf
    low = np.where(unclear, -np.inf, found.min(0))
    high = np.where(unclear, np.inf, found.max(0))
    return _rounded(dtype, low, high, np.abs(found).max(0))


def _mul(dtype: DType, a: Range, b: Range) -> Range:
    return _corners(dtype, a, b, np.multiply)


def _div(dtype: DType, a: Range, b: Range) -> Range:
    count = max(a.low.size, b.low.size)
    free = anything(dtype, count)
    whole = not dtype.is_float
    found = _corners(dtype, a, b, (lambda p, q: np.trunc(p / q)) if whole else np.divide)
    apart = (b.low > 0) | (b.high < 0)
    if whole:
        apart &= (_size(a) <= _EXACT) & (_size(b) <= _EXACT)
    return Range(np.where(apart, found.low, free.low), np.where(apart, found.high, free.high))


def _mod(dtype: DType, a: Range, b: Range) -> Range:
    """The remainder of whole numbers that has the divisor's sign."""
    free = anything(dtype, max(a.low.size, b.low.size))
    above = (b.low > 0) & (b.high <= _EXACT) & (not dtype.is_float)
    small = above & (a.low >= 0) & (a.high < b.low)
    high = np.where(a.low >= 0, np.minimum(a.high, b.high - 1), b.high - 1)
    return Range(np.where(small, a.low, np.where(above, 0, free.low)), np.where(above, high, free.high))


def _fmod(dtype: DType, a: Range, b: Range) -> Range:
    """That which has the dividend's sign, and is no farther from 0."""
    free = anything(dtype, max(a.low.size, b.low.size))
    most = np.maximum(_size(b) - 1, 0)
    known = (most < _EXACT) & (not dtype.is_float)
    low, high = np.maximum(np.minimum(a.low, 0), -most), np.minimum(np.maximum(a.high, 0), most)
    return Range(np.where(known, low, free.low), np.where(known, high, free.high))


def _max(dtype: DType, a: Range, b: Range) -> Range:
    return Range(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def _min(dtype: DType, a: Range, b: Range) -> Range:
    return Range(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def _neg(dtype: DType, a: Range) -> Range:
    return Range(-a.high, -a.low) if dtype.is_float else _fitting(-a.high, -a.low, dtype)


def _abs(dtype: DType, a: Range) -> Range:
    inside = (a.low <= 0) & (a.high >= 0)
    low, high = np.where(inside, 0, np.minimum(np.abs(a.low), np.abs(a.high))), _size(a)
    return Range(low, high) if dtype.is_float else _fitting(low, high, dtype)


def _select(dtype: DType, condition: Range, a: Range, b: Range) -> Range:
    """One of two; which one, where the condition is known."""
    never, always = condition.high == 0, condition.low > 0
    low = np.where(never, b.low, np.where(always, a.low, np.minimum(a.low, b.low)))
    high = np.where(never, b.high, np.where(always, a.high, np.maximum(a.high, b.high)))
    return Range(low, high)


def _mulhi(dtype: DType, a: Range, b: Range) -> Range:
    products = np.stack(np.broadcast_arrays(*(p * q for p in (a.low, a.high) for q in (b.low, b.high))))
    rounded = np.where(np.abs(products).max(0) > _EXACT, 1.0, 0.0)  # such a product may be another one
    return Range(np.floor(products.min(0) / 2.0**32) - rounded, np.floor(products.max(0) / 2.0**32) + rounded)


def _asr(dtype: DType, a: Range, b: Range) -> Range:
    ends = np.stack(np.broadcast_arrays(*(np.floor(p / 2.0**q) for p in (a.low, a.high) for q in (b.low, b.high))))
    return Range(ends.min(0), ends.max(0))


def _saturated(dtype: str) -> Callable[[DType, Range], Range]:
    info = np.iinfo(dtype)
    return _rising(lambda x: np.clip(x, info.min, info.max))


def _rising(fn: Callable[[Array], Array]) -> Callable[[DType, Range], Range]:
    """A function without rounding that never falls."""
    return lambda dtype, a: Range(fn(a.low), fn(a.high))


def _within(low: float, high: float) -> Callable[[DType, Range], Range]:
    return lambda dtype, a: Range(np.full_like(a.low, low), np.full_like(a.low, high))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


_RULES: dict[str, Callable[..., Range]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "div": _div,
    "mod": _mod,
    "fmod": _fmod,
    "max": _max,
    "min": _min,
    "neg": _neg,
    "abs": _abs,
    "select": _select,
    "relu": _rising(_relu),
    "rounded": _rising(np.positive),
    "rne": _rising(np.rint),
    "floor": _rising(np.floor),
    "ceil": _rising(np.ceil),
    "mulhi": _mulhi,
    "asr": _asr,
    "sat_i8": _saturated("int8"),
    "sat_u8": _saturated("uint8"),
    "sat_i16": _saturated("int16"),
    "sat_u16": _saturated("uint16"),
    "sign": _within(-1, 1),
    "sigmoid": _within(0, 1),
    "tanh": _within(-1, 1),
    "erf": _within(-1, 1),
    "sin": _within(-1, 1),
    "cos": _within(-1, 1),
}


# -- what operators say of their results --------------------------------------------------------------------------
def constant(low: float, high: float, count: int = 1) -> Range:
    """``low <= value <= high`` for ``count`` channels."""
    return Range(np.full(count, float(low)), np.full(count, float(high)))


def of_number(value: float, dtype: DType) -> Range:
    """The range of one number as elements of ``dtype``: unbounded for NaN, and for integers that float64 rounds."""
    with np.errstate(all="ignore"):
        return of_array(np.asarray(value).astype(dtype.numpy), None)


def hull(ranges: Sequence[Range]) -> Range:
    """The least range that holds all of ``ranges``, each of as many channels or of one."""
    low, high = (np.broadcast_arrays(*ends) for ends in zip(*((r.low, r.high) for r in ranges), strict=True))
    return Range(np.min(low, 0), np.max(high, 0))


def zero_or_free(x: Range) -> Range:
    """0 where ``x`` is 0, else anything."""
    return Range(np.where(x.zero, 0, -np.inf), np.where(x.zero, 0, np.inf))


def summed(x: Range, count: int, dtype: DType) -> Range:
    """Sums of ``count`` elements, each rounded to ``dtype``.

    >>> from mccompile.ir.types import I32
    >>> nine = summed(Range(np.array([-128.0, -128.0]), np.array([-128.0, 127.0])), 9, I32)
    >>> nine.low.tolist(), nine.high.tolist()
    ([-1152.0, -1152.0], [-1152.0, 1143.0])
    """
    if not count:
        return Range(np.zeros_like(x.low), np.zeros_like(x.high))
    if not dtype.is_float:
        return _fitting(x.low * count, x.high * count, dtype)
    by = np.where(x.known, 0, error(_size(x) * count, dtype.compute, count))
    return widened(x.low * count, x.high * count, by)


def averaged(x: Range, count: int, dtype: DType) -> Range:
    """Means of at most ``count`` elements."""
    by = np.where(x.known, 0, error(_size(x), dtype.compute, count))
    return widened(x.low, x.high, by)
