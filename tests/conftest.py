"""Hooks of the whole suite."""

from typing import Any

import pytest

from tests._cache import pytest_configure
from tests._fast import (
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
    say_cpu_seconds,
)
from tests._skips import pytest_make_collect_report, pytest_runtest_makereport, say_skips

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    say_cpu_seconds(terminalreporter, config)
    say_skips(terminalreporter)
