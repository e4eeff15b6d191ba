"""Real networks: compiled, built under the strict warnings, and held against what onnxruntime stored."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.check.compare import compare
from mccompile.check.factors import F16_FACTOR
from mccompile.ir.errors import CompileError
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests._skips import needs_tool
from tests.support.real_models import LATER, Array, RealModel, perturbed, real_models, unsupported_nodes

MODELS = real_models()
SWAPS = "xfeat_topk"
"""A network of which many results are nearly equal, so that noise decides their order."""
NOW = [m for m in MODELS if not m.later and m.name != SWAPS]
BIG_MACS = 500_000_000
CLANG = ("mnist8", "go1_policy", "kws_dscnn_fp32", "dtln_stage2", "squeezenet_fp16")

pytestmark = pytest.mark.skipif(not MODELS, reason="needs models/manifest.json under MCC_SHARED")


@dataclass(frozen=True)
class Row:
    model: str
    target: str
    peak: int
    bound: int
    kernels: int
    worst: float
    compile_seconds: float
    build_seconds: float
    run_seconds: float

    def text(self) -> str:
        gap = 100 * (self.peak / self.bound - 1) if self.bound else 0.0
        seconds = f"{self.compile_seconds:8.2f} {self.build_seconds:8.2f} {self.run_seconds:8.3f}"
        sizes = f"{self.peak:10} {self.bound:10} {gap:6.2f} {self.kernels:7}"
        return f"{self.model:24} {self.target:14} {sizes} {self.worst:8.3f} {seconds}"


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    """Rows to print when all is done (shown with -s)."""
    rows: list[Row] = []
    yield rows
    head = f"{'peak':>10} {'bound':>10} {'gap %':>6} {'kernels':>7} {'of tol.':>8}"
    print(f"\n{'model':24} {'target':14} {head} {'compile':>8} {'build':>8} {'run s':>8}")
    print("\n".join(r.text() for r in sorted(rows, key=lambda r: (r.model, r.target))))


def _run(network: Network, inputs: dict[str, Array], poison: int) -> dict[str, Array]:
    network.arena[:] = poison
    return network.run(inputs)


def _check_outputs(model: RealModel, got: dict[str, Array]) -> float:
    """The worst output, in units of its tolerance; fails if that is more than 1."""
    noise, worst, bad = model.noise(), 0.0, []
    for name, want in model.outputs().items():
        result = got[name].reshape(want.shape) if got[name].size == want.size else got[name]
        known = np.full(want.shape, noise[name])
        verdict = compare(name, result, want, known, F16_FACTOR if model.half else 1.0)
        if not verdict.ok:  # the reference may be the one that is off: float64 decides
            verdict = compare(name, result, model.exact()[name].reshape(want.shape), known)
        worst = max(worst, verdict.ratio)
        if not verdict.ok:
            bad.append(f"{name}: {verdict.text()}")
    assert not bad, "\n".join(bad)
    return worst


def _agrees(
    model: RealModel, target: str, folder: Path, table: list[Row], compiler: str = "gcc", optimised: str = ""
) -> None:
    """``optimised`` is a flag behind those of the target."""
    start = time.perf_counter()
    artifacts = mccompile.compile(model.path, folder, target=target, input_shapes=model.shapes)
    compiled = time.perf_counter()
    flags = (*strict_warnings(compiler), *filter(None, [optimised]))
    network = Network(folder, flags)
    built = time.perf_counter()
    inputs = model.inputs()
    first = _run(network, inputs, 0xFF)
    ran = time.perf_counter()
    worst = _check_outputs(model, first)
    other = perturbed(inputs)
    second, fresh = network.run(other), _run(Network(folder, flags), other, 0)
    for name, value in fresh.items():
        np.testing.assert_array_equal(second[name], value, err_msg=f"{name}: the run before it shows")
    memory = artifacts.report["memory"]
    peak, bound = memory["peak_bytes"], memory["lower_bound_bytes"]
    kernels = sum(artifacts.report["kernels"].values())
    seconds = (compiled - start, built - compiled, ran - built)
    table.append(Row(model.name, f"{target}/{compiler}", peak, bound, kernels, worst, *seconds))
    assert peak == bound


@pytest.fixture(autouse=True)
def _compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Libraries are built by gcc unless a test says otherwise."""
    monkeypatch.setenv("CC", needs_tool("gcc"))


AS_USERS_DO = NOW[::7]
"""Networks that are compiled with the flags of the target, -O3; the others at -O1, in half the time."""


QUICKLY = [m for m in NOW if m in AS_USERS_DO or m.macs <= 10_000_000 or NOW.index(m) % 4 == 0]
"""Those whose vector kernels are compiled and run each time: all small ones, a quarter of the others."""


@pytest.mark.parametrize(
    "model", [m if m in QUICKLY else pytest.param(m, marks=pytest.mark.slow) for m in NOW], ids=lambda m: m.name
)
def test_native(model: RealModel, tmp_path: Path, table: list[Row]) -> None:
    _agrees(model, "native", tmp_path / "out", table, optimised="" if model in AS_USERS_DO else "-O1")


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in NOW if m not in AS_USERS_DO], ids=lambda m: m.name)
def test_native_as_users_do(model: RealModel, tmp_path: Path, table: list[Row]) -> None:
    _agrees(model, "native", tmp_path / "out", table)


@pytest.mark.parametrize(
    "model", [pytest.param(m, marks=pytest.mark.slow) if m.macs > BIG_MACS else m for m in NOW], ids=lambda m: m.name
)
def test_generic(model: RealModel, tmp_path: Path, table: list[Row]) -> None:
    _agrees(model, "generic", tmp_path / "out", table, optimised="" if model in AS_USERS_DO else "-O1")


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("model", [m for m in NOW if m.name in CLANG], ids=lambda m: m.name)
def test_clang(
    model: RealModel, target: str, tmp_path: Path, table: list[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", needs_tool("clang"))
    _agrees(model, target, tmp_path / "out", table, "clang")


@pytest.mark.parametrize("model", [m for m in MODELS if m.name == SWAPS], ids=lambda m: m.name)
def test_what_noise_orders_is_compared_as_sets(model: RealModel, tmp_path: Path) -> None:
    mccompile.compile(model.path, tmp_path / "out", target="native", input_shapes=model.shapes)
    network = Network(tmp_path / "out", tuple(strict_warnings("gcc")))
    got, wanted = _run(network, model.inputs(), 0xFF), model.outputs()
    np.testing.assert_allclose(got["scores"], wanted["scores"], atol=1e-5)
    for name in ("keypoints", "descriptors"):
        rows, known = (a[np.lexsort(wanted_keys.T)] for a, wanted_keys in (
            (got[name], np.round(got["keypoints"], 2)), (wanted[name], np.round(wanted["keypoints"], 2)),
        ))  # fmt: skip
        np.testing.assert_allclose(rows, known, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("model", [m for m in MODELS if m.later], ids=lambda m: m.name)
def test_later_work_ends_with_an_error_that_names_it(model: RealModel, tmp_path: Path) -> None:
    shapes = {n: list(a.shape) for n, a in model.inputs().items()}
    with pytest.raises(CompileError) as caught:
        mccompile.compile(model.path, tmp_path / "out", input_shapes=shapes)
    message = str(caught.value)
    assert list(tmp_path.iterdir()) == [], "something was written"
    for node in unsupported_nodes(model.path):
        named = re.search(rf"node \d+ .*'?{re.escape(node.name)}'?:? .*{node.op_type}", message)
        assert named, f"{node.name!r} is not named in {message}"
    operators = set(re.findall(r"operator (\w+) is not supported", message))
    assert operators <= LATER, "something that is not later work is missing"
