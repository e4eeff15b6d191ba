"""The element-wise ONNX operators: one table row each, all of them `map` nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.types import BOOL, DTYPES, F32, F64, I8, I32, I64, U8, DType, broadcast_shapes
from mccompile.onnxio import dtype_name
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.narrow_floats import NARROW_FLOATS, ROUND_MODES, rounded
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case, Draw

Build = Callable[[Import, list[ex.Expr]], ex.Expr]

EXACT = {"f32": 0.0, "f16": 0.0}
ROUNDED = {"f32": 3e-7, "f16": 1e-3}
LIBM = {"f32": 2e-6, "f16": 2e-3}


@dataclass(frozen=True)
class Row:
    """One operator: its expression over the inputs, its types and test range.

    ``dtypes`` are drawn in tests; ``low``/``high`` bound the elements; ``special`` adds NaN, inf, -0 and the
    extremes; ``attrs`` draws attributes.
    """

    op_type: str
    arity: int  # 0: any number of inputs, at least one
    build: Build
    dtypes: tuple[str, ...] = ("f32",)
    tolerance: dict[str, float] | None = None
    low: float = -3
    high: float = 3
    special: bool = False
    attrs: Callable[[Draw], dict[str, object]] = lambda d: {}


def _call(fn: str) -> Build:
    return lambda n, x: ex.apply(fn, *x)


def _fold(fn: str) -> Build:
    return lambda n, x: reduce(lambda a, b: ex.apply(fn, a, b), x)


def _mean(n: Import, x: list[ex.Expr]) -> ex.Expr:
    total = _fold("add")(n, x)
    return ex.apply("div", total, ex.num(sum(v is not None for v in n.inputs), total.dtype))


MAX_TERMS = 32
"""Operands of one expression: what has more is made of several, each of which begins with the one before."""


def _bounded(n: Import, fn: str, operands: list[Value]) -> list[Value]:
    """At most `MAX_TERMS` operands of the same result, from the left as one expression would go, and computed in its
    type: sums of halves on the way are floats.

    Sum(a, b, ... 40 operands) is s + x32 + ... + x39 with s = a + b + ... + x31.
    """
    while len(operands) > MAX_TERMS:
        first, rest = operands[:MAX_TERMS], operands[MAX_TERMS:]
        distinct = list(dict.fromkeys(first))
        body = _fold(fn)(n, [ex.var(distinct.index(v), v.dtype) for v in first])
        operands = [n.map(body, distinct, f"first{len(rest)}"), *rest]
    return operands


def _const(like: ex.Expr, value: float) -> ex.Expr:
    return ex.num(value, like.dtype)


def _clamp(x: ex.Expr, low: float, high: float) -> ex.Expr:
    return ex.apply("min", ex.apply("max", x, _const(x, low)), _const(x, high))


def _leaky(x: ex.Expr, slope: ex.Expr) -> ex.Expr:
    return ex.apply("select", ex.apply("lt", x, _const(x, 0)), ex.apply("mul", slope, x), x)


def _exp_below_zero(x: ex.Expr, scale: ex.Expr, inner: ex.Expr) -> ex.Expr:
    """x for x > 0, else scale * (exp(inner) - 1)."""
    low = ex.apply("mul", scale, ex.apply("sub", ex.apply("exp", inner), _const(x, 1)))
    return ex.apply("select", ex.apply("gt", x, _const(x, 0)), x, low)


def _elu(n: Import, v: list[ex.Expr]) -> ex.Expr:
    return _exp_below_zero(v[0], _const(v[0], n.attr("alpha", 1.0)), v[0])


def _celu(n: Import, v: list[ex.Expr]) -> ex.Expr:
    alpha = _const(v[0], n.attr("alpha", 1.0))
    return _exp_below_zero(v[0], alpha, ex.apply("div", v[0], alpha))


def _selu(n: Import, v: list[ex.Expr]) -> ex.Expr:
    alpha, gamma = n.attr("alpha", 1.67326319217681884765625), n.attr("gamma", 1.05070102214813232421875)
    inner = _exp_below_zero(v[0], _const(v[0], alpha), v[0])
    return ex.apply("mul", _const(v[0], gamma), inner)


def _hard_sigmoid(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return _clamp(ex.apply("add", ex.apply("mul", x, _const(x, alpha)), _const(x, beta)), 0, 1)


def _softplus(x: ex.Expr) -> ex.Expr:
    """max(x, 0) + log1p(exp(-|x|)): does not overflow."""
    tail = ex.apply("log1p", ex.apply("exp", ex.apply("neg", ex.apply("abs", x))))
    return ex.apply("add", ex.apply("max", x, _const(x, 0)), tail)


def _gelu(n: Import, v: list[ex.Expr]) -> ex.Expr:
    x = v[0]
    approximate = n.attr("approximate", "none")
    if approximate not in ("none", "tanh"):
        raise n.error(f"approximate {approximate!r} is unknown", "none and tanh are known")
    if approximate == "tanh":
        cube = ex.apply("mul", ex.apply("mul", x, x), x)
        inner = ex.apply("add", x, ex.apply("mul", _const(x, 0.044715), cube))
        gate = ex.apply("tanh", ex.apply("mul", _const(x, float(np.sqrt(2 / np.pi))), inner))
    else:
        gate = ex.apply("erf", ex.apply("mul", x, _const(x, float(np.sqrt(0.5)))))
    return ex.apply("mul", ex.apply("mul", _const(x, 0.5), x), ex.apply("add", gate, _const(x, 1)))


def _clip(n: Import, v: list[ex.Expr]) -> ex.Expr:
    x = v[0]
    bounds = iter(v[1:])
    if n.optional(1) is not None:
        x = ex.apply("max", x, next(bounds))
    if n.optional(2) is not None:
        x = ex.apply("min", x, next(bounds))
    return x


def _mod(n: Import, v: list[ex.Expr]) -> ex.Expr:
    return ex.apply("fmod" if n.flag("fmod") else "mod", v[0], v[1])


def _pow(n: Import, v: list[ex.Expr]) -> ex.Expr:
    """The exponent may have a type of its own; the result has the base's. Small whole constants multiply."""
    if n.is_const(1) and (exponent := n.const(1, "exponent")).size == 1 and v[0].dtype.is_float:
        known = {2.0: ex.apply("mul", v[0], v[0]), 0.5: ex.apply("sqrt", v[0]), 1.0: v[0]}
        if float(exponent.reshape(-1)[0]) in known and exponent.ndim <= len(n.input(0).shape):
            return known[float(exponent.reshape(-1)[0])]
    base, power = v
    if not base.dtype.is_float and (whole := _whole_exponent(n)) is not None:
        return ex.apply("pow", base, ex.num(whole, base.dtype))
    wide = _pow_dtype(n, base.dtype, power.dtype)
    return ex.convert(ex.apply("pow", ex.convert(base, wide), ex.convert(power, wide)), base.dtype)


def _whole_exponent(n: Import) -> int | None:
    """The exponent of every element, if it is a constant that is whole and not negative, and i32 holds it."""
    given = n.const(1, "exponent") if n.is_const(1) else np.zeros(0)
    if given.size != 1 or given.ndim > len(n.input(0).shape):
        return None
    value = float(given.reshape(-1)[0])
    return int(value) if value.is_integer() and 0 <= value < 2**31 else None


def _pow_dtype(n: Import, base: DType, exponent: DType) -> DType:
    """The type a power is computed in, so that neither operand loses a digit that matters.

    i32 ** i64 in i64: i32(2**32 + 1) would be 1. i32 ** f32 in f64: 4097**2 has more digits than f32. f32 ** i64 in
    f64, for the sign of (-1)**16777217; but in f32 where the exponent is a constant that f32 holds.
    """
    if not base.is_float and not exponent.is_float:
        if exponent.kind == "u" and exponent.nbytes >= base.nbytes:
            return DTYPES["u64" if exponent.nbytes == 8 else "i64"]
        return exponent if exponent.nbytes > base.nbytes else base
    if base == exponent or (base.is_float and exponent.is_float and exponent.nbytes <= base.nbytes):
        return base
    if base.is_float and exponent.nbytes < base.compute.nbytes:
        return base
    if base.is_float and n.is_const(1):
        given = n.const(1, "exponent")
        if np.array_equal(given.astype(base.compute.numpy).astype(given.dtype), given):
            return base
    return DTYPES["f64"]


def _cast(n: Import, v: list[ex.Expr]) -> ex.Expr:
    """Float to bool is != 0; float to integer saturates where ONNX leaves it undefined."""
    target = _cast_target(n)
    if target == BOOL:
        return _is_true(v[0])
    if target.name == "f16":
        return ex.convert(v[0], F32)
    if v[0].dtype == BOOL:
        return ex.apply("select", v[0], ex.num(1, target), ex.num(0, target))
    return ex.convert(v[0], target)


def _is_true(x: ex.Expr) -> ex.Expr:
    return x if x.dtype == BOOL else ex.apply("not", ex.apply("eq", x, _const(x, 0)))


def _cast_target(n: Import) -> DType:
    name = dtype_name(n.required("to", int))
    if name not in DTYPES:
        raise n.error(f"Cast to {name} is not supported")
    return DTYPES[name]


def _isinf(n: Import, v: list[ex.Expr]) -> ex.Expr:
    checks = []
    if n.flag("detect_positive", True):
        checks.append(ex.apply("eq", v[0], _const(v[0], np.inf)))
    if n.flag("detect_negative", True):
        checks.append(ex.apply("eq", v[0], _const(v[0], -np.inf)))
    if not checks:
        return ex.apply("lt", v[0], v[0])
    return reduce(lambda a, b: ex.apply("or", a, b), checks)


def _shift(n: Import, v: list[ex.Expr]) -> ex.Expr:
    functions = {"LEFT": "shl", "RIGHT": "shr"}
    direction = n.required("direction", str)
    if direction not in functions:
        raise n.error(f"direction {direction!r} is unknown", "LEFT and RIGHT are known")
    return ex.apply(functions[direction], *v)


def _unary(fn: Callable[[ex.Expr], ex.Expr]) -> Build:
    return lambda n, v: fn(v[0])


def _thresholded(n: Import, v: list[ex.Expr]) -> ex.Expr:
    above = ex.apply("gt", v[0], _const(v[0], n.attr("alpha", 1.0)))
    return ex.apply("select", above, v[0], _const(v[0], 0))


def _shrink(n: Import, v: list[ex.Expr]) -> ex.Expr:
    """`lambd` and `bias` need be no numbers of the operand's type: whole ones are compared in f64 (-0.5 is neither 0
    nor, in u8, 255), and those that a fraction is added to are computed in it. What leaves their type wraps."""
    x, lambd, bias = v[0], n.attr("lambd", 0.5), n.attr("bias", 0.0)
    own = x.dtype
    wide = own if own.is_float else F64
    far = ex.convert(x, wide)
    above, below = ex.apply("gt", far, _const(far, lambd)), ex.apply("lt", far, _const(far, -lambd))
    if own.is_float or bias == 0:
        moved: list[ex.Expr] = [ex.apply(by, x, _const(x, bias)) for by in ("add", "sub")]
    else:
        apart = [ex.apply(by, far, _const(far, bias)) for by in ("add", "sub")]
        moved = [ex.convert(y if own.nbytes == 8 else ex.convert(y, I64), own) for y in apart]
    return ex.apply("select", below, moved[0], ex.apply("select", above, moved[1], _const(x, 0)))


def _mish(x: ex.Expr) -> ex.Expr:
    return ex.apply("mul", x, ex.apply("tanh", _softplus(x)))


def _hard_swish(x: ex.Expr) -> ex.Expr:
    return ex.apply("mul", x, _hard_sigmoid(x, 1 / 6, 0.5))


def _round(n: Import, v: list[ex.Expr]) -> ex.Expr:
    return ex.apply("rne", v[0])


_INTS = ("i32", "i64", "i8", "u8")
_NUMERIC = ("f32", "f16", "i32", "i64", "i8", "u8")

ROWS: tuple[Row, ...] = (
    Row("Add", 2, _call("add"), _NUMERIC, ROUNDED, special=True),
    Row("Sub", 2, _call("sub"), _NUMERIC, ROUNDED, special=True),
    Row("Mul", 2, _call("mul"), _NUMERIC, ROUNDED, special=True),
    Row("Div", 2, _call("div"), ("f32", "f16", "i32", "i64"), ROUNDED, low=1, high=9),
    Row("Mod", 2, _mod, ("i32", "i64", "f32"), ROUNDED, low=1, high=9,
        attrs=lambda d: {"fmod": 1}),
    Row("Pow", 2, _pow, ("f32",), {"f32": 4e-6}, low=0.1, high=3),
    Row("Max", 0, _fold("max"), ("f32", "i32", "i64"), EXACT, special=True),
    Row("Min", 0, _fold("min"), ("f32", "i32", "i64"), EXACT, special=True),
    Row("Sum", 0, _fold("add"), ("f32",), ROUNDED),
    Row("Mean", 0, _mean, ("f32",), ROUNDED),
    Row("Neg", 1, _call("neg"), ("f32", "i32", "i64", "i8"), EXACT, special=True),
    Row("Abs", 1, _call("abs"), ("f32", "i32", "i64", "u8"), EXACT, special=True),
    Row("Sign", 1, _call("sign"), ("f32", "i32", "i64"), EXACT),
    Row("Relu", 1, _call("relu"), ("f32", "f16", "i32"), EXACT),
    Row("Sqrt", 1, _call("sqrt"), ("f32",), ROUNDED, low=0, high=9),
    Row("Reciprocal", 1, lambda n, v: ex.apply("div", _const(v[0], 1), v[0]), ("f32",), ROUNDED, low=0.2),
    Row("Exp", 1, _call("exp"), ("f32", "f16"), LIBM),
    Row("Log", 1, _call("log"), ("f32",), LIBM, low=0.1, high=9),
    Row("Sin", 1, _call("sin"), ("f32",), LIBM),
    Row("Cos", 1, _call("cos"), ("f32",), LIBM),
    Row("Tan", 1, _call("tan"), ("f32",), LIBM, low=-1.2, high=1.2),
    Row("Asin", 1, _call("asin"), ("f32",), LIBM, low=-0.99, high=0.99),
    Row("Acos", 1, _call("acos"), ("f32",), LIBM, low=-0.99, high=0.99),
    Row("Atan", 1, _call("atan"), ("f32",), LIBM),
    Row("Sinh", 1, _call("sinh"), ("f32",), LIBM),
    Row("Cosh", 1, _call("cosh"), ("f32",), LIBM),
    Row("Asinh", 1, _call("asinh"), ("f32",), LIBM),
    Row("Acosh", 1, _call("acosh"), ("f32",), LIBM, low=1.01, high=5),
    Row("Atanh", 1, _call("atanh"), ("f32",), LIBM, low=-0.9, high=0.9),
    Row("Tanh", 1, _call("tanh"), ("f32", "f16"), LIBM),
    Row("Erf", 1, _call("erf"), ("f32",), LIBM),
    Row("Sigmoid", 1, _call("sigmoid"), ("f32", "f16"), LIBM),
    Row("Softplus", 1, _unary(_softplus), ("f32",), LIBM),
    Row("Softsign", 1,
        lambda n, v: ex.apply("div", v[0], ex.apply("add", ex.apply("abs", v[0]), _const(v[0], 1))),
        ("f32",), LIBM),
    Row("Mish", 1, _unary(_mish), ("f32",), LIBM),
    Row("Floor", 1, _call("floor"), ("f32",), EXACT),
    Row("Ceil", 1, _call("ceil"), ("f32",), EXACT),
    Row("Round", 1, _round, ("f32",), EXACT),
    Row("Elu", 1, _elu, ("f32",), LIBM, attrs=lambda d: {"alpha": d.choice([1.0, 0.5])}),
    Row("Celu", 1, _celu, ("f32",), LIBM, attrs=lambda d: {"alpha": d.choice([1.0, 0.5])}),
    Row("Selu", 1, _selu, ("f32",), LIBM),
    Row("Gelu", 1, _gelu, ("f32",), LIBM, attrs=lambda d: {"approximate": d.choice(["none", "tanh"])}),
    Row("LeakyRelu", 1,
        lambda n, v: _leaky(v[0], _const(v[0], n.attr("alpha", 0.01))), ("f32", "f16"), ROUNDED,
        attrs=lambda d: {"alpha": d.choice([0.01, 0.3])}),
    Row("PRelu", 2, lambda n, v: _leaky(v[0], v[1]), ("f32",), ROUNDED),
    Row("ThresholdedRelu", 1, _thresholded, ("f32",), EXACT, attrs=lambda d: {"alpha": 0.5}),
    Row("Shrink", 1, _shrink, ("f32",), ROUNDED,
        attrs=lambda d: {"lambd": 0.4, "bias": d.choice([0.0, 0.2])}),
    Row("HardSigmoid", 1,
        lambda n, v: _hard_sigmoid(v[0], n.attr("alpha", 0.2), n.attr("beta", 0.5)), ("f32",), ROUNDED,
        attrs=lambda d: {"alpha": d.choice([0.2, 1 / 6])}),
    Row("HardSwish", 1, _unary(_hard_swish), ("f32",), ROUNDED),
    Row("Equal", 2, _call("eq"), ("f32", "i32", "i64"), low=0, high=2, special=True),
    Row("Less", 2, _call("lt"), ("f32", "i32", "i64"), special=True),
    Row("LessOrEqual", 2, _call("le"), ("f32", "i32", "i64"), low=0, high=2),
    Row("Greater", 2, _call("gt"), ("f32", "i32", "i64"), special=True),
    Row("GreaterOrEqual", 2, _call("ge"), ("f32", "i32", "i64"), low=0, high=2),
    Row("And", 2, _call("and"), ("bool",)),
    Row("Or", 2, _call("or"), ("bool",)),
    Row("Xor", 2, _call("xor"), ("bool",)),
    Row("Not", 1, _call("not"), ("bool",)),
    Row("BitwiseAnd", 2, _call("and"), ("i32", "u8")),
    Row("BitwiseOr", 2, _call("or"), ("i32", "u8")),
    Row("BitwiseXor", 2, _call("xor"), ("i32", "u8")),
    Row("BitwiseNot", 1, _call("bitnot"), ("i32", "u8")),
    Row("BitShift", 2, _shift, ("u8", "u32"), low=0, high=7,
        attrs=lambda d: {"direction": d.choice(["LEFT", "RIGHT"])}),
    Row("IsNaN", 1, _call("isnan"), ("f32",), special=True),
    Row("IsInf", 1, _isinf, ("f32",), special=True,
        attrs=lambda d: {"detect_negative": d.int(0, 1), "detect_positive": d.int(0, 1)}),
)  # fmt: skip


_TERMS = {"Max": "max", "Min": "min", "Sum": "add", "Mean": "add"}
"""What operators of any number of inputs do with two of them."""


def emit_map(n: Import, build: Build, operands: list[Value], storage: str | None = None) -> None:
    """Emit ``build`` over ``operands``; each is read once, so that equal operands share a variable."""
    distinct = list(dict.fromkeys(operands))
    body = build(n, [ex.var(distinct.index(v), v.dtype) for v in operands])
    read = sorted(ex.variables(body))
    whole = broadcast_shapes(*(v.shape for v in distinct))
    if broadcast_shapes(*(distinct[i].shape for i in read)) != whole:
        raise n.error("an operand that only broadcasts is not supported here")
    body = ex.substitute(body, lambda v: ex.var(read.index(v.index), v.dtype))
    if storage is None:
        storage = _storage(operands) if body.dtype == F32 else ""
    n.emit(Map(body, storage), [distinct[i] for i in read])


def _storage(operands: list[Value]) -> str:
    """What a result of f32 is stored as: the first operand that is of floats has its type, of Pow the base."""
    kind = next((v.dtype.name for v in operands if v.dtype.is_float), "")
    return "f16" if kind == "f16" else ""


def _front_end(row: Row) -> FrontEnd:
    def convert(n: Import) -> None:
        operands = [v for v in n.inputs if v is not None]
        if row.arity and len(operands) != row.arity:
            raise n.error(f"{row.op_type} takes {row.arity} inputs")
        if row.arity:
            emit_map(n, row.build, operands)
        else:
            emit_map(n, row.build, _bounded(n, _TERMS[row.op_type], operands), _storage(operands))

    def sample(d: Draw) -> Case:
        dtype = d.choice(row.dtypes)
        shape = d.shape(d.int(0, 4))
        arity = row.arity or d.choice((1, 2, 3, 4, MAX_TERMS + 2))
        draw = d.special if row.special and d.bool() and dtype != "f16" else None
        inputs = []
        for i in range(arity):
            unidirectional = row.op_type == "PRelu" and i == 0
            s = shape if unidirectional or arity == 1 else d.broadcastable(shape)
            low = max(row.low, 0) if dtype[0] == "u" else row.low
            inputs.append(draw(s, dtype) if draw else d.array(s, dtype, low, row.high))
        return Case(inputs, row.attrs(d))

    return FrontEnd(row.op_type, convert, sample, row.tolerance or {})


def _clip_front_end(n: Import) -> None:
    operands = [v for v in n.inputs if v is not None]
    if len(operands) == 1:
        n.bind(0, operands[0])
        return
    emit_map(n, _clip, operands)


def _sample_clip(d: Draw) -> Case:
    dtype = d.choice(["f32", "i32", "f16"])
    bounds = [d.array((), dtype, -1, 0) if d.bool() else None, d.array((), dtype, 0, 1) if d.bool() else None]
    return Case([d.array(d.shape(d.int(0, 4)), dtype), *bounds], {}, frozenset({1, 2}))


def _cast_front_end(n: Import) -> None:
    name = dtype_name(n.required("to", int))
    saturate, mode = n.flag("saturate", True), n.attr("round_mode", "up")
    if name in NARROW_FLOATS:
        if mode not in ROUND_MODES:
            raise n.error(f"round_mode {mode!r} is unknown", f"{', '.join(ROUND_MODES)} are known")
        n.narrow_result = name
        emit_map(n, lambda n, v: rounded(_number(v[0]), name, saturate, mode), [n.input(0)], "")
        return
    if name in _FIELDS:
        n.narrow_result = name
        emit_map(n, lambda n, v: _field(v[0], *_FIELDS[name]), [n.input(0)])
        return
    if n.input(0).dtype == _cast_target(n) and not n.narrow(0):
        n.bind(0, n.input(0))
        return
    emit_map(n, _cast, [n.input(0)], "f16" if _cast_target(n).name == "f16" else "")


def _number(x: ex.Expr) -> ex.Expr:
    return ex.apply("select", x, ex.num(1, F32), ex.num(0, F32)) if x.dtype == BOOL else ex.convert(x, F32)


_FIELDS = {"i4": (I8, 4), "u4": (U8, 4), "i2": (I8, 2), "u2": (U8, 2)}
"""Integers below 8 bits: the type that holds them, and their bits."""


def _field(x: ex.Expr, holder: DType, bits: int) -> ex.Expr:
    """The low bits of a number, as a whole number of the type that holds it: of 9, -7 as a signed one of 4."""
    if x.dtype == BOOL:
        x = ex.apply("select", x, ex.num(1, holder), ex.num(0, holder))
    low = np.arange(256) & (1 << bits) - 1
    signed = np.where(low >= 1 << bits - 1, low - (1 << bits), low) if holder == I8 else low
    whole = ex.convert(x, I32) if x.dtype.is_float else x  # of floats below 0 the low bits count, too
    return ex.lookup(ex.convert(whole, U8), signed.astype(holder.numpy))


_ONNX_DTYPE = {"f32": 1, "u8": 2, "i8": 3, "i32": 6, "i64": 7, "bool": 9, "f16": 10}


def _sample_cast(d: Draw) -> Case:
    source, target = d.choice(sorted(_ONNX_DTYPE)), d.choice(sorted(_ONNX_DTYPE))
    low = 0 if "u8" in (source, target) else -9
    return Case([d.array(d.shape(d.int(0, 3)), source, low, 9)], {"to": _ONNX_DTYPE[target]})


def _where_front_end(n: Import) -> None:
    operands = [n.input(i) for i in range(3)]
    emit_map(n, lambda _, v: ex.apply("select", *v), operands)


def _sample_where(d: Draw) -> Case:
    shape, dtype = d.shape(d.int(0, 4)), d.choice(["f32", "i64", "bool", "f16"])
    kinds = ["bool", dtype, dtype]
    return Case([d.array(d.broadcastable(shape), k) for k in kinds])


FRONT_ENDS: tuple[FrontEnd, ...] = (
    *map(_front_end, ROWS),
    FrontEnd("Clip", _clip_front_end, _sample_clip, {}),
    FrontEnd("Cast", _cast_front_end, _sample_cast, {"f16": 0.0}),
    FrontEnd("Where", _where_front_end, _sample_where, {}),
)
