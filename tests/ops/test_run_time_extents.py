"""Operators whose operands have an extent that is known at run time only, against onnxruntime."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import mccompile
from mccompile.importer.varying import TAKES_EXTENTS
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import FrontEnd, front_ends
from tests.support.extent_cases import Varying, varying
from tests.support.opcases import mismatch

SEEDS = int(os.environ.get("MCC_CASES", "6"))
QUICK = {
    ("", "Resize"): 8, ("", "Trilu"): 3, ("", "Pad"): 2, ("", "EyeLike"): 0, ("", "ConvTranspose"): 1,
    ("", "MaxPool"): 1, ("", "QLinearConv"): 0, ("com.microsoft", "Attention"): 0,
    ("com.microsoft", "EmbedLayerNormalization"): 1, ("ai.onnx.ml", "TreeEnsembleClassifier"): 0,
}  # fmt: skip
"""A seed of which onnxruntime and we take the case."""

UNDRAWN = ("Inverse",)
"""Repeated rows have no inverse, and onnxruntime crashes on matrices that are not square."""

TAKEN = [
    f for f in front_ends().values()
    if f.sample is not None and f.op_type in TAKES_EXTENTS and f.op_type not in UNDRAWN
]  # fmt: skip


def _fault(front_end: FrontEnd, case: Varying, folder: Path) -> str:
    """Empty if the network gives what onnxruntime gives for each extent."""
    path = folder / f"net{case.seed}.onnx"
    path.write_bytes(case.model.SerializeToString())
    out = folder / f"out{case.seed}"
    target, level = os.environ.get("MCC_TARGET", "generic"), os.environ.get("MCC_OPT", "O2")
    mccompile.compile(path, out, target=target, opt_level=level, dims={"n": f"{case.low}..{case.high}"})
    network = mccompile.load(out)
    for extent, (inputs, wanted) in case.runs.items():
        network.fill_arenas(0xFF)
        for got, want in zip(network.run(inputs).values(), wanted, strict=True):
            dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
            tolerance = front_end.tolerance.get(dtype, 0.0) if case.case.tolerance is None else case.case.tolerance
            if fault := mismatch(got, want, tolerance):
                return f"{front_end.op_type} {case.label}, n = {extent}: {fault}"
    return ""


@pytest.mark.thorough
@pytest.mark.parametrize("name", QUICK, ids=lambda name: name[1])
def test_extents_of_the_run_give_what_onnxruntime_gives(name: tuple[str, str], tmp_path: Path) -> None:
    front_end = front_ends()[name]
    case = varying(front_end, QUICK[name])
    assert case is not None
    assert not _fault(front_end, case, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("front_end", TAKEN, ids=lambda f: f"{f.domain}:{f.op_type}")
def test_every_operator_that_may_have_them(front_end: FrontEnd, tmp_path: Path) -> None:
    """What is refused is refused with an error; what is taken is right."""
    for seed in range(SEEDS):
        case = varying(front_end, seed)
        if case is not None:
            try:
                fault = _fault(front_end, case, tmp_path)
            except CompileError as error:
                fault = str(error) if "C compiler" in str(error) else ""
            assert not fault
