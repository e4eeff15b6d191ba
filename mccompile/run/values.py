"""What ONNX calls one input or output, as the arrays of a network's ports, and back.

    x = [a, b], a sequence of two tensors      is      ports x_0 = a and x_1 = b
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mccompile.ir.errors import UsageError
from mccompile.run.memory import Array


def spread(names: Sequence[str], values: Sequence[Any]) -> dict[str, Array]:
    """The arrays of ports by name: a sequence is one port for each tensor, and what is absent (None) has none.

    UsageError if there are not as many values as names.
    """
    if len(names) != len(values):
        raise UsageError(f"{len(values)} inputs given, {len(names)} expected: {', '.join(names)}")
    ports: dict[str, Array] = {}
    for name, value in zip(names, values, strict=True):
        if isinstance(value, list | tuple):
            ports.update({item_name(name, i): np.asarray(item) for i, item in enumerate(value)})
        elif value is not None:
            ports[name] = np.asarray(value)
    return ports


def gather(names: Sequence[str], ports: Mapping[str, Array]) -> list[Any]:
    """The value of each output by the arrays of ports; the inverse of `spread`."""
    values: list[Any] = []
    for name in names:
        if name in ports:
            values.append(ports[name])
            continue
        items: list[Array] = []
        while item_name(name, len(items)) in ports:
            items.append(ports[item_name(name, len(items))])
        values.append(items)
    return values


def item_name(name: str, i: int) -> str:
    """What the port of tensor ``i`` of a sequence is called."""
    return f"{name}_{i}"
