"""Makes a composition that fails smaller, as long as it fails.

Example: of ``a = Conv(x); b = Relu(a); c = Softmax(b)`` with a wrong ``c``, first ``Conv`` goes: ``a`` becomes an
input that holds what onnxruntime computed. Then ``Relu``, if ``c`` is wrong without it. What is left is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.support.compose.judge import expectations
from tests.support.compose.network import Composition
from tests.support.compose.run import Finding, Subject, examine

Fails = Callable[[Composition], bool]


def reduced(finding: Finding, most: int = 200) -> Composition:
    """The smallest network found that fails in the same way, in at most ``most`` trials."""
    trials = 0

    def fails(net: Composition) -> bool:
        nonlocal trials
        trials += 1
        try:
            s = replace(finding.subject, net=net, expected=expectations(net, finding.subject.seed))
        except Exception:
            return False
        return any(f.kind == finding.kind for f in examine([s], finding.setting))

    net, again = finding.subject.net, True
    while again:
        again = False
        for smaller in _smaller(net):
            if trials >= most:
                return net
            if fails(smaller):
                net, again = smaller, True
                break
    return net


def _smaller(net: Composition) -> Iterator[Composition]:
    """Networks with one output, or one node less: great steps first."""
    if len(net.outputs) > 1:
        for name in net.outputs:
            yield _with(net, outputs=[name])
        for name in net.outputs:
            yield _with(net, outputs=[o for o in net.outputs if o != name])
    produced = [o for s in net.steps for o in s.outputs if o]
    if len(net.outputs) == 1:
        for name in produced:
            if name not in net.outputs:
                yield _with(net, outputs=[name])
    for at in reversed(range(len(net.steps))):
        smaller = _cut(net, at)
        if smaller is not None:
            yield smaller
    for name, array in net.inputs.items():
        inputs = {n: a for n, a in net.inputs.items() if n != name}
        if inputs:
            yield _with(net, inputs=inputs, constants={**net.constants, name: array})


def _cut(net: Composition, at: int) -> Composition | None:
    """Without a node: its results become inputs, or constants where it has constant operands only."""
    step = net.steps[at]
    made = [o for o in step.outputs if o]
    if any(o in net.outputs for o in made):
        return None
    arrays = {o: net.values[o] for o in made}
    steps = [s for s in net.steps if s is not step]
    if all(n in net.constants for n in step.reads):
        return _with(net, steps=steps, constants={**net.constants, **arrays})
    return _with(net, steps=steps, inputs={**net.inputs, **arrays})


def _with(net: Composition, **changes: object) -> Composition:
    smaller = replace(net, **changes)  # type: ignore[arg-type]
    smaller.prune()
    return smaller


def reproduction(finding: Finding) -> tuple[Composition, str]:
    """A small network, and a text that shows what is wrong with it."""
    net = reduced(finding)
    s: Subject = replace(finding.subject, net=net, expected=expectations(net, finding.subject.seed))
    last = next((f.text() for f in examine([s], finding.setting) if f.kind == finding.kind), finding.text())
    return net, f"{finding.text()}\nreduced:\n{net.text()}\n{last}"
