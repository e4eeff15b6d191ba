"""What stands before an operator: maps, views of stored values, constants of few values, changes of shape and type.

Every function takes a composer and a name and gives a name. Example: `flipped` of a value [2,3,4] may add
``Slice(v, starts=[-1], ends=[-2**31], axes=[1], steps=[-1])``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.support.compose.definite import MAX_COUNT, Array, Refused
from tests.support.compose.network import Composer, count, dtype_number

END = 2**31 - 1
SPECIALS = (0.0, -0.0, 1.0, 0.49999997, -0.49999997, 0.5, 1.5, 2.5, -0.5, -2.5, 1e-40, -1e-44, 1e-8, 6e-8)
"""Numbers where rounding, halves, signs and denormals show."""
LARGE_SPECIALS = (8388609.0, -8388609.0, 16777215.0, 65504.0, 4097.0)


# -- constants ---------------------------------------------------------------------------------------------
def constant_like(c: Composer, sample: Array) -> str:
    """A constant of the sample's type and shape: its elements, or one value, powers of two, denormals."""
    a = np.asarray(sample)
    way = c.d.int(0, 99)
    if a.size < 2 or a.dtype.kind not in "f" or way < 42:
        return c.constant(a)
    one = a.reshape(-1)[c.d.int(0, a.size - 1)]
    if way < 57:
        return c.constant(np.full_like(a, one))
    if way < 65:
        return c.one("Expand", c.constant(np.array([one], a.dtype)), c.ints(*a.shape))
    if way < 72:
        return c.one("ConstantOfShape", c.ints(*a.shape), value=_tensor(np.array([one], a.dtype)))
    if way < 82:
        with np.errstate(divide="ignore"):
            powers = np.sign(a) * np.exp2(np.rint(np.log2(np.abs(a) + 1e-3)))
        return c.constant(powers.astype(a.dtype))
    return c.constant(_sprinkled(c, a, (0.0, -0.0, 1.0, -1.0) if c.d.bool() else SPECIALS))


def _tensor(array: Array) -> object:
    from onnx import numpy_helper

    return numpy_helper.from_array(array)


def _sprinkled(c: Composer, a: Array, numbers: Sequence[float]) -> Array:
    flat = np.array(a).reshape(-1)
    for i in range(flat.size):
        if c.chance(25):
            flat[i] = c.d.choice(numbers)
    return flat.reshape(a.shape)


def fresh(c: Composer, sample: Array, special: int = 8) -> str:
    """A graph input; in ``special`` percent with special numbers."""
    a = np.asarray(sample)
    if a.dtype.kind == "f":
        a = np.where(np.isnan(a), a.dtype.type(1), a).astype(a.dtype)
        if c.chance(special):
            large = a.dtype != np.float16 and c.chance(50)
            a = _sprinkled(c, a, SPECIALS + (LARGE_SPECIALS if large else ()))
    name = c.input(a)
    c.pool.append(name)
    return name


# -- maps: they keep the shape and the element type ----------------------------------------------------------
def _other(c: Composer, v: str, low: float = -1, high: float = 1) -> str:
    """An operand that broadcasts with ``v``: a constant, an input, the value itself or one of the pool."""
    a = c.array(v)
    way = c.d.int(0, 9)
    if way == 0:
        return v
    if way < 3:
        fits = [n for n in c.pool if c.array(n).dtype == a.dtype and _broadcasts(c.array(n).shape, a.shape)]
        if fits:
            return c.d.choice(fits)
    sample = np.asarray(c.d.array(c.d.broadcastable(a.shape), "f32", low, high)).astype(a.dtype)
    return c.input(sample) if way < 5 else constant_like(c, sample)


def _broadcasts(shape: Sequence[int], to: Sequence[int]) -> bool:
    return len(shape) <= len(to) and all(e in (1, t) for e, t in zip(reversed(shape), reversed(to), strict=False))


def _leaky(c: Composer, v: str) -> str:
    return c.one("LeakyRelu", v, alpha=c.d.choice([0.2, 0.3, 0.01]))


def _prelu(c: Composer, v: str) -> str:
    a = c.array(v)
    return c.one("PRelu", v, constant_like(c, np.asarray(c.d.array(a.shape[1:], "f32")).astype(a.dtype)))


def _binary(op: str) -> Callable[[Composer, str], str]:
    def add(c: Composer, v: str) -> str:
        other = _other(c, v)
        return c.one(op, *([v, other] if c.chance(70) else [other, v]))

    return add


def _div(c: Composer, v: str) -> str:
    return c.one("Div", v, _other_positive(c, v))


def _other_positive(c: Composer, v: str) -> str:
    a = c.array(v)
    return constant_like(c, np.asarray(c.d.array(c.d.broadcastable(a.shape), "f32", 0.5, 2)).astype(a.dtype))


def mask(c: Composer, shape: Sequence[int]) -> str:
    """A condition that broadcasts to ``shape``: of the pool, a constant, an input, a comparison, or causal."""
    way = c.d.int(0, 5)
    if way == 0:
        found = [n for n in c.pool if c.array(n).dtype == bool and _broadcasts(c.array(n).shape, shape)]
        if found:
            return c.d.choice(found)
    if way == 1 and len(shape) >= 2:
        return c.constant(np.tril(np.ones(tuple(shape[-2:]), bool)))
    bits = c.d.numpy.random(c.d.broadcastable(shape)) < c.d.choice([0.2, 0.5, 0.8])
    if way == 2:
        return c.input(bits)
    if way == 3:
        x = c.input(np.asarray(c.d.array(bits.shape, "f32")))
        return c.one(c.d.choice(["Greater", "Less", "GreaterOrEqual"]), x, c.scalar(0.2, np.float32))
    return c.input(bits) if c.d.bool() else c.constant(bits)


def _where(c: Composer, v: str) -> str:
    a = c.array(v)
    low = -1e4 if a.dtype != np.float16 else -1e3
    k = c.scalar(c.d.choice([low, 0.0, 0.5, 1.0, low if a.dtype == np.float16 else -1e9]), a.dtype)
    other = k if c.chance(60) else _other(c, v)
    return c.one("Where", mask(c, a.shape), *([v, other] if c.d.bool() else [other, v]))


def _clip(c: Composer, v: str) -> str:
    t = c.array(v).dtype
    low, high = c.d.choice([(-1, 1), (0, 6), (-0.5, 0.75), (0, 1)])
    return c.one("Clip", v, c.scalar(low, t), *([c.scalar(high, t)] if c.chance(70) else []))


def _cast_round_trip(c: Composer, v: str) -> str:
    mine = c.array(v).dtype.name
    there = c.d.choice([n for n in ("float16", "float32", "float64") if n != mine])
    if there == "float16" and np.abs(c.array(v)).max(initial=0.0) > 1e3:
        raise Refused("beyond f16")
    (inner,) = c.apply("Cast", [v], to=dtype_number(there))
    if c.chance(40):
        inner = _leaky(c, inner) if there != "float64" else c.one("Neg", inner)
    return c.one("Cast", inner, to=dtype_number(mine))


def _of_comparison(c: Composer, v: str) -> str:
    a = c.array(v)
    (b,) = c.apply(c.d.choice(["Greater", "Less", "GreaterOrEqual"]), [v, _other(c, v)])
    if c.chance(30):
        b = c.one("Not", b)
    c.pool.append(b)
    return c.one("Cast", b, to=dtype_number(a.dtype.name))


def _unary(*ops: str) -> Callable[[Composer, str], str]:
    return lambda c, v: c.one(c.d.choice(ops), v)


_MAPS: tuple[Callable[[Composer, str], str], ...] = (
    _leaky, _leaky, _leaky, _prelu, _binary("Add"), _binary("Add"), _binary("Sub"), _binary("Mul"), _div,
    _where, _where, _where, _clip, _clip, _cast_round_trip, _cast_round_trip, _of_comparison,
    _binary("Max"), _binary("Min"), _unary("Relu", "Neg", "Abs"), _unary("Sigmoid", "Tanh", "Exp", "Erf"),
    _unary("HardSigmoid", "HardSwish", "Elu", "Softplus"), _unary("Round", "Floor", "Ceil", "Sign"),
    _unary("Sin", "Cos", "Gelu", "Mish", "Selu", "Softsign"),
)  # fmt: skip


def _int_map(c: Composer, v: str) -> str:
    a = c.array(v)
    small = np.asarray(c.d.array(c.d.broadcastable(a.shape), "f32", 1, 4)).astype(a.dtype)
    way = c.d.int(0, 6)
    if way == 0:
        return c.one("Where", mask(c, a.shape), v, c.constant(small))
    if way == 1:
        return c.one("Clip", v, c.scalar(0, a.dtype), c.scalar(9, a.dtype))
    if way == 2 and a.dtype.kind == "i":
        return c.one(c.d.choice(["Neg", "Abs"]), v)
    if way == 3:
        return c.one("Cast", c.one("Cast", v, to=dtype_number("float32")), to=dtype_number(a.dtype.name))
    return c.one(c.d.choice(["Add", "Sub", "Mul", "Max", "Min", "Mod", "Div"]), v, c.constant(small))


def mapped(c: Composer, v: str) -> str:
    """One map, or ``v`` where none suits; what onnxruntime refuses is left out."""
    kind = c.array(v).dtype.kind
    made = v
    with c.stage():
        if kind == "f":
            made = c.d.choice(_MAPS)(c, v)
        elif kind == "b":
            other = mask(c, c.array(v).shape)
            made = c.one("Not", v) if c.d.bool() else c.one(c.d.choice(["And", "Or", "Xor"]), v, other)
        else:
            made = _int_map(c, v)
        _require_same(c, v, made)
    return made if made in c.net.values else v


def _require_same(c: Composer, v: str, made: str) -> None:
    a, b = c.array(v), c.array(made)
    if a.shape != b.shape or a.dtype != b.dtype:
        raise Refused("another shape")


# -- views: the same elements in another order, and back to the same shape -----------------------------------
def _axis(c: Composer, v: str, least: int = 2) -> int:
    axes = [i for i, e in enumerate(c.array(v).shape) if e >= least]
    if not axes:
        raise Refused("no such axis")
    return axes[-1] if c.chance(40) else c.d.choice(axes)


def _sliced(c: Composer, v: str, axis: int, start: int, end: int, step: int) -> str:
    return c.one("Slice", v, c.ints(start), c.ints(end), c.ints(axis), c.ints(step))


def flipped(c: Composer, v: str) -> str:
    return _sliced(c, v, _axis(c, v), -1, -END - 1, -1)


def swapped(c: Composer, v: str) -> str:
    """Split and joined in another order, as RGB becomes BGR."""
    axis = _axis(c, v)
    extent = c.array(v).shape[axis]
    parts = extent if extent <= 4 and c.chance(70) else 2
    sizes = [1] * parts if parts == extent else [c.d.int(1, extent - 1)]
    sizes = sizes if parts == extent else [*sizes, extent - sizes[0]]
    made = c.apply("Split", [v, c.ints(*sizes)], outputs=parts, axis=axis)
    order = made[::-1] if c.chance(70) else [made[i] for i in c.d.permutation(parts)]
    return c.one("Concat", *order, axis=axis)


def turned(c: Composer, v: str) -> str:
    """Transposed, perhaps mapped, and back."""
    perm = c.d.permutation(c.array(v).ndim)
    (made,) = c.apply("Transpose", [v], perm=perm)
    if c.chance(50):
        made = mapped(c, made)
    return c.one("Transpose", made, perm=tuple(int(i) for i in np.argsort(perm)))


def doubled(c: Composer, v: str) -> str:
    """Joined with itself or another, and every second element of it."""
    axis = _axis(c, v, 1)
    extent = c.array(v).shape[axis]
    (both,) = c.apply("Concat", [v, mapped(c, v) if c.d.bool() else v], axis=axis)
    return _sliced(c, both, axis, 0, END, 2) if c.d.bool() else _sliced(c, both, axis, 2 * extent - 1, -END - 1, -2)


def padded(c: Composer, v: str) -> str:
    """Padded, and an inner part of it."""
    a = c.array(v)
    axis = _axis(c, v)
    pads = [0] * (2 * a.ndim)
    pads[axis], pads[axis + a.ndim] = c.d.int(0, 1), 1
    mode = c.d.choice(["constant", "reflect", "edge", "wrap"])
    (made,) = c.apply("Pad", [v, c.ints(*pads)], mode=mode)
    start = c.d.int(0, pads[axis] + 1)
    return _sliced(c, made, axis, start, start + a.shape[axis], 1)


def gathered(c: Composer, v: str) -> str:
    axis = _axis(c, v)
    extent = c.array(v).shape[axis]
    index = list(range(extent))[::-1] if c.d.bool() else [c.d.int(-extent, extent - 1) for _ in range(extent)]
    return c.one("Gather", v, c.ints(*index), axis=axis)


def stretched(c: Composer, v: str) -> str:
    """One position of an axis, or what it is reduced to, for all."""
    a = c.array(v)
    axis = _axis(c, v)
    if c.d.bool() or a.dtype.kind == "b":
        part = _sliced(c, v, axis, 0, 1, 1)
    else:
        part = c.one(c.d.choice(["ReduceMax", "ReduceSum"]), v, c.ints(axis), keepdims=1)
    return c.one("Expand", part, c.ints(*a.shape))


_VIEWS = (flipped, flipped, swapped, swapped, turned, doubled, padded, gathered, stretched)


def viewed(c: Composer, v: str) -> str:
    """The same type, other elements or another order; ``v`` where nothing suits."""
    made = v
    with c.stage():
        made = c.d.choice(_VIEWS)(c, v)
        _require_same(c, v, made)
    return made if made in c.net.values else v


# -- another shape, type or range ----------------------------------------------------------------------------
def reshaped(c: Composer, v: str, shape: Sequence[int]) -> str:
    """A value of ``shape`` made of ``v``: by Reshape where counts agree, else axis by axis."""
    a = c.array(v)
    if a.shape == tuple(shape):
        return v
    if a.size == count(shape):
        if a.ndim >= 2 and c.chance(40):
            (v,) = c.apply("Transpose", [v], perm=c.d.permutation(a.ndim))
        return c.one("Reshape", v, c.ints(*shape))
    rank = len(shape)
    if a.ndim != rank:
        own = [1] * (rank - a.ndim) + list(a.shape)
        own = own if a.ndim < rank else [count(a.shape[: a.ndim - rank + 1]), *a.shape[a.ndim - rank + 1 :]]
        v = c.one("Reshape", v, c.ints(*(own if rank else [-1])))
    if not rank:
        return c.one("Reshape", _sliced(c, v, 0, 0, 1, 1), c.constant(np.zeros(0, np.int64)))
    for axis, extent in enumerate(shape):
        v = _resized(c, v, axis, extent)
    return v


def _resized(c: Composer, v: str, axis: int, extent: int) -> str:
    """With another extent of one axis."""
    shape = list(c.array(v).shape)
    mine = shape[axis]
    if mine == extent:
        return v
    if mine == 1:
        shape[axis] = extent
        return c.one("Expand", v, c.ints(*shape))
    if mine == 0:
        raise Refused("nothing to repeat")
    if mine < extent:
        if extent * c.array(v).size // mine > MAX_COUNT:
            raise Refused("too large")
        way = c.d.int(0, 2)
        if way == 0:
            return c.one("Gather", v, c.ints(*(i % mine for i in range(extent))), axis=axis)
        if way == 1 and extent < 4 * mine and c.array(v).dtype.kind == "f":
            pads = [0] * (2 * len(shape))
            pads[axis] = c.d.int(0, extent - mine)
            pads[axis + len(shape)] = extent - mine - pads[axis]
            return c.one("Pad", v, c.ints(*pads), mode="constant")
        repeats = [-(-extent // mine) if i == axis else 1 for i in range(len(shape))]
        v = c.one("Tile", v, c.ints(*repeats))
        return _resized(c, v, axis, extent)
    step = c.d.choice([1, 1, 2, 3, -1, -1, -2])
    if abs(step) * (extent - 1) >= mine:
        step = 1 if step > 0 else -1
    span = abs(step) * (extent - 1)
    first = c.d.int(0, mine - 1 - span)
    if step > 0:
        return _sliced(c, v, axis, first, first + span + 1, step)
    last = first + span
    return _sliced(c, v, axis, last, first - 1 if first else -END - 1, step)


def retyped(c: Composer, v: str, sample: Array) -> str:
    """With the sample's element type; floats that become integers are clipped to the sample's range before."""
    a = c.array(v)
    if a.dtype == sample.dtype:
        return v
    if sample.dtype.kind == "b":
        numbers = v if a.dtype.kind == "f" else c.one("Cast", v, to=dtype_number("float32"))
        return c.one("Greater", numbers, c.scalar(float(np.median(c.array(numbers))), c.array(numbers).dtype))
    if a.dtype.kind == "f" and sample.dtype.kind in "iu":
        v = clipped(c, v, float(sample.min()), float(sample.max()))
    if a.dtype.kind == "f" and sample.dtype == np.float16:
        v = clipped(c, v, -100, 100)
    return c.one("Cast", v, to=dtype_number(sample.dtype.name))


def clipped(c: Composer, v: str, low: float, high: float) -> str:
    a = c.array(v)
    if a.size and a.min().item() >= low and a.max().item() <= high:
        return v
    return c.one("Clip", v, c.scalar(low, a.dtype), c.scalar(high, a.dtype))


def fitted(c: Composer, v: str, sample: Array, strict: bool) -> str:
    """Within the sample's range: at least nearly, or exactly if ``strict``."""
    a = c.array(v)
    if a.dtype.kind not in "fiu" or not sample.size:
        return v
    known = sample[np.isfinite(sample)] if sample.dtype.kind == "f" else sample
    low, high = (known.min().item(), known.max().item()) if known.size else (0.0, 1.0)  # exact if whole
    if strict or a.dtype.kind in "iu":
        return clipped(c, v, low, high)
    room = 3 * max(abs(low), abs(high), 0.5)
    most = float(np.abs(a).max(initial=0.0))
    if most <= room:
        return v
    if np.isfinite(most) and c.d.bool():
        factor = 2.0 ** np.floor(np.log2(room / most))
        if factor > 1e-6:
            return c.one("Mul", v, c.scalar(float(factor), a.dtype))
    return clipped(c, v, -room, room)


def reject(why: str) -> None:
    raise Refused(why)
