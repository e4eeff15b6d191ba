"""Times of steps: the right step has the right time, work and class."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from mccompile import driver
from mccompile.bench.layers import PROFILE_HOOKS, Layer, Profiler, layer_lines, layers
from mccompile.bench.machine import Peak, Probes
from mccompile.bench.timing import interleave
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.run.network import Network
from mccompile.targets.target import resolve

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
PEAK = Peak(flops=100e9, hertz=3e9, near=50e9, far=10e9, l2=1 << 20)


def layer(seconds: float, macs: int, nbytes: int) -> Layer:
    return Layer(0, ("node",), "conv.generic", seconds, macs, nbytes)


@pytest.mark.parametrize(
    ("seconds", "macs", "nbytes", "bound"),
    [
        (10e-6, 400_000, 1000, "compute"),  # 8 us of 10 at the peak
        (10e-6, 0, 400_000, "bandwidth"),  # 8 us of 10 from the near memory
        (100e-6, 100_000, 900_000, "overhead"),  # 2 and 18 us of 100
        (1000e-6, 0, 9_000_000, "bandwidth"),  # 900 us of 1000 from the far one
        (10e-6, 300_000, 350_000, "bandwidth"),  # 6 and 7 us
        (10e-6, 350_000, 300_000, "compute"),
    ],
)
def test_class(seconds: float, macs: int, nbytes: int, bound: str) -> None:
    assert layer(seconds, macs, nbytes).bound(PEAK) == bound


def test_rates() -> None:
    one = layer(10e-6, 400_000, 50_000)
    assert one.flops == pytest.approx(80e9)
    assert one.bandwidth == pytest.approx(5e9)
    data = one.to_json(PEAK, total=40e-6)
    assert (data["us"], data["share"], data["gflops"], data["of_peak"]) == (10.0, 0.25, 80.0, 0.8)
    assert layer(0.0, 1, 1).to_json(PEAK, total=0.0)["share"] == 0.0


def test_the_table_adds_up_kernels() -> None:
    found = layers(
        [
            {"kernel": "conv.a", "onnx": ["first"], "macs": 100, "read_bytes": 30, "written_bytes": 4},
            {"kernel": "fill.generic", "onnx": [], "macs": 0, "read_bytes": 0, "written_bytes": 8},
            {"kernel": "conv.a", "onnx": ["second" * 20], "macs": 300, "read_bytes": 1, "written_bytes": 1},
        ],
        [1e-6, 0.5e-6, 2.5e-6],
    )
    lines = layer_lines(found, PEAK)
    assert [line.split()[0] for line in lines if line] == ["step", "0", "1", "2", "2x", "1x"]
    total = next(line for line in lines if "2x" in line).split()
    assert total[1:4] == ["conv.a", "3.50", "87.5%"]
    assert any("(fill)" in line for line in lines)
    assert max(map(len, lines)) < 130


def _compiled(out: Path) -> driver.Compilation:
    c, files = driver.compile_files(DIGITS, Options(target="generic", keep_inputs=True))
    write_folder(out, files)
    return c


def test_the_work_of_all_steps_is_that_of_the_network(tmp_path: Path) -> None:
    _compiled(tmp_path / "out")
    report = Network(tmp_path / "out").report
    assert sum(s["macs"] for s in report["steps"]) == report["macs"] > 0
    assert all(s["macs"] == 0 for s in report["steps"] if s["kernel"].partition(".")[0] in ("pool", "fill", "copy"))
    traffic = report["traffic"]
    assert sum(s["read_bytes"] for s in report["steps"]) == traffic["read_bytes"]
    assert sum(s["written_bytes"] for s in report["steps"]) == traffic["written_bytes"]


def test_a_step_that_is_slowed_down_is_the_slow_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    c = _compiled(out)
    source = out / f"{c.graph.name}.c"
    text = source.read_text()
    step = len(re.findall(r"MCC_STEP", text)) // 2
    wait = "for (volatile int i = 0; i < 10000000; ++i) { }"
    profiled = rf"MCC_PROFILE_BEGIN({step}); \1; {wait} MCC_PROFILE_END({step});"
    source.write_text(re.sub(rf"MCC_STEP\({step}, (.*?),\s+a->\w+\.v\);", profiled, text, flags=re.DOTALL))
    profiler = Profiler(Network(out, hooks=PROFILE_HOOKS))
    profiler.network.set_inputs({v.name: np.zeros(v.shape, np.float32) for v in c.graph.inputs})
    assert profiler.seconds() == [0.0] * len(profiler.network.report["steps"])
    for _ in range(3):
        profiler.run()
    seconds = profiler.seconds()
    assert seconds[step] > 1e-3
    assert seconds[step] > 5 * (sum(seconds) - seconds[step])


def test_the_probes_agree_with_the_clock() -> None:
    """No core of today does more than 64 multiply-adds a cycle, or runs faster than 10 GHz."""
    probes = Probes(resolve("native"))
    peak = probes.peak(interleave(probes.things(), 3, 0.002))
    assert 1e8 < peak.hertz < 1e10
    assert 0.2 < peak.flops / peak.hertz < 128
    assert peak.bandwidth(1) == peak.near
    assert peak.bandwidth(peak.l2 + 1) == peak.far
