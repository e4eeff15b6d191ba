"""What quantisation costs: a float network and its quantised form run on the same samples, value by value.

The noise of a value is the power of the difference in units of the signal's, summed over all samples:

    value    noise    at the inputs of its layer    added
    image    1e-5     0                             1e-5     the input itself is quantised
    conv1    4e-5     1e-5                          3e-5
    conv2    5e-5     4e-5                          1e-5     conv1 is the worst layer, though conv2 has more noise
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.onnxio import OnnxGraph
from mccompile.run.noise import Noise

Array = np.ndarray[Any, np.dtype[Any]]
Run = Callable[[Mapping[str, Array]], Mapping[str, Array]]
"""Inputs to values, both by name."""


def compare(
    samples: Iterable[Mapping[str, Array]], plain: Run, quantised: Run, pairs: Mapping[str, str]
) -> dict[str, Noise]:
    """The noise of each value of the float network; ``pairs`` says what it is called in the quantised one."""
    found = {name: Noise() for name in pairs}
    for sample in samples:
        want, got = plain(sample), quantised(sample)
        for name, other in pairs.items():
            if want[name].shape == got[other].shape:
                found[name].add(want[name], got[other])
    return {name: noise for name, noise in found.items() if noise.samples}


@dataclass(frozen=True)
class Layer:
    """Nodes between values that both networks have, by name and operator, and the noise that they add."""

    name: str
    nodes: tuple[tuple[str, str], ...]
    noise: Noise
    before: float

    @property
    def added(self) -> float:
        return max(0.0, self.noise.relative - self.before)


def layers(graph: OnnxGraph, noise: Mapping[str, Noise]) -> list[Layer]:
    """The layers of a float network, those that add the most noise first.

    ``noise`` are the values that the quantised network has as well; nodes whose results it does not have (a bias, a
    ReLU that became a part of the quantisation) belong to the layer behind them.
    """
    maker = {name: node for node in graph.nodes for name in node.outputs if name}
    found = [Layer(v.name, (), noise[v.name], 0.0) for v in graph.inputs if v.name in noise]
    for name in noise:
        if name not in maker:
            continue
        labels, before, queue, seen = [], 0.0, [name], {name}
        while queue:
            node = maker[queue.pop(0)]
            labels.append((node.name or node.outputs[0], node.op_type))
            for source in node.inputs:
                if source in noise:
                    before = max(before, noise[source].relative)
                elif source in maker and source not in seen:
                    seen.add(source)
                    queue.append(source)
        found.append(Layer(name, tuple(reversed(labels)), noise[name], before))
    return sorted(found, key=lambda layer: -layer.added)


def paired(names: Sequence[str], others: Iterable[str], suffix: str) -> dict[str, str]:
    """What values are called in the quantised network: as they are after quantisation, where they are quantised."""
    known = set(others)
    pairs = {}
    for name in names:
        if name + suffix in known:
            pairs[name] = name + suffix
        elif name in known:
            pairs[name] = name
    return pairs
