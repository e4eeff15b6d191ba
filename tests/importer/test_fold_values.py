"""Nodes whose inputs are all known are folded into what onnxruntime computes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mccompile.driver import Options, import_graph
from mccompile.importer.fold_values import computed
from mccompile.ir.errors import CompileError
from mccompile.onnxio import OnnxNode
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.opcases import case_model, mismatch, ort_outputs

FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None and not f.domain]
SEEDS = range(3)


def folded(front_end: FrontEnd, case: Case, folder: Path) -> list[np.ndarray[Any, Any]]:
    known = replace(case, constant=frozenset(range(len(case.inputs))))
    path = folder / "model.onnx"
    path.write_bytes(case_model(front_end, known).SerializeToString())
    graph = import_graph(path, Options(target="generic", name="known")).graph
    assert {n.op.name for n in graph.nodes} <= {"map", "empty"}
    found = graph.evaluate({})
    return [found[v.name] for v in graph.outputs]


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
def test_known_inputs_give_what_onnxruntime_computes(front_end: FrontEnd, tmp_path: Path) -> None:
    assert front_end.sample is not None
    for seed in SEEDS:
        case = front_end.sample(SeededDraw(seed))
        expected = ort_outputs(case_model(front_end, case), case)
        for got, want in zip(folded(front_end, case, tmp_path), expected, strict=True):
            assert got.dtype == want.dtype
            tolerance = {"float32": 1e-5, "float16": 2e-3}.get(want.dtype.name, 0.0)
            assert not mismatch(got, want, tolerance), f"seed {seed}: {mismatch(got, want, tolerance)}"


def test_elements_are_gathered_along_long_axes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    case = Case([rng.random((70, 50), np.float32), rng.integers(-70, 70, (40, 50))], {"axis": 0})
    front_end = front_ends()[("", "GatherElements")]
    (want,) = ort_outputs(case_model(front_end, case), case)
    np.testing.assert_array_equal(folded(front_end, case, tmp_path)[0], want)


def test_the_mean_of_nothing_is_0(tmp_path: Path) -> None:
    case = Case([np.zeros((0, 3), np.float32), np.array([0])], {"keepdims": 0})
    front_end = front_ends()[("", "ReduceMean")]
    (want,) = ort_outputs(case_model(front_end, case), case)
    np.testing.assert_array_equal(folded(front_end, case, tmp_path)[0], want)
    assert not want.any()


def test_halves_are_added_up_as_floats(tmp_path: Path) -> None:
    """Sums beyond 65504, of which an epilogue makes less."""
    thousands, far = np.full((1, 100), 1000, np.float16), np.full((1, 1), -60000, np.float16)
    cases = {"ReduceMean": Case([thousands, np.array([1])]), "Gemm": Case([thousands, thousands.T / 1250, far])}
    for op_type, case in cases.items():
        front_end = front_ends()["", op_type]
        (want,) = ort_outputs(case_model(front_end, case), case)
        np.testing.assert_array_equal(folded(front_end, case, tmp_path)[0], want)


def test_what_no_operator_of_onnx_is_called_is_refused_as_elsewhere() -> None:
    """HashTableV2 of TensorFlow has no inputs, so that it is evaluated."""
    with pytest.raises(CompileError, match="operator HashTableV2 is not supported"):
        computed(OnnxNode("HashTableV2", (), ("y",)), [])
