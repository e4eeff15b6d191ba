"""Builds generated C with `harness.c` into a program and runs it: guard pages, AddressSanitizer, a poisoned arena."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.ir.types import DTYPES
from mccompile.run.build import build_program
from mccompile.run.emulate import cross_tools
from mccompile.targets.target import resolve, runs_here
from tests._skips import needs_sanitizers, needs_tool
from tests.support.precompiled import precompiled

Array = np.ndarray[Any, np.dtype[Any]]
HARNESS = Path(__file__).with_name("harness.c")
SANITIZERS = (
    "-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer -g"
).split()
SPLIT = "-DMCC_SPLIT_ARENA=64"


def arena_members(header: str) -> list[str]:
    """The names of the arena's tensors, from the generated header."""
    body = re.search(r"_OVERLAY \w+_arena \{(.*?)\n\} \w+_arena;", header, re.DOTALL)
    assert body is not None
    return re.findall(r"^    \} (\w+);", body[1], re.MULTILINE)


@dataclass(frozen=True)
class Harness:
    """A program that runs the network of a compiled folder."""

    program: Path
    work: Path
    out: Path
    report: Mapping[str, Any]
    emulator: tuple[str, ...] = ()

    def run(self, place: str, inputs: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """The outputs of one run after the other in one arena. CalledProcessError where the program dies."""
        given, got = self.work / "given", self.work / "got"
        names = [p["name"] for p in self.report["inputs"]]
        given.write_bytes(b"".join(np.ascontiguousarray(run[n]).tobytes() for run in inputs for n in names))
        self.call(place, self.blob, given, got)
        data, at, results = got.read_bytes(), 0, []
        for _ in inputs:
            results.append({})
            for port in self.report["outputs"]:
                dtype = DTYPES[port["dtype"]].numpy
                count = int(np.prod(port["shape"], dtype=np.int64))
                values = np.frombuffer(data, dtype, count, at).reshape(port["shape"])
                results[-1][port["name"]] = values
                at += values.nbytes
        assert at == len(data)
        return results

    @property
    def blob(self) -> Path:
        return self.out / f"{self.report['model']['name']}.mcb"

    def call(self, *arguments: str | Path) -> None:
        environment = os.environ | {"ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1"}
        command = [str(a) for a in (*self.emulator, self.program, *arguments)]
        subprocess.run(command, check=True, capture_output=True, text=True, env=environment)


def build(out: Path, flags: Sequence[str] = (), compiler: str = "gcc", source: Path | None = None) -> Harness:
    """The harness of the folder ``out``, with the target's flags and ``flags``; ``source`` replaces <name>.c.

    Of a target that does not run here it is built by its cross compiler, and emulated.
    """
    report = json.loads((out / "report.json").read_text())
    name = report["model"]["name"]
    text = (out / f"{name}.h").read_text()
    work = out / f"harness{len(list(out.glob('harness*')))}"
    work.mkdir()
    lines = [f'#include "{name}.h"', f"#define NET(suffix) {name}##suffix", f"#define NET_ALIGN {name.upper()}_ALIGN"]
    lists = {
        "INPUTS": [p["c_name"] for p in report["inputs"]],
        "OUTPUTS": [p["c_name"] for p in report["outputs"]],
        "MEMBERS": arena_members(text),
    }
    lines += [f"#define {macro}(X) {' '.join(f'X({i})' for i in ids)}" for macro, ids in lists.items()]
    (work / "harness_net.h").write_text("\n".join(lines) + "\n")
    target = [f for f in report["target"]["c_flags"] if not f.startswith("-std")]
    emulator: tuple[str, ...] = ()
    command = [compiler]
    kind = resolve(report["target"]["name"])
    if not runs_here(kind.name):
        tools = cross_tools(kind)
        command, emulator, flags = list(tools.compiler), tools.emulator, [*flags, *tools.link]
    (needs_sanitizers if any(f.startswith("-fsanitize") for f in flags) else needs_tool)(command[0])
    source = source or out / f"{name}.c"
    flags = ["-std=c99", *target, *flags]
    spared = precompiled(command, flags, source)  # not the harness, which asks for more of libc
    network = build_program(command, [source], [*flags, *spared, "-c"], out, work)
    program = build_program(command, [network, out / "mcc.c", HARNESS], flags, out, work)
    return Harness(program, work, out, report, emulator)
