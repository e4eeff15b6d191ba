"""Operators of every front end, on operands of the composition; and forms aimed at what has been wrong before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from mccompile.ir.op import TypeRuleError
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.compose import operands as on
from tests.support.compose.definite import Array, Refused
from tests.support.compose.network import KEPT, Composer, dtype_number

AIMED = (
    "Softmax LogSoftmax Hardmax LayerNormalization RMSNormalization InstanceNormalization GroupNormalization "
    "LpNormalization MeanVarianceNormalization BatchNormalization LRN ReduceL1 ReduceL2 ReduceLogSum "
    "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare ArgMax ArgMin CumSum "
    "MaxPool AveragePool LpPool GlobalAveragePool GlobalMaxPool Conv ConvTranspose MatMul Gemm TopK Resize Einsum "
    "LSTM GRU RNN".split()
)
"""Operators that normalise, reduce, or read windows: what stands before them is read several times."""

STRICT = set("Log Sqrt Acos Asin Acosh Atanh Reciprocal Tan ReduceLogSum ReduceProd Pow Div Sinh Cosh Exp".split())
"""Operators that take a range of numbers only, or grow fast."""

OLDEST = 16
"""Nodes of older opsets may not stand in the file: operators that are gone by now."""

ROUNDING = set("Round Floor Ceil Cast Sign Mod Greater Less Equal GreaterOrEqual LessOrEqual".split())
"""Operators at whose steps special numbers lie."""


def disputed(front_end: FrontEnd, case: Case) -> bool:
    """Forms that the standard leaves open, or where onnxruntime is the one that is off (docs/conformance.md).

    With an accuracy level, onnxruntime rounds operands to 8 bits where weights are constants; here they are inputs.
    """
    attrs = case.attrs
    dilated = any(d != 1 for d in attrs.get("dilations", ()))
    pool = front_end.op_type in ("MaxPool", "AveragePool", "LpPool")
    crop = attrs.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    overflows = "Softplus" in attrs.get("activations", ())
    rounds = bool(attrs.get("accuracy_level"))
    return (pool and dilated and str(attrs.get("auto_pad", "")).startswith("SAME")) or crop or overflows or rounds


def operator(c: Composer, front_end: FrontEnd) -> list[str]:
    """One operator as its sampler draws it, on operands made of what is there."""
    assert front_end.sample is not None
    try:
        case = front_end.sample(c.sampler(c.d.int(0, 10**6)))
    except TypeRuleError as e:  # extents of `wide` are more than windows reckon with
        raise Refused(str(e)) from e
    if disputed(front_end, case):
        raise Refused("disputed")
    if c.chance(10):
        case = _in_halves(front_end, case)
    names = []
    for i, given in enumerate(case.inputs):
        names.append("" if given is None else operand(c, front_end.op_type, case, i, np.asarray(given)))
    while names and not names[-1]:
        names.pop()
    if "..." in str(case.attrs.get("equation")) and len({c.array(n).ndim for n in names}) > 1:
        raise Refused("onnxruntime crashes on ellipses of different ranks")
    opset = case.opset if case.opset >= OLDEST else 0
    return c.apply(front_end.op_type, names, case.outputs, front_end.domain, opset, **case.attrs)


def _in_halves(front_end: FrontEnd, case: Case) -> Case:
    """The case with f16 for f32, where it is no parameter."""
    kept = KEPT.get(front_end.op_type, ())
    halved = [
        a.astype(np.float16) if i not in kept and isinstance(a, np.ndarray) and a.dtype == np.float32 else a
        for i, a in enumerate(case.inputs)
    ]
    return replace(case, inputs=halved)


def operand(c: Composer, op: str, case: Case, i: int, sample: Array) -> str:
    """A constant where the sampler wants one, else a value of the pool, viewed and mapped, or an input."""
    kept = i in KEPT.get(op, ()) or sample.dtype.kind not in "fiub" or not sample.size
    if i in case.constant and (kept or not (sample.dtype.kind == "f" and c.chance(6))):
        return c.constant(sample) if kept else on.constant_like(c, sample)
    if kept:
        return c.constant(sample) if c.chance(30) and sample.dtype.kind in "iu" else on.fresh(c, sample)
    source = c.pick() if c.chance(75) else None
    if source is None:
        if i and c.chance(35):
            return on.constant_like(c, sample)
        v = on.fresh(c, sample, 60 if op in ROUNDING else 8)
    else:
        v = on.reshaped(c, on.retyped(c, source, sample), sample.shape)
    return before(c, v, sample, op in STRICT, 70 if op in AIMED else 45)


def before(c: Composer, v: str, sample: Array, strict: bool, percent: int) -> str:
    """Views and maps in front of an operator, and its range kept."""
    for make in (on.viewed, on.mapped, on.viewed, on.mapped):
        if c.chance(percent // 2 if make is on.viewed else percent):
            v = make(c, v)
            percent //= 2
    return on.fitted(c, v, sample, strict)


# -- aimed forms -----------------------------------------------------------------------------------------------
def _value(c: Composer, shape: Sequence[int], percent: int = 50, low: float = -2, high: float = 2) -> str:
    """A float of a shape: of the pool or an input."""
    sample = np.asarray(c.d.array(shape, "f32", low, high))
    source = c.pick("f") if c.chance(percent) else None
    if source is None:
        return on.fresh(c, sample)
    v = on.reshaped(c, on.retyped(c, source, sample), shape)
    return on.fitted(c, v, sample, False)


NORMALISING = (
    "Softmax", "Softmax", "LogSoftmax", "LayerNormalization", "RMSNormalization", "LpNormalization", "ReduceSum",
    "ReduceMax", "ReduceMean", "ReduceL2", "ReduceLogSumExp", "ArgMax", "CumSum", "MeanVarianceNormalization",
)  # fmt: skip


def along_last(c: Composer, v: str, op: str = "") -> list[str]:
    """A normalisation, sum or choice along the last axis."""
    op = op or c.d.choice(NORMALISING)
    a = c.array(v)
    if op in ("LayerNormalization", "RMSNormalization"):
        ones = np.asarray(c.d.array(a.shape[-1:], "f32", 0.5, 1.5)).astype(a.dtype)
        return c.apply(op, [v, on.constant_like(c, ones)], axis=-1)
    if op in ("Softmax", "LogSoftmax", "LpNormalization"):
        return c.apply(op, [v], axis=-1)
    if op == "MeanVarianceNormalization":
        return c.apply(op, [v], axes=[a.ndim - 1])
    if op == "ArgMax":
        return c.apply(op, [v], axis=-1)
    if op == "CumSum":
        return c.apply(op, [v, c.scalar(a.ndim - 1, np.int64)], reverse=c.d.int(0, 1))
    return c.apply(op, [v, c.ints(a.ndim - 1)], keepdims=c.d.int(0, 1))


def masked(c: Composer) -> list[str]:
    """Scores of which a mask leaves some, normalised; in f32 or f16; rows of 2 to 33 elements."""
    n = c.d.choice([2, 3, 4, 5, 6, 8, 9, 16, 17, 33])
    shape = (c.d.int(1, 2), c.d.int(1, 3), n if c.d.bool() else c.d.int(1, 6), n)
    v = _value(c, shape, low=-6, high=6)
    if c.chance(25):
        v = c.one("Cast", v, to=dtype_number("float16"))
    a = c.array(v)
    hidden = on.mask(c, shape)
    k = c.scalar(c.d.choice([-1e4, -1e3]) if a.dtype == np.float16 else c.d.choice([-1e9, -1e4, -3.0e38]), a.dtype)
    v = c.one("Where", hidden, *([v, k] if c.d.bool() else [k, v]))
    return along_last(c, v, c.d.choice(["Softmax", "Softmax", "LogSoftmax", ""]))


def mapped_and_normalised(c: Composer) -> list[str]:
    shape = (*c.d.shape(c.d.int(0, 2), 1, 5), c.d.int(2, 6), c.d.choice([2, 3, 4, 5, 7, 8, 16, 19]))
    v = _value(c, shape)
    if c.chance(30):
        v = c.one("Cast", v, to=dtype_number("float16"))
    for _ in range(c.d.int(1, 3)):
        v = on.mapped(c, v)
    return along_last(c, v)


def cast_chain(c: Composer) -> list[str]:
    """Through f16 to another type: rounded on the way."""
    v = _value(c, c.d.shape(c.d.int(1, 3), 1, 9), low=-50, high=50)
    if c.d.bool():
        v = c.one("Cast", v, to=dtype_number("float64"))
        if c.d.bool():
            v = c.one("Add", v, c.scalar(c.d.choice([0.1, 1e-3, 1 / 3]), np.float64))
    half = c.one("Cast", v, to=dtype_number("float16"))
    wide = c.one("Cast", half, to=dtype_number(c.d.choice(["float32", "float64", "int32", "int64", "bool"])))
    return [wide, *([half] if c.chance(20) else [])]


def channels_flipped(c: Composer) -> list[str]:
    """Three or four channels in the other order, scaled, and summed over them or by a convolution."""
    channels = c.d.choice([3, 3, 4])
    last = c.d.bool()
    size = c.d.shape(2, 2, 8)
    n = c.d.int(1, 2)
    v = _value(c, (n, *size, channels) if last else (n, channels, *size), percent=30)
    axis = 3 if last else 1
    if c.d.bool():
        v = c.one("Slice", v, c.ints(-1), c.ints(-on.END - 1), c.ints(axis), c.ints(-1))
    else:
        parts = c.apply("Split", [v], outputs=channels, axis=axis, num_outputs=channels)
        v = c.one("Concat", *parts[::-1], axis=axis)
    if c.chance(60):
        column = (channels,) if last else (channels, 1, 1)
        v = c.one(c.d.choice(["Mul", "Sub", "Add"]), v, on.constant_like(c, c.d.array(column, "f32")))
    if c.chance(30):
        v = on.mapped(c, v)
    if last and c.chance(70):
        return along_last(c, v)
    way = c.d.int(0, 3)
    if way == 0:
        return c.apply(c.d.choice(["ReduceSum", "ReduceMean", "ReduceSumSquare"]), [v, c.ints(axis)])
    if way == 1 and not last:
        scale, bias = (on.constant_like(c, c.d.array((channels,), "f32")) for _ in range(2))
        return c.apply("InstanceNormalization", [v, scale, bias])
    if last:
        v = c.one("Transpose", v, perm=(0, 3, 1, 2))
    w = c.d.array((c.d.int(1, 9), channels, *c.d.shape(2, 1, 2)), "f32")
    return c.apply("Conv", [v, on.constant_like(c, w)])


def product(c: Composer) -> list[str]:
    """Few or many rows by weights that may be of one value; with a bias and an activation or not."""
    m, k, n = c.d.choice([1, 1, 2, 4, 7]), c.d.choice([16, 33, 64, 128, 300]), c.d.choice([1, 5, 16, 40, 65])
    x = _value(c, (m, k), 30, -1, 1)
    transposed = c.d.int(0, 1)
    w = _weights(c, (n, k) if transposed else (k, n))
    if c.chance(60):
        bias = [on.constant_like(c, c.d.array((n,), "f32"))] if c.d.bool() else []
        v = c.one("Gemm", x, w, *bias, transB=transposed)
    else:
        w = c.one("Transpose", w, perm=(1, 0)) if transposed else w
        v = c.one("MatMul", x, w)
    return [on.mapped(c, v) if c.d.bool() else v]


def _weights(c: Composer, shape: Sequence[int]) -> str:
    """Weights that are one value, in one of the ways exporters write that, or drawn."""
    way = c.d.int(0, 5)
    number = np.array([c.d.choice([0.02, 0.5, -0.25, 1.0])], np.float32)
    if way > 3 and len(shape) == 2:
        part = c.d.choice([(1, 1), (shape[0], 1), (1, shape[1])])
        return c.one("Expand", c.input(c.d.array(part, "f32", -0.5, 0.5)), c.ints(*shape))
    if way == 0:
        return c.one("ConstantOfShape", c.ints(*shape), value=on._tensor(number))
    if way == 1:
        return c.one("Expand", c.constant(number), c.ints(*shape))
    if way == 2:
        return c.constant(np.full(tuple(shape), number[0], np.float32))
    return c.constant(c.d.array(shape, "f32", -0.5, 0.5))


def integers(c: Composer) -> list[str]:
    """Powers, quotients and remainders of integers, also of negative ones and with f32 exponents."""
    dtype = c.d.choice(["i32", "i64"])
    shape = c.d.shape(c.d.int(1, 3), 1, 6)
    way = c.d.int(0, 4)
    if way < 2:
        base = on.fresh(c, np.asarray(c.d.array(shape, dtype, -6000, 6000)))
        power = np.asarray(c.d.array(c.d.broadcastable(shape), c.d.choice(["f32", dtype, "i64"]), 0, 2))
        power = np.rint(power).astype(power.dtype)
        return c.apply("Pow", [base, c.constant(power) if c.d.bool() else on.fresh(c, power, 0)])
    if way == 2:
        base = on.fresh(c, np.asarray(c.d.array(shape, dtype, -2, 2)))
        return c.apply("Pow", [base, c.constant(np.asarray(c.d.array((), dtype, 0, 5)))])
    x = on.fresh(c, np.asarray(c.d.array(shape, dtype, -(2**20), 2**20)))
    y = np.asarray(c.d.array(c.d.broadcastable(shape), dtype, 1, 9)) * c.d.choice([1, -1])
    return c.apply(c.d.choice(["Div", "Mod", "Mul", "Sub"]), [x, c.constant(y)])


def rounded(c: Composer) -> list[str]:
    """Special numbers rounded."""
    v = on.fresh(c, np.asarray(c.d.array(c.d.shape(c.d.int(1, 2), 2, 17), "f32", -4, 4)), 100)
    if c.chance(40):
        v = c.one(c.d.choice(["Neg", "Abs", "Relu"]), v)
    return c.apply(c.d.choice(["Round", "Round", "Floor", "Ceil"]), [v])


def long_sum(c: Composer) -> list[str]:
    """More than a thousand elements summed."""
    n = c.d.choice([1025, 2048, 4099])
    v = on.fresh(c, np.asarray(c.d.array((c.d.int(1, 3), n), "f32", 0, 1)))
    for _ in range(c.d.int(0, 2)):
        v = on.mapped(c, v)
    return along_last(c, v)


def attention(c: Composer) -> list[str]:
    """The operator Attention, with and without masks."""
    b, h, q, k, e = c.d.int(1, 2), c.d.int(1, 2), c.d.int(1, 5), c.d.int(1, 5), c.d.choice([2, 4, 8])
    x = [_value(c, (b, h, q, e)), _value(c, (b, h, k, e)), _value(c, (b, h, k, e))]
    if c.chance(30):
        return c.apply("Attention", x, is_causal=1)
    if c.chance(50):
        shown = np.asarray(c.d.array((q, k), "bool")) | np.eye(q, k, dtype=bool)
        shown[:, 0] = True
        m = c.input(shown) if c.d.bool() else c.constant(shown)
        return c.apply("Attention", [*x, m])
    return c.apply("Attention", x, scale=c.d.choice([0.5, 1.0]), softcap=c.d.choice([0.0, 5.0]))


def spelled_attention(c: Composer) -> list[str]:
    """Products, a scale, a mask or a bias, Softmax, a product; heads apart by Reshape and Transpose or not."""
    b, h, q, k, e = c.d.int(1, 2), c.d.choice([1, 2]), c.d.int(1, 6), c.d.int(2, 9), c.d.choice([3, 4, 8])
    if c.d.bool():
        left, right, values = (_value(c, (b, h, n, e)) for n in (q, k, k))
    else:
        left, right, values = (_heads(c, b, h, n, e) for n in (q, k, k))
    scores = c.one("MatMul", left, c.one("Transpose", right, perm=(0, 1, 3, 2)))
    way = c.d.int(0, 5)
    if way < 3:
        scores = c.one(c.d.choice(["Mul", "Div"]), scores, c.scalar(c.d.choice([0.5, 2.0, 1.7]), np.float32))
    if way < 2 or way == 4:
        scores = on.mapped(c, scores)
    if way in (1, 3, 4):
        hidden = on.mask(c, c.array(scores).shape)
        low = c.scalar(c.d.choice([-1e9, -1e4]), np.float32)
        scores = c.one("Where", hidden, *([scores, low] if c.d.bool() else [low, scores]))
    if c.chance(20):
        scores = on.viewed(c, scores)
    made = c.one("MatMul", c.one("Softmax", scores, axis=-1), values)
    if c.d.bool():
        made = c.one("Reshape", c.one("Transpose", made, perm=(0, 2, 1, 3)), c.ints(b, q, h * e))
    return [on.mapped(c, made) if c.d.bool() else made]


def _heads(c: Composer, b: int, h: int, n: int, e: int) -> str:
    """[b, h, n, e] of a product [b, n, h * e]."""
    x = _value(c, (b, n, 6))
    product = c.one("MatMul", x, _weights(c, (6, h * e)))
    if c.d.bool():
        product = c.one("Add", product, on.constant_like(c, c.d.array((h * e,), "f32")))
    return c.one("Transpose", c.one("Reshape", product, c.ints(b, n, h, e)), perm=(0, 2, 1, 3))


def embedding(c: Composer) -> list[str]:
    """Rows of a table, positions added, normalised."""
    rows, n, width = c.d.int(3, 9), c.d.int(1, 6), c.d.choice([4, 8, 16, 19])
    index = np.asarray(c.d.array((1, n), c.d.choice(["i64", "i32"]), 0, rows - 1))
    table = on.constant_like(c, c.d.array((rows, width), "f32"))
    v = c.one("Gather", table, c.input(index))
    v = c.one("Add", v, on.constant_like(c, c.d.array((n, width), "f32")))
    return along_last(c, on.mapped(c, v) if c.d.bool() else v)


def expanded(c: Composer) -> list[str]:
    """Operators that ONNX defines by others."""
    way = c.d.int(0, 2)
    if way == 0:
        v = _value(c, (1, c.d.int(1, 2), c.d.int(1, 5), 8))
        half = c.d.array((c.array(v).shape[2], 4), "f32", -1, 1)[None]
        return c.apply("RotaryEmbedding", [v, c.constant(np.cos(half)), c.constant(np.sin(half))])
    if way == 1:
        v = _value(c, c.d.shape(3, 2, 6))
        return c.apply("CenterCropPad", [v, c.ints(*c.d.shape(2, 1, 7))], axes=[1, 2])
    scores = _value(c, (c.d.int(1, 4), 5))
    labels = np.asarray(c.d.array((c.array(scores).shape[0],), "i64", 0, 4))
    reduction = c.d.choice(["mean", "sum", "none"])
    return c.apply("SoftmaxCrossEntropyLoss", [scores, c.input(labels)], reduction=reduction)


def chained(c: Composer) -> list[str]:
    """Layers with biases, one behind the other as exporters write them: turned, seen in another shape or scaled along
    any axis in between, or with nothing between."""
    v = _value(c, c.d.shape(c.d.choice([2, 2, 3, 4]), 1, 8), 30)
    for _ in range(c.d.int(2, 5)):
        v = _layer(c, v)
        for _ in range(c.d.choice([0, 1, 1, 1, 2])):
            v = c.d.choice(_BETWEEN)(c, v)
    return [v]


def _layer(c: Composer, v: str) -> str:
    """A product with the last axis or a convolution of single pixels, with a bias along some axis or none."""
    shape = c.array(v).shape
    n, way = c.d.choice([1, 2, 3, 3, 5, 8]), c.d.int(0, 9)
    bias = [c.constant(c.d.array((n,), "f32"))] if c.chance(80) else []
    if len(shape) > 2 and way < 3:
        w = c.d.array((n, shape[1], *(1,) * (len(shape) - 2)), "f32", -0.5, 0.5)
        return c.one("Conv", v, c.constant(w), *bias)
    w = c.d.array((n, shape[-1]), "f32", -0.5, 0.5)
    if len(shape) == 2 and way < 5:
        return c.one("Gemm", v, c.constant(w), *bias, transB=1)
    if way == 9:
        v = c.one("Einsum", v, c.constant(w), equation=f"{'abc'[: len(shape) - 1]}k,nk->{'abc'[: len(shape) - 1]}n")
    else:
        v = c.one("MatMul", v, c.constant(w.T))
    return _along(c, "Add", v) if way == 8 else c.one("Add", v, *bias) if bias else v


def _along(c: Composer, op: str, v: str) -> str:
    """With a constant that varies along one axis."""
    axis, a = c.d.int(0, c.array(v).ndim - 1), c.array(v)
    column = tuple(e if i == 0 else 1 for i, e in enumerate(a.shape[axis:]))
    return c.one(op, v, on.constant_like(c, np.asarray(c.d.array(column, "f32", 0.5, 2)).astype(a.dtype)))


def _turned(c: Composer, v: str) -> str:
    rank = c.array(v).ndim
    perm = (*range(rank - 2), rank - 1, rank - 2) if c.chance(70) else c.d.permutation(rank)
    return c.one("Transpose", v, perm=perm)


def _in_another_shape(c: Composer, v: str) -> str:
    """With two axes joined, or one of extent 1 more."""
    shape = c.array(v).shape
    axis = c.d.int(0, len(shape) - 2)
    if len(shape) < 4 and c.d.bool():
        return c.one("Unsqueeze", v, c.ints(axis))
    if len(shape) < 3:
        return v
    return c.one("Reshape", v, c.ints(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


_BETWEEN: tuple[Callable[[Composer, str], str], ...] = (
    _turned, _turned, _turned, _turned, _in_another_shape, on.mapped,
    lambda c, v: _along(c, "Mul", v), lambda c, v: _along(c, "Sub", v),
)  # fmt: skip


def block(c: Composer) -> list[str]:
    """Convolution, normalisation or not, activation, residual, pooling."""
    wide, groups = c.chance(25), 1
    channels = c.d.choice([16, 24, 32] if wide else [2, 4, 8, 3])
    size = c.d.shape(2, 8, 13) if wide else c.d.shape(2, 3, 9)
    v = _value(c, (1 if wide else c.d.int(1, 2), channels, *size), percent=60)
    if c.chance(30):
        groups = c.d.choice([channels, channels, 2 if channels % 2 == 0 else 1])
    out = channels if c.d.bool() else groups * c.d.choice([1, 2, 5])
    k = c.d.choice([1, 3, 3])
    w = _weights(c, (out, channels // groups, k, k)) if c.chance(25) else on.constant_like(
        c, c.d.array((out, channels // groups, k, k), "f32", -0.5, 0.5)
    )
    made = c.one("Conv", v, w, group=groups, pads=(k // 2,) * 4, strides=c.d.choice([(1, 1), (2, 2), (2, 1)]))
    if c.chance(50):
        made = on.mapped(c, made)
    if c.array(made).shape == c.array(v).shape and c.d.bool():
        made = c.one("Add", made, v)
    if c.chance(40):
        scale, bias = (on.constant_like(c, c.d.array((out,), "f32", 0.3, 1)) for _ in range(2))
        made = c.one("InstanceNormalization", made, scale, bias)
    if c.chance(40):
        op = c.d.choice(["GlobalAveragePool", "GlobalMaxPool", "MaxPool", "AveragePool"])
        pads = c.d.choice([(0,) * 4, (1, 1, 0, 0)])
        window = {} if op.startswith("Global") else {"kernel_shape": (2, 2), "pads": pads}
        return [made, *c.apply(op, [on.mapped(c, made)], **window)]
    return [made]


FORMS: tuple[Callable[[Composer], list[str]], ...] = (
    masked, masked, mapped_and_normalised, mapped_and_normalised, cast_chain, channels_flipped, product, integers,
    rounded, long_sum, attention, spelled_attention, embedding, expanded, block, block, chained,
)  # fmt: skip


def any_stage(c: Composer) -> list[str]:
    """An aimed form, an operator that is aimed at, or any operator."""
    way = c.d.int(0, 9)
    if way < 4:
        return c.d.choice(FORMS)(c)
    # Of several domains that have a name, ONNX's own counts, which comes first.
    table = {f.op_type: f for f in reversed(front_ends().values()) if f.sample is not None}
    return operator(c, table[c.d.choice(AIMED)] if way < 8 else c.d.choice([table[n] for n in sorted(table)]))
