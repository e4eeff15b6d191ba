"""Every operator of the registry: generated C against onnxruntime, on cases drawn from its sample."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mccompile.driver import Options
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.opcases import CaseLibrary, case_inputs, compile_case, mismatch

CASES = int(os.environ.get("MCC_CASES", "12"))
FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None]


@pytest.mark.parametrize("front_end", FRONT_ENDS, ids=lambda f: f.op_type)
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
