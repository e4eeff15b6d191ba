"""Makes a network that fails smaller and its setting plainer, as long as it fails in the same way.

Delta debugging on nodes: halves of them go, then quarters, at last single ones. What a node that goes gave becomes an
input that holds what onnxruntime computed. Example: of ``a = Conv(x); b = Relu(a); c = Softmax(b); d = Neg(c)`` with
a wrong ``c``, ``d`` goes with its output, then ``Conv`` and ``Relu`` at once: ``c = Softmax(b)`` of an input is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from tests.support.compose.network import Step
from tests.support.fuzz.family import Family
from tests.support.fuzz.setting import Setting

Fails = Callable[[Family, Setting], bool]


def shrunk(net: Family, setting: Setting, fails: Fails, most: int = 60) -> tuple[Family, Setting]:
    """The smallest that was found in ``most`` trials."""
    trials = 0

    def still(net: Family, setting: Setting) -> bool:
        nonlocal trials
        trials += 1
        return trials <= most and fails(net, setting)

    for plain in _to_the_end(setting, lambda s: s.plainer(), lambda s: still(net, s)):
        setting = plain
    for small in _to_the_end(net, smaller, lambda n: still(n, setting)):
        net = small
    return net, setting


def _to_the_end(start: Any, variants: Callable[[Any], Any], fails: Callable[[Any], bool]) -> Iterator[Any]:
    """Each that fails, a variant of the one before it."""
    found = start
    while found is not None:
        found = next((v for v in variants(found) if fails(v)), None)
        if found is not None:
            yield found


def smaller(net: Family) -> Iterator[Family]:
    """Networks with fewer outputs or nodes, the greatest steps first."""
    if len(net.outputs) > 1:
        for name in net.outputs:
            yield _with(net, outputs=[name])
        for name in net.outputs:
            yield _with(net, outputs=[o for o in net.outputs if o != name])
    count = size = len(net.steps)
    while size > 1:
        size = (size + 1) // 2
        for first in range(0, count, size):
            cut = _without(net, net.steps[first : first + size])
            if cut is not None:
                yield cut
    if len(net.outputs) == 1:
        made = [o for s in net.steps for o in s.outputs if o and o not in net.outputs]
        for name in made:
            yield _with(net, outputs=[name])
    for name, array in net.inputs.items():
        left = {n: a for n, a in net.inputs.items() if n != name}
        if left and not net.axes.get(name):
            yield _with(net, inputs=left, constants={**net.constants, name: array})


def _without(net: Family, gone: Sequence[Step]) -> Family | None:
    """Without nodes; None where their results cannot be inputs."""
    steps = [s for s in net.steps if all(s is not g for g in gone)]
    made = [o for s in gone for o in s.outputs if o]
    needed = [o for o in made if any(o in s.reads for s in steps)]
    outputs = [o for o in net.outputs if o not in made]
    if not outputs:
        return None
    known = all(n in net.constants or n in made for s in gone for n in s.reads)
    if known:
        return _with(net, steps=steps, outputs=outputs, constants=net.constants | {o: net.values[o] for o in needed})
    axes = net.as_inputs(needed)
    if axes is None:
        return None
    inputs = net.inputs | {o: net.values[o] for o in needed}
    return _with(net, steps=steps, outputs=outputs, inputs=inputs, axes=net.axes | axes)


def _with(net: Family, **changes: Any) -> Family:
    made = replace(net, **changes)
    made.prune()
    return made
