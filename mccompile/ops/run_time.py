"""Front ends for nodes whose arguments are computed at run time, and are not few (`ops.readings`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.graph import Node, Value
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map

Array = np.ndarray[Any, np.dtype[Any]]

FEW = 16
"""Elements of such an argument, at most: no tensor has more axes."""


@dataclass(frozen=True)
class RunTime:
    """``convert`` takes the place of the operator's front end where one of its inputs ``arguments`` is not known; if
    ``undecided``, also where its front end raises UndecidedError of extents, which are numbers of the run."""

    convert: Callable[[Import], None]
    arguments: tuple[int, ...] = (1,)
    undecided: bool = False

    def offered(self, n: Import) -> bool:
        """Whether it may take the place of a front end that cannot decide: of arguments that the node has."""
        return self.undecided and any(n.optional(i) is not None for i in self.arguments)

    def wanted(self, n: Import) -> bool:
        """Whether an argument is not known."""
        return bool(self._unknown(n))

    def settle(self, n: Import) -> None:
        """Let floats that constants alone make be a constant: scales of a Resize behind DequantizeLinear, which is
        not folded, for weights are to stay bytes."""
        for i in self._unknown(n):
            if n.input(i).dtype.is_float and (array := _made(n, n.input(i), n.graph.producers())) is not None:
                n.inputs[i] = n.constant(f"input{i}", array)

    def _unknown(self, n: Import) -> list[int]:
        return [i for i in self.arguments if n.optional(i) is not None and not n.has_numbers(i)]


def _made(n: Import, value: Value, producers: Mapping[Value, Node], nodes: int = 2) -> Array | None:
    """What at most so many nodes make of constants, element by element; None where something else takes part."""
    if value in n.graph.constants:
        return n.graph.array(value)
    node = producers.get(value)
    if node is None or not nodes or not isinstance(node.op, Map) or value.type.varies or value.type.count > FEW:
        return None
    arrays = {v: _made(n, v, producers, nodes - 1) for v in node.inputs}
    known = {v: array for v, array in arrays.items() if array is not None}
    return node.evaluate(known)[0].astype(value.dtype.numpy) if len(known) == len(arrays) else None
