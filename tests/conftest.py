"""Hooks of the whole suite."""

import sys
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


def pytest_runtest_setup() -> None:
    if "tests.support.targets" in sys.modules:  # a plugin of the test before has made the list of targets anew
        sys.modules["tests.support.targets"].imitate()


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    say_cpu_seconds(terminalreporter, config)
    say_skips(terminalreporter)
