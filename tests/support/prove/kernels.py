"""Eva on generic kernels: drawn networks of one operator, whose inputs may be anything."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mccompile
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.opcases import case_model
from tests.support.prove.frama_c import NoProofError, alarms

SECONDS = 60

PRECISIONS = (0, 1, 9)
"""Eva's, one after the other where the last one left something open: by the closest look loops are followed turn by
turn, and values apart, which of some kernels has no end."""


@dataclass(frozen=True)
class Proof:
    """What came of one network: its kernels, and the alarms by kind; or why there is no answer."""

    operator: str
    seed: int
    kernels: tuple[str, ...]
    alarms: Mapping[str, int]
    unknown: str = ""

    @property
    def good(self) -> bool:
        return not self.alarms and not self.unknown


def prove(operator: tuple[str, str], seed: int) -> Proof | None:
    """Draw a case of an operator, compile it for `generic` and let Eva run it. None if it has no C, or needs more
    than an arena: state, extents."""
    name = operator[1]
    with tempfile.TemporaryDirectory(prefix="mccompile-prove-") as made:
        folder = Path(made)
        front_end = front_ends()[operator]
        assert front_end.sample is not None
        model = folder / "model.onnx"
        model.write_bytes(case_model(front_end, front_end.sample(SeededDraw(seed))).SerializeToString())
        try:
            mccompile.compile(model, folder / "out", target="generic", name="net", embed=True)
        except CompileError:
            return None
        report = json.loads((folder / "out" / "report.json").read_text())
        if report["state"] or report["dims"] or not report["steps"]:
            return None
        (folder / "out" / "prove.c").write_text(driver(folder / "out", report))
        sources = [path.name for path in sorted((folder / "out").glob("*.c")) if path.name != "example_main.c"]
        kernels = tuple(sorted({step["kernel"] for step in report["steps"]}))
        try:
            return Proof(name, seed, kernels, _alarms(folder / "out", sources))
        except NoProofError as e:
            return Proof(name, seed, kernels, Counter(), str(e).splitlines()[-1])


def _alarms(folder: Path, sources: Sequence[str]) -> Counter[str]:
    """What Eva cannot exclude, as closely as it looks within a minute.

    Raises:
        NoProofError: it does not come to an end however little it looks.
    """
    found = alarms(folder, sources, SECONDS, PRECISIONS[0])
    for precision in PRECISIONS[1:]:
        if not found:
            break
        try:
            found = alarms(folder, sources, SECONDS, precision)
        except NoProofError:
            break
    return found


def driver(out: Path, report: Mapping[str, Any]) -> str:
    """A program that runs a network on an arena of any bytes. ``init`` is left out: that it finds the payload is
    proved of the runtime, and here the payload has to be one certain place."""
    header = (out / "net.h").read_text()
    blob = (out / "net_blob.c").read_text() if (out / "net_blob.c").exists() else ""
    weights = "const net_weights *weights;" in header
    lines = ['#include "__fc_builtin.h"', '#include "net.h"', "static net_arena arena;"]
    if weights:
        words = re.findall(r"0x([0-9A-F]{8})u", blob)
        lines.append(f"extern const uint32_t net_blob[{len(words)}];")
    lines += ["int main(void)", "{", "    net_t net;", "    Frama_C_make_unknown((char *)&arena, sizeof arena);"]
    lines += ["    net.arena = &arena;"]
    if weights:
        lines.append(f"    net.weights = (const net_weights *)&net_blob[{int(words[6], 16) // 4}];")
    return "\n".join([*lines, "    return (int)net_run(&net);", "}", ""])
