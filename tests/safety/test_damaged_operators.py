"""Every operator with one thing wrong: an operand of another rank or gone, an attribute of another kind or length.

What is damaged compiles, or is refused by a rule in our words; drawn damage is in `tests/support/fuzz/files.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.fuzz.trial import PYTHON
from tests.support.opcases import case_model

GROUPS = 16


def damaged(case: Case) -> Iterator[tuple[str, Case]]:
    """What is wrong, and the case with that."""
    for i, array in enumerate(case.inputs):
        for what, other in _other_ranks(array):
            inputs = [other if i == at else a for at, a in enumerate(case.inputs)]
            yield f"input {i}: {what}", replace(case, inputs=inputs)
    for name, value in case.attrs.items():
        others = {k: v for k, v in case.attrs.items() if k != name}
        yield f"attribute {name}: gone", replace(case, attrs=others)
        for other in _other_kinds(value):
            yield f"attribute {name}: {other!r}", replace(case, attrs={**others, name: other})


def _other_ranks(array: np.ndarray[Any, Any] | None) -> Iterator[tuple[str, np.ndarray[Any, Any] | None]]:
    if array is None:
        return
    a = np.asarray(array)
    yield "gone", None
    yield "one axis more", a[None]
    yield "flat", a.reshape(-1)
    if a.ndim and len(a):
        yield "one axis less", np.asarray(a[0])
    if a.size:
        yield "a number", np.asarray(a.reshape(-1)[0])


def _other_kinds(value: object) -> Sequence[object]:
    kinds: list[object] = [2, 1.5, "text", (1, 2, 3), (1.5,)]
    longer = [(*value, *value[:1]), tuple(value[:-1])] if isinstance(value, list | tuple) else []
    return kinds + [other for other in longer if other]


def faults(row: FrontEnd, folder: Path) -> list[str]:
    """Damages that end in words of Python, or in an internal error."""
    found = []
    assert row.sample is not None
    path = folder / "damaged.onnx"
    for what, case in damaged(row.sample(SeededDraw(0))):
        try:
            model = case_model(row, case)
        except (onnx.shape_inference.InferenceError, ValueError, TypeError):  # ONNX does not write it
            continue
        path.write_bytes(model.SerializeToString())
        try:
            compile_program(import_graph(path, Options(name="damaged", opt_level="O0")))
        except InternalError as e:
            found.append(f"{row.op_type}, {what}: internal: {e}")
        except CompileError as e:
            if PYTHON.search(str(e)):
                found.append(f"{row.op_type}, {what}: {e}")
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_one_thing_wrong_is_one_error(group: int, tmp_path: Path) -> None:
    rows = [row for row in front_ends().values() if row.sample is not None][group::GROUPS]
    assert len(rows) > 5
    assert [fault for row in rows for fault in faults(row, tmp_path)] == []
