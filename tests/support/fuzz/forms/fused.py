"""Operators of com.microsoft that onnxruntime has on no CPU: the file has them, and it is asked what they stand for.

    in the file  y = BiasAdd(x, b, s)        onnxruntime  t = Add(x, b); y = Add(t, s)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import helper

from tests.support.compose import operands as on
from tests.support.fuzz.family import FamilyComposer

CONTRIB = "com.microsoft"

Means = Callable[[FamilyComposer], list[str]]
Last = tuple[str, Sequence[str], Mapping[str, Any]]
"""Of a node: operator, inputs, attributes."""


def _said(c: FamilyComposer, op: str, inputs: Sequence[str], last: Last, **attrs: Any) -> list[str]:
    """The node of the file, in the place of the ``last`` one of those that it stands for."""
    kind, operands, own = last
    (made,) = c.apply(kind, operands, captured=[n for n in inputs if n], **own)
    c.net.told[made] = helper.make_node(op, inputs, [made], domain=CONTRIB, **attrs)
    return [made]


def _floats(c: FamilyComposer, rank: int = 1, exactly: int = 0, even: bool = False) -> str:
    """A value of f32 that has elements, of ``rank`` axes or more, or ``exactly`` so many, the last ``even``."""
    if exactly:
        fits = [n for n in c.pool if c.array(n).ndim == exactly and not (even and c.array(n).shape[-1] % 2)]
        shape = (*c.d.shape(exactly - 1, 1, 5), c.d.choice([2, 4, 6]))
        v = c.d.choice(fits) if fits and c.d.bool() else c.fresh(np.asarray(c.d.array(shape, "f32", -2, 2)))
    else:
        v = c.some(rank=rank)
    if c.array(v).dtype != np.float32 or 0 in c.array(v).shape:
        on.reject("no f32")
    return v


def _beside(c: FamilyComposer, shape: Sequence[int], low: float = -1, high: float = 1) -> str:
    """A constant, or an input where it is of an extent of the run, now and then."""
    sample = np.asarray(c.d.array(tuple(shape), "f32", low, high))
    return c.input(sample) if set(shape) & set(c.varying) or c.chance(30) else c.constant(sample)


def _weights(c: FamilyComposer, shape: Sequence[int]) -> str:
    if set(shape) & set(c.varying):
        on.reject("weights of an extent of the run")
    return _beside(c, shape)


def bias_add(c: FamilyComposer) -> list[str]:
    """BiasAdd and BiasDropout: x + bias + skip; the latter's skip may be absent."""
    x = _floats(c, exactly=3)
    bias, op = _weights(c, c.array(x).shape[-1:]), c.d.choice(["BiasAdd", "BiasDropout"])
    if op == "BiasDropout" and c.d.bool():
        return _said(c, op, [x, bias], ("Add", [x, bias], {}))
    skip = _beside(c, c.array(x).shape)
    return _said(c, op, [x, bias, skip], ("Add", [c.one("Add", x, bias), skip], {}))


def bias_split_gelu(c: FamilyComposer) -> list[str]:
    x = _floats(c, exactly=3, even=True)
    width = c.array(x).shape[-1]
    bias = _weights(c, (width,))
    first, gate = c.apply("Split", [c.one("Add", x, bias)], outputs=2, axis=-1, num_outputs=2)
    return _said(c, "BiasSplitGelu", [x, bias], ("Mul", [first, c.one("Gelu", gate)], {}))


def bias_softmax(c: FamilyComposer) -> list[str]:
    x = _floats(c, rank=2)
    shape = c.array(x).shape
    bias = _beside(c, [1 if c.chance(40) else e for e in shape[:-1]] + [shape[-1]])
    axis = c.d.choice([-1, len(shape) - 1])
    last = ("Softmax", [c.one("Add", x, bias)], {"axis": -1})
    return _said(c, "BiasSoftmax", [x, bias], last, axis=axis, is_inner_broadcast=c.d.int(0, 1))


def product(c: FamilyComposer) -> list[str]:
    """FusedMatMulActivation, either operand turned, and GemmFastGelu."""
    x = _floats(c, exactly=2)
    if c.d.bool():
        w, bias = _weights(c, (c.array(x).shape[1], 6)), _weights(c, (6,))
        y = c.one("Add", c.one("MatMul", x, w), bias)
        return _said(c, "GemmFastGelu", [x, w, bias], ("Gelu", [y], {"approximate": "tanh"}))
    turn_x, turn_w = c.d.int(0, 1), c.d.int(0, 1)
    k = c.array(x).shape[0 if turn_x else 1]
    w = _weights(c, (6, k) if turn_w else (k, 6))
    a, b = (c.one("Transpose", v) if t else v for v, t in ((x, turn_x), (w, turn_w)))
    alpha, kind = c.d.choice([1.0, 0.5]), c.d.choice(["Relu", "Tanh", "Sigmoid", "LeakyRelu"])
    y = c.one("Mul", c.one("MatMul", a, b), c.scalar(alpha, np.float32))
    own = {"alpha": 0.25} if kind == "LeakyRelu" else {}
    more: dict[str, Any] = {"activation_alpha": 0.25} if own else {}
    attrs = {"transA": turn_x, "transB": turn_w, "alpha": alpha, "activation": kind, **more}
    return _said(c, "FusedMatMulActivation", [x, w], (kind, [y], own), **attrs)


def _channels_first(c: FamilyComposer, x: str) -> str:
    rank = c.array(x).ndim
    return c.one("Transpose", x, perm=(0, rank - 1, *range(1, rank - 1)))


def _to_last(rank: int) -> dict[str, Any]:
    return {"perm": (0, *range(2, rank), 1)}


def group_norm(c: FamilyComposer) -> list[str]:
    """GroupNorm and SkipGroupNorm, channels last or not, with an activation or none."""
    groups, op = c.d.int(1, 3), c.d.choice(["GroupNorm", "SkipGroupNorm"])
    channels, last = groups * c.d.int(1, 3), c.d.int(0, 1)
    batch, *pixels = c.d.shape(3, 2, 5)
    x = c.fresh(np.asarray(c.d.array((batch, *pixels, channels) if last else (batch, channels, *pixels))))
    if {*c.varying} & {channels, batch}:
        on.reject("channels of an extent of the run")
    gamma, beta = _weights(c, (channels,)), _weights(c, (channels,))
    inputs, y = [x, gamma, beta], x
    if op == "SkipGroupNorm":
        whole = c.d.bool()
        skip = _beside(c, c.array(x).shape if whole else (batch, channels))
        inputs.append(skip)
        ones = (batch, 1, 1, channels) if last else (batch, channels, 1, 1)
        y = c.one("Add", y, skip if whole else c.one("Reshape", skip, c.ints(*ones)))
        if c.d.bool():
            inputs.append(_weights(c, (channels,)))
            y = c.one("Add", y, c.one("Reshape", inputs[-1], c.ints(*((-1,) if last else (-1, 1, 1)))))
    y = _channels_first(c, y) if last else y
    active = c.d.int(0, 1)
    y = c.one("GroupNormalization", y, gamma, beta, num_groups=groups, epsilon=1e-5)
    y = c.one("Mul", y, c.one("Sigmoid", y)) if active else y
    attrs = {"groups": groups, "activation": active, "epsilon": 1e-5, "channels_last": last}
    return _said(c, op, inputs, ("Transpose", [y], _to_last(4)) if last else ("Identity", [y], {}), **attrs)


def nhwc_convolution(c: FamilyComposer) -> list[str]:
    """NhwcConv, and NhwcFusedConv with what is added and an activation."""
    op = c.d.choice(["NhwcConv", "NhwcFusedConv"])
    batch, *pixels = c.d.shape(3, 3, 7)
    channels, many, kernel = c.d.int(1, 4), c.d.int(1, 4), c.d.choice([1, 2, 3])
    x = c.fresh(np.asarray(c.d.array((batch, *pixels, channels))))
    w = _weights(c, (many, channels, kernel, kernel))
    attrs = {"kernel_shape": [kernel] * 2, "pads": [c.d.int(0, kernel - 1)] * 4, "strides": [c.d.int(1, 2)] * 2}
    inputs = [x, w] + ([_weights(c, (many,))] if c.d.bool() else [])
    y = c.one("Conv", _channels_first(c, x), *inputs[1:], **attrs)
    if op == "NhwcFusedConv":
        kind = c.d.choice(["Relu", "Tanh", "Sigmoid"])
        y = c.one(kind, y)
        return _said(c, op, inputs, ("Transpose", [y], _to_last(4)), activation=kind, **attrs)
    return _said(c, op, inputs, ("Transpose", [y], _to_last(4)), **attrs)


def embedding(c: FamilyComposer) -> list[str]:
    rows = c.d.int(2, 6)
    table = _weights(c, (rows, c.d.int(1, 4)))
    ids = c.input(np.asarray(c.d.array(c.d.shape(c.d.int(1, 2)), "i64", 0, rows - 1)))
    return _said(c, "TorchEmbedding", [table, ids], ("Gather", [table, ids], {"axis": 0}))


def quantised_mean(c: FamilyComposer) -> list[str]:
    """QLinearReduceMean of bytes of either sign."""
    x = _floats(c, rank=2)
    if set(c.array(x).shape) & set(c.varying):
        on.reject("a mean along an extent of the run")
    dtype = c.d.choice([np.uint8, np.int8])
    scales = [c.scalar(s, np.float32) for s in (c.d.choice([0.03125, 0.0371]), c.d.choice([0.015625, 0.0213]))]
    zeros = [c.scalar(z, dtype) for z in (c.d.int(0, 127), c.d.int(0, 127))]
    q = c.one("QuantizeLinear", x, scales[0], zeros[0])
    axes = sorted({c.axis(x), c.axis(x)}) if c.chance(80) else []
    keep = c.d.int(0, 1)
    real = c.one("DequantizeLinear", q, scales[0], zeros[0])
    mean = c.one("ReduceMean", real, *([c.ints(*axes)] if axes else []), keepdims=keep)
    inputs = [q, scales[0], zeros[0], scales[1], zeros[1]]
    attrs: dict[str, Any] = {"axes": axes} if axes else {}
    last = ("QuantizeLinear", [mean, scales[1], zeros[1]], {})
    made = _said(c, "QLinearReduceMean", inputs, last, keepdims=keep, **attrs)
    return [c.one("DequantizeLinear", made[0], scales[1], zeros[1])]


def numbered(c: FamilyComposer) -> list[str]:
    """Range of com.microsoft, as far as an axis goes or to a number."""
    x = c.some(rank=1)
    end = c.one("Gather", c.one("Shape", x), c.index(c.axis(x))) if c.d.bool() else c.index(c.d.int(1, 6))
    inputs = [c.index(0), end, c.index(c.d.int(1, 2))]
    (row,) = _said(c, "Range", inputs, ("Range", inputs, {}))
    return [c.one("Cast", row, to=1)]


FORMS: Sequence[Means] = (
    bias_add, bias_split_gelu, bias_softmax, product, group_norm, nhwc_convolution, embedding, quantised_mean,
    numbered,
)  # fmt: skip


def fused(c: FamilyComposer) -> list[str]:
    """Any of them, mapped or not."""
    made = c.d.choice(FORMS)(c)
    return [on.mapped(c, v) if c.chance(30) else v for v in made]
