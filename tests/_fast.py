"""Which tests are the inner loop (`make test-fast`), and what they take.

A test is marked ``fast`` unless it is marked ``thorough`` or ``slow``, or lies in a folder or file of `THOROUGH` and
does not say itself that it is. So new tests are fast: a run of the fast ones ends with what they took together, and
with the names of those that take too long, which are to be marked ``thorough``.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

TESTS = Path(__file__).resolve().parent

THOROUGH = (
    "bench", "budgets", "check/test_check.py", "check/test_golden.py", "check/test_ties.py",
    "codegen/test_build.py", "codegen/test_comments.py", "codegen/test_misra.py",
    "codegen/test_projects.py", "codegen/test_wrapping.py", "docs/test_documents.py", "examples",
    "importer/test_growth.py", "kernels/test_choice.py", "kernels/test_digits.py", "kernels/test_halves.py",
    "kernels/test_integer.py", "kernels/test_integer_winograd.py", "kernels/test_integers.py",
    "kernels/test_long_sums.py",
    "kernels/test_movement.py", "kernels/test_narrow_products.py", "kernels/test_one_lane.py",
    "kernels/test_parts.py", "kernels/test_prologues.py",
    "kernels/test_registers.py", "kernels/test_variants.py", "kernels/test_vector_integers.py",
    "kernels/test_vector_layouts.py", "kernels/test_vector_math.py", "kernels/test_vector_narrow.py",
    "kernels/test_views.py", "lower/test_evaluate.py", "models", "ops/test_exact_answers.py",
    "ops/test_future_keys.py", "ops/test_indexing.py", "ops/test_infinite_weights.py",
    "ops/test_normalisation.py", "ops/test_operators.py", "ops/test_recurrent.py",
    "ops/test_sanitized.py", "packaging/test_class_tests.py", "packaging/test_skips.py",
    "packaging/test_wheel.py", "passes/test_channels.py", "passes/test_exact.py", "passes/test_models.py",
    "passes/test_requantisation.py", "passes/test_speed.py", "plan/test_alloc.py",
    "plan/test_alloc_minimalloc.py", "plan/test_orders.py", "property",
    "report/test_browser.py", "report/test_page.py", "report/test_schema.py", "run/test_boards.py",
    "run/test_branches.py", "run/test_detectors.py", "run/test_extents.py", "run/test_loops.py",
    "run/test_threads.py", "runtime/test_mcc_build.py",
    "safety/test_arena.py", "safety/test_inplace.py", "targets", "tune",
)  # fmt: skip
"""Folders and files whose tests mostly compile C, run programs, or search for long."""

MOST_SECONDS = 3.0
"""CPU time of a fast test, what it starts included."""

MOST_TOGETHER = 250
"""That of all of them: two minutes on two cores."""

STARTED = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        if not marks & {"fast", "slow", "thorough"} and not _thorough(item.path):
            item.add_marker("fast")


@functools.cache
def _thorough(path: Path) -> bool:
    return any(path.is_relative_to(TESTS / place) for place in THOROUGH)


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    item.stash[STARTED] = _cpu_seconds()
    return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """What a test took travels with its last report, from a worker too."""
    item.user_properties.append(("cpu_seconds", _cpu_seconds() - item.stash[STARTED]))


def share(cases: Sequence[Any], part: int) -> list[Any]:
    """Cases for `parametrize` of which every ``part``-th is fast, as a sample of them; the others are thorough."""
    return [case if i % part == 0 else pytest.param(case, marks=pytest.mark.thorough) for i, case in enumerate(cases)]


def first(cases: Sequence[Any], count: int) -> list[Any]:
    """Cases for `parametrize`, tuples of several arguments, of which the first ``count`` are run always; the others
    are slow, as there are so many of them."""
    slow = (pytest.param(*c if isinstance(c, tuple) else (c,), marks=pytest.mark.slow) for c in cases[count:])
    return [*cases[:count], *slow]


def say_cpu_seconds(terminalreporter: Any, config: pytest.Config) -> None:
    if config.getoption("markexpr") != "fast":
        return
    seconds: dict[str, float] = {}
    for report in itertools.chain(*terminalreporter.stats.values()):
        for key, value in getattr(report, "user_properties", ()):
            if key == "cpu_seconds":
                seconds[report.nodeid] = value
    terminalreporter.write_line(f"{sum(seconds.values()):.0f} seconds of CPU time, at most {MOST_TOGETHER} are meant")
    for name, value in sorted(seconds.items(), key=lambda item: -item[1]):
        if value > MOST_SECONDS:
            terminalreporter.write_line(f"{value:.1f} s: to be marked thorough: {name}")
