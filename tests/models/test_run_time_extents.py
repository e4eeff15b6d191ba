"""Real networks whose extents are given when they run: right at both ends and between them, and nowhere outside.

`check` runs each at its bounds, at the least, and at drawn extents, in an arena full of 0xFF; here the program is
built with sanitizers, and its arena and blob lie on its heap.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from mccompile.check import cases
from mccompile.check import check as checking
from mccompile.check.compare import Tolerance
from mccompile.driver import Options
from tests._skips import REPOSITORY, needs_sanitizers
from tests.support.dynamic_networks import MODELS, NETWORKS, Dynamic
from tests.support.sanitized import SANITIZERS, programs_instead

SEEDS = 5
"""The ends, and three places between them."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (MODELS / "manifest.json").exists(), reason="needs models/manifest.json under MCC_SHARED"),
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda n: n.label)
@pytest.mark.parametrize("target", ["native", "generic"])
def test_networks_are_right_at_all_extents(
    network: Dynamic, target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs_sanitizers("gcc")
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    path = importlib.import_module("extents").path_of(network, tmp_path)
    monkeypatch.setattr(cases, "drawn_cases", lambda c: SEEDS + 1)
    # gcc 12 takes minutes for unrolled tiles where each of their sums is watched, seconds without optimising.
    flags = (*SANITIZERS, "-O0") if target == "native" else SANITIZERS
    monkeypatch.setattr(checking, "strict_warnings", lambda compiler: flags)
    options = Options(target=target, **network.options())
    with programs_instead():
        result = checking.check(path, options, tolerance=Tolerance(atol=2 * network.off) if network.off else None)
    assert result.ok, "\n".join(result.lines())
