"""Inner values of which little is left: they are as unsure as what was cut off.

    conv  -8.00, -3.10, 0.02    ->    relu  0, 0, 0.02

What is as large as 8 may be off by 8e-4 where a kernel adds its terms in another order, or transforms them
(Winograd), and 0.02 is such a sum as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mccompile.check.compare import OF_NOISE, limits
from mccompile.onnxio import OnnxGraph

Array = np.ndarray[Any, np.dtype[Any]]

_CUTTING = frozenset({"Clip", "Identity", "LeakyRelu", "MaxPool", "Relu"})
"""What gives no number that is larger than those that it reads."""


def before_cut(graph: OnnxGraph, names: Iterable[str]) -> dict[str, str]:
    """By value, for those that have one, the value of which it is what is left."""
    makers = {o: n for n in graph.nodes for o in n.outputs if n.domain == ""}
    found = {}
    for name in names:
        made = name
        while (node := makers.get(made)) is not None and node.op_type in _CUTTING:
            made = node.inputs[0]
        if made != name and node is not None:
            found[name] = made
    return found


def noise_of_cut(left: Array, before: Array, factor: float) -> Array:
    """The noise by which what is ``left`` may be off as far as what was there ``before``, channel by channel."""
    return limits(before, factor=factor, shape=left.shape) / OF_NOISE
