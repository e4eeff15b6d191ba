"""Single-operator models with an extent that is known at run time only, drawn from the operators' samples.

Worked example: of a sample with inputs f32[2,5] and f32[5] the value 5 is drawn, and both its axes are called n. The
network is compiled for n = 3..8 and runs with arrays of 8, 3 and 5, cut or repeated, if onnxruntime takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.judge import plain_session
from tests.support.opcases import case_inputs, case_model

Arrays = Mapping[str, np.ndarray[Any, Any]]

TRIES = 6
"""So many choices of axes are tried for a sample."""

LEAST = {"QLinearSoftmax": 2, "NhwcMaxPool": 3}
"""Where onnxruntime is wrong for less: it makes 0 of 256, which the only element of an axis may be, and a row of
windows that are larger than the image."""


@dataclass(frozen=True)
class Varying:
    """A model whose inputs have the extent ``n`` of ``low`` to ``high``; for values of it inputs and what onnxruntime
    answers."""

    seed: int
    case: Case
    axes: tuple[tuple[str, int], ...]
    low: int
    high: int
    model: onnx.ModelProto
    runs: Mapping[int, tuple[Arrays, list[np.ndarray[Any, Any]]]]

    @property
    def label(self) -> str:
        shapes = ["-" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.case.inputs]
        return f"seed {self.seed}, n at {self.axes}: {', '.join(shapes)} {dict(self.case.attrs)}"


def varying(front_end: FrontEnd, seed: int) -> Varying | None:
    """A drawn case with a drawn extent that varies; None where onnxruntime takes none of those tried."""
    assert front_end.sample is not None
    case = front_end.sample(SeededDraw(seed))
    given = case_inputs(case)
    places = [(name, axis) for name, a in given.items() for axis in range(a.ndim) if a.shape[axis] > 1]
    rng = np.random.default_rng(seed)
    for _ in range(TRIES if places else 0):
        first = places[int(rng.integers(0, len(places)))]
        extent = given[first[0]].shape[first[1]]
        alike = [p for p in places if given[p[0]].shape[p[1]] == extent]
        share = float(rng.choice([0.0, 0.5, 1.0]))
        axes = tuple(p for p in alike if p == first or rng.random() < share)
        found = _runs(front_end, case, axes, extent, seed)
        if found is not None:
            return found
    return None


def _runs(
    front_end: FrontEnd, case: Case, axes: tuple[tuple[str, int], ...], extent: int, seed: int
) -> Varying | None:
    model = case_model(front_end, case)
    for port in model.graph.input:
        for name, axis in axes:
            if port.name == name:
                port.type.tensor_type.shape.dim[axis].dim_param = "n"
    for port in model.graph.output:
        port.ClearField("type")
    low, high = max(LEAST.get(front_end.op_type, 1), extent - 2), extent + 3
    runs = {}
    try:
        session = plain_session(model.SerializeToString())
        for n in (high, low, extent):
            inputs = {name: _with(array, name, axes, n) for name, array in case_inputs(case).items()}
            runs[n] = inputs, list(session.run(None, inputs))
    except Exception:  # onnxruntime's errors have no common class of their own
        return None
    ranks = {tuple(a.ndim for a in outputs) for _, outputs in runs.values()}
    if len(ranks) > 1:  # Squeeze without axes drops an extent of 1: with us it stays
        return None
    return Varying(seed, case, axes, low, high, model, runs)


def _with(
    array: np.ndarray[Any, Any], name: str, axes: tuple[tuple[str, int], ...], extent: int
) -> np.ndarray[Any, Any]:
    """An array cut or repeated so that the axes have an extent."""
    for port, axis in axes:
        if port == name:
            array = np.take(array, np.arange(extent) % array.shape[axis], axis)
    return np.asarray(array, order="C")
