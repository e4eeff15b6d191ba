"""Activations that onnxruntime's optimiser writes (com.microsoft), as the operators that they were made of.

BiasGelu(x, bias)  is  Gelu(Add(x, bias))
"""

from __future__ import annotations

import numpy as np

from mccompile.ops.expansion import CONTRIB, Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd, compositions
from mccompile.ops.sampling import Case, Draw

_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "HardSwish": (),
    "Elu": ("alpha",), "Gelu": (), "Selu": ("alpha", "gamma"), "Softplus": (), "Softsign": (),
    "ThresholdedRelu": ("alpha",), "Clip": (),
}  # fmt: skip
"""The activations of fused nodes, each with its parameters in the order of ``activation_params``."""


def activated(e: Expansion, x: str, activation: str, suffix: str = "active") -> str:
    """``x``, of the type that input 0 is computed in, behind the activation of a fused node, whose attributes give
    its parameters."""
    n, dtype = e.n, e.n.input(0).dtype.compute.numpy
    if not activation:
        return x
    given = [float(v) for v in n.attr("activation_params", (), float)]
    parameters = ("alpha", "beta", "gamma")
    apart = {p: n.attr(f"activation_{p}", 0.0) for p in parameters if f"activation_{p}" in n.node.attrs}
    if activation == "Clip" and len(limits := given or [*apart.values()]) == 2:
        ends = [e.constant(np.array(v, dtype), f"{suffix}.{i}") for i, v in enumerate(limits)]
        return e.add("Clip", [x, *ends], suffix)
    if activation not in _PARAMETERS:
        raise n.error(f"activation {activation} is not supported", f"{', '.join(_PARAMETERS)} are")
    names = _PARAMETERS[activation]
    attrs = dict(zip(names, given, strict=False)) if given else {p: v for p, v in apart.items() if p in names}
    return e.add(activation, [x], suffix, **attrs)


def _biased(e: Expansion, i: int) -> str:
    """Input 0, plus input ``i`` if there is one, as that is computed in."""
    return e.add("Add", [e.wide(0), e.wide(i)], "biased") if e.n.optional(i) is not None else e.wide(0)


def _gelu(n: Import) -> None:
    """Gelu, BiasGelu and FastGelu: the last is made of tanh."""
    e = Expansion(n)
    how = {"approximate": "tanh"} if n.op_type == "FastGelu" else {}
    if n.optional(1) is None:
        e.last("Gelu", [e.name(0)], n.node.outputs[0], **how)
    else:
        e.last_stored("Gelu", [_biased(e, 1)], "curve", **how)
    e.finish()


def _quick_gelu(n: Import) -> None:
    """x * sigmoid(alpha * x)."""
    e, dtype = Expansion(n), n.input(0).dtype.compute.numpy
    x, alpha = e.wide(0), e.constant(np.array(n.attr("alpha", 1.702), dtype), "alpha")
    gate = e.add("Sigmoid", [e.add("Mul", [x, alpha], "scaled")], "gate")
    e.last_stored("Mul", [x, gate], "gated")
    e.finish()


def _split_gelu(n: Import) -> None:
    """The first half of x + bias along the last axis, times the Gelu of the second."""
    e, width = Expansion(n), n.input(0).shape[-1] // 2
    x, last = _biased(e, 1), len(n.input(0).shape) - 1
    first, second = e.sliced(x, last, 0, width, "first"), e.sliced(x, last, width, 2 * width, "second")
    e.last_stored("Mul", [first, e.add("Gelu", [second], "gate")], "gated")
    e.finish()


def _bias_add(n: Import) -> None:
    """x + bias + skip."""
    e = Expansion(n)
    e.last_stored("Add", [_biased(e, 1), e.wide(2)], "added")
    e.finish()


def _bias_softmax(n: Import) -> None:
    """Softmax(x + bias) along the last axis."""
    e, rank = Expansion(n), len(n.input(0).shape)
    n.attr("is_inner_broadcast", 0)
    bias = n.input(1).shape
    fits = all(b in (1, x) for b, x in zip(bias[::-1], n.input(0).shape[::-1], strict=False)) and len(bias) <= rank
    if n.axis(n.attr("axis", 1), rank) != rank - 1 or not fits or (len(bias) < rank and bias[0] != 1):
        raise n.error(f"BiasSoftmax of {n.input(0).type} and {n.input(1).type} is supported along the last axis only")
    e.last_stored("Softmax", [_biased(e, 1)], "shares", axis=-1)
    e.finish()


def _bias_dropout(n: Import) -> None:
    """x + bias + residual: nothing is dropped but in training."""
    if len(n.node.outputs) > 1 and n.node.outputs[1]:
        raise n.error("the mask of BiasDropout is not supported", "export the model for inference")
    if n.optional(4) is not None and n.const(4, "training_mode").any():
        raise n.error("BiasDropout in training mode is not supported", "export the model for inference")
    e = Expansion(n)
    n.attr("seed")
    x = _biased(e, 1)
    e.bind_stored(0, e.add("Add", [x, e.wide(2)], "added") if n.optional(2) is not None else x)
    e.finish()


def _sample(d: Draw) -> Case:
    return Case([d.array(d.shape(d.int(1, 3)), "f32", -4, 4)])


def _sample_bias(d: Draw) -> Case:
    x = d.array((*d.shape(d.int(1, 2)), d.int(1, 9)), "f32", -4, 4)
    return Case([x, d.array(x.shape[-1:])])


def _sample_fast(d: Draw) -> Case:
    return d.choice([_sample, _sample_bias])(d)


def _sample_quick(d: Draw) -> Case:
    return Case(_sample(d).inputs, {"alpha": d.choice([1.702, 1.0])})


_ROUNDED = {"f32": 4e-6, "f16": 4e-3}
FRONT_ENDS = compositions(
    FrontEnd("Gelu", _gelu, _sample, _ROUNDED, CONTRIB),
    FrontEnd("BiasGelu", _gelu, _sample_bias, _ROUNDED, CONTRIB),
    FrontEnd("FastGelu", _gelu, _sample_fast, _ROUNDED, CONTRIB),
    FrontEnd("QuickGelu", _quick_gelu, _sample_quick, _ROUNDED, CONTRIB),
    FrontEnd("BiasSplitGelu", _split_gelu, None, _ROUNDED, CONTRIB),
    FrontEnd("BiasAdd", _bias_add, None, _ROUNDED, CONTRIB),
    FrontEnd("BiasSoftmax", _bias_softmax, None, _ROUNDED, CONTRIB),
    FrontEnd("BiasDropout", _bias_dropout, None, _ROUNDED, CONTRIB),
)
