"""In-place offers: each kernel that makes one is seen to be taken at its word, and its result is still right.

`tests/ops` compares the very plans counted here with onnxruntime: a plan takes an offer wherever it fits.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mccompile.driver import Options
from mccompile.ir.kernel import Call
from mccompile.ops.registry import front_ends
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.opcases import Built, CaseLibrary, agreement, case_inputs, compile_case

CASES = 10
OFFERING = ("Add", "Softmax", "LayerNormalization", "ScatterND", "CumSum", "Conv", "Gemm", "ReduceMean")


def offers(b: Built) -> list[tuple[str, bool]]:
    """(kernel, whether the plan overwrote the operand) for each call that offers one of its type in the arena."""
    program = b.compilation.program
    assert program is not None
    found = []
    for call in program.body.linear():
        if isinstance(call, Call):
            for i in call.inplace:
                view = call.inputs[i]
                if view is not None and view.buffer.space == "arena" and view.dtype == call.results[0].dtype:
                    found.append((call.kernel, i in program.shared_inputs(call)))
    return found


@pytest.mark.parametrize("target", ["generic", "native"])
def test_offers_are_taken_and_right(target: str, tmp_path: Path) -> None:
    taken: set[str] = set()
    offered: set[str] = set()
    for name in OFFERING:
        front_end = front_ends()["", name]
        folder = tmp_path / name
        folder.mkdir()
        built = [compile_case(front_end, seed, folder, Options(target=target)) for seed in range(CASES)]
        mine = [b for b in built if any(t for _, t in offers(b))]
        for b in built:
            offered |= {kernel for kernel, _ in offers(b)}
            taken |= {kernel for kernel, t in offers(b) if t}
        if mine:
            flags = [*resolve(target).c_flags, *STRICT_WARNINGS]
            library = CaseLibrary(folder, mine, flags).build()
            for b in mine:
                assert not agreement(front_end, b, library.run(b, case_inputs(b.case)))
    assert offered
    assert taken == offered


def test_an_operand_that_is_kept_is_not_overwritten(tmp_path: Path) -> None:
    front_end = front_ends()["", "Relu"]
    built = compile_case(front_end, 1, tmp_path, Options(target="generic", keep_inputs=True))
    assert built.compilation.program is not None
    assert not built.compilation.program.facts.inplace
    library = CaseLibrary(tmp_path, [built], resolve("generic").c_flags).build()
    inputs = case_inputs(built.case)
    before = {name: np.array(a) for name, a in inputs.items()}
    assert not agreement(front_end, built, library.run(built, inputs))
    assert all(np.array_equal(a, before[name]) for name, a in inputs.items())
