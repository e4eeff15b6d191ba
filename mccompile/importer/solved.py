"""Integer inputs whose elements follow from the shapes that a model states of its outputs.

Worked example: CenterCropPad(x[5, 7], wanted[2]), written out, is some ten nodes, the last of which is
Slice(padded, start, start + wanted). With symbols for the elements of ``wanted`` the model is converted as far as
shapes go: its output has the shape [wanted_0, wanted_1]. It is stated to be [4, 9], and so is ``wanted``, a constant
for the nodes; the program ends with MCC_E_DIM where it is given others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.importer.extent_rules import Numbers
from mccompile.ir.dims import Dim, symbol, symbols, value
from mccompile.ir.graph import Graph, Value
from mccompile.onnxio import OnnxNode, OnnxValue
from mccompile.ops.elements import Elements, all_of
from mccompile.ops.frontend import Import

MAX_ELEMENTS = 8
"""Shapes have few numbers: longer inputs are data."""

MAX_NUMBER = 2047
"""Symbols are tried up to here: of so many values the range of an extent is exact (`ir.dims_ranges.MAX_TRIED`)."""

MAX_TRIED = 1 << 16
"""So many combinations of what symbols may be are tried for one extent."""

Equation = tuple[int, int]
"""An extent, and the number that it is."""


@dataclass(frozen=True)
class Unknown:
    """The elements of an input: extents, of which some are symbols."""

    elements: Numbers

    @staticmethod
    def of(given: OnnxValue) -> Unknown | None:
        """Symbols for the elements of an input; None where these are no numbers that shapes could be made of."""
        shape = given.shape or ()
        extents = tuple(e for e in shape if isinstance(e, int) and not isinstance(e, Dim))
        if given.dtype not in ("i32", "i64") or len(shape) > 1 or len(extents) != len(shape):
            return None
        if not 0 < math.prod(extents) <= MAX_ELEMENTS:
            return None
        elements = np.empty(extents, object)
        for i in range(elements.size):
            elements.reshape(-1)[i] = symbol(f"{given.name}[{i}]", 0, MAX_NUMBER)  # as no other extent is called
        return Unknown(elements)

    @property
    def names(self) -> set[str]:
        """The symbols."""
        return {s.name for s in symbols(*self.elements.reshape(-1))}

    def with_known(self, numbers: Mapping[str, int]) -> Unknown:
        """The same with what its symbols turned out to be; others stay."""
        elements = self.elements.copy()
        for i, e in enumerate(elements.reshape(-1)):
            elements.reshape(-1)[i] = numbers.get(symbols(e)[0].name, e)
        return Unknown(elements)

    def required(self, graph: Graph, port: Value) -> Value:
        """What nodes read instead of the input: the program ends where its elements are others."""
        known = [(i, e) for i, e in enumerate(self.elements.reshape(-1)) if not isinstance(e, Dim)]
        if known:
            node = OnnxNode("Input", (port.name,), (f"{port.name}.stated",), name=port.name)
            read = Elements(Import(graph, node, [port]))
            given = read.of(0, "shape")
            read.require(all_of(given[i].equals(e) for i, e in known))
        if self.names:
            return port
        return graph.constant(f"{port.name}.stated", self.elements.astype(port.dtype.numpy))


def solve(equations: Sequence[Equation]) -> dict[str, int]:
    """What the symbols of extents are, of those that can only be one number.

    >>> a, b = symbol("a", 0, 99), symbol("b", 0, 99)
    >>> solve([((128 - a) // 8 + b, 15), (a // 2 + 1, 9), (b, 1)])
    {'a': 16, 'b': 1}
    """
    left = {s.name: list(s.values) for extent, _ in equations for s in symbols(extent)}
    changed = True
    while changed:
        changed = False
        for extent, number in equations:
            names = [s.name for s in symbols(extent)]
            if not names or math.prod(len(left[name]) for name in names) > MAX_TRIED:
                continue
            tried = itertools.product(*(left[name] for name in names))
            fits = [t for numbers in tried if value(extent, t := dict(zip(names, numbers, strict=True))) == number]
            for name in names:
                kept = sorted({t[name] for t in fits})
                changed |= len(kept) < len(left[name])
                left[name] = kept
    if any(not kept for kept in left.values()):
        return {}  # the model states what cannot be
    return {name: kept[0] for name, kept in left.items() if len(kept) == 1}


def equations(shapes: Iterable[tuple[Sequence[int], Sequence[int | str | None]]]) -> list[Equation]:
    """The extents that vary of what is stated of them; of ranks that differ nothing follows."""
    return [
        (extent, stated)
        for found, said in shapes
        if len(found) == len(said)
        for extent, stated in zip(found, said, strict=True)
        if isinstance(extent, Dim) and isinstance(stated, int) and not isinstance(stated, Dim)
    ]
