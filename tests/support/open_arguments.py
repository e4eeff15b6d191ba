"""Nodes whose arguments are numbers of the run, extents and constants side by side, of operands with extents of the
run: drawn for tests.

Worked example: Pad(x[n, 3], Concat([0], Shape(o)[1:2], r0, [2])) has four pads, of which the second is the extent m
and the third an input of the network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.support.draw import SeededDraw
from tests.support.small_models import Array, Maker

MOST = {"n": 6, "m": 5}
BOUND = 40
"""Of each extent that the run finds out."""


@dataclass
class Open:
    """A network around one node, ``given`` with the numbers that are its inputs and their ranges; ``parts``: the axis
    that these make up."""

    label: str
    model: onnx.ModelProto
    shape: tuple[int | str, ...]
    given: Mapping[str, tuple[int, int]]
    least: int
    bounds: Mapping[str, int]
    parts: int | None = None

    def dims(self) -> dict[str, str]:
        return {name: f"{self.least}..{most}" for name, most in MOST.items()}

    def feed(self, seed: int) -> dict[str, Array]:
        """What the network is given in a run: mostly what its node takes."""
        d = SeededDraw(seed)
        extents = {name: d.int(self.least, most) for name, most in MOST.items()}
        shape = tuple(extents[e] if isinstance(e, str) else e for e in self.shape)
        numbers = {name: d.int(low, high) for name, (low, high) in self.given.items()}
        if self.parts is not None and seed % 4:
            left = shape[self.parts]
            *names, last = numbers
            for name in names:
                numbers[name] = d.int(0, left)
                left -= numbers[name]
            numbers[last] = left
        rng = np.random.default_rng(seed)
        x, o = rng.normal(0, 1, shape).astype(np.float32), np.ones((extents["n"], extents["m"]), np.float32)
        return {"x": x, "o": o, **{name: np.array([number]) for name, number in numbers.items()}}


@dataclass
class _Drawn:
    """A network while it is drawn."""

    d: SeededDraw
    m: Maker = field(default_factory=lambda: Maker(opset=18))
    shape: tuple[Any, ...] = ()
    given: dict[str, tuple[int, int]] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y",)
    parts: int | None = None

    def ints(self, *numbers: int) -> str:
        return self.m.const(np.array(numbers, np.int64))

    def number(self, low: int, high: int, kinds: str = "crre") -> str:
        """A vector of one number: a constant, an input, or an extent."""
        kind = self.d.choice(kinds)
        if kind == "c":
            return self.ints(self.d.int(low, high))
        if kind == "e":
            axis = self.d.int(0, 1)
            return self.m.node("Slice", [self.m.node("Shape", ["o"]), self.ints(axis), self.ints(axis + 1)])
        name = self.m.input(f"r{len(self.given)}", (1,), TensorProto.INT64)
        self.given[name] = low, high
        return name

    def numbers(self, count: int, low: int, high: int, kinds: str = "crre") -> str:
        return self.m.node("Concat", [self.number(low, high, kinds) for _ in range(count)], axis=0)

    def emit(self, op: str, inputs: list[str], **attributes: Any) -> None:
        self.m.nodes.append(helper.make_node(op, inputs, list(self.outputs), name="node", **attributes))


def _pad(c: _Drawn) -> None:
    rank, mode = len(c.shape), c.d.choice(["constant", "edge", "reflect", "wrap"])
    low, axes = -1 if mode == "constant" else 0, [""]
    if c.d.bool():
        chosen = sorted({c.d.int(0, rank - 1) for _ in range(rank)})
        rank, axes = len(chosen), [c.ints(*chosen)]
    c.emit("Pad", ["x", c.numbers(2 * rank, low, 2), "", *axes], mode=mode)


def _split(c: _Drawn) -> None:
    c.parts, count = c.d.int(0, len(c.shape) - 1), c.d.int(2, 3)
    c.outputs = tuple(f"y{i}" for i in range(count))
    c.emit("Split", ["x", c.numbers(count, 0, 3, "r")], axis=c.parts)


def _reshape(c: _Drawn) -> None:
    """Axes as they are, or merged behind the first ones; the last is given by -1, of the run too."""
    kept = c.d.int(0, len(c.shape) - 1)
    extents = []
    for axis in range(kept):
        own = c.m.node("Slice", [c.m.node("Shape", ["x"]), c.ints(axis), c.ints(axis + 1)])
        extents.append(own if c.d.bool() else c.ints(0))
    c.emit("Reshape", ["x", c.m.node("Concat", [*extents, c.number(-1, -1, "cr")], axis=0)])


def _topk(c: _Drawn) -> None:
    c.outputs = ("y", "at")
    axis = c.d.int(0, len(c.shape) - 1)
    most = c.shape[axis] if isinstance(c.shape[axis], int) else 3
    c.emit("TopK", ["x", c.number(1, most)], axis=axis, largest=c.d.int(0, 1))


def _one_hot(c: _Drawn) -> None:
    rank = len(c.shape)
    at = c.m.node("Cast", [c.m.node("Mul", ["x", c.m.const(np.float32(4))])], to=TensorProto.INT64)
    values = c.m.const(np.array([0.5, 2], np.float32))
    c.emit("OneHot", [at, c.number(1, 6), values], axis=c.d.int(-rank - 1, rank))


def _slice(c: _Drawn) -> None:
    axes = sorted({c.d.int(0, len(c.shape) - 1) for _ in c.shape})
    ends = [c.numbers(len(axes), -3, high) for high in (3, 5)]
    steps = c.numbers(len(axes), *c.d.choice([(1, 2), (-2, -1)]), c.d.choice(["c", "r"]))
    c.emit("Slice", ["x", *ends, c.ints(*axes), steps])


def _expand(c: _Drawn) -> None:
    count = c.d.int(1, 3)
    c.emit("Expand", [c.m.weight((1,) * count), c.numbers(count, 1, 3)])


DRAWS: Mapping[str, Callable[[_Drawn], None]] = {
    "ConstantOfShape": lambda c: c.emit("ConstantOfShape", [c.numbers(c.d.int(1, 3), 0, 3)]),
    "Expand": _expand, "OneHot": _one_hot, "Pad": _pad, "Reshape": _reshape, "Slice": _slice, "Split": _split,
    "Tile": lambda c: c.emit("Tile", ["x", c.numbers(len(c.shape), 0, 3)]), "TopK": _topk,
}  # fmt: skip


def drawn(op: str, seed: int) -> Open:
    """A network around a node of that operator."""
    d = SeededDraw(seed)
    shape = [d.choice([1, 2, 4, "n", "m"]) for _ in range(d.int(1, 3))]
    shape[d.int(0, len(shape) - 1)] = "n"
    c = _Drawn(d, shape=tuple(shape))
    c.m.input("x", c.shape)
    c.m.input("o", ("n", "m"))  # type: ignore[arg-type]
    DRAWS[op](c)
    c.m.node("Relu", ["o"], "kept")
    infos = [helper.make_tensor_value_info("kept", TensorProto.FLOAT, None)]
    for name in c.outputs:
        dtype = TensorProto.INT64 if name == "at" else TensorProto.FLOAT
        infos.append(helper.make_tensor_value_info(name, dtype, None))
    graph = helper.make_graph(c.m.nodes, "open", c.m.inputs, infos, c.m.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    bounds = {f"{name}_{axis}": BOUND for name in c.outputs for axis in range(4)}
    return Open(f"{op} {seed} of {list(shape)}", model, c.shape, c.given, d.int(0, 1), bounds, c.parts)
