"""The table of the optimiser: its stages are the pipeline, and a network gives a row for each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from mccompile.passes.pipeline import PIPELINES
from tests._skips import needs_shared

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("optimizer_table", ROOT / "benchmarks" / "optimizer_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_stages_are_the_whole_pipeline(table: ModuleType) -> None:
    parts = table.groups(PIPELINES[table.LEVEL])
    assert sum((names for _, names in parts), ()) == PIPELINES[table.LEVEL]
    assert [stage for stage, _ in parts] == [stage for stage, _ in table.STAGES]
    assert all(names for _, names in parts)


def test_a_network_gives_the_same_rows_every_time(table: ModuleType) -> None:
    path = needs_shared("mlperf_tiny/kws_dscnn_fp32.onnx")
    network = table.measure("kws", path, {})
    assert [r.stage for r in network.rows] == ["import", *(s for s, _ in table.STAGES), "forwarded"]
    first, last = network.rows[0], network.rows[-1]
    assert last.traffic.bytes < 0.7 * first.traffic.bytes
    assert last.traffic.launches < first.traffic.launches
    layouts = [table.stored("kws", path, {})]
    assert layouts[0].values > 4
    assert layouts[0].chosen.copied_bytes[1] < layouts[0].rows.copied_bytes[1]
    text = table.document([network], layouts, [("other", "not supported")])
    assert text == table.document([table.measure("kws", path, {})], layouts, [("other", "not supported")])
    assert "- other: not supported" in text
