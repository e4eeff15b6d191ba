"""What the networks compile to, before a change and after it (``make replay``).

A snapshot holds what one state of the compiler makes of each network, target and level: the C, the header, the
report, the digest of the blob; or the error. It is kept under build/replay/ by the digest of the compiler's own
sources, so that each state is compiled once.

    make replay                    the working tree beside HEAD, or HEAD beside its parent where nothing is changed
    make replay REPLAY="--rev main~3"
    make replay REPLAY="--objects"   texts that differ are compiled: is the object code the same?
    make replay REPLAY="--only mnist8 --only kws --show 40"
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KEPT = ROOT / "build" / "replay"
SOURCES = ("mccompile", "kernels_templates", "runtime_c")
TARGETS = ("generic", "x86-64-v3", "x86-64-v4", "aarch64")
LEVELS = ("O2", "Os")
SUFFIXES = (".c", ".h", ".json", ".txt")
CROSS = {"aarch64": "aarch64-linux-gnu-gcc"}
"""The C compiler of targets that the machine's own does not serve."""


@dataclass(frozen=True)
class Network:
    """A file to compile, and the shapes of its inputs where it leaves them open."""

    name: str
    path: Path
    shapes: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Job:
    """One compilation of a snapshot."""

    network: Network
    target: str
    level: str

    @property
    def folder(self) -> str:
        return f"{self.network.name}/{self.target}-{self.level}"


def networks(shared: Path) -> Iterator[Network]:
    """The shipped example and the networks under MCC_SHARED, smallest first."""
    found = [Network("digits", ROOT / "examples" / "digits" / "digits.onnx", {})]
    manifest = shared / "models" / "manifest.json"
    if manifest.exists():
        for entry in json.loads(manifest.read_text())["models"]:
            shapes = {i["name"]: i["shape"] for i in entry["io_inputs"]}
            found.append(Network(entry["name"], manifest.parent / entry["name"] / "model.onnx", shapes))
    manifest = shared / "mlperf_tiny" / "manifest.json"
    if manifest.exists():
        for name, entry in json.loads(manifest.read_text()).items():
            tensor, shape = entry["input"][0], entry["input"][1]
            found.append(Network(name, manifest.parent / f"{name}.onnx", {tensor: [1, *shape[1:]]}))
    yield from sorted(found, key=lambda n: (n.path.stat().st_size, n.name))


# -- making a snapshot -------------------------------------------------------------------------------------------
def compile_one(job: Job, snapshot: Path) -> str:
    """Compile with the `mccompile` that this process imports; the blob is kept as its digest."""
    import mccompile

    folder = snapshot / job.folder
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        shapes = {k: list(v) for k, v in job.network.shapes.items()}
        try:
            mccompile.compile(
                job.network.path, out, target=job.target, opt_level=job.level, input_shapes=shapes
            )
        except Exception as e:  # an error is a result like another: its text is compared
            text = str(e).replace(str(job.network.path.parent), "")
            (folder / "error.txt").write_text(f"{type(e).__name__}: {text}\n")
            return job.folder
        for path in sorted(out.iterdir()):
            data = path.read_bytes()
            if path.suffix == ".mcb":
                (folder / f"{path.name}.txt").write_text(hashlib.sha256(data).hexdigest() + f" {len(data)} bytes\n")
            elif path.suffix in (".c", ".h"):
                (folder / path.name).write_bytes(data)
            elif path.name == "report.json":
                report = json.loads(data)
                del report["mccompile"]  # it names the commit
                (folder / path.name).write_text(json.dumps(report, indent=1, sort_keys=True))
    return job.folder


def sources_digest(root: Path) -> str:
    """The digest of the compiler's own files under ``root``."""
    digest = hashlib.sha256()
    for top in SOURCES:
        for path in sorted((root / top).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def take_snapshot(root: Path, jobs: Sequence[Job], workers: int) -> Path:
    """The folder with what the compiler under ``root`` makes; only what is not there yet is compiled."""
    snapshot = KEPT / sources_digest(root)
    missing = [j for j in jobs if not any((snapshot / j.folder).glob("*"))]
    if missing:
        print(f"{len(missing)} compilations into {snapshot.relative_to(ROOT)}", flush=True)
        request = json.dumps([[j.network.name, j.target, j.level] for j in missing])
        environment = {**os.environ, "PYTHONPATH": str(root)}
        command = [sys.executable, __file__, "--into", str(snapshot), "--workers", str(workers)]
        subprocess.run(command, input=request, text=True, env=environment, check=True, cwd=root)
    return snapshot


def _make(snapshot: Path, shared: Path, workers: int) -> None:
    """What the process of a snapshot does: the jobs on its standard input."""
    known = {n.name: n for n in networks(shared)}
    jobs = [Job(known[name], target, level) for name, target, level in json.load(sys.stdin)]
    with ProcessPoolExecutor(workers) as pool:
        for done in pool.map(compile_one, jobs, [snapshot] * len(jobs)):
            print(f"\r{done:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


# -- comparing ---------------------------------------------------------------------------------------------------
def texts(folder: Path, reports: bool = True) -> dict[str, str]:
    """The kept files of one compilation by name, with or without the report."""
    kept = [p for p in sorted(folder.glob("*")) if p.suffix in SUFFIXES]
    return {p.name: p.read_text() for p in kept if reports or p.suffix != ".json"}


def difference(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    """A unified diff of all files of one compilation; empty if they are equal."""
    lines: list[str] = []
    for name in sorted({*old, *new}):
        a, b = old.get(name, "").splitlines(), new.get(name, "").splitlines()
        lines += difflib.unified_diff(a, b, f"old/{name}", f"new/{name}", lineterm="", n=1)
    return lines


def object_code(folder: Path, target: str) -> str:
    """What `objdump` shows of the C files in ``folder``, compiled as their CMakeLists.txt would, at -O2."""
    from mccompile.targets.target import resolve

    compiler = CROSS.get(target, "gcc")
    out = ""
    with tempfile.TemporaryDirectory() as scratch:
        for source in sorted(p for p in folder.glob("*.c") if p.name not in ("mcc.c", "example_main.c")):
            built = Path(scratch) / f"{source.stem}.o"
            flags = [*resolve(target).c_flags, "-O2", "-w", "-I", str(ROOT / "runtime_c")]
            subprocess.run([compiler, *flags, "-c", str(source), "-o", str(built)], check=True)
            objdump = compiler.replace("gcc", "objdump")
            shown = subprocess.run(
                [objdump, "-d", "-s", "-j", ".text", "-j", ".rodata", "--no-show-raw-insn", str(built)],
                capture_output=True, text=True,
            )  # fmt: skip
            out += shown.stdout.replace(str(built), source.name)
    return out


def _checkout(rev: str, into: Path) -> None:
    """The compiler's sources of a commit."""
    archive = subprocess.run(["git", "archive", rev, *SOURCES], cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(into, filter="data")


def _default_rev() -> str:
    changed = subprocess.run(["git", "status", "--porcelain", *SOURCES], cwd=ROOT, capture_output=True, check=True)
    return "HEAD" if changed.stdout else "HEAD^"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare what two states of the compiler make of the networks.")
    parser.add_argument("--rev", help="the commit to compare with (default: HEAD, or its parent)")
    parser.add_argument("--only", action="append", default=[], help="networks whose name contains this (repeatable)")
    parser.add_argument("--target", action="append", default=[], help=f"default: {', '.join(TARGETS)}")
    parser.add_argument("--level", action="append", default=[], help=f"default: {', '.join(LEVELS)}")
    parser.add_argument("--objects", action="store_true", help="compare object code where the C differs")
    parser.add_argument("--code", action="store_true", help="leave the reports out of it")
    parser.add_argument("--show", type=int, default=12, help="lines shown of each difference")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--into", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    shared = Path(os.environ.get("MCC_SHARED", ROOT.parent / "shared")).resolve()
    if args.into:
        _make(args.into, shared, args.workers)
        return 0
    wanted = [n for n in networks(shared) if not args.only or any(o in n.name for o in args.only)]
    jobs = [Job(n, t, o) for n in wanted for t in args.target or TARGETS for o in args.level or LEVELS]
    rev = args.rev or _default_rev()
    with tempfile.TemporaryDirectory() as scratch:
        _checkout(rev, Path(scratch))
        old = take_snapshot(Path(scratch), jobs, args.workers)
    new = take_snapshot(ROOT, jobs, args.workers)
    return _compare(old, new, jobs, rev, args)


def _compare(old: Path, new: Path, jobs: Sequence[Job], rev: str, args: argparse.Namespace) -> int:
    different = 0
    for job in jobs:
        lines = difference(*(texts(snapshot / job.folder, not args.code) for snapshot in (old, new)))
        if not lines:
            continue
        if args.objects and object_code(old / job.folder, job.target) == object_code(new / job.folder, job.target):
            print(f"{job.folder}: other text, same object code")
            continue
        different += 1
        changed = sum(line[0] in "+-" for line in lines)
        print(f"{job.folder}: {changed} lines differ", *(f"    {line}" for line in lines[: args.show]), sep="\n")
    print(f"{len(jobs)} compilations beside {rev}: {different or 'none'} {'differ' if different != 1 else 'differs'}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
