"""Skips for missing tools or data pass on a user's machine and fail in continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

TESTS = """\
import pytest
from tests._skips import needs_shared, needs_tool

def test_tool():
    needs_tool("no-such-compiler")

def test_shared():
    needs_shared("no/such/file")

def test_other_reason():
    pytest.skip("not on this target")
"""


@pytest.mark.parametrize(
    ("variables", "skipped", "failed"),
    [({}, 3, 0), ({"CI": "true"}, 1, 2), ({"MCC_CI": "1"}, 1, 2), ({"CI": "true", "MCC_CI": "0"}, 3, 0)],
)
def test_missing_things(tmp_path: Path, variables: dict[str, str], skipped: int, failed: int) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests._skips import pytest_make_collect_report, pytest_runtest_makereport\n"
    )
    (tmp_path / "test_it.py").write_text(TESTS)
    clean = {k: v for k, v in os.environ.items() if k not in ("CI", "MCC_CI") and not k.startswith("PYTEST")}
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        env=clean | {"PYTHONPATH": str(ROOT)} | variables,
        capture_output=True,
        text=True,
    )
    expected = f"{failed} failed, {skipped} skipped" if failed else f"{skipped} skipped"
    assert expected in result.stdout.splitlines()[-1], result.stdout
    assert (result.returncode != 0) == bool(failed)
    if failed:
        assert "needs no-such-compiler" in result.stdout
