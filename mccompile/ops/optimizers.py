"""Steps of optimisers (ai.onnx.preview.training): Adagrad, Adam and Momentum are arithmetic on weights and gradients.

    Momentum(r, t, x, g, v)      v' = alpha v + g, x' = x - r v'

Of several tensors, the inputs are r, t, all x, all g, all v, the results all x', all v'.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mccompile.ops.expansion import Expansion
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd

DOMAIN = "ai.onnx.preview.training"
EPSILON = 1e-6
"""What roots are made larger by where the node does not say it."""


class _Step(Expansion):
    """What the optimisers share: numbers of the attributes in the type of the tensor, and arithmetic on names."""

    dtype = "f32"

    def scalar(self, value: float, suffix: str) -> str:
        return self.constant(np.array(value, np.float64 if self.dtype == "f64" else np.float32), suffix)

    def apply(self, op_type: str, a: str, b: str | float, suffix: str) -> str:
        return self.add(op_type, [a, b if isinstance(b, str) else self.scalar(b, f"{suffix}.by")], suffix)

    def weighted(self, x: str, by: float, plus: str, suffix: str) -> str:
        """``by * x + plus``."""
        return self.apply("Add", self.apply("Mul", x, by, f"{suffix}.part"), plus, suffix)

    def first(self, here: str | float, later: str | float, suffix: str) -> str:
        """``here`` in the first step, t = 0, else ``later``."""
        zero = self.constant(np.array(0, np.int64), f"{suffix}.zero")
        past = self.add("Greater", [self.name(1), zero], f"{suffix}.past")
        given = [v if isinstance(v, str) else self.scalar(v, f"{suffix}.{i}") for i, v in enumerate((later, here))]
        return self.add("Where", [past, *given], suffix)


def _adagrad(s: _Step, tensors: list[str], mark: str) -> list[str]:
    x, g, h = tensors
    n = s.n
    steps = s.cast(s.name(1), s.dtype, f"steps{mark}")
    decay = s.weighted(steps, n.attr("decay_factor", 0.0), s.scalar(1.0, f"one{mark}"), f"decay{mark}")
    rate = s.apply("Div", s.cast(s.name(0), s.dtype, f"r{mark}"), decay, f"rate{mark}")
    g = s.weighted(x, n.attr("norm_coefficient", 0.0), g, f"g{mark}")
    h = s.apply("Add", h, s.apply("Mul", g, g, f"square{mark}"), f"h{mark}")
    root = s.apply("Add", s.add("Sqrt", [h], f"root{mark}"), n.attr("epsilon", EPSILON), f"size{mark}")
    moved = s.apply("Div", s.apply("Mul", rate, g, f"scaled{mark}"), root, f"move{mark}")
    return [s.apply("Sub", x, moved, f"x{mark}"), h]


def _adam(s: _Step, tensors: list[str], mark: str) -> list[str]:
    x, g, v, h = tensors
    n = s.n
    alpha, beta = n.attr("alpha", 0.9), n.attr("beta", 0.999)
    g = s.weighted(x, n.attr("norm_coefficient", 0.0), g, f"g{mark}")
    v = s.weighted(v, alpha, s.apply("Mul", g, 1 - alpha, f"new{mark}"), f"v{mark}")
    square = s.apply("Mul", g, g, f"square{mark}")
    h = s.weighted(h, beta, s.apply("Mul", square, 1 - beta, f"spread{mark}"), f"h{mark}")
    root = s.apply("Add", s.add("Sqrt", [h], f"root{mark}"), n.attr("epsilon", EPSILON), f"size{mark}")
    rate, steps = s.cast(s.name(0), s.dtype, f"r{mark}"), s.cast(s.name(1), s.dtype, f"steps{mark}")
    left = [
        s.apply("Sub", s.scalar(1.0, f"one{i}{mark}"), s.apply("Pow", s.scalar(base, f"base{i}{mark}"), steps,
                f"power{i}{mark}"), f"left{i}{mark}")
        for i, base in enumerate((alpha, beta))
    ]  # fmt: skip
    corrected = s.apply("Mul", rate, s.add("Sqrt", [left[1]], f"rootleft{mark}"), f"corrected{mark}")
    rate = s.first(rate, s.apply("Div", corrected, left[0], f"later{mark}"), f"rate{mark}")
    moved = s.apply("Mul", rate, s.apply("Div", v, root, f"ratio{mark}"), f"move{mark}")
    x = s.apply("Sub", x, moved, f"moved{mark}")
    return [s.apply("Mul", x, 1 - n.attr("norm_coefficient_post", 0.0), f"x{mark}"), v, h]


def _momentum(s: _Step, tensors: list[str], mark: str) -> list[str]:
    x, g, v = tensors
    n = s.n
    alpha, mode = n.required("alpha", float), n.required("mode", str)
    if mode not in ("standard", "nesterov"):
        raise n.error(f"mode {mode!r} is unknown", "standard and nesterov are known")
    g = s.weighted(x, n.required("norm_coefficient", float), g, f"g{mark}")
    new = s.apply("Mul", g, s.first(1.0, n.required("beta", float), f"beta{mark}"), f"new{mark}")
    v = s.weighted(v, alpha, new, f"v{mark}")
    step = v if mode == "standard" else s.weighted(v, alpha, g, f"ahead{mark}")
    moved = s.apply("Mul", step, s.cast(s.name(0), s.dtype, f"r{mark}"), f"move{mark}")
    return [s.apply("Sub", x, moved, f"x{mark}"), v]


def _front_end(op_type: str, parts: int, update: Callable[[_Step, list[str], str], list[str]]) -> FrontEnd:
    """An optimiser whose tensors have ``parts`` inputs each: weights, gradients and what it remembers."""

    def convert(n: Import) -> None:
        count = (len(n.inputs) - 2) // parts
        if count * parts + 2 != len(n.inputs) or not count or len(n.outputs) != count * (parts - 1):
            raise n.error(f"{op_type} takes {parts} inputs and gives {parts - 1} results for each tensor")
        s = _Step(n)
        for i in range(count):
            s.dtype = n.input(2 + i).dtype.name
            results = update(s, [s.name(2 + i + count * p) for p in range(parts)], str(i))
            for p, result in enumerate(results):
                s.bind(i + count * p, result)
        s.finish()

    return FrontEnd(op_type, convert, None, {}, DOMAIN, composed=True)


FRONT_ENDS: tuple[FrontEnd, ...] = (
    _front_end("Adagrad", 3, _adagrad),
    _front_end("Adam", 4, _adam),
    _front_end("Momentum", 3, _momentum),
)
