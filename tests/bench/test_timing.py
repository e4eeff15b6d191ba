"""Bursts in turn, medians, and ratios that do not care how fast the machine happens to be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mccompile.bench.timing import MAX_RUNS, burst, interleave, pinned, runs_for, spread


class Machine:
    """A clock that stands still but for the runs of things, which take as long as they say."""

    def __init__(self) -> None:
        self.now = 0.0
        self.factor = 1.0
        self.order: list[str] = []

    def clock(self) -> float:
        return self.now

    def thing(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.order.append(name)
            self.now += seconds * self.factor

        return run


def test_a_burst_has_one_number_for_each_run_after_a_warm_one() -> None:
    m = Machine()
    assert burst(m.thing("a", 2.0), 3, m.clock) == [2.0, 2.0, 2.0]
    assert m.order == ["a"] * 4


@pytest.mark.parametrize(("seconds", "runs"), [(1.0, 1), (0.03, 3), (0.001, 50), (1e-9, MAX_RUNS)])
def test_a_burst_is_as_long_as_it_should_be(seconds: float, runs: int) -> None:
    m = Machine()
    assert runs_for(m.thing("a", seconds), 0.05, m.clock) == runs


def test_each_round_begins_with_another_thing() -> None:
    m = Machine()
    things = {name: m.thing(name, 1.0) for name in "abc"}
    ticks: list[int] = []

    def tick(n: int) -> None:
        ticks.append(n)
        if n == 0:
            m.order.clear()

    interleave(things, 3, 0.5, m.clock, tick)
    assert ticks == [0, 1, 2]
    assert m.order[::2] == list("abcbcacab")  # each run has a warm one before it


def test_a_machine_that_slows_down_changes_no_ratio() -> None:
    m = Machine()

    def slower(n: int) -> None:
        m.factor = 1.0 + n

    found = interleave({"a": m.thing("a", 1.0), "b": m.thing("b", 3.0)}, 5, 0.1, m.clock, slower)
    assert found.medians["a"] == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert found.ratio("b", "a") == 3.0
    a = found.spread("a")
    assert (a.low, a.median, a.high, a.best) == (2.0, 3.0, 4.0, 1.0)


def test_milliseconds_in_json() -> None:
    assert spread([0.001, 0.002, 0.003], 0.0005).to_json() == {
        "median": 2.0, "quartile1": 1.5, "quartile3": 2.5, "best": 0.5,
    }  # fmt: skip


def test_pinning_is_undone() -> None:
    import os

    if not hasattr(os, "sched_getaffinity"):
        pytest.skip("needs sched_getaffinity")
    before = os.sched_getaffinity(0)
    with pinned():
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before
