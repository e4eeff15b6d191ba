"""Runs the backend suite and writes what became of it: ``make conformance``, or

    python -m tests.support.conformance [--target T] [--sanitize [memory]] [--only REGEX] [--write [--accept]] [-v]

What was found is kept in build/conformance, so that a run that was ended goes on where it was. A case that does worse
than tests/conformance/exceptions.txt says is named, the run fails, and nothing is written unless that is accepted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

import onnx

from tests.support.compose.run import Setting
from tests.support.conformance.cases import SuiteCase, load_suite
from tests.support.conformance.judge import OK, Verdict, examine, worse
from tests.support.conformance.written import (
    read_exceptions,
    write_document,
    write_exceptions,
    write_sanitized,
)
from tests.support.sanitized import MEMORY_SANITIZER, SANITIZERS

ROOT = Path(__file__).resolve().parents[3]
FLAGS = {"": ("-O1",), "address": SANITIZERS, "memory": MEMORY_SANITIZER}
SOURCES = ("mccompile", "kernels_templates", "runtime_c", "tests/support")
BATCH = 24


def main(argv: Sequence[str] | None = None) -> int:
    """0 if no case does worse than is known of it."""
    args = _arguments(argv)
    start = time.monotonic()
    wanted = [c for c in load_suite() if re.search(args.only, c.name)]
    setting = Setting(args.target, args.compiler, FLAGS[args.sanitize])
    kept = ROOT / "build" / "conformance" / f"{_state(setting)}.jsonl"
    verdicts = run(wanted, setting, kept, args.jobs)
    if args.verbose:
        for v in verdicts:
            if v.kind != OK:
                print(f"{v.name}: {v.kind} {list(v.fixed) or ''} {v.why}")
    print(f"{dict(Counter(v.kind for v in verdicts))} in {time.monotonic() - start:.0f} s")
    found = worse(verdicts, read_exceptions())
    for v in found:
        print(f"{v.name}: {v.kind}: {v.why}")
    if found and not args.accept:
        return 1
    if args.only or not args.write:
        return 0
    if args.sanitize:
        write_sanitized(verdicts, setting)
    else:
        write_exceptions(verdicts)
        write_document(wanted, verdicts, setting)
    return 0


def run(cases: Sequence[SuiteCase], setting: Setting, kept: Path, jobs: int) -> list[Verdict]:
    """The verdict of each case by some processes; those in the file ``kept`` are not found anew, new ones added."""
    known = {v.name: v for v in _read(kept)}
    left = [c for c in cases if c.name not in known]
    batches = [left[i : i + BATCH] for i in range(0, len(left), BATCH)]
    kept.parent.mkdir(parents=True, exist_ok=True)
    with multiprocessing.get_context("fork").Pool(jobs) as pool, kept.open("a") as file:
        for done, found in enumerate(pool.imap_unordered(partial(examine, setting=setting), batches), 1):
            for v in found:
                print(json.dumps(asdict(v)), file=file)
                known[v.name] = v
            file.flush()
            print(f"\r{done} of {len(batches)} batches", end="" if done < len(batches) else "\n", file=sys.stderr)
    return [known[c.name] for c in cases]


def _read(path: Path) -> Iterator[Verdict]:
    for line in path.read_text().splitlines() if path.exists() else ():
        entry = json.loads(line)
        yield Verdict(**{**entry, "fixed": tuple(entry["fixed"])})


def _state(setting: Setting) -> str:
    """A key of everything that verdicts depend on."""
    key = hashlib.sha256(f"{onnx.__version__} {setting.label}".encode())
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                key.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return key.hexdigest()[:16]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="generic")
    parser.add_argument(
        "--only", default="", help="cases whose names this regular expression finds; nothing is written of a part"
    )
    parser.add_argument("--compiler", default="gcc", choices=("gcc", "clang"))
    parser.add_argument(
        "--sanitize", nargs="?", default="", const="address", choices=("address", "memory"),
        help="run programs with ASan and UBSan in them, or with MSan (of clang)",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md and the list of exceptions")
    parser.add_argument("--accept", action="store_true", help="write them though some cases do worse than was known")
    parser.add_argument("-v", "--verbose", action="store_true", help="print what is not right as it is")
    return parser.parse_args(argv)


if __name__ == "__main__":
    raise SystemExit(main())
