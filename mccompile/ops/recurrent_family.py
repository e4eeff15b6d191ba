"""The front ends of LSTM, GRU and RNN: the input's half as one matrix product, then a cell per direction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.onnxio.model import PRIVATE
from mccompile.ops.activations import ACTIVATIONS, Function, activation_functions, clamp
from mccompile.ops.concat import Concat
from mccompile.ops.filled import repeated
from mccompile.ops.frontend import Import, widened
from mccompile.ops.matmul import MatMul
from mccompile.ops.recurrent import Gru, Lstm, Recurrent, Rnn
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice

TOLERANCE = {"f32": 3e-6, "f16": 8e-3}
"""Errors of single steps feed back; onnxruntime's own sigmoid and tanh are rational approximations."""

MULTIPLIED = f"{PRIVATE}multiplied"
"""An attribute for front ends of other operators: input 1 has no weights, but the products of the input by these,
[directions, T * B, G*H]; what was quantised there, and the state may be, too: it is rounded to fixed steps where it
is between -1 and 1."""

_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


@dataclass(frozen=True)
class _Node:
    """What the three operators share: extents, directions, and the operands of all cells."""

    n: Import
    gates: int
    reversed: tuple[bool, ...]
    functions: tuple[Function, ...]  # per direction, those of one after those of the other
    outputs: tuple[str, ...]
    hidden: int
    multiplied: bool

    def function(self, direction: int, index: int, clipped: bool = True) -> ex.Expr:
        """An activation of a direction as an expression over x0, its argument clipped if the node says so."""
        x: ex.Expr = ex.var(0, self.n.input(0).dtype)
        clip = self.n.attr("clip", 0.0)
        if clipped and clip > 0:
            x = clamp(x, -clip, clip)
        return self.functions[direction * (len(self.functions) // len(self.reversed)) + index](x)

    def part(self, i: int, direction: int, suffix: str) -> Value | None:
        """Input ``i``, if present, of one direction."""
        value = self.n.optional(i)
        if value is None:
            return None
        if value.shape[:1] != (len(self.reversed),):
            raise self.n.error(f"input {i} must have {len(self.reversed)} as its first extent, one per direction")
        picked = _cut(self.n, value, direction, direction + 1, f"{suffix}{direction}")
        return self.n.reshape(picked, value.shape[1:], f"{suffix}{direction}")

    def state(self, i: int, direction: int, suffix: str) -> Value | None:
        """A state at the start; None where it is 0, as cells begin without one."""
        value = self.part(i, direction, suffix)
        if value is None or value.shape != (self.n.input(0).shape[1], self.hidden):
            return value
        first = repeated(self.n.graph, value)
        return None if first is not None and first == 0 and not np.signbit(first) else value

    def weights(self, i: int, direction: int, suffix: str) -> Value:
        value = self.part(i, direction, suffix)
        rows = self.gates * self.hidden
        if value is None or value.shape[0] != rows:
            raise self.n.error(f"input {i} must have {rows} rows: {self.gates} gates of hidden_size {self.hidden}")
        return value

    def biases(self, direction: int) -> tuple[Value, Value] | None:
        """The biases of the input's and of the recurrent product, [G*H] each."""
        both = self.part(3, direction, "bias")
        if both is None:
            return None
        width = self.gates * self.hidden
        if both.shape != (2 * width,):
            raise self.n.error(f"the biases must have {2 * width} elements per direction")
        first = _cut(self.n, both, 0, width, f"input_bias{direction}")
        return first, _cut(self.n, both, width, 2 * width, f"recurrent_bias{direction}")

    def input_product(self, direction: int, bias: Value | None) -> Value:
        """x W^T + bias for all steps at once, in the type that it is computed in: [T, B, G*H]."""
        n, x = self.n, self.n.input(0)
        steps, batch, depth = x.shape
        if self.multiplied:
            given = self.part(1, direction, "product")
            assert given is not None
            body = ex.apply("add", ex.var(0, x.dtype), ex.var(1, x.dtype))
            based = given if bias is None else n.map(body, [given, bias], f"based{direction}")
            return n.reshape(based, (steps, batch, self.gates * self.hidden), f"gates{direction}")
        w = self.weights(1, direction, "w")
        if w.shape[1] != depth:
            raise n.error(f"input 1 has weights for {w.shape[1]} features, but the input has {depth}")
        rows = n.reshape(x, (steps * batch, depth), f"rows{direction}")
        body = ex.apply("add", ex.acc(x.dtype), ex.var(0, x.dtype))
        added: dict[str, Any] = {} if bias is None else {"extras": [bias], "post": {0: body}}
        op, suffix = MatMul(False, True), f"product{direction}"
        product = n.inner(op, [rows, w], suffix, pre=widened(rows, w), **added)
        return n.reshape(product, (steps, batch, self.gates * self.hidden), f"gates{direction}")

    def lengths(self) -> Value | None:
        """The operand of sequence lengths, absent if it says nothing."""
        value = self.n.optional(4)
        if value is not None and self.n.is_const(4):
            steps, given = self.n.input(0).shape[0], self.n.const(4, "sequence_lens")
            if given.min(initial=0) < 0 or given.max(initial=0) > steps:
                raise self.n.error(f"sequence_lens {given.tolist()} are not all within [0, {steps}]")
            return None if np.all(given == steps) else value
        return value

    def rounding(self, direction: int) -> str:
        """How the state of an LSTM is rounded before weights multiply it: o * h(c) is between -1 and 1."""
        if not self.multiplied:
            return ""
        for index, bounded in ((0, "sigmoid"), (2, "tanh")):
            function = self.function(direction, index)
            if not isinstance(function, ex.Apply) or function.fn != bounded:
                return ""
        begins = self.n.optional(5)
        first = np.zeros(()) if begins is None else repeated(self.n.graph, begins)
        return "fixed" if first is not None and abs(float(first)) <= 1 else ""

    def emit(self, cells: Sequence[Recurrent], operands: Sequence[Sequence[Value | None]]) -> None:
        """Emit one cell per direction and join their results as ONNX orders them."""
        made: list[list[Value]] = []
        for d, (cell, given) in enumerate(zip(cells, operands, strict=True)):
            made.append(self.n.inners(cell, given, [f"{name}{d}" for name in self.outputs]))
        for i, name in enumerate(self.outputs):
            parts = [self._with_direction(results[i], f"{name}{d}") for d, results in enumerate(made)]
            joined = parts[0] if len(parts) == 1 else self.n.inner(Concat(len(parts[0].shape) - 3), parts, name)
            self.n.bind("yhc".index(name), joined)

    def _with_direction(self, value: Value, suffix: str) -> Value:
        """[T, B, H] -> [T, 1, B, H]; [B, H] -> [1, B, H]."""
        *steps, batch, hidden = value.shape
        return self.n.reshape(value, (*steps, 1, batch, hidden), f"{suffix}.one")


def _cut(n: Import, value: Value, start: int, stop: int, suffix: str) -> Value:
    """Elements [start, stop) of the first axis: a constant stays one."""
    if (start, stop) == (0, value.shape[0]):
        return value
    if value in n.graph.constants:
        return n.constant(suffix, n.graph.array(value)[start:stop])
    rank = len(value.shape)
    starts = (start,) + (0,) * (rank - 1)
    return n.inner(Slice(starts, (1,) * rank, (stop - start, *value.shape[1:])), [value], f"{suffix}.slice")


def _read(n: Import, gates: int, defaults: tuple[str, ...]) -> _Node:
    x, r = n.input(0), n.input(2)
    if len(x.shape) != 3 or len(r.shape) != 3 or len(n.input(1).shape) != 3:
        raise n.error("the input and both weights must have rank 3")
    if n.attr("layout", 0):
        raise n.error("layout must be 0 here: the importer transposes what is batch-first")
    direction = n.attr("direction", "forward")
    if direction not in _DIRECTIONS:
        raise n.error(f"direction {direction!r} is unknown")
    hidden = n.attr("hidden_size", r.shape[2])
    if hidden != r.shape[2]:
        raise n.error(f"hidden_size is {hidden}, but the recurrent weights have {r.shape[2]} columns")
    many = len(_DIRECTIONS[direction])
    names = n.attr("activations", defaults * many)
    if many == 1 and names == 2 * names[: len(defaults)]:
        names = names[: len(defaults)]  # onnxruntime writes RNN's default, which is of two directions
    if len(names) != len(defaults) * many:
        raise n.error(f"{len(names)} activations for {many} directions, which need {len(defaults)} each")
    try:
        alpha, beta = n.attr("activation_alpha", (), float), n.attr("activation_beta", (), float)
        functions = activation_functions(names, alpha, beta)
    except ValueError as e:
        raise n.error(str(e)) from e
    outputs = tuple(name for name, used in zip("yhc", n.node.outputs, strict=False) if used)
    return _Node(n, gates, _DIRECTIONS[direction], tuple(functions), outputs, hidden, bool(n.attr(MULTIPLIED, 0)))


def _sum(n: Import, biases: tuple[Value, Value] | None, suffix: str) -> Value | None:
    if biases is None:
        return None
    dtype = biases[0].dtype
    return n.map(ex.apply("add", ex.var(0, dtype), ex.var(1, dtype)), list(biases), suffix)


def _sample(d: Draw, gates: int, names: int, inputs: int, outputs: int) -> Case:
    """A case of any of the three: the first ``inputs`` inputs, each optional one present or not."""
    steps, batch, depth, hidden = d.int(1, 5), d.int(1, 3), d.int(1, 6), d.choice([1, 3, 4, 5, 9])
    direction = d.choice(["forward", "reverse", "bidirectional"])
    many = len(_DIRECTIONS[direction])
    rows = gates * hidden
    drawn = d.bool()
    bound = 0.5 if drawn else 1.5  # gates without bounds make large weights explode
    given: list[np.ndarray | None] = [d.array((steps, batch, depth))]
    given += [d.array((many, rows, e), "f32", -bound, bound) for e in (depth, hidden)]
    given.append(d.array((many, 2 * rows)) if d.bool() else None)
    given.append(d.array((batch,), "i32", 1, steps) if d.int(0, 3) == 0 else None)
    shapes = ((many, batch, hidden), (many, batch, hidden), (many, 3 * hidden))
    given += [d.array(s, "f32", -1, 1) if d.bool() else None for s in shapes]
    attrs: dict[str, object] = {"hidden_size": hidden, "direction": direction}
    if d.int(0, 2) == 0:
        attrs["clip"] = 1.5
    if drawn:
        attrs["activations"] = [d.choice(list(ACTIVATIONS)) for _ in range(names * many)]
        attrs["activation_alpha"] = [0.25, 0.75, 0.5] * many
        attrs["activation_beta"] = [0.5, 0.25, 0.75] * many
    constant = frozenset(d.choice([(), (1, 2, 3, 7), (1, 2, 3, 4, 5, 6, 7)]))
    return Case(given[:inputs], attrs, constant, outputs, 1e-5 if drawn else None)


def _sample_lstm(d: Draw) -> Case:
    case = _sample(d, 4, 3, 8, d.int(1, 3))
    return replace(case, attrs={**case.attrs, "input_forget": d.int(0, 1)})


@onnx_op("LSTM", sample=_sample_lstm, tolerance=TOLERANCE)
def import_lstm(n: Import) -> None:
    node = _read(n, 4, ("Sigmoid", "Tanh", "Tanh"))
    forgets = n.flag("input_forget")
    cells, operands = [], []
    for d, reverse in enumerate(node.reversed):
        f, g, h = (node.function(d, i, clipped=i < 2) for i in range(3))
        x = node.input_product(d, _sum(n, node.biases(d), f"bias{d}"))
        cells.append(Lstm(node.outputs, reverse, f, g, h, forgets, rounded=node.rounding(d)))
        states = [node.state(5, d, "h"), node.state(6, d, "c"), node.part(7, d, "peepholes")]
        operands.append([x, node.weights(2, d, "r"), node.lengths(), *states])
    node.emit(cells, operands)


def _sample_gru(d: Draw) -> Case:
    case = _sample(d, 3, 2, 6, d.int(1, 2))
    return replace(case, attrs={**case.attrs, "linear_before_reset": d.int(0, 1)})


@onnx_op("GRU", sample=_sample_gru, tolerance=TOLERANCE)
def import_gru(n: Import) -> None:
    """With linear_before_reset the recurrent bias of gate h stays out of the sum: it is scaled by the reset gate."""
    node = _read(n, 3, ("Sigmoid", "Tanh"))
    linear_first = n.flag("linear_before_reset")
    cells, operands = [], []
    for d, reverse in enumerate(node.reversed):
        biases, inner = node.biases(d), None
        if biases is not None and linear_first:
            inner = _cut(n, biases[1], 2 * node.hidden, 3 * node.hidden, f"inner_bias{d}")
            gates = n.constant(f"gates{d}", np.repeat([1, 1, 0], node.hidden).astype(inner.dtype.numpy))
            kept = ex.apply("mul", ex.var(0, inner.dtype), ex.var(1, inner.dtype))
            biases = (biases[0], n.map(kept, [biases[1], gates], f"outer_bias{d}"))
        x = node.input_product(d, _sum(n, biases, f"bias{d}"))
        cells.append(Gru(node.outputs, reverse, node.function(d, 0), node.function(d, 1), linear_first))
        operands.append([x, node.weights(2, d, "r"), node.lengths(), node.state(5, d, "h"), inner])
    node.emit(cells, operands)


def _sample_rnn(d: Draw) -> Case:
    return _sample(d, 1, 1, 6, d.int(1, 2))


@onnx_op("RNN", sample=_sample_rnn, tolerance=TOLERANCE)
def import_rnn(n: Import) -> None:
    node = _read(n, 1, ("Tanh",))
    cells, operands = [], []
    for d, reverse in enumerate(node.reversed):
        x = node.input_product(d, _sum(n, node.biases(d), f"bias{d}"))
        cells.append(Rnn(node.outputs, reverse, node.function(d, 0)))
        operands.append([x, node.weights(2, d, "r"), node.lengths(), node.state(5, d, "h")])
    node.emit(cells, operands)
