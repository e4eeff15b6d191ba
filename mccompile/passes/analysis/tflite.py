"""From sums of integers to 8 bits as TensorFlow Lite's reference kernels go, bit by bit, in 32-bit arithmetic.

A real factor is m * 2^(shift - 31) there, 2^30 <= m < 2^31. Worked example: 0.3 is m = 1288490189, shift = -1, and a
sum of 5 becomes 1.5:

    twice     h = (5 * m + 2^30) >> 31 = 3, then 3 / 2^1 = 2        to integers, ties up; then ties away from zero
    once      5 * 0.3 = 1.5, which becomes 2                        real numbers, ties away from zero

The products need 64 bits there; here they are high halves of products, of a sum that is shifted left before, as far
as is proven to fit:

    twice     asr((h + (1 + asr(h, 31))), 1), h = asr((mulhi((acc * 4), m) + 1), 1)
    once      asr((mulhi((acc * 2), m) + 1), 1), with an m that is right for every sum

Fully connected layers are rounded once; convolutions, depthwise ones too, means, additions, subtractions and products
of tensors twice; average pools are divisions of integers. The source is LiteRT's: `common.cc`, `reference/` and
`reference/integer_ops/` of `tflite/kernels/internal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Node
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32
from mccompile.passes.analysis.fixed_point import Channels, least
from mccompile.passes.analysis.forms import Form

Constant = Callable[[Array, str], ex.Expr]
"""Makes an expression of 32-bit numbers, of each channel or of all, with a name for what they are."""

ADDED_BITS = 20
"""By so many bits the operands of an addition are raised before they are scaled."""
_MOST_UP = 30
"""Bits by which the number 1 can be shifted left."""
_MOST_ZERO = 2**16
"""No zero point of bytes is so far away."""
_MOST_FACTOR = 29
"""Sums times 2^29 or more, rounded once, do not fit 32 bits, unless all are 0."""
_F32_ULPS = 2.0**-21
"""How far two operations on f32 may be from the real number, which denormal numbers are not."""
_UNFIT = "its sum does not fit 32 bits"


@dataclass(frozen=True)
class Multiplier:
    """Factors m * 2^(shift - 31), of each channel or of all."""

    m: Array
    shift: Array

    @classmethod
    def of(cls, real: Array) -> Multiplier:
        """The nearest to positive real factors; what is below 2^-32 is 0."""
        fraction, shift = np.frexp(np.atleast_1d(np.asarray(real, np.float64)))
        m = np.floor(fraction * 2.0**31 + 0.5).astype(np.int64)
        m, shift = np.where(m == 2**31, m // 2, m), np.where(m == 2**31, shift + 1, shift).astype(np.int64)
        return cls(np.where(shift < -31, 0, m), np.where(shift < -31, 0, shift))

    def over(self, count: int) -> Multiplier:
        """The factors divided by a number of elements, as the kernel of means does it."""
        bits = np.minimum(np.minimum(count.bit_length() - 1, 32), 31 + self.shift)
        return Multiplier((self.m << bits) // count, self.shift - bits)

    def scaled(self, x: Array) -> Array:
        """Integers times the factors, rounded twice. What leaves 32 bits, which is undefined there, stays at their
        end."""
        up = np.clip(self.shift, 0, 32)  # by 32 all but 0 leave them
        raised = np.clip(np.ldexp(np.asarray(x, np.float64), up), -(2.0**31), 2.0**31 - 1)
        high = (raised.astype(np.int64) * self.m + 2**30) >> 31
        e = np.maximum(-self.shift, 0)
        return np.asarray(np.where(e > 0, (high + (1 << e >> 1) - (high < 0)) >> e, high))


@dataclass(frozen=True)
class Reach:
    """What a sum becomes, by channels or for all: from ``low`` to ``high``."""

    low: Array
    high: Array

    @property
    def most(self) -> Array:
        return np.maximum(np.abs(self.low), np.abs(self.high))


def _leaves(reach: Reach, up: int | Array) -> bool:
    """Whether sums, or the number that they are multiplied by for it, leave 32 bits when they are shifted left."""
    most = (2**31 - 1) >> np.minimum(up, _MOST_UP)
    return bool(np.any(np.asarray(up) > _MOST_UP) or (reach.most > most).any())


def _raised(x: ex.Expr, by: Array, constant: Constant) -> ex.Expr:
    return x if (by == 1).all() else ex.apply("mul", x, constant(by, "raised"))


def _rounded_once(x: ex.Expr, f: Multiplier, reach: Reach, zero: Array, constant: Constant) -> ex.Expr | str:
    """zero + ((x * m + 2^(t - 1)) >> t) with t = 31 - shift."""
    t = 31 - f.shift
    up = max(0, 33 - int(t.min()))
    s = t - 32 + up
    if _leaves(reach, up) or s.max() > 31:
        return _UNFIT
    product = ex.apply("mulhi", _raised(x, np.array([1 << up]), constant), constant(f.m, "multiplier"))
    most = ((reach.most << up) * f.m >> 32) + 1
    return _divided(product, None, s, most, zero, constant)


def _nearest(real: Array, reach: Reach, cut: tuple[int, int]) -> Multiplier | str:
    """Factors with which (x * m + 2^(t - 1)) >> t is the integer nearest to x times a real factor, ties away from
    zero, for every x and for results from one end of ``cut`` to the other. Real factors are below 2^29.

    The factor nearest to the real one is so but for few channels; there, each step j of the result says what m may
    be: x * m >= (j - 1/2) * 2^t at the least x that it is reached for, and less at x - 1.
    """
    f = Multiplier.of(real)
    low, high, m, shift = np.broadcast_arrays(reach.low, reach.high, f.m, f.shift)
    factors = np.broadcast_to(real, m.shape)
    results = np.arange(cut[0] + 1, cut[1] + 1)

    def value(a: Array, of: Channels) -> Array:
        return np.asarray(np.sign(a) * np.floor(np.abs(a * factors[of]) + 0.5))

    def own_value(a: Array, of: Channels) -> Array:
        return np.asarray((a * m[of] + (1 << (30 - shift[of]))) >> (31 - shift[of]))

    ties = np.ceil(np.clip((results[:, None] - 0.5) / factors, low, high)).astype(np.int64)
    wanted = least(lambda a, result, of: value(a, of) >= result, results, low, high, ties)
    own = least(lambda a, result, of: own_value(a, of) >= result, results, low, high, ties)
    found = m.copy()
    for k in np.flatnonzero((wanted != own).any(0)):
        steps = zip(results.tolist(), wanted[:, k].tolist(), strict=True)
        exact = _factor_between(list(steps), int(low[k]), int(high[k]), int(31 - shift[k]), int(m[k]))
        if exact is None:
            return "no factor of 31 bits is right for all sums of a channel"
        found[k] = exact
    return Multiplier(found, shift)


def _factor_between(steps: list[tuple[int, int]], low: int, high: int, t: int, near: int) -> int | None:
    """The factor closest to ``near`` by which each result j is reached at its least sum; None if there is none."""
    least_m, most_m = 1, 2**31 - 1
    for j, at in steps:
        bound = (2 * j - 1) << (t - 1)
        # at * m >= bound, and (at - 1) * m < bound as (1 - at) * m >= 1 - bound
        for x, factor, needed in ((at, at, bound), (at - 1, 1 - at, 1 - bound)):
            if not low <= x <= high:
                continue
            if factor > 0:
                least_m = max(least_m, -(-needed // factor))
            elif factor < 0:
                most_m = min(most_m, needed // factor)
            elif needed > 0:
                return None
    return min(max(near, least_m), most_m) if least_m <= most_m else None


def _rounded_twice(
    x: ex.Expr, f: Multiplier, reach: Reach, zero: Array, constant: Constant, raised: int = 0
) -> ex.Expr | str:
    """zero + ((x * 2^raised * m + 2^30) >> 31, then by a power of two, ties away from zero)."""
    up = np.maximum(f.shift, 0) + 2 + raised
    if _leaves(reach, up):
        return _UNFIT
    product = ex.apply("mulhi", _raised(x, 1 << up, constant), constant(f.m, "multiplier"))
    high = ex.apply("asr", ex.apply("add", product, ex.num(1, I32)), ex.num(1, I32))
    e = np.maximum(-f.shift, 0)
    if not e.any():
        return ex.apply("add", high, constant(zero, "zero")) if zero.any() else high
    # Where there is nothing to divide by, twice as much is divided by two.
    doubled = _raised(high, np.where(e == 0, 2, 1), constant)
    most = (((reach.most << up) * f.m >> 33) + 1) * 2
    return _divided(doubled, ex.apply("asr", doubled, ex.num(31, I32)), np.maximum(e, 1), most, zero, constant)


def _divided(
    x: ex.Expr, fixup: ex.Expr | None, s: Array, most: Array, zero: Array, constant: Constant
) -> ex.Expr:
    """zero + (x + 2^(s - 1) >> s), with a ``fixup`` of x; |x| is at most ``most``."""
    c = (1 << (s - 1)) + (zero << s)
    fits = bool((most + np.abs(c) + 1 < 2**31).all())
    total = x if fixup is None else ex.apply("add", x, fixup)
    total = ex.apply("add", total, constant(c if fits else 1 << (s - 1), "offset"))
    result = ex.apply("asr", total, constant(s, "shift"))
    return result if fits or not zero.any() else ex.apply("add", result, constant(zero, "zero"))


@dataclass(frozen=True)
class Output:
    """The end of a rounded expression: rne(``inner`` / scale) + zero."""

    inner: ex.Expr
    scale: float
    zero: int


def output_of(body: ex.Expr, constant: Callable[[int], Array | None]) -> Output | None:
    """How an expression is quantised at its end; None if it is not, or not with one scale."""

    def number(e: ex.Expr) -> float | None:
        # Evaluated, a number is that of its own type: the text of a denormal one may be far from it.
        array = (
            ex.evaluate(e, lambda _: np.zeros(())) if isinstance(e, ex.Num)
            else constant(e.index) if isinstance(e, ex.Var) else None
        )  # fmt: skip
        return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None

    zero: float | None = 0.0
    if isinstance(body, ex.Apply) and body.fn in ("add", "sub"):
        zero = number(body.operands[1])
        zero = -zero if zero is not None and body.fn == "sub" else zero
        body = body.operands[0]
    match body:
        case ex.Apply(fn="rne", operands=(ex.Apply(fn=("div" | "mul") as fn, operands=(inner, by)),)):
            scale = number(by)
            if scale is None or zero is None or not (zero.is_integer() and abs(zero) <= _MOST_ZERO):
                return None
            if not 0 < scale < math.inf:
                return None
            if fn == "mul" and np.frexp(scale)[0] != 0.5:  # but for powers of two, its inverse is not known
                return None
            return Output(inner, scale if fn == "div" else 1 / scale, int(zero))
    return None


def of_sum(
    node: Node, core: ex.Expr, out: Output, form: Form, reach: Reach, cut: tuple[int, int], count: int, known: bool,
    constant: Constant,
) -> ex.Expr | str:  # fmt: skip
    """A sum of integers ``core`` in steps of the result, zero point included, or why there is no such way.

    ``cut`` are the ends that results are cut off at; ``count`` is how many elements a mean is of, 0 for products;
    of those, ``known`` says that an operand is constant.
    """
    (scale,) = form.terms.values()
    if np.any(form.offset) or not (np.isfinite(scale).all() and (np.asarray(scale) > 0).all()):
        return "it adds what is no whole number of its sum's steps"
    own = np.atleast_1d(np.asarray(scale, np.float64))
    if count and node.op.wants_channels_last:
        return _pooled(core, out, own, count, reach)
    once = not count and not node.op.wants_channels_last and known
    ends = cut[0] - out.zero, cut[1] - out.zero
    # The kernel of means has the scale of what is summed, an f32, apart from the number of elements.
    real = _ratio(_as_f32(own * count) if count else own, out.scale)
    if isinstance(real, str):
        return real
    if once:
        values = [np.sign(end) * np.floor(np.abs(end * real) + 0.5) for end in (reach.low, reach.high)]
        first, last = (np.clip(v, *ends).astype(np.int64) for v in values)
    else:
        f = Multiplier.of(real).over(count) if count else Multiplier.of(real)
        first, last = (np.clip(f.scaled(end), *ends) for end in (reach.low, reach.high))
    varies = first != last
    # What is the same for all sums needs to fit nothing: a bias may be far beyond the ends of the type.
    narrowed = Reach(np.where(varies, reach.low, 0), np.where(varies, reach.high, 0))
    if once:
        if _leaves(narrowed, 0) or (varies & (real >= 2.0**_MOST_FACTOR)).any():
            return _UNFIT
        nearest = _nearest(np.where(varies, real, 1.0), narrowed, ends)
        if isinstance(nearest, str):
            return nearest
        f = nearest
    shift = np.broadcast_to(f.shift, varies.shape)
    usual = int(shift[varies].max(initial=-31))
    f = Multiplier(np.where(varies, f.m, 0), np.where(varies, shift, usual))
    zero = out.zero + np.where(varies, 0, first)
    return (_rounded_once if once else _rounded_twice)(core, f, narrowed, zero, constant)


def _as_f32(numbers: Array) -> Array:
    """Numbers rounded to f32, of which large ones are infinite."""
    with np.errstate(over="ignore"):
        return np.asarray(numbers).astype(np.float32).astype(np.float64)


def _ratio(scale: Array, by: float) -> Array | str:
    """The factor from one scale to another; why there is none where it is 0 or infinite, as it is in no kernel."""
    with np.errstate(over="ignore"):
        real = np.asarray(scale / by)
    return real if (np.isfinite(real) & (real > 0)).all() else "a factor is no positive number"


def _pooled(core: ex.Expr, out: Output, scale: Array, count: int, reach: Reach) -> ex.Expr | str:
    """The mean of the integers themselves, ties away from zero: x and result have one scale and zero point."""
    if scale.size != 1 or not np.isclose(float(scale[0]) * count, out.scale, rtol=2.0**-22, atol=0):
        return "an average pool does not change the scale"
    if (reach.most + count * (abs(out.zero) + 1) >= 2**31).any():
        return _UNFIT
    raw = ex.apply("add", core, ex.num(count * out.zero, I32)) if out.zero else core
    above = ex.apply("gt", raw, ex.num(0, I32))
    half = ex.apply("select", above, ex.num(count // 2, I32), ex.num(-(count // 2), I32))
    return ex.apply("div", ex.apply("add", raw, half), ex.num(count, I32))


def of_pair(out: Output, form: Form, reaches: Mapping[ex.Expr, Reach], constant: Constant) -> ex.Expr | str:
    """The sum, difference or product of two bytes in steps of the result, zero point included; or why not."""
    if np.any(form.offset):
        return "it adds a number"
    zero, nothing = np.array([out.zero]), np.zeros(1, np.int64)
    if len(form.terms) == 1:
        ((core, scale),) = form.terms.items()
        wanted = _ratio(np.asarray(scale, np.float64), out.scale)
        if isinstance(wanted, str):
            return wanted
        real = _as_f32(_as_f32(np.asarray(scale)) / out.scale)
        if not np.isclose(real, wanted, rtol=_F32_ULPS, atol=0):
            return "its scales leave the numbers of 32 bits"
        return _rounded_twice(core, Multiplier.of(real), reaches[core], zero, constant)
    if len(form.terms) != 2:
        return f"it is a sum of {len(form.terms)} products"
    (first, s), (second, t) = form.terms.items()
    if s <= 0 or t == 0:
        return "its first operand is subtracted"
    unit = 2 * max(abs(float(s)), abs(float(t)))
    parts: list[ex.Expr] = []
    most = nothing
    for core, scale in ((first, s), (second, t)):
        f = Multiplier.of(np.abs(np.asarray(scale, np.float64)) / unit)
        part = _rounded_twice(core, f, reaches[core], nothing, constant, ADDED_BITS)
        if isinstance(part, str):
            return part
        parts.append(part)
        most = most + f.scaled(reaches[core].most << ADDED_BITS)
    total = ex.apply("add" if t > 0 else "sub", *parts)
    whole = _ratio(np.asarray(unit), 2.0**ADDED_BITS * out.scale)
    if isinstance(whole, str):
        return whole
    f = Multiplier.of(whole)
    return _rounded_twice(total, f, Reach(-most, most), zero, constant)
