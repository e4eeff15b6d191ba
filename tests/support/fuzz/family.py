"""Compositions of which an extent is known when the program runs only.

Every node is run by onnxruntime for each number that the extent may have, and kept only if all of them are taken.
Example: with `MAIN` 7 and the others 1 and 4, an input drawn as [2,7] is called [2,n] and is [2,1] and [2,4], too; a
Reshape of it to [14] is refused by onnxruntime for n = 1, and not added; one to [2,-1] is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from mccompile.ops.draw import SeededDraw
from tests.support.compose import network
from tests.support.compose.network import Array, Arrays, Composer, Composition, Refused, Step

MAIN = 7
"""The extent of most values: axes of it are called n."""


class Draw(SeededDraw):
    """Shapes that have the extent often."""

    def shape(self, rank: int, low: int = 1, high: int = 5) -> tuple[int, ...]:
        made = [self.random.randint(low, high) for _ in range(rank)]
        if rank and self.random.random() < 0.75 and low <= MAIN:
            made[self.random.randrange(rank)] = MAIN
        return tuple(made)


@dataclass
class Family(Composition):
    """A composition and its values for other extents.

    Attributes:
        others: for each other extent, every value by name.
        axes: of inputs, which axes are n.
        states: values that may be kept as inputs of the next run.
    """

    others: dict[int, dict[str, Array]] = field(default_factory=dict)
    axes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    @property
    def varies(self) -> bool:
        return any(self.axes.get(n) for n in self.inputs)

    def model(self) -> onnx.ModelProto:
        inputs = []
        for name, array in self.inputs.items():
            inputs.append(network.info(name, array))
            for axis in self.axes.get(name, ()):
                inputs[-1].type.tensor_type.shape.dim[axis].dim_param = "n"
        nodes = [s.proto(f"{s.op_type}_{i}") for i, s in enumerate(self.steps)]
        outputs = [
            onnx.ValueInfoProto(name=n) if self.others else network.info(n, self.values[n]) for n in self.outputs
        ]
        constants = [numpy_helper.from_array(a, n) for n, a in self.constants.items()]
        graph = helper.make_graph(nodes, "family", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=network.opsets(self.steps), ir_version=10)

    def runs(self) -> dict[int, Arrays]:
        """The inputs for each extent."""
        found: dict[int, Arrays] = {MAIN: self.inputs}
        for extent, values in self.others.items():
            found[extent] = {n: values[n] for n in self.inputs}
        return found

    def as_inputs(self, names: Sequence[str]) -> dict[str, tuple[int, ...]] | None:
        """The axes of values that are n, if they are to be inputs; None if one has an extent that depends on n."""
        axes = {}
        for name in names:
            mine, found = self.values[name], []
            for axis, extent in enumerate(mine.shape):
                at = {n: v[name].shape[axis] for n, v in self.others.items()}
                if set(at.values()) <= {extent}:
                    continue
                if extent != MAIN or any(n != e for n, e in at.items()):
                    return None
                found.append(axis)
            axes[name] = tuple(found)
        return axes

    def text(self) -> str:
        varying = {n: a for n, a in self.axes.items() if a and n in self.inputs}
        return (f"n is at {varying}\n" if varying else "") + super().text()


class FamilyComposer(Composer):
    """Adds to a family; with no ``extents``, to one of fixed shapes."""

    net: Family

    def __init__(self, seed: int, extents: Sequence[int]) -> None:
        super().__init__(seed)
        self.d = Draw(seed) if extents else SeededDraw(seed)
        self.net = Family(others={e: {} for e in extents})

    def input(self, array: Array) -> str:
        name = super().input(array)
        mine = self.net.values[name]
        if self.net.others:
            self.net.axes[name] = tuple(i for i, e in enumerate(mine.shape) if e == MAIN)
        for extent, values in self.net.others.items():
            other = mine
            for axis in self.net.axes[name]:
                other = np.take(other, np.arange(extent) % MAIN, axis)
            values[name] = np.asarray(other, order="C")
        return name

    def constant(self, array: Array) -> str:
        name = super().constant(array)
        for values in self.net.others.values():
            values[name] = self.net.values[name]
        return name

    def apply(
        self, op: str, inputs: Sequence[str], outputs: int = 1, domain: str = "", captured: Sequence[str] = (),
        **attrs: Any,
    ) -> list[str]:  # fmt: skip
        base = self._name("v")
        names = tuple(base if outputs == 1 else f"{base}_{i}" for i in range(outputs))
        step = Step(op, tuple(inputs), names, attrs, domain, tuple(captured))
        runs = {MAIN: self.net.values, **self.net.others}
        found = {extent: self._run(step, values) for extent, values in runs.items()}
        for arrays in zip(*found.values(), strict=True):
            if len({a.ndim for a in arrays}) > 1:
                raise Refused("the rank varies")
        for extent, made in found.items():
            runs[extent].update(zip(names, made, strict=True))
        self.net.steps.append(step)
        return list(names)

    def _run(self, step: Step, values: Arrays) -> list[Array]:
        if step.op_type.startswith("Reduce") and not values[step.inputs[0]].size:
            raise Refused("onnxruntime refuses to reduce nothing")
        if step.op_type in ("LSTM", "GRU", "RNN") and not values[step.inputs[0]].size:
            raise Refused("onnxruntime ends the process where a cell has no step")
        if _reads_beyond(step, values):
            raise Refused("onnxruntime rounds the extent of what a window does not fit into towards 0, to 1")
        arrays = self.net.engine.run(step, values)
        for array in arrays:
            if array.size or not self.net.others:
                network.require_comparable(array)
            if step.op_type in ("Cast", "CastLike"):
                network.require_fit(values[step.inputs[0]], array.dtype)
        return arrays

    def some(self, kinds: str = "f", rank: int = 1) -> str:
        """A value of the pool with at least so many axes, or an input."""
        fits = [n for n in self.pool if self.array(n).dtype.kind in kinds and self.array(n).ndim >= rank]
        if fits and self.chance(75):
            return self.d.choice(fits)
        shape = self.d.shape(self.d.int(max(rank, 1), 4), 1, 5)
        return self.fresh(np.asarray(self.d.array(shape, "f32" if "f" in kinds else "i64", -2, 2)))

    def fresh(self, array: Array) -> str:
        """An input that later nodes may read, too."""
        name = self.input(array)
        self.pool.append(name)
        return name

    def axis(self, name: str) -> int:
        return self.d.int(0, self.array(name).ndim - 1)

    def i64(self, *values: int) -> str:
        return self.ints(*values)

    def index(self, value: int) -> str:
        """A number of its own, without axes."""
        return self.constant(np.array(value, np.int64))


def _reads_beyond(step: Step, values: Arrays) -> bool:
    """True if a window does not fit into what it reads with its padding: (1 - 2) / 2 + 1 results are 0, or 1."""
    kernel = step.attrs.get("kernel_shape")
    if kernel is None or step.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return False
    rank, extents = len(kernel), values[step.inputs[0]].shape[2:]
    pads, dilations = step.attrs.get("pads", (0,) * 2 * rank), step.attrs.get("dilations", (1,) * rank)
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    room = [e + pads[i] + pads[i + rank] for i, e in enumerate(extents)]
    return any(span > most for span, most in zip(spans, room, strict=False))
