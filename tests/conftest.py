"""Hooks of the whole suite."""

from tests._cache import pytest_configure
from tests._fast import (
    pytest_collection_modifyitems,
    pytest_runtest_protocol,
    pytest_runtest_teardown,
    pytest_terminal_summary,
)
from tests._skips import pytest_make_collect_report, pytest_runtest_makereport

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_configure",
    "pytest_make_collect_report",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_runtest_teardown",
    "pytest_terminal_summary",
]
