"""Runs compositions and prints what is wrong: ``python -m tests.support.compose --count 3000 --seed 0``.

A finding is printed with a reduced network; ``--keep DIR`` writes that as .onnx and its inputs as .npz.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from tests.support.compose.drawn import composition
from tests.support.compose.reduce import reproduction
from tests.support.compose.run import (
    EMULATED,
    LEVELS,
    SETTINGS,
    Finding,
    Setting,
    Subject,
    examine,
    setting_of,
    subject,
)  # fmt: skip

CHUNK = 33


def main() -> int:
    """0 if nothing is wrong."""
    args = _arguments()
    if args.show:
        print(composition(args.seed).text())
        return 0
    totals: Counter[str] = Counter()
    start = time.monotonic()
    for first in range(args.seed, args.seed + args.count, CHUNK * len(SETTINGS)):
        seeds = range(first, min(first + CHUNK * len(SETTINGS), args.seed + args.count))
        for setting, subjects in _groups(seeds, args).items():
            for finding in examine(subjects, setting):
                totals[finding.kind] += 1
                _report(finding, args)
        print(f"seeds {args.seed} to {seeds[-1]}: {dict(totals)} in {time.monotonic() - start:.0f} s", flush=True)
    return int(sum(totals.values()) > totals["refused"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--setting", default="", help=f"one of all seeds, else by seed: {_labels()}")
    parser.add_argument("--level", default="", choices=["", *sorted(set(LEVELS))], help="one level for all seeds")
    parser.add_argument("--no-reduce", action="store_true")
    parser.add_argument("--show", action="store_true", help="print the network of --seed, run nothing")
    parser.add_argument("--keep", type=Path)
    return parser.parse_args()


def _labels() -> str:
    return ", ".join(repr(s.label) for s in (*SETTINGS, *EMULATED))


def _groups(seeds: range, args: argparse.Namespace) -> dict[Setting, list[Subject]]:
    chosen = next((s for s in (*SETTINGS, *EMULATED) if s.label == args.setting), None)
    groups: dict[Setting, list[Subject]] = {}
    for seed in seeds:
        setting = chosen or setting_of(seed)
        if setting.here:
            groups.setdefault(setting, []).append(subject(seed, args.level))
    return groups


def _report(finding: Finding, args: argparse.Namespace) -> None:
    if args.no_reduce or finding.kind == "refused":
        print(finding.text()[:600], flush=True)
        return
    print(finding.text(), flush=True)
    net, text = reproduction(finding)
    print(f"---- {text}\n", flush=True)
    if args.keep:
        args.keep.mkdir(parents=True, exist_ok=True)
        small = replace(finding.subject, net=net)
        (args.keep / f"{small.name}.onnx").write_bytes(net.model().SerializeToString())
        np.savez(args.keep / f"{small.name}.npz", **net.inputs)


if __name__ == "__main__":
    raise SystemExit(main())
