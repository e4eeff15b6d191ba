"""Networks in parts: the same bits by any number of threads, and no data race."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.bench.bench import bench
from mccompile.driver import Options
from mccompile.run.network import Network
from tests._skips import needs_sanitizers
from tests.kernels.cases import Net
from tests.support.judge import plain_session
from tests.support.small_models import Maker
from tests.support.targets import needs_target

MAIN = r"""
#include "net.h"
#include "mcc_pool_pthread.h"
#include <stdio.h>
#include <string.h>

static net_arena arena;

static void run(net_t *net, float *y)
{
    float *x = net_input_x0(net);
    for (int i = 0; i < NET_INPUT_X0_COUNT; ++i) {
        x[i] = (float)(i % 17) - 8.0f;
    }
    if (net_run(net) != MCC_OK) {
        puts("status");
    }
    memcpy(y, OUTPUT(net), sizeof(float) * COUNT);
}

int main(void)
{
    static float first[COUNT], again[COUNT];
    net_t net;
    if (net_init(&net, &arena, net_blob, NET_BLOB_BYTES) != MCC_OK) {
        return 2;
    }
    run(&net, first);
    for (uint32_t threads = 1u; threads <= 4u; ++threads) {
        mcc_pool *pool = mcc_pool_pthread_start(threads);
        net_set_pool(&net, pool);
        for (int i = 0; i < 20; ++i) {
            run(&net, again);
            if (memcmp(first, again, sizeof(first)) != 0) {
                printf("%u threads: other bits\n", (unsigned)threads);
            }
        }
        net_set_pool(&net, NULL);
        mcc_pool_pthread_stop(pool);
    }
    return 0;
}
"""


def model() -> onnx.ModelProto:
    """Convolutions, a residual, a pool, a softmax, a product with few rows."""
    n = Net(7)
    x = n("Relu", n.conv(n.input(1, 16, 56, 56), (32, 16, 3, 3), pads=[1, 1, 1, 1]))
    y = n("Sigmoid", n.conv(x, (32, 1, 3, 3), pads=[1, 1, 1, 1], group=32))
    y = n("Add", n.conv(y, (32, 32, 1, 1)), x)
    y = n("MaxPool", y, kernel_shape=[4, 4], strides=[4, 4])
    y = n("Reshape", y, n.ints(1, -1))
    return n.model(n("Softmax", n("MatMul", y, n.weight(32 * 14 * 14, 192))))


@pytest.fixture
def folder(tmp_path: Path) -> Callable[..., Path]:
    def compiled(**options: object) -> Path:
        out = tmp_path / f"out{len(list(tmp_path.iterdir()))}"
        mccompile.compile(model(), out, name="net", keep_inputs=True, **options)
        return out

    return compiled


def test_any_number_of_threads_gives_the_same_bits(folder: Callable[..., Path]) -> None:
    parted, rng = folder(threads=3), np.random.default_rng(1)
    x = rng.uniform(-1, 1, (1, 16, 56, 56)).astype(np.float32)
    want = mccompile.load(folder())(x).tobytes()
    cut = [s for s in Network(parted).report["steps"] if "parts" in s]
    assert max(len(s["parts"]["cuts"]) - 1 for s in cut) == 3
    assert sum(s["macs"] for s in cut) > 0.9 * sum(s["macs"] for s in Network(parted).report["steps"])
    for threads in (0, 1, 2, 5):
        network = mccompile.load(parted, threads=threads)
        assert [network(x).tobytes() for _ in range(3)] == [want] * 3


def test_pixels_that_are_scaled_by_their_mean_stay_with_a_thread(tmp_path: Path) -> None:
    target = needs_target("x86-64-v3")
    n, shape = Net(7), (1, 16, 28, 30)
    x = n("Relu", n.conv(n.input(*shape), (32, 16, 3, 3), pads=[1, 1, 1, 1]))
    gate = n("Sigmoid", n.conv(n("GlobalAveragePool", x), (32, 32, 1, 1)))
    gated = n.model(n.conv(n("Mul", x, gate), (16, 32, 1, 1)))
    data = np.random.default_rng(1).uniform(-1, 1, shape).astype(np.float32)
    for threads in (1, 2):
        out = tmp_path / str(threads)
        mccompile.compile(gated, out, name="net", target=target, keep_inputs=True, threads=threads)
    reductions = [s for s in Network(out).report["steps"] if s["kernel"] == "reduce.vector"]
    assert [s["parts"]["loop"] for s in reductions if "parts" in s] == ["i0"]  # rows, as the map takes them
    found = mccompile.load(out)(data)
    assert found.tobytes() == mccompile.load(tmp_path / "1")(data).tobytes()
    (wanted,) = plain_session(gated.SerializeToString()).run(None, {"x0": data})
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-4 * float(np.abs(wanted).max()))


def test_networks_share_a_pool(folder: Callable[..., Path]) -> None:
    """Threads that run networks with one pool at the same time: one has it, the other does its parts itself."""
    out = folder(threads=2)
    networks = [mccompile.load(out) for _ in range(2)]
    networks[1]._net.pool = networks[0]._net.pool
    x = np.random.default_rng(2).uniform(-1, 1, (1, 16, 56, 56)).astype(np.float32)
    want, got = networks[0](x).tobytes(), list[bytes]()
    runs = [threading.Thread(target=lambda n=n: got.extend(n(x).tobytes() for _ in range(50))) for n in networks]
    for t in runs:
        t.start()
    for t in runs:
        t.join()
    assert set(got) == {want}
    assert len(got) == 100


def test_thread_sanitizer_finds_no_race(folder: Callable[..., Path]) -> None:
    compiler = needs_sanitizers("gcc")  # ThreadSanitizer is in the same package
    out = folder(threads=3, pthread_pool=True, embed=True, target="generic")
    report = Network(out).report
    (port,) = report["outputs"]
    (out / "main.c").write_text(MAIN)
    names = [f"-DOUTPUT=net_output_{port['c_name']}", f"-DCOUNT={int(np.prod(port['shape']))}"]
    flags = ["-std=c99", "-O1", "-g", "-fsanitize=thread", "-DMCC_POOL_SPINS=200", *names]
    sources = ["main.c", "net.c", "net_blob.c", "mcc.c", "mcc_pool_pthread.c"]
    subprocess.run([compiler, *flags, *sources, "-lm", "-pthread", "-o", "main"], cwd=out, check=True)
    done = subprocess.run(["./main"], cwd=out, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


def test_bench_and_check_use_the_threads(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path)
    assert bench(path, Options(threads=2), rounds=1, seconds=0.001).report["options"]["threads"] == 2
    assert mccompile.check(path, threads=2).ok


def test_options_that_make_no_sense(folder: Callable[..., Path]) -> None:
    with pytest.raises(mccompile.UsageError, match="no use for a pool"):
        folder(pthread_pool=True)
    with pytest.raises(mccompile.UsageError, match="1 to 256 parts"):
        folder(threads=1000)
    with pytest.raises(mccompile.UsageError, match="compiled for one thread"):
        mccompile.load(folder(), threads=2)


def test_posix_threads_where_there_may_be_none_are_told_of(folder: Callable[..., Path]) -> None:
    for target, told in (("cortex-m7", True), ("generic", False)):
        out = folder(threads=2, pthread_pool=True, target=target)
        notes = json.loads((out / "report.json").read_text())["notes"]
        assert any("needs POSIX threads" in note for note in notes) is told


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m7", "cortex-m55"])
def test_copies_are_shared_out_as_they_are_walked(target: str, tmp_path: Path) -> None:
    """A target that computes one float at a time turns no squares of vectors."""
    m = Maker()
    m.node("Transpose", [m.input("x", [8, 64, 64])], "y", perm=[2, 0, 1])
    onnx.save(m.model(["y"]), tmp_path / "turned.onnx")
    mccompile.compile(tmp_path / "turned.onnx", tmp_path / "out", target=target, threads=2)
    assert "part_begin" in (tmp_path / "out" / "turned.c").read_text()
