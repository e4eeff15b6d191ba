"""Samples of f32 in f16: the results have the element types that ONNX gives them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Options, import_graph
from mccompile.ops.elementwise import MAX_TERMS
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.opcases import case_inputs, case_model, ort_outputs

SEEDS = range(3)
PARAMETERS = {"Resize": {1, 2}}
"""Operands that are f32 whatever the others are."""

FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None]


def _halved(front_end: FrontEnd, case: Case) -> Case:
    kept = PARAMETERS.get(front_end.op_type, ())
    inputs = [
        a.astype(np.float16) if i not in kept and isinstance(a, np.ndarray) and a.dtype == np.float32 else a
        for i, a in enumerate(case.inputs)
    ]
    return replace(case, inputs=inputs)


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_results_of_f16_have_the_types_of_onnx(front_end: FrontEnd, tmp_path: Path) -> None:
    assert front_end.sample is not None
    for seed in SEEDS:
        case = _halved(front_end, front_end.sample(SeededDraw(seed)))
        model = case_model(front_end, case)
        try:
            want = [a.dtype for a in ort_outputs(model, case)]
        except Exception:
            continue  # the operator does not take f16, or onnxruntime has no kernel for it
        path = tmp_path / f"{seed}.onnx"
        path.write_bytes(model.SerializeToString())
        graph = import_graph(path, Options(target="generic")).graph
        assert [v.dtype.numpy for v in graph.outputs] == want, f"seed {seed}"


@pytest.mark.parametrize("op", ["Max", "Min", "Mean", "Sum"])
def test_results_of_many_operands_have_their_type(op: str, tmp_path: Path) -> None:
    """What has more than one expression holds is made of several."""
    inputs = [np.full(3, i, np.float16) for i in range(2 * MAX_TERMS + 9)]
    case = Case(inputs)
    model = case_model(front_ends()["", op], case)
    (want,) = ort_outputs(model, case)
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    graph = import_graph(tmp_path / "m.onnx", Options(target="generic")).graph
    (got,) = graph.evaluate(case_inputs(case)).values()
    assert graph.outputs[0].dtype.name == "f16"
    np.testing.assert_array_equal(got.astype(np.float16), want)
