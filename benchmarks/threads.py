"""How much faster two threads are than one, beside onnxruntime's two: a table in docs/threads.md.

usage: threads.py [-o FILE] [--threads N] [--rounds N] [NETWORK ...]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from engines import EngineError, Worker
from performance import ROOT, Network, benchmark_networks, bursts_of, ms_text
from tables import renew_part

OUT = ROOT / "docs" / "threads.md"
HEAD = """| network | one thread, ms | {n} threads, ms | faster | onnxruntime with {n}, ms | x ort |
|---|--:|--:|--:|--:|--:|
"""


def row(network: Network, threads: int, rounds: int) -> str:
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
            bursts = bursts_of(workers, rounds)
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


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description="Measure what threads gain.")
    p.add_argument("-o", "--out", type=Path, default=OUT, help="default: docs/threads.md")
    p.add_argument("--threads", type=int, default=2, help="as many as there are cores with nothing else to do")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("names", nargs="*", metavar="NETWORK")
    return p.parse_args(argv)


def main() -> None:
    args = arguments()
    networks = list(benchmark_networks(()))
    chosen = [n for n in networks if not args.names or n.name in args.names]
    found = ((n.name, row(n, args.threads, args.rounds)) for n in chosen)
    renew_part(args.out, "measured", HEAD.format(n=args.threads), [n.name for n in networks], found)


if __name__ == "__main__":
    main()
