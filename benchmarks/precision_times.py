"""Times of inferences in bf16 on one core of this machine, beside other engines: a table in docs/precision.md.

OpenVINO is measured where it is installed. All engines of a network have their turns in one process on one thread. A
time is the least of its runs, in time of the process: other work on the core makes it longer, but does not count.

usage: precision_times.py [-o FILE] [--mark MARK] [NETWORK ...]
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from performance import ROOT, Network, benchmark_networks, ms_text
from precision import error
from tables import renew_part

import mccompile
from mccompile.bench.engines import onnxruntime

OUT = ROOT / "docs" / "precision.md"
FORMS = ("f32", "bf16")
NETWORKS = (
    "resnet50", "mobilenet_v1", "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2",
    "squeezenet", "vgg16", "yolo_nano", "unet_small", "resnet8", "ds_cnn", "vww", "autoencoder", "minilm_128",
    "minilm_16", "gpt2_tiny", "lstm", "gru", "tcn", "m5_wav",
)  # fmt: skip
HEAD = """| network | f32 ms | bf16 ms | error | f32 MiB | bf16 MiB | onnxruntime ms | OpenVINO ms | by bf16 |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
"""
SECONDS = 0.4
"""That a turn of an engine takes, at least one run."""


def openvino_run(network: Network) -> Callable[[], object] | None:
    """As it is by default, which is in bf16 where a machine has it; None if it is not installed."""
    if importlib.util.find_spec("openvino") is None:
        return None
    import openvino as ov

    core = ov.Core()
    settings = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1}
    request = core.compile_model(core.read_model(str(network.model)), "CPU", settings).create_infer_request()
    for name, array in network.inputs.items():
        request.set_tensor(name, ov.Tensor(np.ascontiguousarray(array)))
    return lambda: request.infer()


def least(runs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Seconds of each, in turn."""
    best = [math.inf] * len(runs)
    for _ in range(rounds):
        for i, run in enumerate(runs):
            run()
            end = time.perf_counter() + SECONDS
            while True:
                start = time.process_time()
                run()
                best[i] = min(best[i], time.process_time() - start)
                if time.perf_counter() > end:
                    break
    return best


def row(network: Network, rounds: int) -> str:
    """A row of the table."""
    with tempfile.TemporaryDirectory(prefix="mccompile-bench-") as folder:
        runs, blobs, outputs = [], [], []
        for form in FORMS:
            net, blob = loaded(network, Path(folder) / form, form)
            runs.append(net.invoke)
            net.invoke()
            blobs.append(f"{blob / 2**20:,.1f}")
            outputs.append({name: np.array(a) for name, a in net.outputs.items()})
        _, ort = onnxruntime(network.model, network.inputs)
        peers = [run for run in (ort, openvino_run(network)) if run is not None]
        f32, bf16, *others = least([*runs, *peers], rounds)
    cells = [ms_text(f32), ms_text(bf16), f"{error(outputs[1], outputs[0]):.1g}", *blobs, *map(ms_text, others)]
    cells += [f"**{others[1] / bf16:.2f}**"] if len(others) > 1 else ["-", "-"]
    return f"| {network.name} | {' | '.join(cells)} |"


def loaded(network: Network, out: Path, form: str) -> tuple[Any, int]:
    """A network whose products are computed in a form, with its inputs, and the bytes of its blob."""
    shapes: Mapping[str, list[int]] = {n: list(a.shape) for n, a in network.inputs.items()}
    made = mccompile.compile(
        network.model, out, target="native", keep_inputs=True, input_shapes=shapes, precision=form
    )
    net = mccompile.load(out)
    for name, array in network.inputs.items():
        net.inputs[name][...] = array
    return net, int(made.report["blob_bytes"])


def rows(networks: Iterator[Network], rounds: int) -> Iterator[tuple[str, str]]:
    for network in networks:
        yield network.name, row(network, rounds)


def main() -> None:
    p = argparse.ArgumentParser(description="Measure what inferences in bf16 take here, beside other engines.")
    p.add_argument("-o", "--out", type=Path, default=OUT, help="default: docs/precision.md")
    p.add_argument("--rounds", type=int, default=6)
    p.add_argument("--mark", default="timed", help="of the table in it: timed, timed-zen5")
    p.add_argument("names", nargs="*", metavar="NETWORK")
    args = p.parse_args()
    networks = benchmark_networks(args.names or NETWORKS)
    renew_part(args.out, args.mark, HEAD, NETWORKS, rows(networks, args.rounds))


if __name__ == "__main__":
    main()
