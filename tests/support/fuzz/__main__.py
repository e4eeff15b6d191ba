"""Attacks the compiler for some minutes: ``python -m tests.support.fuzz --minutes 10 --seed 0`` (``make fuzz``).

Each attack takes its turn, some seeds at a time, and goes on from the seed where the last run ended. A failure is
made smaller and written to ``build/fuzz/found/``: the model, its inputs, a script that shows it. The exit code is 3
if there was one.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import mccompile
from mccompile.codegen.templates import environment
from tests.support.fuzz import arguments, blobs, checks, files, hostile, kept, networks, numbers, texts, written
from tests.support.fuzz.attempt import FAULTS
from tests.support.fuzz.guarded import SECONDS, Work, outcomes
from tests.support.fuzz.ledger import Ledger

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "build" / "fuzz"
EXAMPLE = ROOT / "examples" / "digits" / "digits.onnx"

BATCH = 24
"""Seeds that share a process, of one attack in its turn."""

BOARDS = {"boards": "all"} | {f"{name}_boards": name for name in ("quant", "layers", "wide", "wide_quant")}
"""Attacks whose networks run on emulated processors, and the profiles they are drawn from."""


def attacks() -> Mapping[str, Callable[[int], Work]]:
    """By name: what a seed has to do."""
    found: dict[str, Callable[[int], Work]] = {}
    found |= {name: partial(networks.attack, profile=name) for name in networks.NAMES}
    found |= {name: partial(networks.attack, profile=profile, emulated=True) for name, profile in BOARDS.items()}
    return found | {
        "files": files.attack,
        "numbers": numbers.attack,
        "texts": texts.attack,
        "blobs": blobs.attack,
        "arguments": arguments.attack,
        "checks": checks.attack,
        "hostile": hostile.attack,
    }


def warm() -> None:
    """Load what every seed needs, so that processes begin with it. What numpy says of our own code is a fault."""
    warnings.filterwarnings("error", category=RuntimeWarning, module="mccompile")
    for name in environment().list_templates():
        environment().get_template(name)
    with tempfile.TemporaryDirectory() as folder:
        for target in ("generic", "native"):
            mccompile.compile(EXAMPLE, Path(folder) / target, target=target)
        mccompile.load(Path(folder) / "generic")
    gc.collect()
    gc.freeze()  # what is loaded by now is there to stay


def main() -> int:
    args = _arguments()
    names = args.only.split(",") if args.only else list(attacks())
    if args.again:
        return _again(args.folder / "found")
    if args.record:
        ledgers = [Ledger.read(path) for path in sorted(args.folder.glob("ledger_*.json"))]
        text = written.DOCUMENT.read_text(encoding="utf-8")
        written.DOCUMENT.write_text(written.record(text, ledgers), encoding="utf-8")
        return 0
    if args.show:
        net, setting = networks.network_of(args.seed, names[0])
        print(f"{net.text()}\n{setting.label}")
        return 0
    warm()
    ledger = Ledger.read(args.folder / f"ledger_{args.seed}.json")
    faults, start, left = 0, time.monotonic(), args.count or sys.maxsize
    while left > 0 and not _over(start, args):
        for name in names:
            faults += _some(name, min(left, BATCH), ledger, start, args)
        left -= BATCH
        print(f"{time.monotonic() - start:.0f} s: {_totals(ledger)}", flush=True)
    return 3 if faults else 0


def _over(start: float, args: argparse.Namespace) -> bool:
    return time.monotonic() > start + 60 * args.minutes


def _again(found: Path) -> int:
    """Try kept failures again: 3 if one still fails."""
    left = 0
    for folder in sorted(p.parent for p in found.glob("*/setting.json")):
        verdict = kept.again(folder)
        left += verdict.kind in FAULTS
        print(f"{folder.name}: {verdict.kind} {verdict.text[:300]}", flush=True)
    return 3 if left else 0


def _totals(ledger: Ledger) -> str:
    return "; ".join(f"{name} {dict(c)}" for name, c in ledger.counts.items())


def _some(name: str, count: int, ledger: Ledger, start: float, args: argparse.Namespace) -> int:
    """Try the next seeds of an attack: how many fail."""
    first, faults, before = ledger.seed(name, args.seed), 0, time.monotonic()
    attack = attacks()[name]
    seconds = networks.SECONDS if _draws(name) else SECONDS
    for seed, found in enumerate(outcomes([attack(first + i) for i in range(count)], seconds), first):
        kind, text = networks.confirmed(seed, *_drawn_as(name), *found) if _draws(name) else found
        ledger.note(name, kind, time.monotonic() - before)
        ledger.write()
        if kind == "refused" and args.refused:
            print(f"{name} {seed} refused: {text[:400]}", flush=True)
        if kind == "ok" and text:
            print(f"{name} {seed}: {text[:400]}", flush=True)
        if kind in FAULTS:
            faults += 1
            _tell(name, seed, kind, text, args)
        if _over(start, args):
            break
        before = time.monotonic()
    return faults


def _draws(name: str) -> bool:
    return name in networks.NAMES or name in BOARDS


def _drawn_as(name: str) -> tuple[str, bool]:
    """The profile of an attack that draws networks, and whether their targets are emulated."""
    return BOARDS.get(name, name), name in BOARDS


def _tell(name: str, seed: int, kind: str, text: str, args: argparse.Namespace) -> None:
    """Print a failure and make it smaller. Where our own drawing failed there is no network."""
    print(f"== {name} {seed} {kind}\n{text[:1500]}", flush=True)
    if not args.no_reduce and _draws(name) and kind != "harness":
        where = args.folder / "found" / f"{name}_{seed}"
        print(f"-- smaller, in {where}:\n{networks.keep(seed, *_drawn_as(name), kind, where)[:3000]}\n", flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0, help="the first of each attack; later runs go on behind it")
    parser.add_argument("--count", type=int, default=0, help="at most so many of each attack")
    parser.add_argument("--only", default="", help=f"attacks, with commas between: {', '.join(attacks())}")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for the ledger and the findings")
    parser.add_argument("--again", action="store_true", help="try the findings in the folder again, and nothing else")
    parser.add_argument("--record", action="store_true", help="add what ran to docs/testing.md, and run nothing")
    parser.add_argument("--show", action="store_true", help="print the network of --seed, run nothing")
    parser.add_argument("--refused", action="store_true", help="print what is refused, too")
    parser.add_argument("--no-reduce", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
