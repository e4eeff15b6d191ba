"""What a composition's outputs should be, how sure that is, and whether generated C gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mccompile.check.compare import OF_NOISE, compare
from tests.support.compose.definite import Array, Arrays
from tests.support.compose.drawn import shuffled
from tests.support.compose.network import Composition, Noise, RoundNumbers

SHAKES = 4
"""Runs whose floats are off after each node as far as they may be: how far the results are then is the noise. The
second of a pair is off to the other side."""

NOTHING = 1e-25
"""Far below what any composition computes on purpose."""


@dataclass(frozen=True)
class Expected:
    """Outputs of one run. ``certain`` says where integers, booleans and texts do not depend on the noise. ``halves``:
    floats go in and come out as the bits of bfloat16."""

    inputs: Arrays
    values: Arrays
    noise: Arrays
    certain: Arrays
    halves: bool = False

    def fault(self, got: Arrays) -> str:
        """Empty if ``got`` is what is expected, else what differs."""
        faults = []
        for name, want in self.values.items():
            a = got[name]
            if want.dtype == object:
                same = a.shape == want.shape and ((a == want) | ~self.certain[name]).all()
                faults += [] if same else [f"{name}: {a.tolist()} instead of {want.tolist()}"]
                continue
            if a.shape == want.shape and a.dtype == want.dtype:
                a = np.where(self.certain[name], a, want)
            rounded = (self.noise[name] > NOTHING).any()  # what no node rounds is right to the last bit
            found = compare(name, a, want, self.noise[name], 1.0 if rounded else 0.0)
            if not found.ok:
                faults.append(f"{name} {found.type}: {found.text()}")
        return "; ".join(faults)


def expectations(net: Composition, seed: int) -> list[Expected]:
    """For the drawn inputs, and for others where these have results that can be compared."""
    found = [_expected(net, net.inputs, seed)]
    try:
        second = _expected(net, shuffled(net, seed), seed)
    except Exception:  # the values are refused: the network is fine, these inputs are not
        return found
    return [*found, second] if all(_finite(a) for a in second.values.values()) else found


def _finite(a: Array) -> bool:
    return a.dtype.kind != "f" or bool(np.isfinite(a).all())


def _expected(net: Composition, inputs: Arrays, seed: int) -> Expected:
    values = net.reference(inputs)
    net.require_defined(values)
    want = {n: values[n] for n in net.outputs}
    shaken = [net.reference(inputs, noise) for noise in noises(seed)]
    return Expected(inputs, want, *spread(want, shaken))


def noises(seed: int, count: int = SHAKES) -> list[Noise]:
    """The noise of each shaken run, of which ``count`` are drawn."""
    return [*(Noise((seed, i // 2), 1 - 2 * (i % 2)) for i in range(count)), RoundNumbers()]


def spread(want: Arrays, shaken: Sequence[Arrays]) -> tuple[Arrays, Arrays]:
    """The noise of results, and where it does not change them, by what shaken runs made of them."""
    noise = {n: np.zeros(a.shape) for n, a in want.items()}
    certain = {n: np.ones(a.shape, bool) for n, a in want.items()}
    for run in shaken:
        for n, a in want.items():
            off = _distance(run[n], a)
            noise[n] = np.maximum(noise[n], np.where(np.isfinite(off), off, 0.0))
            certain[n] &= np.isfinite(off) if a.dtype.kind == "f" else off == 0
    # What differs from one shaken run to the next may differ twice as far in the C.
    # Of a result that is 0 everywhere, no noise can be seen.
    return {n: a * 4 / OF_NOISE + NOTHING for n, a in noise.items()}, certain


def _distance(a: Array, b: Array) -> Array:
    if a.dtype.kind in "bO":
        return np.asarray(a != b, np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.asarray(np.where(a == b, 0.0, np.where(np.isnan(off), np.inf, off)))


def judged(expected: Sequence[Expected], answers: Sequence[Sequence[Array]], outputs: Sequence[str]) -> str:
    """The fault of the first run that has one; "" if none."""
    for i, (want, got) in enumerate(zip(expected, answers, strict=True)):
        fault = want.fault(dict(zip(outputs, got, strict=True)))
        if fault:
            return f"run {i}: {fault}"
    return ""
