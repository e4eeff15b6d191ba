"""No kernel executes more instructions than what is written down, nor fewer without that being written down."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests._skips import needs_tool
from tests.budgets.counted import COMPILER, COUNTED, FILE, TARGET, compiler_version, count_instructions
from tests.kernels.test_variants import CASES
from tests.support.targets import needs_target

TOLERANCE = 0.02
REFRESH = "if that is meant: make budgets, and say so in the change"


def test_instruction_counts_are_within_their_budgets(tmp_path: Path) -> None:
    needs_target(TARGET)
    needs_tool("valgrind")
    needs_tool(COMPILER)
    budgets = json.loads(FILE.read_text())
    if budgets["compiler"] != compiler_version():
        pytest.skip(f"the budgets are of {budgets['compiler']}, this is {compiler_version()}: make budgets")
    counts = count_instructions(COUNTED, tmp_path)
    assert set(counts) == set(budgets["counts"]), REFRESH
    changes = {name: count / budgets["counts"][name] - 1 for name, count in counts.items()}
    wrong = [f"{100 * c:+.1f} % instructions: {name}" for name, c in changes.items() if abs(c) > TOLERANCE]
    assert not wrong, "\n".join([*wrong, REFRESH])


def test_every_vector_kernel_has_a_budget() -> None:
    """All but those whose counts say little: one cell stands for the recurrent ones that differ in activations."""
    assert {c.kernel for c in CASES} - {c.kernel for c in COUNTED} <= {"rnn.vector"}
