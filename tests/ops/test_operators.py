"""Every operator of the registry: generated C against onnxruntime, on cases drawn from its sample."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mccompile.driver import Options, import_graph
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.draw import SeededDraw
from tests.support.opcases import CaseLibrary, case_inputs, case_model, compile_case, mismatch, ort_outputs

CASES = int(os.environ.get("MCC_CASES", "12"))
FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None]
COMPOSED = [f for f in FRONT_ENDS if f.composed]


@pytest.mark.parametrize(
    "front_end",
    [pytest.param(f, marks=[pytest.mark.slow] if f.composed else []) for f in FRONT_ENDS], ids=lambda f: f.op_type,
)
def test_generated_c_agrees_with_onnxruntime(front_end: FrontEnd, tmp_path: Path) -> None:
    options = Options(target=os.environ.get("MCC_TARGET", "generic"), opt_level=os.environ.get("MCC_OPT", "O2"))
    built = [compile_case(front_end, seed, tmp_path, options) for seed in range(CASES)]
    flags = [*resolve(options.target).c_flags, *STRICT_WARNINGS, "-O1"]  # compositions have all levels
    library = CaseLibrary(tmp_path, built, flags).build()
    for b in built:
        outputs = library.run(b, case_inputs(b.case))
        assert len(outputs) == len(b.expected)
        for got, want in zip(outputs, b.expected, strict=True):
            dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
            tolerance = front_end.tolerance.get(dtype, 0.0) if b.case.tolerance is None else b.case.tolerance
            assert not mismatch(got, want, tolerance), f"{b.label}: {mismatch(got, want, tolerance)}"


@pytest.mark.fast
@pytest.mark.parametrize("front_end", COMPOSED, ids=lambda f: f.op_type)
def test_compositions_say_what_onnxruntime_computes(front_end: FrontEnd, tmp_path: Path) -> None:
    """The graphs of operators that are made of others, which have tests of their C."""
    assert front_end.sample is not None
    for seed in range(CASES):
        case = front_end.sample(SeededDraw(seed))
        model = case_model(front_end, case)
        path = tmp_path / "m.onnx"
        path.write_bytes(model.SerializeToString())
        graph = import_graph(path, Options(target="generic")).graph
        values = {v: graph.array(v) for v in graph.constants} | {v: case_inputs(case)[v.name] for v in graph.inputs}
        for node in graph.nodes:
            values |= dict(zip(node.results, node.evaluate(values), strict=True))
        for output, want in zip(graph.outputs, ort_outputs(model, case), strict=True):
            tolerance = front_end.tolerance.get("f32", 0.0) if want.dtype.kind == "f" else 0.0
            assert not mismatch(values[output], want, tolerance), f"seed {seed}: {dict(case.attrs)}"
