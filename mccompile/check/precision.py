"""What weights in fewer bits cost: how far outputs are from those of f32, and which layer adds the most.

The error of a value is that of all its elements together, |y - f32| by |f32| as lengths of vectors. What is allowed
follows from the forms: with 12 weights of 8 bits, one of f16, which are independent, twice

    sqrt(12 * (1/64)^2 + (1/2048)^2) = 0.054

To that comes what the network is off with weights of f32, twice as well: activations of f16, say, by 0.0002.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from mccompile import driver
from mccompile._dataclass import dataclass
from mccompile.driver import Compilation
from mccompile.interface.tensors import Interface
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph
from mccompile.ir.small_floats import bf16_values
from mccompile.run.noise import Noise, json_number

Array = np.ndarray[Any, np.dtype[Any]]

OF_FORM = {"f16": 2.0**-11, "bf16": 2.0**-8, "i8": 2.0**-6, "i4": 2.0**-3}
"""The error of a product whose weights are stored so, about: half a step by the usual weight."""
MOST = 0.5
"""No error above this is allowed unless somebody says so: by then little is left of an output."""
ROUNDS = math.sqrt(2)
"""Times that error where the other operand is rounded, too: of a product that is computed in a form."""
NOTHING_NARROW = (
    "no weight is stored, and no product computed, in fewer bits: outputs are judged as without the option"
)
STORED, COMPUTED = "narrow-weights", "narrow-products"
"""The passes that store weights so, and that round what products read."""


@dataclass(frozen=True)
class Output:
    """An output: its error against the network with weights of f32, in float64, and against the judge: of numbers of
    classes and of text, which are ``exact``, the part of the elements that are others."""

    name: str
    f32: float
    judge: float
    exact: bool = False

    def is_within(self, allowed: float, given: bool, expected: bool) -> bool:
        """Whether its error is no more than what is allowed: that against the judge only where a user ``expected``
        what it says. No form explains how many exact elements are others, so that the user has to have ``given`` what
        is allowed."""
        return (self.f32 <= allowed or (self.exact and not given)) and (not expected or self.judge <= allowed)

    def line(self, judge: str, word: str) -> str:
        if self.exact:
            return f"  {word} {self.name}: {self.f32:.2%} of it not as of f32, {self.judge:.2%} not as of {judge}"
        return f"  {word} {self.name}: error {self.f32:.3g} against f32, {self.judge:.3g} against {judge}"

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "against_f32": json_number(self.f32), "against_judge": json_number(self.judge)}


@dataclass(frozen=True)
class Precision:
    """What narrow weights cost over all runs.

    Attributes:
        forms: how many weights are stored in each form.
        products: how many products are computed in each.
        outputs: their errors.
        worst: the layer that adds the most error, what it adds, and its error with what came before.
        allowed: the largest error of an output; ``given`` by the user.
        expected: the judge is what the user expects: errors against it count, too.
    """

    forms: Mapping[str, int]
    products: Mapping[str, int]
    outputs: tuple[Output, ...]
    worst: tuple[str, float, float] | None
    allowed: float
    given: bool
    expected: bool = False

    @property
    def ok(self) -> bool:
        return all(self._is_within(o) for o in self.outputs)

    def _is_within(self, output: Output) -> bool:
        return output.is_within(self.allowed, self.given, self.expected)

    def lines(self, judge: str) -> list[str]:
        rule = "" if self.given else " by these forms"
        computed = f"products: {_counted(self.products)}; " if self.products else ""
        stored = f"weights: {_counted(self.forms)}; " if self.forms or not computed else ""
        lines = [f"{computed}{stored}error allowed{rule} {self.allowed:.3g}"]
        lines += [o.line(judge, "ok  " if self._is_within(o) else "FAIL") for o in self.outputs]
        if self.worst is not None:
            name, added, error = self.worst
            lines.append(f"  worst layer: {name} adds {added:.3g}, {error:.3g} behind it")
        return lines

    def to_json(self) -> dict[str, Any]:
        name, added, error = self.worst or (None, 0.0, 0.0)
        return {
            "forms": dict(self.forms),
            "products": dict(self.products),
            "allowed": json_number(self.allowed),
            "ok": self.ok,
            "outputs": [o.to_json() for o in self.outputs],
            "worst": {"layer": name, "added": json_number(added), "error": json_number(error)},
        }


def _counted(forms: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {form}" for form, count in forms.items()) or "all f32"


def is_narrow(c: Compilation) -> bool:
    """Whether weights are stored, or products computed, in fewer bits: it may be asked for and none be."""
    return bool(forms_of(c) or products_of(c))


def unused(c: Compilation) -> tuple[str, ...]:
    """What to say where fewer bits were asked for and nothing has them."""
    asked = any(form != "f32" for form in (*c.options.weights.values(), *c.options.precision.values()))
    return (NOTHING_NARROW,) if asked and not is_narrow(c) else ()


def forms_of(c: Compilation, name: str = STORED) -> dict[str, int]:
    """How many weights a pass has stored in each form, or how many products it has rounded."""
    found: Counter[str] = Counter()
    for record in c.passes:
        if record.name == name:
            found.update(record.tally)
    return found


def products_of(c: Compilation) -> dict[str, int]:
    """How many products are computed in each form."""
    return forms_of(c, COMPUTED)


def allowed_of(
    forms: Mapping[str, int], products: Mapping[str, int] = MappingProxyType({}), bytewise: int = 0
) -> float:
    """What error the forms of weights and of products explain, where so many nodes round to bytes: an error of a
    tenth of their step has every tenth of them a whole step off, which is a square of a tenth of that of a step."""
    squares = sum(n * OF_FORM[form] ** 2 for form, n in forms.items())
    squares += sum(n * (ROUNDS * OF_FORM[form]) ** 2 for form, n in products.items())
    squares += bytewise * math.sqrt(squares) * OF_FORM["i8"]
    return min(2 * math.sqrt(squares) + 1e-4, MOST)


def _bytewise(graph: Graph) -> int:
    """How many bodies of nodes round numbers to bytes."""
    bodies = [body for n, _ in graph.everywhere() for body in n.expressions]
    return sum(any(_makes_bytes(part) for part in ex.distinct(body)) for body in bodies)


def _makes_bytes(part: ex.Expr) -> bool:
    return isinstance(part, ex.Convert) and part.dtype.name in ("i8", "u8")


def unrounded(model: Path, c: Compilation) -> Compilation:
    """The same compilation, as far as its graph is optimised, with weights and products in f32."""
    plain = driver.import_graph(model, replace(c.options, weights={}, precision={}))
    driver.optimize(plain)
    return plain


def precision_of(
    c: Compilation,
    plain: Compilation,
    runs: Sequence[tuple[Mapping[str, Array], Mapping[str, Array], Mapping[str, Array]]],
    most: float | None,
    expected: bool = False,
) -> Precision:
    """The precision of a compilation.

    Args:
        plain: the same in f32 (`unrounded`).
        runs: of each run what the model is fed, what the judge says, what the C gave.
        most: the error that is allowed, if the user said so.
        expected: what the judge says is what the user expects.
    """
    both = {r.name for g in (plain.graph, c.graph) for n in g.nodes for r in n.results}
    noise = {name: Noise() for name in both}
    exact = {name for name, a in runs[0][2].items() if numbers(a, name, c.interface) is None}
    own = {name: Noise() for name in runs[0][2]}
    outputs = {name: (Noise(), Noise()) for name in runs[0][2]}
    for fed, judged, got in runs:
        want, have = _values(plain.graph, fed), _values(c.graph, fed)
        rounded = plain.graph.evaluate(fed, extents=plain.graph.extents_of(fed))
        for name in noise:
            if name in want and name in have and want[name].shape == have[name].shape:
                noise[name].add(want[name], have[name])
        for name, (f32, judge) in outputs.items():
            if name in want:
                real = _as_stored(want[name], rounded[name])
                add_output(f32, name, c.interface, real, got[name])
                add_output(own[name], name, c.interface, real, rounded[name])
            if name in judged and judged[name].size == got[name].size:  # axes may be squeezed out
                add_output(judge, name, c.interface, judged[name].reshape(got[name].shape), got[name])
    forms, products = forms_of(c), products_of(c)
    errors = {n: [error_of(noise, n in exact) for noise in both] for n, both in outputs.items() if both[0].samples}
    found = tuple(Output(n, f32, judge, n in exact) for n, (f32, judge) in errors.items())
    plainly = max((_error(n) for name, n in own.items() if name not in exact), default=0.0)
    allowed = min(allowed_of(forms, products, _bytewise(c.graph)) + 2 * plainly, MOST) if most is None else most
    return Precision(forms, products, found, _worst(c.graph, noise), allowed, most is not None, expected)


def numbers(array: Array, name: str, interface: Interface) -> Array | None:
    """The numbers that an output stands for; None for those of classes, and for text. Integers of 8 and 16 bits, if
    there are several, are those of images and of sound."""
    if name in interface.halves:
        return bf16_values(array)
    if name in interface.quantised and array.dtype.kind != "f":
        return interface.quantised[name].real(array)
    if array.dtype.kind in "iu" and array.dtype.itemsize <= 2 and array.size > 1 and name not in interface.texts:
        return array.astype(np.float32)
    return array if array.dtype.kind == "f" else None


def add_output(noise: Noise, name: str, interface: Interface, want: Array, got: Array) -> None:
    """One more sample of an output."""
    first, second = numbers(want, name, interface), numbers(got, name, interface)
    if first is not None and second is not None:
        noise.add(first, second)
    else:
        noise.add_exact(want, got)


def _as_stored(real: Array, rounded: Array) -> Array:
    """Floats of 64 bits, infinite where what they are stored in has no room for them."""
    if real.dtype.kind != "f" or rounded.dtype.kind != "f" or real.shape != rounded.shape:
        return real
    with np.errstate(over="ignore"):
        beyond = np.isinf(real.astype(rounded.dtype))
    return np.where(beyond, np.copysign(np.inf, real), real)


def _values(graph: Graph, fed: Mapping[str, Array]) -> dict[str, Array]:
    return graph.evaluate(fed, wide=True, keep=True, extents=graph.extents_of(fed))


def error_of(noise: Noise, exact: bool) -> float:
    """The error of what `add_output` has added up: of exact outputs, the part of the elements that are others."""
    return noise.relative if exact else _error(noise)


def _error(noise: Noise) -> float:
    return math.sqrt(noise.relative)


def _worst(graph: Graph, noise: Mapping[str, Noise]) -> tuple[str, float, float] | None:
    """The layer whose result has the most more error than what it reads."""
    layers = []
    for node in graph.nodes:
        after = max((_error(noise[r.name]) for r in node.results), default=0.0)
        before = max((_error(noise[v.name]) for v in node.inputs if v.name in noise), default=0.0)
        if any(noise[r.name].samples for r in node.results) and after > before:
            layers.append((node.where, after - before, after))
    return max(layers, key=lambda layer: layer[1], default=None)
