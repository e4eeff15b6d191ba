"""benchmarks/performance.py: the worker processes and the document."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"

FACTS = {
    "engine": "mccompile 1.2", "target": "x86-64-v3", "flags": ["-O3"], "macs": 1000, "arena_bytes": 2048,
    "blob_bytes": 3 << 20, "c_bytes": 2048, "text_bytes": 1024, "compile_seconds": 0.5, "cc_seconds": 1.0,
}  # fmt: skip


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    yield importlib.import_module("performance")
    for name in ("performance", "engines"):
        sys.modules.pop(name, None)


def test_a_network_is_measured_in_two_processes(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("onnxruntime")
    monkeypatch.setattr(script, "BURST", 0.005)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    images = np.load(DIGITS.parent / "test_images.npy")[:1].astype(np.float32).reshape(1, 1, 8, 8)
    network = script.Network("digits", DIGITS, {"image": images})
    row = script.measure(network, script.arguments(["--rounds", "2", "--target", "generic"]))
    assert row.error == ""
    assert 0 < row.seconds < 0.1
    assert row.quartiles[0] <= row.ratio <= row.quartiles[1]
    assert row.difference < 1e-5
    assert row.facts["text_bytes"] is None or row.facts["text_bytes"] > 2000
    assert row.flops == pytest.approx(2 * row.facts["macs"] / row.seconds)
    assert 0 < row.of_peak < 2


def test_what_fails_is_a_row(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    row = script.measure(script.Network("broken", broken, {}), script.arguments(["--rounds", "1"]))
    assert row.error.startswith("mccompile: CompileError")
    assert "| broken | mccompile: CompileError" in script.document([row], [], script.arguments([]))


def test_the_document(script: ModuleType) -> None:
    def row(name: str, ratio: float) -> object:
        return script.Row(
            name, seconds=0.002, other_seconds=0.003, ratio=ratio, quartiles=(1.0, 2.0), flops=50e9, peak=100e9,
            difference=2e-7, facts=FACTS, other="onnxruntime 9",
        )  # fmt: skip

    text = script.document(
        [row("ds_cnn", 1.5), row("resnet8", 1.34)], [row("toy", 0.9)], script.arguments(["--rounds", "5"])
    )
    assert "in 5 rounds of bursts" in text
    assert "mccompile 1.2, onnxruntime 9" in text
    assert "one core: 100.0 GFLOP/s" in text
    assert "Geometric mean of x ort: 1.42 (2 networks). Behind their goal: resnet8." in text
    assert "Behind onnxruntime: toy." in text
    tables = [block for block in text.split("\n\n") if block.startswith("|")]
    for table in tables:
        assert len({len(re.findall(r"\|", line)) for line in table.splitlines()}) == 1
    assert "| ds_cnn | 2.000 | 3.000 | **1.50** | 1.00 - 2.00 | 1.25 | 50.0 | 50% | 2e-07 |" in text
    assert "| 2e-07 | 2.0 KiB | 3.0 MiB | 2.0 KiB | 1.0 KiB | 0.5 s | 1.0 s |" in text


def test_without_the_shared_networks(
    script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(script, "SHARED", tmp_path)
    with pytest.raises(SystemExit, match="MCC_SHARED=") as e:
        list(script.benchmark_networks([]))
    assert "is missing" in str(e.value)
