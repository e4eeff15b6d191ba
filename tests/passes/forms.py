"""Functions in the primitive forms in which exporters write them, as ONNX models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx

from tests.support.small_models import Maker

Body = Callable[[Maker, str], str]


@dataclass(frozen=True)
class Form:
    """``body`` makes the result of an input of ``shape``; after the passes the graph has exactly ``left``.

    ``left`` is a sequence of operators' names; ``expr`` is a part of the text of the only expression.
    """

    title: str
    shape: tuple[int, ...]
    body: Body
    left: str
    expr: str = ""
    opset: int = 17

    def model(self) -> onnx.ModelProto:
        m = Maker(opset=self.opset)
        y = self.body(m, m.input("x", self.shape))
        return m.model([y])


def _f(m: Maker, value: float) -> str:
    return m.const(np.float32(value))


def _i(m: Maker, *values: int) -> str:
    return m.const(np.array(values, dtype=np.int64))


def _pow(m: Maker, x: str, exponent: float) -> str:
    return m.node("Pow", [x, _f(m, exponent)])


def _mean(m: Maker, x: str, axes: list[int], keep: int = 1) -> str:
    """The axes as an attribute up to opset 17, an input afterwards."""
    if m.opset < 18:
        return m.node("ReduceMean", [x], axes=axes, keepdims=keep)
    return m.node("ReduceMean", [x, _i(m, *axes)], keepdims=keep)


def _sum(m: Maker, x: str, axes: list[int]) -> str:
    return m.node("ReduceSum", [x, _i(m, *axes)], keepdims=1)


# -- normalisation -------------------------------------------------------------------------------------------
def _torch_layer_norm(m: Maker, x: str, rank: int = 3) -> str:
    """torch.onnx below opset 17: Pow(2), Sqrt, Div."""
    d = m.node("Sub", [x, _mean(m, x, [-1])])
    v = _mean(m, _pow(m, d, 2.0), [-1])
    n = m.node("Div", [d, m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-5)])])])
    return m.node("Add", [m.node("Mul", [n, m.weight((8,))]), m.weight((8,))])


def _keras_layer_norm(m: Maker, x: str) -> str:
    """tf2onnx of tf.nn.batch_normalization: the inverse times gamma, beta - mean * that."""
    mean = _mean(m, x, [-1])
    d = m.node("Sub", [x, mean])
    v = _mean(m, m.node("Mul", [d, d]), [-1])
    i = m.node("Reciprocal", [m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-3)])])])
    k = m.node("Mul", [i, m.weight((8,))])
    shift = m.node("Sub", [m.weight((8,)), m.node("Mul", [mean, k])])
    return m.node("Add", [m.node("Mul", [x, k]), shift])


def _pow_layer_norm(m: Maker, x: str) -> str:
    """(variance + epsilon) ** -0.5."""
    d = m.node("Sub", [x, _mean(m, x, [-1])])
    v = _mean(m, m.node("Mul", [d, d]), [-1])
    return m.node("Mul", [d, _pow(m, m.node("Add", [v, _f(m, 1e-5)]), -0.5)])


def _two_difference_layer_norm(m: Maker, x: str) -> str:
    """The difference computed twice, as scripts write it."""
    mean = _mean(m, x, [2])
    a, b = m.node("Sub", [x, mean]), m.node("Sub", [x, mean])
    v = _mean(m, _pow(m, a, 2.0), [2])
    return m.node("Div", [b, m.node("Sqrt", [m.node("Add", [_f(m, 1e-6), v])])])


def _cast_layer_norm(m: Maker, x: str) -> str:
    """Exports of autocast models put casts between that do nothing."""
    c = m.node("Cast", [x], to=onnx.TensorProto.FLOAT)
    return _torch_layer_norm(m, c)


def _rms(divide: bool) -> Body:
    def body(m: Maker, x: str) -> str:
        v = _mean(m, _pow(m, x, 2.0), [-1])
        s = m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-6)])])
        if divide:
            return m.node("Mul", [m.weight((8,)), m.node("Div", [x, s])])
        return m.node("Mul", [m.weight((8,)), m.node("Mul", [x, m.node("Div", [_f(m, 1), s])])])

    return body


def _rms_pow(m: Maker, x: str) -> str:
    v = _mean(m, m.node("Mul", [x, x]), [-1])
    return m.node("Mul", [x, _pow(m, m.node("Add", [v, _f(m, 1e-6)]), -0.5)])


def _torch_normalize(m: Maker, x: str) -> str:
    """F.normalize: x / max(norm, eps) with the norm expanded to the shape of x."""
    norm = m.node("ReduceL2", [x], axes=[1], keepdims=1)
    top = m.node("Clip", [norm, _f(m, 1e-12)])
    return m.node("Div", [x, m.node("Expand", [top, m.node("Shape", [x])])])


def _max_normalize(m: Maker, x: str) -> str:
    s = _sum(m, m.node("Mul", [x, x]), [-1])
    return m.node("Div", [x, m.node("Max", [m.node("Sqrt", [s]), _f(m, 1e-12)])])


def _tf_l2_normalize(m: Maker, x: str) -> str:
    """tf.math.l2_normalize: x * rsqrt(max(sum(x^2), eps))."""
    s = _sum(m, m.node("Mul", [x, x]), [-1])
    r = m.node("Reciprocal", [m.node("Sqrt", [m.node("Max", [s, _f(m, 1e-12)])])])
    return m.node("Mul", [x, r])


def _added_normalize(m: Maker, x: str) -> str:
    """x / (norm + eps)."""
    norm = m.node("ReduceL2", [x], axes=[-1], keepdims=1)
    return m.node("Div", [x, m.node("Add", [norm, _f(m, 1e-10)])])


def _plain_norm(m: Maker, x: str) -> str:
    return m.node("Div", [x, m.node("ReduceL2", [x], axes=[-1], keepdims=1)])


def _bare_group_norm(m: Maker, x: str) -> str:
    """Reshape to [N, G, -1], mean and variance, back, scale and bias per channel."""
    g = m.node("Reshape", [x, _i(m, 0, 2, -1)])
    d = m.node("Sub", [g, _mean(m, g, [2])])
    v = _mean(m, _pow(m, d, 2.0), [2])
    n = m.node("Div", [d, m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-5)])])])
    back = m.node("Reshape", [n, _i(m, 1, 6, 4, 5)])
    return m.node("Add", [m.node("Mul", [back, m.weight((6, 1, 1))]), m.weight((6, 1, 1))])


def _torch_group_norm(m: Maker, x: str) -> str:
    """torch.onnx: InstanceNormalization of [N, G, -1] with weights 1 and 0, then scale and bias."""
    g = m.node("Reshape", [x, _i(m, 0, 2, -1)])
    n = m.node("InstanceNormalization", [g, m.const(np.ones(2, np.float32)), m.const(np.zeros(2, np.float32))])
    back = m.node("Reshape", [n, m.node("Shape", [x])])
    return m.node("Add", [m.node("Mul", [back, m.weight((6, 1, 1))]), m.weight((6, 1, 1))])


def _keras_group_norm(m: Maker, x: str) -> str:
    """tf2onnx: channels-last groups [N, H, W, G, C/G], statistics of axes 1, 2 and 4."""
    t = m.node("Transpose", [x], perm=[0, 2, 3, 1])
    g = m.node("Reshape", [t, _i(m, 1, 4, 5, 2, 3)])
    mean = _mean(m, g, [1, 2, 4])
    d = m.node("Sub", [g, mean])
    v = _mean(m, m.node("Mul", [d, d]), [1, 2, 4])
    i = m.node("Reciprocal", [m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-3)])])])
    back = m.node("Reshape", [m.node("Mul", [d, i]), _i(m, 1, 4, 5, 6)])
    return m.node("Transpose", [m.node("Mul", [back, m.weight((6,))])], perm=[0, 3, 1, 2])


def _bare_instance_norm(m: Maker, x: str) -> str:
    d = m.node("Sub", [x, _mean(m, x, [2, 3])])
    v = _mean(m, m.node("Mul", [d, d]), [2, 3])
    n = m.node("Div", [d, m.node("Sqrt", [m.node("Add", [v, _f(m, 1e-5)])])])
    return m.node("Add", [m.node("Mul", [n, m.weight((6, 1, 1))]), m.weight((6, 1, 1))])


def _moments_instance_norm(m: Maker, x: str) -> str:
    """tf.nn.moments with E[x^2] - E[x]^2."""
    mean = _mean(m, x, [2, 3])
    square = _mean(m, m.node("Mul", [x, x]), [2, 3])
    v = m.node("Sub", [square, m.node("Mul", [mean, mean])])
    i = _pow(m, m.node("Add", [v, _f(m, 1e-5)]), -0.5)
    return m.node("Mul", [m.node("Sub", [x, mean]), i])


# -- activations ---------------------------------------------------------------------------------------------
def _gelu_erf(m: Maker, x: str) -> str:
    e = m.node("Add", [m.node("Erf", [m.node("Div", [x, _f(m, 2**0.5)])]), _f(m, 1)])
    return m.node("Mul", [m.node("Mul", [x, e]), _f(m, 0.5)])


def _gelu_erf_tf(m: Maker, x: str) -> str:
    e = m.node("Erf", [m.node("Mul", [x, _f(m, 0.5**0.5)])])
    return m.node("Mul", [m.node("Mul", [_f(m, 0.5), x]), m.node("Add", [_f(m, 1), e])])


def _gelu_tanh(m: Maker, x: str) -> str:
    """transformers' NewGELU: x + 0.044715 x^3 by Pow."""
    cube = m.node("Mul", [_pow(m, x, 3.0), _f(m, 0.044715)])
    t = m.node("Tanh", [m.node("Mul", [m.node("Add", [x, cube]), _f(m, 0.7978845608)])])
    return m.node("Mul", [m.node("Mul", [x, _f(m, 0.5)]), m.node("Add", [t, _f(m, 1)])])


def _gelu_tanh_horner(m: Maker, x: str) -> str:
    """x (1 + 0.044715 x x), as FastGELU writes it."""
    s = m.node("Add", [m.node("Mul", [m.node("Mul", [x, _f(m, 0.044715)]), x]), _f(m, 1)])
    t = m.node("Tanh", [m.node("Mul", [m.node("Mul", [x, _f(m, 0.7978845608)]), s])])
    return m.node("Mul", [_f(m, 0.5), m.node("Mul", [x, m.node("Add", [_f(m, 1), t])])])


def _silu(m: Maker, x: str) -> str:
    return m.node("Mul", [x, m.node("Sigmoid", [x])])


def _silu_exp(m: Maker, x: str) -> str:
    return m.node("Div", [x, m.node("Add", [_f(m, 1), m.node("Exp", [m.node("Neg", [x])])])])


def _hard_swish(m: Maker, x: str) -> str:
    """torch below opset 14: x * clip(x + 3, 0, 6) / 6."""
    c = m.node("Clip", [m.node("Add", [x, _f(m, 3)]), _f(m, 0), _f(m, 6)])
    return m.node("Div", [m.node("Mul", [x, c]), _f(m, 6)])


def _hard_swish_inner(m: Maker, x: str) -> str:
    """x * (relu6(x + 3) / 6), by Relu and Min as TensorFlow writes ReLU6."""
    r = m.node("Min", [m.node("Relu", [m.node("Add", [x, _f(m, 3)])]), _f(m, 6)])
    return m.node("Mul", [x, m.node("Mul", [r, _f(m, 1 / 6)])])


def _hard_swish_operator(m: Maker, x: str) -> str:
    return m.node("Mul", [x, m.node("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])


def _hard_sigmoid(m: Maker, x: str) -> str:
    c = m.node("Clip", [m.node("Add", [x, _f(m, 3)]), _f(m, 0), _f(m, 6)])
    return m.node("Div", [c, _f(m, 6)])


def _hard_sigmoid_inner(m: Maker, x: str) -> str:
    """clip(x * 0.2 + 0.5, 0, 1), Keras' form."""
    a = m.node("Add", [m.node("Mul", [x, _f(m, 0.2)]), _f(m, 0.5)])
    return m.node("Clip", [a, _f(m, 0), _f(m, 1)])


# -- softmax -------------------------------------------------------------------------------------------------
def _softmax(m: Maker, x: str) -> str:
    e = m.node("Exp", [m.node("Sub", [x, m.node("ReduceMax", [x], axes=[-1], keepdims=1)])])
    return m.node("Div", [e, _sum(m, e, [-1])])


def _softmax_inverse(m: Maker, x: str) -> str:
    e = m.node("Exp", [x])
    return m.node("Mul", [e, m.node("Reciprocal", [_sum(m, e, [1])])])


def _softmax_transposed(m: Maker, x: str) -> str:
    """torch below opset 13 for an inner axis: Transpose, Softmax, Transpose."""
    t = m.node("Transpose", [x], perm=[0, 2, 1])
    return m.node("Transpose", [m.node("Softmax", [t], axis=2)], perm=[0, 2, 1])


def _log_softmax(m: Maker, x: str) -> str:
    return m.node("Log", [m.node("Softmax", [x], axis=-1)])


def _log_softmax_shifted(m: Maker, x: str) -> str:
    d = m.node("Sub", [x, m.node("ReduceMax", [x], axes=[-1], keepdims=1)])
    return m.node("Sub", [d, m.node("ReduceLogSum", [m.node("Exp", [d])], axes=[-1], keepdims=1)])


# -- movement ------------------------------------------------------------------------------------------------
def _shuffle(m: Maker, x: str) -> str:
    r = m.node("Reshape", [x, _i(m, 1, 2, 4, 4, 4)])
    return m.node("Reshape", [m.node("Transpose", [r], perm=[0, 2, 1, 3, 4]), _i(m, 1, -1, 4, 4)])


def _gather_focus(m: Maker, x: str) -> str:
    parts = []
    for column in (0, 1):
        for row in (0, 1):
            rows = m.node("Slice", [x, _i(m, row), _i(m, 2**31 - 1), _i(m, 2), _i(m, 2)])
            parts.append(m.node("Slice", [rows, _i(m, column), _i(m, 2**31 - 1), _i(m, 3), _i(m, 2)]))
    return m.node("Concat", parts, axis=1)


def _pixel_unshuffle(m: Maker, x: str) -> str:
    """torch.nn.PixelUnshuffle: reshape, transpose, reshape."""
    r = m.node("Reshape", [x, _i(m, 1, 8, 2, 2, 2, 2)])
    t = m.node("Transpose", [r], perm=[0, 1, 3, 5, 2, 4])
    return m.node("Reshape", [t, _i(m, 1, 32, 2, 2)])


def _before_conv(body: Body, channels: int) -> Body:
    def convolved(m: Maker, x: str) -> str:
        return m.node("Conv", [body(m, x), m.weight((3, channels, 1, 1))])

    return convolved


_ROWS, _IMAGE, _EIGHT = (2, 5, 8), (1, 6, 4, 5), (1, 8, 4, 4)
_HARD = "min(max(((x0 * 0.16666667) + 0.5), 0.0), 1.0)"

FORMS = (
    Form("layer norm, torch", _ROWS, _torch_layer_norm, "normalize"),
    Form("layer norm, torch, opset 18", _ROWS, _torch_layer_norm, "normalize", opset=18),
    Form("layer norm, keras", _ROWS, _keras_layer_norm, "normalize"),
    Form("layer norm, power -0.5", _ROWS, _pow_layer_norm, "normalize"),
    Form("layer norm, two differences", _ROWS, _two_difference_layer_norm, "normalize"),
    Form("layer norm, casts", _ROWS, _cast_layer_norm, "normalize"),
    Form("RMS norm, division", _ROWS, _rms(True), "normalize"),
    Form("RMS norm, inverse", _ROWS, _rms(False), "normalize"),
    Form("RMS norm, power -0.5", _ROWS, _rms_pow, "normalize"),
    Form("L2 norm, torch", (2, 8), _torch_normalize, "normalize"),
    Form("L2 norm, maximum", _ROWS, _max_normalize, "normalize"),
    Form("L2 norm, tf", _ROWS, _tf_l2_normalize, "normalize"),
    Form("L2 norm, sum", _ROWS, _added_normalize, "reduce map"),
    Form("L2 norm, plain", _ROWS, _plain_norm, "normalize"),
    Form("group norm, reductions", _IMAGE, _bare_group_norm, "reshape normalize reshape"),
    Form("group norm, torch", _IMAGE, _torch_group_norm, "reshape normalize reshape"),
    Form("group norm, keras", _IMAGE, _keras_group_norm, "transpose reshape normalize reshape transpose"),
    Form("instance norm, reductions", _IMAGE, _bare_instance_norm, "normalize"),
    Form("instance norm, moments", _IMAGE, _moments_instance_norm, "normalize"),
    Form("GELU, torch", _ROWS, _gelu_erf, "map", "(x0 * ((erf((x0 * 0.70710677)) * 0.5) + 0.5))"),
    Form("GELU, tf", _ROWS, _gelu_erf_tf, "map", "(x0 * ((erf((x0 * 0.70710677)) * 0.5) + 0.5))"),
    Form("GELU by tanh, transformers", _ROWS, _gelu_tanh, "map", "(x0 * sigmoid("),
    Form("GELU by tanh, Horner", _ROWS, _gelu_tanh_horner, "map", "(x0 * sigmoid("),
    Form("SiLU, torch", _ROWS, _silu, "map", "(x0 * sigmoid(x0))"),
    Form("SiLU, exp", _ROWS, _silu_exp, "map", "(x0 * sigmoid(x0))"),
    Form("hard swish, torch", _ROWS, _hard_swish, "map", f"(x0 * {_HARD})"),
    Form("hard swish, inner", _ROWS, _hard_swish_inner, "map", f"(x0 * {_HARD})"),
    Form("hard swish, operator", _ROWS, _hard_swish_operator, "map", f"(x0 * {_HARD})"),
    Form("hard sigmoid, torch", _ROWS, _hard_sigmoid, "map", _HARD),
    Form("hard sigmoid, keras", _ROWS, _hard_sigmoid_inner, "map", "min(max(((x0 * 0.2) + 0.5), 0.0), 1.0)"),
    Form("softmax", _ROWS, _softmax, "softmax"),
    Form("softmax, inverse", _ROWS, _softmax_inverse, "softmax"),
    Form("softmax, transposed", _ROWS, _softmax_transposed, "softmax", "axis=1"),
    Form("log softmax", _ROWS, _log_softmax, "softmax"),
    Form("log softmax, shifted", _ROWS, _log_softmax_shifted, "softmax"),
    Form("channel shuffle", _EIGHT, _shuffle, "reshape transpose reshape"),
    Form("focus", _EIGHT, _gather_focus, "reshape take reshape"),
    Form("pixel unshuffle", _EIGHT, _pixel_unshuffle, "reshape transpose reshape"),
    Form("focus, convolved", _EIGHT, _before_conv(_gather_focus, 32), "conv"),
    Form("pixel unshuffle, convolved", _EIGHT, _before_conv(_pixel_unshuffle, 32), "conv"),
)
