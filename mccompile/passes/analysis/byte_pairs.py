"""Sums of two scaled bytes, rounded to a byte: by integers or by floats, tried on all 65,536 pairs.

Worked example: a residual connection adds bytes of scale 0.5 and zero point 3, and of 0.25 and 5; its own is 0.5::

    u8(rne((((f32((i32(x0) - 3)) * 0.5) + (f32((i32(x1) - 5)) * 0.25)) * 2.0)))
    sat_u8(asr((i32(x0) * 16777216 + (i32(x1) * 8388608 + -83886080)), 24))        integers
    u8(rne((f32(i32(x0)) * 1.0 + (f32(i32(x1)) * 0.5 + -5.5))))                    floats
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.scalar import Array, uniform
from mccompile.ir.types import F32, I32, DType, TensorType
from mccompile.passes.analysis.fixed_point import TIE
from mccompile.passes.analysis.forms import Form
from mccompile.targets.target import Target

ATOM = 1000
"""Variables from here on stand for parts of an expression that are bytes."""

BYTES = ("i8", "u8")
_CHANNELS = 4096
"""Constant bytes of one axis, at most, that are numbers of channels."""


def with_atoms(
    e: ex.Expr, is_known: Callable[[int], bool], atoms: dict[ex.Expr, ex.Var], top: bool = True
) -> ex.Expr:
    """An expression with its largest parts of 8 bits, but itself and what is made of known variables, as variables:
    these are ``atoms``."""
    if not top and e.dtype.name in BYTES and not all(map(is_known, ex.variables(e))):
        return atoms.setdefault(e, ex.Var(e.dtype, ATOM + len(atoms)))
    return ex.with_operands(e, lambda part: with_atoms(part, is_known, atoms, False))


def is_of_elements(t: TensorType, target: Target) -> bool:
    """Whether constants of a type are the other bytes of pairs, as positions and masks are, not numbers of channels:
    they stay bytes, and 65,536 pairs are tried, not 255 steps of each element. TensorFlow Lite has pairs only."""
    if t.dtype.name not in BYTES or t.count <= 1:
        return False
    channels = sum(extent != 1 for extent in t.shape) == 1 and t.count <= _CHANNELS
    return not channels or target.requant == "tflite"


def sum_in_integers(
    form: Form, cores: Mapping[ex.Expr, Array], wanted: Array, dtype: DType, ties: bool
) -> ex.Expr | None:
    """Scaled integers, added, shifted and saturated, that are right for every pair of bytes."""
    if max(abs(float(n)) for n in (form.offset, *form.terms.values())) >= 2.0**31:
        return None  # it would fit no 32 bits
    real = form.offset + sum(form.terms[core] * a for core, a in cores.items())
    info = np.iinfo(dtype.numpy.name)
    for s in range(24, 3, -1):
        factors = {core: int(np.rint(float(scale) * 2.0**s)) for core, scale in form.terms.items()}
        c = int(np.rint((float(form.offset) + 0.5) * 2.0**s))
        largest = abs(c) + sum(abs(factors[core]) * int(np.abs(a).max()) for core, a in cores.items())
        if largest >= 2**31:
            continue
        raw = (sum(factors[core] * a for core, a in cores.items()) + c) >> s
        for low, high in ((info.min, info.max), (int(wanted.min()), int(wanted.max()))):
            if right(np.clip(raw, low, high), wanted, real, ties):
                break
        else:
            return None
        total: ex.Expr = ex.num(c, I32)
        for core, factor in factors.items():
            total = ex.apply("add", ex.apply("mul", core, ex.num(factor, I32)), total)
        return cut_off(ex.apply("asr", total, ex.num(s, I32)), low, high, dtype)
    return None


def sum_in_floats(
    form: Form,
    cores: Mapping[ex.Expr, Array],
    wanted: Array,
    dtype: DType,
    read: Callable[[int], Array],
    leaves: Collection[int],
    ties: bool,
) -> ex.Expr | None:
    """Two scaled bytes and an offset in f32, each scale and zero point merged into one number, that are right for
    every pair. Bytes that are read as they lie in memory, ``leaves``, are without their zero point.

    u8(rne((((f32((i32(x0) - 3)) * 0.5) + (f32((i32(x1) - 5)) * 0.25)) * 2.0)))    six operations inside rne
    u8(rne(((f32(i32(x0)) * 1.0) + ((f32(i32(x1)) * 0.5) + -5.5))))                two that multiply and add
    """
    if form.apart or len(cores) != 2 or any(np.size(n) > 1 for n in (form.offset, *form.terms.values())):
        return None
    offset = float(form.offset)
    products: list[tuple[ex.Expr, float]] = []
    for core, values in cores.items():
        scale, byte = float(form.terms[core]), core
        atoms = [v for v in ex.distinct(core) if isinstance(v, ex.Var)]
        if len(atoms) == 1 and atoms[0].index in leaves:
            less = values - read(atoms[0].index).astype(np.int64)
            if uniform(less):
                byte, offset = ex.convert(atoms[0], I32), offset + scale * float(less.flat[0])
        products.append((ex.convert(byte, F32), scale))
    if max(abs(n) for n in (offset, *(scale for _, scale in products))) > float(np.finfo(np.float32).max):
        return None
    first, second = (ex.apply("mul", byte, ex.num(scale, F32)) for byte, scale in products)
    total = ex.apply("add", second, ex.num(offset, F32)) if offset else second
    rounded = ex.apply("rne", ex.apply("add", first, total))
    real = form.offset + sum(form.terms[core] * a for core, a in cores.items())
    info = np.iinfo(dtype.numpy.name)
    raw = np.clip(ex.evaluate(rounded, read), info.min, info.max)
    if raw.min() < wanted.min():
        rounded = ex.apply("max", rounded, ex.num(wanted.min(), F32))
    if raw.max() > wanted.max():
        rounded = ex.apply("min", rounded, ex.num(wanted.max(), F32))
    whole = ex.convert(rounded, dtype)
    return whole if right(ex.evaluate(whole, read).astype(np.int64), wanted, real, ties) else None


def right(got: Array, wanted: Array, real: Array, ties: bool) -> bool:
    """True if results are those of an expression, or, with ``ties``, on the other side of a tie of ``real``, which
    both round.

    The expression is asked for that, too: where it is not ``real``, for a part of it is cut off, there is no tie.
    """
    if not ties:
        return bool((got == wanted).all())
    real = np.clip(real, wanted.min(), wanted.max())
    off = np.maximum(np.abs(got - real), np.abs(wanted - real))
    return not ((got != wanted) & (off > TIE)).any()


def cut_off(e: ex.Expr, low: int, high: int, dtype: DType) -> ex.Expr:
    """Numbers of 32 bits as ``dtype``, between two ends."""
    info = np.iinfo(dtype.numpy.name)
    if low > info.min:
        e = ex.apply("max", e, ex.num(low, I32))
    if high < info.max:
        e = ex.apply("min", e, ex.num(high, I32))
    return ex.apply(f"sat_{dtype.name}", e)
