"""Operators on quantised tensors (QLinearConv and its kin): DequantizeLinear, the operator on floats, QuantizeLinear.

    QLinearAdd(a, sa, za, b, sb, zb, sy, zy)  is  QuantizeLinear(Add(DequantizeLinear(a, sa, za),
                                                  DequantizeLinear(b, sb, zb)), sy, zy)

One row each: from there on nothing knows that the network said it otherwise. Integer sums come of it later
(`passes/quant`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.onnxio import dtype_number
from mccompile.onnxio.model import AttrValue
from mccompile.ops.expansion import CONTRIB, Expansion, channels_first, channels_last
from mccompile.ops.folding import WINDOW
from mccompile.ops.frontend import Import
from mccompile.ops.quantize import draw_scale
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case, Draw


class Quantised(Expansion):
    """An expansion whose operands are quantised, as its result is."""

    def dequantized(self, i: int, along: int | None = None) -> str:
        """Input ``i``, whose scale and zero point are the next two, as floats; ``along`` is the axis of scales. Those
        of a MatMul may have its operand's rank: ``f32[2,1,9]`` is one for each column of each of two matrices."""
        x, scale = self.n.input(i), self.n.input(i + 1)
        names = [self.name(i), self.name(i + 1), self.name(i + 2)]
        axis = 0 if along is None else along % max(x.type.rank, 1)
        if scale.type.rank > 1:
            if math.prod(scale.shape) != scale.shape[axis]:
                return self._scaled(names, f"real{i}")
            names[1:] = [self.reshaped(names[1], (-1,), f"scale{i}"), self.reshaped(names[2], (-1,), f"zero{i}")]
        return self.add("DequantizeLinear", names, f"real{i}", axis=axis)

    def _scaled(self, names: list[str], suffix: str) -> str:
        """What DequantizeLinear means, with a scale and a zero point that are broadcast."""
        x, scale, zero = names
        whole = [self.cast(v, "f32", f"{suffix}.{what}") for v, what in ((x, "x"), (zero, "zero"))]
        return self.add("Mul", [self.add("Sub", whole, f"{suffix}.centred"), scale], suffix)

    def bias(self, i: int, scales: tuple[int, ...]) -> str:
        """An int32 input, whose scale is the product of others, as floats; "" if it is absent. Scales are of the last
        axis of what it is broadcast to."""
        whole = self.n.optional(i)
        if whole is None:
            return ""
        scale = self.name(scales[0])
        for s in scales[1:]:
            scale = self.add("Mul", [scale, self.name(s)], f"scale{i}")
        columns = max(self.n.input(s).type.count for s in scales)
        if columns > 1 and whole.shape[-1:] != (columns,):
            return self.add("Mul", [self.cast(self.name(i), "f32", f"whole{i}"), scale], f"real{i}")
        return self.add("DequantizeLinear", [self.name(i), scale], f"real{i}", axis=max(whole.type.rank - 1, 0))

    def applied(self, op_type: str, inputs: list[str], last: bool, **attrs: AttrValue) -> str:
        """An operator on floats; with ``last``, the channels of its first input and of its result are last."""
        if not last:
            return self.add(op_type, inputs, "real", **attrs)
        rank = self.n.input(0).type.rank
        first = self.add("Transpose", inputs[:1], "channels_first", perm=channels_first(rank))
        real = self.add(op_type, [first, *inputs[1:]], "real", **attrs)
        return self.add("Transpose", [real], "channels_last", perm=channels_last(rank))

    def quantized(self, real: str, scale: int, like: int = 0) -> None:
        """The result of the node: ``real`` in the scale and zero point that are inputs ``scale`` and the next; of the
        type of input ``like`` where there is no zero point."""
        out = self.n.node.outputs[0]
        inputs = [real, self.name(scale), self.name(scale + 1)]
        dtype = (self.n.optional(scale + 1) or self.n.input(like)).dtype.name
        floats = dtype_number("f32")
        self.last("QuantizeLinear", inputs, out, axis=0, precision=floats, output_dtype=dtype_number(dtype))


@dataclass(frozen=True)
class Row:
    """A quantised operator: the plain one, where its inputs and its result's scale stand, attributes it drops.

    ``operands`` are the places of quantised inputs, each followed by its scale and zero point; ``plain`` inputs stand
    before them in the plain operator. ``channels_last`` of the node may say that its operand and its result are
    [N, spatial..., C].
    """

    op_type: str
    inner: str
    operands: tuple[int, ...]
    result: int
    sample: Callable[[Draw], Case] | None = None
    plain: tuple[int, ...] = ()
    domain: str = CONTRIB
    attrs: tuple[str, ...] = ()
    channels_last: bool = False


def _expand(row: Row) -> Callable[[Import], None]:
    def convert(n: Import) -> None:
        e = Quantised(n)
        last = row.channels_last and n.flag("channels_last") and n.input(0).type.rank > 2
        attrs = e.given(*row.attrs)
        inputs = [*(e.name(i) for i in row.plain), *(e.dequantized(i) for i in row.operands)]
        e.quantized(e.applied(row.inner, inputs, last, **attrs), row.result, row.operands[0])
        e.finish()

    return convert


def _contrib_conv(n: Import) -> None:
    """That of com.microsoft, which may have the channels of x and y last, not those of w."""
    _conv(n, n.flag("channels_last"))


def _conv(n: Import, last: bool = False) -> None:
    """QLinearConv: x, scale, zero; w, scale, zero (of each channel or one); y scale, zero; an int32 bias."""
    e = Quantised(n)
    attrs = e.given("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
    inputs = [e.dequantized(0), e.dequantized(3), e.bias(8, (1, 4))]
    e.quantized(e.applied("Conv", inputs if inputs[2] else inputs[:2], last, **attrs), 6)
    e.finish()


def _matmul(n: Import) -> None:
    """QLinearMatMul: a (scales of rows), b (scales of columns), y."""
    e = Quantised(n)
    e.quantized(e.add("MatMul", [e.dequantized(0, -2), e.dequantized(3, -1)], "real"), 6)
    e.finish()


def _gemm(n: Import) -> None:
    """QGemm: a, b, an int32 bias of the scale alpha * a's * b's; without a result's scale the result is f32."""
    if (n.optional(7) is None) != (n.optional(8) is None):  # one of them says that the result is f32
        raise n.error("a result's scale and zero point belong together", "give both or none")
    e = Quantised(n)
    alpha = n.attr("alpha", 1.0)
    trans = {"transA": int(n.flag("transA")), "transB": int(n.flag("transB"))}
    a, b = e.dequantized(0), e.dequantized(3, 0 if trans["transB"] else 1)
    bias = e.bias(6, (1, 4))
    real = e.add("Gemm", [a, b, bias] if bias else [a, b], "real", alpha=alpha, beta=alpha, **trans)
    if n.optional(7) is None:
        e.last("Identity", [real], n.node.outputs[0])
    else:
        e.quantized(real, 7)
    e.finish()


def _concat(n: Import) -> None:
    """QLinearConcat: the result's scale and zero point, then each part with its own."""
    e = Quantised(n)
    parts = [e.dequantized(i) for i in range(2, len(n.inputs), 3)]
    e.quantized(e.add("Concat", parts, "real", axis=n.required("axis", int)), 0, 2)
    e.finish()


def _softmax(n: Import) -> None:
    """QLinearSoftmax: of the opset that it names; before 13 all axes from ``axis`` on are one."""
    e = Quantised(n)
    x = n.input(0)
    axis = n.axis(n.attr("axis", -1), x.type.rank)
    several = n.attr("opset", 13) < 13 and any(extent != 1 for extent in x.shape[axis + 1 :])
    real = e.dequantized(0)
    if several:
        rows = e.add("Flatten", [real], "rows", axis=axis)
        real = e.reshaped(e.add("Softmax", [rows], "softmax", axis=1), x.shape, "real")
    else:
        real = e.add("Softmax", [real], "real", axis=axis)
    e.quantized(real, 3)
    e.finish()


def _case(d: Draw, shapes: list[tuple[int, ...]], attrs: Mapping[str, object], result_first: bool = False) -> Case:
    """Quantised operands of the same element type, each with a scale and a zero point, and the result's."""
    dtype = d.choice(["i8", "u8"])
    low, high = (-128, 127) if dtype == "i8" else (0, 255)
    inputs: list[object] = []
    for shape in shapes:
        inputs += [d.array(shape, dtype, low, high), draw_scale(d, ()), d.array((), dtype, low, high)]
    result = [draw_scale(d, (), 4.0), d.array((), dtype, low, high)]
    inputs = [*result, *inputs] if result_first else [*inputs, *result]
    return Case(inputs, dict(attrs), frozenset(range(len(inputs))) - {2 if result_first else 0})  # type: ignore[arg-type]


def _sample_binary(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    return _case(d, [shape, d.broadcastable(shape)], {})


def _sample_unary(d: Draw) -> Case:
    return _case(d, [d.shape(d.int(1, 4))], {})


def _sample_leaky(d: Draw) -> Case:
    return _case(d, [d.shape(d.int(1, 4))], {"alpha": 0.1})


def _sample_softmax(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4), 2)
    axis = d.int(-len(shape), len(shape) - 1)
    case = _case(d, [shape], {"axis": axis, "opset": d.choice([11, 13])})
    # onnxruntime rounds down, and knows results of 256 steps only, as its quantiser writes them.
    least = -128 if case.inputs[0] is not None and case.inputs[0].dtype == np.int8 else 0
    scale, zero = np.array(1 / 256, np.float32), np.array(least, np.int8 if least else np.uint8)
    return Case([*case.inputs[:3], scale, zero], case.attrs, case.constant, tolerance=1 / 100)


def _sample_pool(d: Draw) -> Case:
    attrs: dict[str, object] = {"kernel_shape": d.shape(2, 1, 3), "strides": d.shape(2, 1, 2)}
    attrs["channels_last"] = d.int(0, 1)
    shape = d.shape(2, 4, 6)
    return _case(d, [(1, *shape, d.int(1, 3)) if attrs["channels_last"] else (1, d.int(1, 3), *shape)], attrs)


def _sample_global(d: Draw) -> Case:
    return _case(d, [(1, *d.shape(3, 1, 6))], {"channels_last": d.int(0, 1)})


def _sample_where(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    case = _case(d, [shape, shape], {})
    return Case([d.array(shape, "bool"), *case.inputs], {}, frozenset(range(2, 9)))


def _sample_gemm(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 9)
    trans, columns, bias = d.int(0, 1), d.choice([(), (n,)]), d.choice([(n,), (1, n), (m, n), (m, 1), ()])
    inputs = [d.array((m, k), "u8", 0, 255), draw_scale(d, ()), d.array((), "u8", 0, 255),
              d.array((n, k) if trans else (k, n), "i8", -128, 127), draw_scale(d, columns, 0.1),
              np.zeros(columns, np.int8), d.array(bias, "i32", -999, 999) if d.bool() else None]  # fmt: skip
    if d.bool():
        inputs += [draw_scale(d, (), 4.0), d.array((), "u8", 0, 255)]
    attrs = {"transB": trans, "alpha": d.choice([1.0, 0.5])}
    return Case(inputs, attrs, frozenset(range(1, len(inputs))), tolerance=0.0 if len(inputs) > 7 else 2e-6)


def _sample_concat(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    axis = d.int(0, len(shape) - 1)
    parts = [tuple(d.int(1, 4) if a == axis else e for a, e in enumerate(shape)) for _ in range(d.int(1, 3))]
    return _case(d, parts, {"axis": axis}, result_first=True)


def _sample_conv(d: Draw) -> Case:
    groups, cin, each = d.choice([1, 1, 2]), d.int(1, 4), d.int(1, 4)
    kernel = d.shape(2, 1, 3)
    x = d.array((1, cin * groups, *d.shape(2, 4, 7)), "u8", 0, 255)
    w = d.array((each * groups, cin, *kernel), "i8", -128, 127)
    per_channel = d.bool()
    scales = draw_scale(d, (each * groups,) if per_channel else (), 0.1)
    zeros = d.array(scales.shape, "i8", 0, 0)
    bias = d.array((each * groups,), "i32", -999, 999) if d.bool() else None
    inputs = [x, draw_scale(d, ()), d.array((), "u8", 0, 255), w, scales, zeros, draw_scale(d, (), 4.0),
              d.array((), "u8", 0, 255), bias]  # fmt: skip
    attrs = {"group": groups, "pads": d.shape(4, 0, 2), "strides": d.shape(2, 1, 2)}
    return Case(inputs, attrs, frozenset(range(1, 9)))


def _sample_channels_last(d: Draw) -> Case:
    case = _sample_conv(d)
    (x, *others) = case.inputs
    assert x is not None
    inputs = [np.ascontiguousarray(np.moveaxis(x, 1, -1)), *others]
    return Case(inputs, {**case.attrs, "channels_last": 1}, case.constant)


def _sample_matmul(d: Draw) -> Case:
    m, k, n = d.shape(3, 1, 12)
    batch = d.choice([(), (2,)])
    of_columns = d.choice([(), (*batch, 1, n) if batch or d.bool() else (n,)])
    inputs = [d.array((*batch, m, k), "u8", 0, 255), draw_scale(d, ()), d.array((), "u8", 0, 255),
              d.array((*batch, k, n), "i8", -128, 127),
              draw_scale(d, of_columns, 0.1), d.array(of_columns, "i8", 0, 0),
              draw_scale(d, (), 4.0), d.array((), "u8", 0, 255)]  # fmt: skip
    return Case(inputs, {}, frozenset(range(1, 8)))


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
ROWS = (
    Row("QLinearAdd", "Add", (0, 3), 6, _sample_binary),
    Row("QLinearMul", "Mul", (0, 3), 6, _sample_binary),
    Row("QLinearSigmoid", "Sigmoid", (0,), 3, _sample_unary),
    Row("QLinearLeakyRelu", "LeakyRelu", (0,), 3, _sample_leaky, attrs=("alpha",)),
    Row("QLinearAveragePool", "AveragePool", (0,), 3, _sample_pool, attrs=_POOL, channels_last=True),
    Row("QLinearGlobalAveragePool", "GlobalAveragePool", (0,), 3, _sample_global, channels_last=True),
    Row("QLinearWhere", "Where", (1, 4), 7, _sample_where, plain=(0,)),
)  # fmt: skip

FRONT_ENDS: tuple[FrontEnd, ...] = (
    *(FrontEnd(r.op_type, _expand(r), r.sample, {}, r.domain, folding=WINDOW) for r in ROWS),
    FrontEnd("QLinearConv", _conv, _sample_conv, {}, folding=WINDOW),
    FrontEnd("QLinearConv", _contrib_conv, _sample_channels_last, {}, CONTRIB, folding=WINDOW),
    FrontEnd("QLinearMatMul", _matmul, _sample_matmul, {}),
    FrontEnd("QGemm", _gemm, _sample_gemm, {}, CONTRIB),
    FrontEnd("QLinearConcat", _concat, _sample_concat, {}, CONTRIB),
    FrontEnd("QLinearSoftmax", _softmax, _sample_softmax, {}, CONTRIB),
)
