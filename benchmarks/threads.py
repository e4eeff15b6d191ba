"""How much faster two threads are than one, beside onnxruntime's two: a table in docs/threads.md.

usage: threads.py [-o FILE] [--mark MARK] [--threads N] [--rounds N] [NETWORK ...]
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from engines import BusyError, EngineError, Worker
from performance import ROOT, Network, benchmark_networks, bursts_of, ms_text
from tables import renew_part

OUT = ROOT / "docs" / "threads.md"
HEAD = """| network | one thread, ms | {n} threads, ms | faster | onnxruntime with {n}, ms | x ort |
|---|--:|--:|--:|--:|--:|
"""
BUSY = 1.06
"""How much longer multiply-adds in registers take than they did at best where a core is called busy. The clock of
a Zen 5 varies by 4 % from one tenth of a second to the next; a core that somebody shares takes a third longer."""
WARMING_RUNS = 400
"""As many take a Zen 5 to its clock, 12 ms: it lies 10 % lower behind a pause."""
PROBE_RUNS = 200


class Cores:
    """Asks whether so many cores were free before and behind a round: of a virtual machine, the host may take one
    away, or give the other half of it to somebody, and nothing in here would tell but a slower second thread."""

    def __init__(self, count: int, folder: Path) -> None:
        inputs = folder / "none.npz"
        np.savez(inputs)
        cores = sorted(os.sched_getaffinity(0))[-count:]
        self._workers: list[Worker] = []
        for core in cores:
            (folder / str(core)).mkdir()
            job = {"model": "", "folder": str(folder / str(core)), "inputs": str(inputs), "target": "native"}
            self._workers.append(Worker("probe", job, core))
        self._together = ThreadPoolExecutor(count)
        self._least = float("inf")
        self._free = self._probe()

    def quiet(self) -> bool:
        before, self._free = self._free, self._probe()
        return before and self._free

    def _probe(self) -> bool:
        """All cores at the same time."""
        runs = WARMING_RUNS + PROBE_RUNS
        bursts = self._together.map(lambda w: w.burst(runs)["seconds"][WARMING_RUNS:], self._workers)
        slowest = max(float(np.mean(seconds)) for seconds in bursts)  # the mean: a turn lost to somebody counts
        self._least = min(self._least, slowest)
        return slowest <= BUSY * self._least

    def close(self) -> None:
        self._together.shutdown()
        for w in self._workers:
            w.close()


def row(network: Network, threads: int, rounds: int, cores: Cores) -> str:
    """A row of the table: one program for one thread, one for several, and onnxruntime, which have their turns."""
    with tempfile.TemporaryDirectory(prefix="mccompile-bench-") as name:
        inputs = Path(name) / "inputs.npz"
        np.savez(inputs, **network.inputs)
        workers: list[Worker] = []
        try:
            for engine, count in (("mccompile", 1), ("mccompile", threads), ("onnxruntime", threads)):
                folder = Path(name) / f"{engine}{count}"
                folder.mkdir()
                job = {"model": str(network.model), "folder": str(folder), "inputs": str(inputs), "target": "native",
                       "opt_level": "O2", "tune": False, "threads": count}  # fmt: skip
                workers.append(Worker(engine, job, core=-1))
            bursts = bursts_of(workers, rounds, cores.quiet)
        except EngineError as e:
            return f"| {network.name} | {' '.join(str(e).split())[:100]} | | | | |"
        finally:
            for w in workers:
                w.close()
    times = np.array([[float(np.median(b["seconds"])) for b in of] for of in bursts])
    one, several, theirs = np.median(times, axis=1)
    faster, ratio = np.median(times[0] / times[1]), np.median(times[2] / times[1])
    cells = [ms_text(one), ms_text(several), f"**{faster:.2f}**", ms_text(theirs), f"**{ratio:.2f}**"]
    return f"| {network.name} | {' | '.join(cells)} |"


def rows(networks: Sequence[Network], threads: int, rounds: int, cores: Cores) -> Iterator[tuple[str, str]]:
    """Of each network that could be measured; the rows of the others stay what they were."""
    for n in networks:
        try:
            yield n.name, row(n, threads, rounds, cores)
        except BusyError as e:
            print(f"{n.name}: not measured: {e}", flush=True)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Measure what threads gain.")
    p.add_argument("-o", "--out", type=Path, default=OUT, help="default: docs/threads.md")
    p.add_argument("--mark", default="measured", help="of the table in it: measured, measured-zen5")
    p.add_argument("--threads", type=int, default=2, help="as many as there are cores with nothing else to do")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("names", nargs="*", metavar="NETWORK")
    return p.parse_args(argv)


def main() -> None:
    args = arguments()
    networks = list(benchmark_networks(()))
    chosen = [n for n in networks if not args.names or n.name in args.names]
    with tempfile.TemporaryDirectory(prefix="mccompile-bench-") as folder:
        cores = Cores(args.threads, Path(folder))
        found = rows(chosen, args.threads, args.rounds, cores)
        renew_part(args.out, args.mark, HEAD.format(n=args.threads), [n.name for n in networks], found)
        cores.close()


if __name__ == "__main__":
    main()
