"""A network in a process of its own: the generated C or another engine, pinned to a core, that runs bursts when told.

The parent speaks to it over pipes, a line of JSON each way; what libraries print goes to stderr. A worker that is not
asked sleeps, so that several can stay alive and have their turns.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Run = Callable[[], object]
Fetch = Callable[[], Mapping[str, Any]]

PROBE_SECONDS = 0.004


class EngineError(Exception):
    """What a worker said before it gave up."""


class BusyError(Exception):
    """What was measured says nothing: the machine had something else to do."""


class Worker:
    """The parent's end. ``facts`` are what the engine has to say of itself and of the network.

    ``job``: the model and the .npz of its inputs, a folder for what is made, the target, opt_level and tune of ours,
    and the threads of both (1).
    """

    def __init__(self, engine: str, job: Mapping[str, Any], core: int) -> None:
        self.engine = engine
        self._log = open(Path(job["folder"]) / f"{engine}.log", "w")  # noqa: SIM115  as long as the worker
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MCC_CACHE": str(Path(job["folder"]) / "cache")}
        self._process = subprocess.Popen(
            [sys.executable, __file__, engine, str(core)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, env=environment,
        )  # fmt: skip
        self.facts = self.ask(job)

    def ask(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """EngineError if the engine fails at it, or is gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise EngineError(f"the worker ended with {self._process.wait()}; see {self._log.name}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer

    def burst(self, count: int) -> dict[str, Any]:
        """``seconds`` of each of so many runs; of the generated C also ``flops``, the core's peak just then."""
        return self.ask({"count": count})

    def close(self) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(20)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._log.close()


# ---- the worker's end --------------------------------------------------------------------------------------


def _onnxruntime(job: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[Run, Fetch, dict[str, Any], Run | None]:
    import onnxruntime as ort

    from mccompile.bench.engines import onnxruntime

    def fetch() -> Mapping[str, Any]:
        """Outputs without optimisations, which are the reference; the session is gone before anything is measured."""
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 4
        plain = ort.InferenceSession(job["model"], options, providers=["CPUExecutionProvider"])
        names = [o.name for o in plain.get_outputs()]
        return dict(zip(names, plain.run(names, dict(inputs)), strict=True))

    label, run = onnxruntime(Path(job["model"]), inputs, job.get("threads", 1))
    return run, fetch, {"engine": label}, None


def _mccompile(job: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[Run, Fetch, dict[str, Any], Run | None]:
    import mccompile
    from mccompile.bench.machine import Probes
    from mccompile.targets.target import resolve

    out = Path(job["folder"]) / "out"
    shapes = {name: list(a.shape) for name, a in inputs.items()}
    begin = time.perf_counter()
    done = mccompile.compile(
        job["model"], out, target=job["target"], opt_level=job["opt_level"], input_shapes=shapes, keep_inputs=True,
        name="net", tune=job["tune"], threads=job.get("threads", 1),
    )  # fmt: skip
    compiled = time.perf_counter()
    network = mccompile.load(out)
    built = time.perf_counter()
    text = _text_bytes(Path(os.environ["MCC_CACHE"]))
    network.set_inputs(inputs)
    probes = Probes(resolve(job["target"]))
    report = done.report
    facts = {
        "engine": f"mccompile {mccompile.__version__}",
        "target": report["target"]["name"],
        "flags": report["target"]["c_flags"],
        "macs": report["macs"],
        "arena_bytes": report["memory"]["arena_bytes"],
        "blob_bytes": report["blob_bytes"],
        "text_bytes": text,
        "c_bytes": (out / "net.c").stat().st_size,
        "compile_seconds": compiled - begin,
        "cc_seconds": built - compiled,
        "kernels": report["kernels"],
    }
    return network.invoke, lambda: network.run(inputs), facts, _peak(probes)


def _peak(probes: Any) -> Run:
    """The core's multiply-adds per second times two, in a short burst."""
    from mccompile.bench.timing import interleave

    return lambda: probes.peak(interleave(probes.things(), 1, PROBE_SECONDS)).flops


def _text_bytes(cache: Path) -> int | None:
    """Machine code of the library that was built last, the runtime's included; None without binutils."""
    libraries = sorted(cache.glob("*.so"), key=lambda p: p.stat().st_mtime)
    if not libraries or not shutil.which("size"):
        return None
    listing = subprocess.run(["size", "-A", str(libraries[-1])], capture_output=True, text=True, check=True).stdout
    return next(int(line.split()[1]) for line in listing.splitlines() if line.startswith(".text"))


def _probe(job: Mapping[str, Any], inputs: Mapping[str, Any]) -> tuple[Run, Fetch, dict[str, Any], Run | None]:
    """Multiply-adds in registers: as fast as the core is free."""
    from mccompile.bench.machine import Probes
    from mccompile.targets.target import resolve

    return Probes(resolve(job["target"])).things()["flops"], dict, {}, None


_ENGINES = {"mccompile": _mccompile, "onnxruntime": _onnxruntime, "probe": _probe}


def main() -> None:
    """The worker: ``engines.py ENGINE CORE``, jobs and bursts on stdin."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries that print must not disturb the answers

    def say(message: Mapping[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    engine, core = sys.argv[1], int(sys.argv[2])
    if core >= 0:
        os.sched_setaffinity(0, {core})
    try:
        job = json.loads(sys.stdin.readline())
        with np.load(job["inputs"]) as file:
            inputs = {name: file[name] for name in file.files}
        run, fetch, facts, peak = _ENGINES[engine](job, inputs)
        np.savez(job["folder"] + f"/{engine}.npz", **fetch())
        run()
        say(facts)
        _serve(run, peak, say)
    except Exception as e:
        say({"error": f"{type(e).__name__}: {e}"})
        raise


def _serve(run: Run, peak: Run | None, say: Callable[[Mapping[str, Any]], None]) -> None:
    from mccompile.bench.timing import burst

    for line in sys.stdin:
        seconds = burst(run, json.loads(line)["count"])
        say({"seconds": seconds, "flops": None if peak is None else peak()})


if __name__ == "__main__":
    main()
