"""Skips for missing tools or data pass on a user's machine and fail in continuous integration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mccompile.targets.target import targets
from tests._skips import TOOLS, needs_sanitizers, needs_tool

ROOT = Path(__file__).resolve().parents[2]

TESTS = """\
import pytest
from tests._skips import NO_PROCESSOR, needs_shared, needs_tool

def test_tool():
    needs_tool("no-such-compiler")

def test_shared():
    needs_shared("no/such/file")

def test_processor():
    pytest.skip(f"{NO_PROCESSOR} of x86-64-v9")

def test_other_reason():
    pytest.skip("not on this target")
"""


@pytest.mark.parametrize(
    ("variables", "skipped", "failed"),
    [({}, 4, 0), ({"CI": "true"}, 2, 2), ({"MCC_CI": "1"}, 2, 2), ({"CI": "true", "MCC_CI": "0"}, 4, 0)],
)
def test_missing_things(tmp_path: Path, variables: dict[str, str], skipped: int, failed: int) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests._skips import pytest_make_collect_report, pytest_runtest_makereport, say_skips\n"
        "def pytest_terminal_summary(terminalreporter):\n"
        "    say_skips(terminalreporter)\n"
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
    assert "1 skipped for want of a processor" in result.stdout
    assert (result.returncode != 0) == bool(failed)
    if failed:
        assert "needs no-such-compiler" in result.stdout


def _compiler(folder: Path, name: str, fails: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that makes everything, except with a flag that holds ``fails``; it stands before all others."""
    path = folder / name
    path.write_text(f'#!/bin/sh\ncase "$*" in -dumpversion) echo 14.0.6;; *{fails}*) exit 1;; esac\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_the_part_of_a_tool_that_is_missing_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _compiler(tmp_path, "clang", "-fsanitize", monkeypatch)
    _compiler(tmp_path, "gcc", "-lm", monkeypatch)
    assert needs_tool("clang") == str(tmp_path / "clang")
    with pytest.raises(pytest.skip.Exception, match=r"needs the sanitizers of clang .*libclang-rt-14-dev"):
        needs_sanitizers("clang")
    for needs in (needs_tool, needs_sanitizers):
        with pytest.raises(pytest.skip.Exception, match=r"needs the headers and libraries of gcc .*libc6-dev"):
            needs("gcc")


def test_a_missing_tool_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name, tool in TOOLS.items():
        with pytest.raises(pytest.skip.Exception) as caught:
            needs_tool(name)
        assert str(caught.value) == f"needs {name} (Debian, Ubuntu: apt install {tool.packages})"


def test_continuous_integration_installs_what_the_skips_name() -> None:
    words = (ROOT / ".ci" / "run").read_text().split()
    assert {p for tool in TOOLS.values() for p in tool.packages.split()} <= set(words)
    assert {p for target in targets().values() for p in target.packages} <= set(words)
    assert "clang -fsanitize=address,undefined" in " ".join(words)
