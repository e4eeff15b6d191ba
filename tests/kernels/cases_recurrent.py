"""Networks that force the vector forms of the recurrent cells: units around tiles, directions, states, batches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.kernels.cases import TOLERANCE, Net, VariantCase

_GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def cell(
    op: str, steps: int, batch: int, hidden: int, states: bool, peepholes: bool = False,
    lengths: Sequence[int] | None = None, made: bool = False, **attrs: object,
) -> VariantCase:  # fmt: skip
    """With ``made`` weights are computed when the network runs."""

    def build(n: Net) -> Sequence[str]:
        rows, depth = _GATES[op] * hidden, 7
        many = 2 if attrs.get("direction") == "bidirectional" else 1
        given = [n.input(steps, batch, depth)]
        for shape in ((many, rows, depth), (many, rows, hidden)):
            given.append(n("Mul", n.input(*shape), n.constant(np.float32(0.1))) if made else n.weight(*shape))
        given.append(n.weight(many, 2 * rows))
        given.append("" if lengths is None else n.constant(np.array(lengths, np.int32)))
        if states:
            given.append(n.input(many, batch, hidden))
            given += [n.input(many, batch, hidden)] if op == "LSTM" else []
        if peepholes:
            given += [""] * (7 - len(given)) + [n.weight(many, 3 * hidden)]
        return n.several(op, given, 3 if op == "LSTM" else 2, hidden_size=hidden, **attrs)

    name = "_".join([op.lower(), str(steps), str(batch), str(hidden), *map(str, attrs.values())])
    name += "_peepholes" * peepholes + "_made" * made + "".join(f"_{n}" for n in lengths or ())
    scaled = op == "GRU" and not attrs.get("linear_before_reset")
    kernel = "gru.scaled" if scaled else f"{op.lower()}.vector"
    tolerance = TOLERANCE if hidden < 500 else 2 * TOLERANCE  # of sums of as many, without FMA
    return VariantCase(name, kernel, build, tolerance=tolerance)


RECURRENT = [
    cell("LSTM", 5, 1, 32, False),
    cell("LSTM", 4, 2, 5, True),
    cell("LSTM", 3, 1, 33, True, direction="reverse"),
    cell("LSTM", 3, 2, 17, False, direction="bidirectional", clip=1.5),
    cell("GRU", 5, 1, 16, True, linear_before_reset=1),
    cell("GRU", 4, 2, 21, False, direction="bidirectional", linear_before_reset=1),
    cell("GRU", 5, 1, 16, True),
    cell("GRU", 4, 2, 21, False, direction="bidirectional"),
    cell("GRU", 1, 3, 9, True, direction="reverse"),
    cell("RNN", 5, 2, 9, True, direction="reverse"),
    cell("RNN", 3, 1, 40, False, activations=["Relu"]),
    cell("LSTM", 1, 1, 24, True),
    cell("GRU", 1, 3, 9, True, direction="bidirectional", linear_before_reset=1),
    cell("RNN", 1, 2, 1, True, direction="reverse"),
    cell("LSTM", 3, 5, 40, True),
    cell("LSTM", 2, 3, 1030, False),
    cell("GRU", 3, 7, 20, True, direction="reverse"),
    cell("GRU", 2, 9, 37, True, linear_before_reset=1),
    cell("GRU", 4, 1, 70, True, linear_before_reset=1),
    cell("RNN", 4, 6, 33, True),
    cell("LSTM", 4, 1, 25, False, peepholes=True),
    cell("LSTM", 3, 2, 17, True, peepholes=True, direction="bidirectional"),
    cell("LSTM", 3, 5, 40, True, peepholes=True, direction="reverse", clip=1.5),
    cell("LSTM", 4, 1, 33, True, input_forget=1),
    cell("LSTM", 2, 3, 9, False, peepholes=True, input_forget=1),
    cell("LSTM", 5, 3, 17, True, lengths=(3, 1, 5)),
    cell("LSTM", 4, 2, 33, False, lengths=(0, 4), direction="bidirectional"),
    cell("GRU", 4, 3, 20, True, lengths=(4, 2, 1), direction="reverse"),
    cell("GRU", 3, 2, 21, False, lengths=(2, 3), linear_before_reset=1),
    cell("RNN", 1, 2, 9, False, lengths=(1, 0)),
    cell("LSTM", 4, 1, 33, True, made=True),
    cell("LSTM", 3, 5, 40, False, made=True, direction="bidirectional"),
    cell("LSTM", 3, 2, 5, True, made=True, peepholes=True, lengths=(3, 1)),
    cell("GRU", 4, 2, 21, False, made=True, direction="bidirectional"),
    cell("GRU", 3, 7, 20, True, made=True, direction="reverse"),
    cell("GRU", 4, 1, 70, True, made=True, linear_before_reset=1),
    cell("RNN", 4, 6, 33, True, made=True),
    cell("RNN", 1, 2, 1, True, made=True, direction="reverse"),
    cell("RNN", 3, 1, 520, True, made=True),
]
