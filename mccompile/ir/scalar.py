"""The scalar functions of expressions: one row each, with numpy meaning, scalar C, and error bound.

``c`` maps an element kind to a C expression over ``{0} {1} {2}``; the placeholders ``{t}`` and ``{u}``
stand for the C type and its unsigned twin, ``{s}`` for the type's suffix (``f32``), ``{f}`` for the
suffix of a libm function (``f`` for float). Names that start with ``mcc_`` are helpers of
``kernels_templates/_lib/scalar.c.j2``; only those used are printed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import partial
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.ir.same_bits import by_f64, exp, log
from mccompile.ir.small_floats import ROUNDINGS, SMALL_FLOATS, bf16_bits, bf16_values, power_bits

Array = np.ndarray[Any, np.dtype[Any]]


def array_of(what: str, given: Any) -> Array:
    """An array of what a user gives. UsageError where rows of a list differ in length."""
    try:
        return np.asarray(given)
    except ValueError as e:
        raise UsageError(f"what is given for {what} is no array: {e}") from e


def conversion(given: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """How to make elements of one type those of another. Inputs of bfloat16, which C has not, take its bits.

    >>> conversion(np.dtype(np.float64), np.dtype(np.float32))
    'convert it: array.astype(np.float32)'
    """
    package = "np" if wanted.type.__module__ == "numpy" else wanted.type.__module__
    way = f"convert it: array.astype({package}.{wanted.type.__name__})"
    if wanted == np.uint16 and given.kind not in "biu":
        way += "; or give the bits of bfloat16, if it is that: array.astype(ml_dtypes.bfloat16).view(np.uint16)"
    return way


def as_computed(a: Array | None) -> Array | None:
    """An operand in the type that its elements are computed in: halves as floats."""
    return a.astype(np.float32) if a is not None and a.dtype == np.float16 else a


def uniform(a: Array) -> bool:
    """Whether there are elements and all are equal, or all NaN. `np.unique` sorts them, and imports `numpy.ma`, which
    takes 2 % of the time of a small network.

    >>> [uniform(np.array(a)) for a in ([3, 3], [3, 4], [np.nan, np.nan], [])]
    [True, False, True, False]
    """
    return bool(a.size and ((a == a.flat[0]).all() or (a != a).all()))


@dataclass(frozen=True)
class ScalarFn:
    """One scalar function.

    ``result`` is "same" (the type of the last operand) or the name of a type, ``operand`` the only type that operands
    may have where that is said. ``ulp`` bounds the C result's distance
    from the exact value in units in the last place of f32 (0: exactly rounded or exact). ``vector`` is the C
    over vectors of a kind of elements (of floats "f", of masks "b"), in which ``{t}`` and ``{u}`` are C types of
    vectors and ``{s}`` ends the names of their primitives (`ir/vector.py`); without one, lanes go one by one.
    """

    name: str
    arity: int
    numpy: Callable[..., Array]
    c: dict[str, str]
    result: str = "same"
    operand: str = ""
    infix: str = ""
    ulp: float = 0
    vector: dict[str, str] = field(default_factory=dict)


def _erf(x: Array) -> Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x), dtype=x.dtype)


def _wrap(symbol: str) -> dict[str, str]:
    """Arithmetic: floats as they are, integers through unsigned so that overflow wraps."""
    plain = "{0} " + symbol + " {1}"
    wrapped = "({t})(({u}){0} " + symbol + " ({u}){1})"
    return {"f": plain, "i": wrapped, "u": wrapped}


def _compare(symbol: str) -> dict[str, str]:
    text = "(uint8_t)({0} " + symbol + " {1})"
    return {"f": text, "i": text, "u": text, "b": text}


def _lanes(symbol: str) -> dict[str, str]:
    """Comparisons of vectors."""
    return dict.fromkeys("fi", "{0} " + symbol + " {1}")


def _libm(name: str) -> dict[str, str]:
    return {"f": name + "{f}({0})"}


def _int_div(a: Array, b: Array) -> Array:
    """Division that truncates towards zero; x / 0 gives 0 and INT_MIN / -1 wraps, as the C helper does."""
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = np.floor_divide(a, safe)
    inexact = (quotient * safe != a) & ((a < 0) != (safe < 0))
    return np.where(b == 0, np.zeros_like(a), quotient + inexact.astype(a.dtype))


def _int_mod(a: Array, b: Array) -> Array:
    """Python's sign rule (ONNX Mod, fmod=0); x mod 0 gives 0."""
    if a.dtype.kind == "f":
        return np.mod(a, b)
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.mod(a, safe))


def _fmod(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.fmod(a, b)
    safe = np.where(b == 0, np.ones_like(b), b)
    return np.where(b == 0, np.zeros_like(a), np.fmod(a, safe))


def _pow(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return by_f64(np.power)(a, b)
    below = np.where(np.abs(a) == 1, np.where(b & 1, a, np.ones_like(a)), np.zeros_like(a))  # 1 / a**-b
    return np.where(b < 0, below, np.power(a, np.maximum(b, 0)))


def _round_f16(x: Array) -> Array:
    # float64 is a wide evaluation, in which no storage rounds.
    return x if x.dtype == np.float64 else x.astype(np.float16).astype(x.dtype)


def _shift(op: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    """Shifts by less than no or by all bits leave the sign alone: -1 if a negative number goes right, else 0."""

    def shifted(a: Array, b: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        left = np.where((a < 0) & (op is np.right_shift), -1, 0).astype(a.dtype)
        return np.where((b >= 0) & (b < bits), op(a, b % bits), left).astype(a.dtype)

    return shifted


def _relu(x: Array) -> Array:
    return np.where(x < 0, np.zeros_like(x), x)


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + exp(-x)), dtype=x.dtype)


def _mulhi(a: Array, b: Array) -> Array:
    """The high half of a product of 64 bits: the product over 2^32, rounded down."""
    return np.asarray((a.astype(np.int64) * b.astype(np.int64)) >> 32).astype(np.int32)


def _asr(a: Array, b: Array) -> Array:
    """Over 2^b, rounded down; b from 0 to 31."""
    return np.asarray(np.right_shift(a, b & 31))


def _saturated(dtype: str) -> Callable[[Array], Array]:
    info = np.iinfo(dtype)
    return lambda x: np.clip(x, info.min, info.max).astype(dtype)


def _clamped(dtype: str) -> str:
    """Saturation of vectors."""
    info = np.iinfo(dtype)
    return f"mcc_vmin{{s}}(mcc_vmax{{s}}({{0}}, mcc_vset{{s}}({info.min})), mcc_vset{{s}}({info.max}))"


_SATURATED = {"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16"}

_HELPER2 = dict.fromkeys("fiu", "mcc_{name}_{s}({0}, {1})")


def _helper(name: str) -> dict[str, str]:
    return {k: text.replace("{name}", name) for k, text in _HELPER2.items()}


def _round_bf16(x: Array) -> Array:
    return x if x.dtype == np.float64 else bf16_values(bf16_bits(x))


def _small_floats() -> Iterator[ScalarFn]:
    """What gives the bits of the nearest small floats: ``f8e5m2_bits`` saturates, ``f8e5m2_bits_beyond`` not."""
    for saturate in (True, False):
        suffix = "bits" if saturate else "bits_beyond"
        for name, form in SMALL_FLOATS.items():
            rounded = partial(form.bits, saturate=saturate)
            yield ScalarFn(f"{name}_{suffix}", 1, rounded, {"f": form.c(saturate)}, result="u8", operand="f32")
        for mode, number in ROUNDINGS.items():
            rounded = partial(power_bits, rounding=mode, saturate=saturate)
            text = f"mcc_power_bits({{0}}, {number}, {254 if saturate else 255})"
            yield ScalarFn(f"f8e8m0_{suffix}_{mode}", 1, rounded, {"f": text}, result="u8", operand="f32")


_BITS = {"and": "&", "or": "|", "xor": "^"}

_ROWS: tuple[ScalarFn, ...] = (
    ScalarFn("add", 2, np.add, _wrap("+"), infix="+", vector=_wrap("+")),
    ScalarFn("sub", 2, np.subtract, _wrap("-"), infix="-", vector=_wrap("-")),
    ScalarFn("mul", 2, np.multiply, _wrap("*"), infix="*", vector=_wrap("*")),
    ScalarFn(
        "div", 2, _int_div, {**_helper("div"), "f": "{0} / {1}"}, infix="/",
        vector={"f": "{0} / {1}", "i": "mcc_vdiv{s}({0}, {1})"},
    ),
    ScalarFn("mod", 2, _int_mod, _helper("mod"), vector={"i": "mcc_vmod{s}({0}, {1})"}),
    ScalarFn(
        "fmod", 2, _fmod, {**_helper("rem"), "f": "fmod{f}({0}, {1})"},
        vector={"f": "mcc_vfmod({0}, {1})", "i": "mcc_vrem{s}({0}, {1})"},
    ),
    ScalarFn(
        "pow", 2, _pow, {**_helper("pow"), "f": "pow{f}({0}, {1})"}, ulp=2, vector={"f": "mcc_vpow({0}, {1})"}
    ),
    ScalarFn("max", 2, np.maximum, _helper("max"), vector=dict.fromkeys("fi", "mcc_vmax{s}({0}, {1})")),
    ScalarFn("min", 2, np.minimum, _helper("min"), vector=dict.fromkeys("fi", "mcc_vmin{s}({0}, {1})")),
    ScalarFn(
        "neg", 1, np.negative, {"f": "-{0}", "i": "({t})(({u})0 - ({u}){0})"},
        vector={"f": "-{0}", "i": "({t})(-({u}){0})"},
    ),
    ScalarFn(
        "abs", 1, np.abs, {"f": "fabs{f}({0})", "i": "mcc_abs_{s}({0})", "u": "{0}"},
        vector={"f": "mcc_vabs({0})", "i": "mcc_vmax{s}({0}, ({t})(-({u}){0}))"},
    ),
    ScalarFn("sign", 1, np.sign, dict.fromkeys("fiu", "mcc_sign_{s}({0})"), vector={"f": "mcc_vsign({0})"}),
    ScalarFn(
        "relu", 1, _relu, {"f": "mcc_relu_{s}({0})", "i": "mcc_relu_{s}({0})", "u": "{0}"},
        vector={"f": "mcc_vrelu({0})", "i": "mcc_vmax{s}({0}, mcc_vset{s}(0))"},
    ),
    ScalarFn("sqrt", 1, np.sqrt, _libm("sqrt"), vector={"f": "mcc_vsqrt({0})"}),
    ScalarFn("exp", 1, exp, _libm("exp"), ulp=2, vector={"f": "mcc_vexp({0})"}),
    ScalarFn("exp2", 1, by_f64(np.exp2), {"f": "mcc_exp2_{s}({0})"}, ulp=2, vector={"f": "mcc_vexp2({0})"}),
    ScalarFn("log", 1, log, _libm("log"), ulp=2, vector={"f": "mcc_vlog({0})"}),
    ScalarFn("sin", 1, by_f64(np.sin), _libm("sin"), ulp=2, vector={"f": "mcc_vsin({0})"}),
    ScalarFn("cos", 1, by_f64(np.cos), _libm("cos"), ulp=2, vector={"f": "mcc_vcos({0})"}),
    ScalarFn("tan", 1, by_f64(np.tan), _libm("tan"), ulp=3, vector={"f": "mcc_vtan({0})"}),
    ScalarFn("asin", 1, by_f64(np.arcsin), _libm("asin"), ulp=3, vector={"f": "mcc_vasin({0})"}),
    ScalarFn("acos", 1, by_f64(np.arccos), _libm("acos"), ulp=2, vector={"f": "mcc_vacos({0})"}),
    ScalarFn("atan", 1, by_f64(np.arctan), _libm("atan"), ulp=2, vector={"f": "mcc_vatan({0})"}),
    ScalarFn("sinh", 1, by_f64(np.sinh), _libm("sinh"), ulp=3, vector={"f": "mcc_vsinh({0})"}),
    ScalarFn("cosh", 1, by_f64(np.cosh), _libm("cosh"), ulp=3, vector={"f": "mcc_vcosh({0})"}),
    ScalarFn("asinh", 1, by_f64(np.arcsinh), _libm("asinh"), ulp=3, vector={"f": "mcc_vasinh({0})"}),
    ScalarFn("acosh", 1, by_f64(np.arccosh), _libm("acosh"), ulp=3, vector={"f": "mcc_vacosh({0})"}),
    ScalarFn("atanh", 1, by_f64(np.arctanh), _libm("atanh"), ulp=3, vector={"f": "mcc_vatanh({0})"}),
    ScalarFn("tanh", 1, by_f64(np.tanh), _libm("tanh"), ulp=4, vector={"f": "mcc_vtanh({0})"}),
    ScalarFn("erf", 1, _erf, _libm("erf"), ulp=4, vector={"f": "mcc_verf({0})"}),
    ScalarFn("sigmoid", 1, _sigmoid, {"f": "mcc_sigmoid_{s}({0})"}, ulp=3, vector={"f": "mcc_vsigmoid({0})"}),
    ScalarFn(
        "gate", 2, lambda a, x: a * _sigmoid(x), {"f": "{0} * mcc_sigmoid_{s}({1})"}, ulp=3,
        vector={"f": "mcc_vgate({0}, {1})"},
    ),
    ScalarFn("log1p", 1, by_f64(np.log1p), _libm("log1p"), ulp=4, vector={"f": "mcc_vlog1p({0})"}),
    ScalarFn(
        "floor", 1, np.floor, {**_libm("floor"), "i": "{0}", "u": "{0}"}, vector={"f": "mcc_vfloor({0})"}
    ),
    ScalarFn("ceil", 1, np.ceil, {**_libm("ceil"), "i": "{0}", "u": "{0}"}, vector={"f": "mcc_vceil({0})"}),
    ScalarFn(
        "rounded", 1, lambda x: x, {"f": "mcc_rounded_{s}({0})"}, vector={"f": "mcc_vrounded({0})"}
    ),  # what C compilers may not compute at once with the sum outside
    ScalarFn("rne", 1, np.rint, {"f": "mcc_rne_{s}({0})"}, vector={"f": "mcc_vround({0})"}),
    ScalarFn(
        "round_f16", 1, _round_f16, {"f": "mcc_f16_to_f32(mcc_f32_to_f16({0}))"},
        vector={"f": "mcc_vround_f16({0})"},
    ),
    ScalarFn(
        "round_bf16", 1, _round_bf16, {"f": "mcc_bf16_to_f32(mcc_f32_to_bf16({0}))"}, operand="f32",
        vector={"f": "mcc_vround_bf16({0})"},
    ),
    ScalarFn(
        "bf16_bits", 1, bf16_bits, {"f": "mcc_f32_to_bf16({0})"}, result="u16", operand="f32",
        vector={"f": "mcc_vbits_bf16({0})"},
    ),
    ScalarFn("bf16", 1, bf16_values, {"u": "mcc_bf16_to_f32({0})"}, result="f32", operand="u16"),
    *_small_floats(),
    ScalarFn("eq", 2, np.equal, _compare("=="), result="bool", vector=_lanes("==")),
    ScalarFn("lt", 2, np.less, _compare("<"), result="bool", vector=_lanes("<")),
    ScalarFn("le", 2, np.less_equal, _compare("<="), result="bool", vector=_lanes("<=")),
    ScalarFn("gt", 2, np.greater, _compare(">"), result="bool", vector=_lanes(">")),
    ScalarFn("ge", 2, np.greater_equal, _compare(">="), result="bool", vector=_lanes(">=")),
    ScalarFn("isnan", 1, np.isnan, {"f": "(uint8_t)({0} != {0})"}, result="bool", vector={"f": "{0} != {0}"}),
    ScalarFn("not", 1, np.logical_not, {"b": "(uint8_t)!{0}"}, result="bool", vector={"b": "~{0}"}),
    *(
        ScalarFn(
            n, 2, getattr(np, "bitwise_" + n),
            dict.fromkeys("iub", "({t})({0} " + s + " {1})"), vector=dict.fromkeys("ib", "{0} " + s + " {1}"),
        )
        for n, s in _BITS.items()
    ),
    ScalarFn("bitnot", 1, np.bitwise_not, {"i": "({t})~{0}", "u": "mcc_bitnot_{s}({0})"}, vector={"i": "~{0}"}),
    ScalarFn("shl", 2, _shift(np.left_shift), dict.fromkeys("iu", "mcc_shl_{s}({0}, {1})")),
    ScalarFn("shr", 2, _shift(np.right_shift), dict.fromkeys("iu", "mcc_shr_{s}({0}, {1})")),
    ScalarFn("mulhi", 2, _mulhi, _helper("mulhi"), operand="i32"),
    ScalarFn("asr", 2, _asr, _helper("asr"), operand="i32"),
    *(
        ScalarFn(
            f"sat_{n}", 1, _saturated(dtype), {"i": f"mcc_sat_{n}({{0}})"}, result=n, operand="i32",
            vector={"i": _clamped(dtype)},
        )
        for n, dtype in _SATURATED.items()
    ),
    ScalarFn(
        "select", 3, np.where, dict.fromkeys("fiub", "({0} ? {1} : {2})"),
        vector=dict.fromkeys("fi", "mcc_vselect{s}({0}, {1}, {2})"),
    ),
)

FUNCTIONS: dict[str, ScalarFn] = {row.name: row for row in _ROWS}
