"""Networks of recurrent cells as exporters and people write them: turn by turn, in a Loop, in a Scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

BATCH, DEPTH, UNITS = 2, 3, 4
GATES = {"lstm": "iofg", "gru": "zrn", "rnn": "n"}


class Writer:
    """Nodes of one graph; constants go to the outermost one."""

    def __init__(self, constants: dict[str, np.ndarray] | None = None, prefix: str = "v") -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants = {} if constants is None else constants
        self.prefix = prefix

    def __call__(self, op: str, *inputs: str, outputs: int = 1, **attrs: Any) -> Any:
        names = [f"{self.prefix}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names[0] if outputs == 1 else names

    def constant(self, array: object, dtype: str = "float32") -> str:
        made = np.asarray(array, dtype)
        for name, known in self.constants.items():
            if known.dtype == made.dtype and np.array_equal(known, made) and known.shape == made.shape:
                return name
        name = f"k{len(self.constants)}"
        self.constants[name] = made
        return name


@dataclass
class Style:
    """How a cell is written; ``spoil`` is what is wrong with it."""

    kind: str
    products: str = "two"
    order: str = ""
    split: str = "Split"
    form: int = 0
    functions: tuple[str, str] = ("Sigmoid", "Tanh")
    linear_first: bool = True
    biased: bool = True
    spoil: str = ""
    seed: int = 0
    weights: dict[str, np.ndarray] = field(init=False)

    def __post_init__(self) -> None:
        r = np.random.default_rng(self.seed)
        self.order = self.order or GATES[self.kind]
        self.weights = {}
        for g in GATES[self.kind]:
            for name, shape in (("x", (DEPTH, UNITS)), ("h", (UNITS, UNITS)), ("bx", (UNITS,)), ("bh", (UNITS,))):
                scale = 0.6 if self.biased or name in "xh" else 0.0
                self.weights[name + g] = (r.normal(size=shape) * scale).astype(np.float32)

    # -- sums ----------------------------------------------------------------------------------------------------
    def _all(self, name: str, gates: str) -> np.ndarray:
        return np.concatenate([self.weights[name + g] for g in gates], axis=-1)

    def _parts(self, w: Writer, value: str, gates: str) -> dict[str, str]:
        if len(gates) == 1:
            return {gates: value}
        if self.split == "Split":
            parts = w("Split", value, outputs=len(gates), axis=1, num_outputs=len(gates))
            return dict(zip(gates, parts, strict=True))
        found = {}
        for i, g in enumerate(gates):
            ends = [w.constant([e], "int64") for e in (i * UNITS, (i + 1) * UNITS, 1)]
            found[g] = w("Slice", value, *ends)
        return found

    def _product(self, w: Writer, value: str, name: str, gates: str) -> str:
        if self.products == "gemm":
            weights, bias = self._all(name, gates).T, self._all("b" + name, gates)
            return str(w("Gemm", value, w.constant(weights), w.constant(bias), transB=1))
        product = w("MatMul", value, w.constant(self._all(name, gates)))
        return str(w("Add", product, w.constant(self._all("b" + name, gates)))) if self.biased else str(product)

    def sums(self, w: Writer, x: str, h: str, gates: str) -> dict[str, str]:
        """x W + h R + b of each gate."""
        gates = "".join(g for g in self.order if g in gates)
        if self.products == "joined":
            both = w("Concat", x, h, axis=1)
            weights = np.concatenate([self._all("x", gates), self._all("h", gates)])
            product = w("MatMul", both, w.constant(weights))
            return self._parts(w, w("Add", w.constant(self._all("bx", gates)), product), gates)
        if self.products == "gates":
            one = {g: (self._product(w, x, "x", g), self._product(w, h, "h", g)) for g in gates}
            return {g: w("Add", a, b) for g, (a, b) in one.items()}
        return self._parts(w, w("Add", self._product(w, h, "h", gates), self._product(w, x, "x", gates)), gates)

    # -- cells ---------------------------------------------------------------------------------------------------
    def turn(self, w: Writer, x: str, states: Sequence[str], number: int = 0) -> list[str]:
        """The states after a turn."""
        cell: Callable[..., list[str]] = getattr(self, f"_{self.kind}")
        spoil = self.spoil if not self.spoil.startswith("one ") or number == 2 else ""
        return cell(w, x, *states, self.spoil if spoil else "")

    def _lstm(self, w: Writer, x: str, h: str, c: str, spoil: str) -> list[str]:
        f, g = self.functions
        sums = self.sums(w, x, h, "iofg")
        if spoil == "one bias":
            sums["i"] = w("Add", sums["i"], w.constant(np.full(UNITS, 0.25)))
        if spoil == "state twice":
            sums["i"] = w("Add", sums["i"], h)
        if spoil == "product of states":
            sums["i"] = w("Add", sums["i"], w("Mul", h, c))
        made = {name: w(f, sums[name]) for name in "iof"}
        if spoil == "activation":
            made["o"] = w("HardSigmoid", sums["o"])
        if spoil == "one activation":
            made["o"] = w(g, sums["o"])
        new = w(g, sums["g"])
        forget = c if spoil == "square of the cell" else made["f"]
        kept = w("Mul", *((forget, c) if self.form % 2 else (c, forget)))
        c2 = w("Add", *((kept, w("Mul", made["i"], new)) if self.form < 2 else (w("Mul", new, made["i"]), kept)))
        if spoil == "clipped cell":
            c2 = w("Clip", c2, w.constant(-0.5), w.constant(0.5))
        out = w(g, c if spoil == "old cell" else c2)
        h2 = w("Mul", *((made["o"], out) if self.form % 2 else (out, made["o"])))
        return [w("Add", h2, h) if spoil == "residual" else h2, c2]

    def _gru(self, w: Writer, x: str, h: str, spoil: str) -> list[str]:
        f, g = self.functions
        if self.linear_first:
            of_x = self._parts(w, self._product(w, x, "x", self.order), self.order)
            of_h = self._parts(w, self._product(w, h, "h", self.order), self.order)
            z, r = (w(f, w("Add", of_h[name], of_x[name])) for name in "zr")
            n = w(g, w("Add", of_x["n"], w("Mul", r, of_h["n"])))
        else:
            sums = self.sums(w, x, h, "zr")
            z, r = w(f, sums["z"]), w(f, sums["r"])
            kept = w("Mul", h if spoil == "square of the state" else r, h)
            if spoil == "state twice":
                kept = w("Mul", kept, h)
            made = self.sums(w, x, kept, "n")["n"]
            if spoil == "both ways":
                made = w("Add", made, w("Mul", r, w("MatMul", h, w.constant(self.weights["hz"]))))
            n = w(g, made)
        if spoil == "other gate":
            r = w("Tanh", r)
            n = w("Mul", n, r)
        forms: list[Callable[[], str]] = [
            lambda: w("Add", w("Mul", z, h), w("Mul", w("Sub", w.constant(1.0), z), n)),
            lambda: w("Add", n, w("Mul", z, w("Sub", h, n))),
            lambda: w("Add", w("Sub", n, w("Mul", n, z)), w("Mul", h, z)),
            lambda: w("Add", w("Mul", w("Sub", w.constant(1.0), z), h), w("Mul", z, n)),
        ]
        if spoil == "weighted":
            forms[self.form] = lambda: w("Add", w("Mul", z, h), w("Mul", w("Sub", w.constant(0.5), z), n))
        return [forms[self.form]()]

    def _rnn(self, w: Writer, x: str, h: str, spoil: str) -> list[str]:
        read = w("Gather", h, w.constant([0] * BATCH, "int64"), axis=0) if spoil == "first sequence" else h
        made = w(self.functions[1], self.sums(w, x, read, "n")["n"])
        return [w("Add", made, w("Mul", h, w.constant(0.5))) if spoil == "leaky" else made]


@dataclass(frozen=True)
class Place:
    """Where the turns stand. ``zeros``: the first states are constants; ``back``: the last row is read first."""

    kind: str = "chain"
    turns: int = 5
    back: bool = False
    zeros: bool = False
    batch_first: bool = False


def model(style: Style, place: Place) -> onnx.ModelProto:
    """A network of one layer: rows x [turns, batch, depth] to all states, and the last ones."""
    w = Writer()
    states = ["h0", "c0"] if style.kind == "lstm" else ["h0"]
    inputs = [("x", (BATCH, place.turns, DEPTH) if place.batch_first else (place.turns, BATCH, DEPTH))]
    if place.zeros:
        states = [w.constant(np.zeros((BATCH, UNITS)))] * len(states)
    else:
        inputs += [(s, (BATCH, UNITS)) for s in states]
    outputs = {"chain": _chain, "loop": _loop, "scan": _scan}[place.kind](w, style, place, states)
    return network(w, dict(inputs), outputs)


def _info(name: str, shape: Sequence[int], dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _chain(w: Writer, style: Style, place: Place, states: list[str]) -> list[str]:
    rows, cells, axis = [], [], 1 if place.batch_first else 0
    for t in range(place.turns):
        at = place.turns - 1 - t if place.back else t
        x = w("Gather", "x", w.constant(at, "int64"), axis=axis)
        states = style.turn(w, x, states, t)
        rows.append(w("Unsqueeze", states[0], w.constant([axis], "int64")))
        cells.append(states[-1])
    every = w("Concat", *(rows[::-1] if place.back else rows), axis=axis)
    return [every, *states, *([cells[1]] if style.spoil == "cell in between" else [])]


def _loop(w: Writer, style: Style, place: Place, states: list[str]) -> list[str]:
    inner = Writer(w.constants, "b")
    names = [f"in_{i}" for i in range(len(states))]
    at = inner("Sub", w.constant(place.turns - 1, "int64"), "i") if place.back else "i"
    x = inner("Gather", "x", at, axis=1 if place.batch_first else 0)
    made = style.turn(inner, x, names)
    going = inner("Identity", "going")
    row = inner("Identity", made[0])
    begin = [_info("i", (), TensorProto.INT64), _info("going", (), TensorProto.BOOL)]
    given = [*begin, *(_info(n, (BATCH, UNITS)) for n in names)]
    ends = [_info(going, (), TensorProto.BOOL), *(_info(n, (BATCH, UNITS)) for n in (*made, row))]
    body = helper.make_graph(inner.nodes, "body", given, ends)
    count, go = w.constant(place.turns, "int64"), w.constant(True, "bool")
    found = w("Loop", count, go, *states, outputs=len(states) + 1, body=body)
    return [found[-1], *found[:-1]]


def looped(
    w: Writer, turn: Callable[[Writer, str, Sequence[str]], tuple[list[str], list[str]]], states: Sequence[str],
    turns: int, counting: bool = False,
) -> list[str]:  # fmt: skip
    """The last states and the rows of a Loop; ``turn`` writes the next states and the rows, of a row of x and states.

    ``counting``: as tf2onnx writes it, with carried numbers of which the condition is made.
    """
    inner = Writer(w.constants, "b")
    names = [f"in_{i}" for i in range(len(states))]
    counters, first = ["time", "count"] if counting else [], w.constant(0, "int32")
    made, rows = turn(inner, inner("Gather", "x", "time" if counting else "i", axis=0), names)
    rows = [inner("Identity", r) for r in rows]
    nexts = [inner("Add", c, w.constant(1, "int32")) for c in counters]
    going = inner("Identity", "going")
    if counting:
        end = w.constant(turns, "int32")
        going = inner("And", inner("Less", nexts[0], end), inner("Greater", end, nexts[1]))
    begin = [_info("i", (), TensorProto.INT64), _info("going", (), TensorProto.BOOL)]
    begin += [_info(c, (), TensorProto.INT32) for c in counters]
    ends = [_info(going, (), TensorProto.BOOL), *(_info(n, (), TensorProto.INT32) for n in nexts)]
    given = [_info(n, (BATCH, UNITS)) for n in names]
    body = helper.make_graph(
        inner.nodes, "body", [*begin, *given],
        [*ends, *(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in (*made, *rows))],
    )  # fmt: skip
    many = w.constant(2**62 if counting else turns, "int64")
    outputs = len(counters) + len(states) + len(rows)
    found = w("Loop", many, w.constant(True, "bool"), *[first] * len(counters), *states, outputs=outputs, body=body)
    return list(found[len(counters) :])


def network(w: Writer, inputs: dict[str, Sequence[int]], outputs: Sequence[str]) -> onnx.ModelProto:
    graph = helper.make_graph(
        w.nodes, "cells", [_info(*i) for i in inputs.items()],
        [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in w.constants.items()],
    )  # fmt: skip
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(made)


def _scan(w: Writer, style: Style, place: Place, states: list[str]) -> list[str]:
    inner = Writer(w.constants, "b")
    names = [f"in_{i}" for i in range(len(states))]
    made = style.turn(inner, "row", names)
    row = inner("Identity", made[0])
    given = [*(_info(n, (BATCH, UNITS)) for n in names), _info("row", (BATCH, DEPTH))]
    body = helper.make_graph(inner.nodes, "body", given, [_info(n, (BATCH, UNITS)) for n in (*made, row)])
    found = w(
        "Scan", *states, "x", outputs=len(states) + 1, body=body, num_scan_inputs=1,
        scan_input_axes=[1 if place.batch_first else 0], scan_input_directions=[int(place.back)],
        scan_output_directions=[int(place.back)],
    )  # fmt: skip
    return [found[-1], *found[:-1]]
