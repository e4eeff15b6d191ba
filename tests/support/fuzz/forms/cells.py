"""Recurrent cells as people write them: turn by turn, in a Loop, in a Scan; and their relatives that are none."""

from __future__ import annotations

import numpy as np

from tests.support import cells
from tests.support.compose import operands as on
from tests.support.fuzz.family import FamilyComposer
from tests.support.fuzz.forms.control import renamed

SPOILS = {
    "lstm": ("one bias", "state twice", "product of states", "activation", "clipped cell", "old cell", "residual",
             "square of the cell"),
    "gru": ("state twice", "other gate", "weighted", "square of the state"),
    "rnn": ("leaky", "first sequence"),
}


def cell(c: FamilyComposer) -> list[str]:
    """All states and the last ones of a layer; its operands may be mapped values of the pool."""
    kind = c.d.choice(sorted(cells.GATES))
    order = cells.GATES[kind]
    style = cells.Style(
        kind,
        c.d.choice(["two", "joined", "gates", "gemm"]),
        "".join(order[i] for i in c.d.permutation(len(order))),
        c.d.choice(["Split", "Slice"]),
        c.d.int(0, 3),
        linear_first=c.d.bool(),
        biased=c.chance(70),
        spoil=c.d.choice(SPOILS[kind]) if c.chance(25) else "",
        seed=c.d.int(0, 99),
    )
    place = cells.Place(
        c.d.choice(["chain", "loop", "scan"]), c.d.choice([1, 2, 5]), c.d.bool(), c.d.bool(), c.d.bool()
    )
    graph = cells.model(style, place).graph
    names = {}
    for port in graph.input:
        shape = tuple(d.dim_value for d in port.type.tensor_type.shape.dim)
        names[port.name] = _operand(c, shape)
    made = renamed(c, graph, names)
    return [on.mapped(c, made[0]), *made[1:]] if c.d.bool() else made


def _operand(c: FamilyComposer, shape: tuple[int, ...]) -> str:
    fits = [n for n in c.pool if c.array(n).shape == shape and c.array(n).dtype == np.float32]
    v = c.d.choice(fits) if fits and c.d.bool() else c.fresh(np.asarray(c.d.array(shape, "f32", -1, 1)))
    return on.mapped(c, v) if c.chance(30) else v
