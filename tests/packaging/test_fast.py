"""What `make test-fast` runs: tests that are not said to be thorough, by a mark or by where they lie."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests._fast import TESTS, THOROUGH


def test_every_place_is_there() -> None:
    assert [place for place in THOROUGH if not (TESTS / place).exists()] == []


@pytest.mark.thorough
def test_marks_and_places_decide() -> None:
    files = ["packaging/test_fast.py", "kernels/test_halves.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "-m", "fast"]
    done = subprocess.run(
        [*command, *(str(TESTS / f) for f in files)], capture_output=True, text=True, cwd=TESTS.parent
    )
    found = [line for line in done.stdout.splitlines() if "::" in line]
    assert any("test_every_place_is_there" in line for line in found)
    assert not any("test_marks_and_places_decide" in line or "test_halves.py" in line for line in found)
