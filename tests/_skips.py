"""Skips for missing tools and data, which a continuous-integration run turns into failures.

``tests/conftest.py`` imports the two hooks; tests call ``needs_tool`` and ``needs_shared``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def needs_tool(name: str) -> str:
    """The path of an executable; skips the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"needs {name}")
    return path


def needs_shared(relative: str) -> Path:
    """A file or folder under MCC_SHARED (default: ../shared); skips the test where it is absent."""
    path = Path(os.environ.get("MCC_SHARED", REPOSITORY.parent / "shared")) / relative
    if not path.exists():
        pytest.skip(f"needs {relative} under MCC_SHARED")
    return path


def in_ci() -> bool:
    """True in a continuous-integration run; MCC_CI=0 says no where CI is set."""
    return os.environ.get("MCC_CI", os.environ.get("CI", "")).lower() not in ("", "0", "false")


def _fail_if_something_is_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (in_ci() and report.skipped and isinstance(report.longrepr, tuple)):
        return
    path, line, message = report.longrepr
    reason = message.removeprefix("Skipped: ")
    if reason.startswith(("needs ", "could not import ")):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped in a continuous-integration run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    _fail_if_something_is_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _fail_if_something_is_missing(report)
    return report
