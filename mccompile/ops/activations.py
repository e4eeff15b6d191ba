"""The activation functions of recurrent cells as expressions (ONNX operators LSTM, GRU and RNN)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex

REQUIRED = math.nan
"""Stands for the default of what has none."""


@dataclass(frozen=True)
class Activation:
    """``build(x, alpha, beta)``; ``alpha`` and ``beta`` hold the defaults of those that are read (None: not read)."""

    build: Callable[[ex.Expr, float, float], ex.Expr]
    alpha: float | None = None
    beta: float | None = None


def _num(like: ex.Expr, value: float) -> ex.Expr:
    return ex.num(value, like.dtype)


def clamp(x: ex.Expr, low: float, high: float) -> ex.Expr:
    """x limited to [low, high]; NaN stays."""
    return ex.apply("min", ex.apply("max", x, _num(x, low)), _num(x, high))


def _affine(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return ex.apply("add", ex.apply("mul", _num(x, alpha), x), _num(x, beta))


def _leaky_relu(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return ex.apply("select", ex.apply("lt", x, _num(x, 0)), ex.apply("mul", _num(x, alpha), x), x)


def _thresholded_relu(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return ex.apply("select", ex.apply("gt", x, _num(x, alpha)), x, _num(x, 0))


def _scaled_tanh(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return ex.apply("mul", _num(x, alpha), ex.apply("tanh", ex.apply("mul", _num(x, beta), x)))


def _elu(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    low = ex.apply("mul", _num(x, alpha), ex.apply("sub", ex.apply("exp", x), _num(x, 1)))
    return ex.apply("select", ex.apply("lt", x, _num(x, 0)), low, x)


def _softsign(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    return ex.apply("div", x, ex.apply("add", _num(x, 1), ex.apply("abs", x)))


def _softplus(x: ex.Expr, alpha: float, beta: float) -> ex.Expr:
    """max(x, 0) + log1p(exp(-|x|)): does not overflow."""
    tail = ex.apply("log1p", ex.apply("exp", ex.apply("neg", ex.apply("abs", x))))
    return ex.apply("add", ex.apply("max", x, _num(x, 0)), tail)


ACTIVATIONS: dict[str, Activation] = {
    "Affine": Activation(_affine, 1.0, 0.0),
    "Elu": Activation(_elu, 1.0),
    "HardSigmoid": Activation(lambda x, a, b: clamp(_affine(x, a, b), 0, 1), 0.2, 0.5),
    "LeakyRelu": Activation(_leaky_relu, 0.01),
    "Relu": Activation(lambda x, a, b: ex.apply("relu", x)),
    "ScaledTanh": Activation(_scaled_tanh, REQUIRED, REQUIRED),
    "Sigmoid": Activation(lambda x, a, b: ex.apply("sigmoid", x)),
    "Softplus": Activation(_softplus),
    "Softsign": Activation(_softsign),
    "Tanh": Activation(lambda x, a, b: ex.apply("tanh", x)),
    "ThresholdedRelu": Activation(_thresholded_relu, 1.0),
}

_BY_LOWER = {name.lower(): row for name, row in ACTIVATIONS.items()}

Function = Callable[[ex.Expr], ex.Expr]


def activation_functions(names: Sequence[str], alphas: Sequence[float], betas: Sequence[float]) -> list[Function]:
    """The functions of names (in any case); alphas and betas go, in order, to those that read them.

    Defaults stand in where the lists end. ValueError for an unknown name, or where there is no default.
    """
    left = iter(alphas), iter(betas)
    return [_function(name, *left) for name in names]


def _function(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Function:
    row = _BY_LOWER.get(name.lower())
    if row is None:
        raise ValueError(f"activation {name!r} is unknown; known are {', '.join(ACTIVATIONS)}")
    alpha = 0.0 if row.alpha is None else next(alphas, row.alpha)
    beta = 0.0 if row.beta is None else next(betas, row.beta)
    if math.isnan(alpha) or math.isnan(beta):
        raise ValueError(f"activation {name} has no default: its activation_alpha and activation_beta must be given")
    return lambda x: row.build(x, alpha, beta)
