"""Instructions that kernels execute, counted by callgrind; ``python -m tests.budgets.counted`` writes them down.

Times on a shared machine tell a slower kernel from a busy neighbour only if it is much slower; counts repeat exactly,
and so small losses that would add up over many changes are seen at once. They say nothing of caches and of what runs
side by side: they are a guard, not a measure of speed.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mccompile.run.emulate import CrossTools
from mccompile.targets.target import resolve
from tests.kernels.cases import VariantCase, direct, matmul, pointwise
from tests.kernels.cases_channels import depthwise, pool, resize, sample
from tests.kernels.cases_conv_channels import channels
from tests.kernels.cases_matmul import attention, dot, quantised, rounded, variable
from tests.kernels.cases_recurrent import RECURRENT
from tests.kernels.cases_strassen import product
from tests.kernels.cases_vectors import (
    best,
    both_extremes,
    broadcast,
    hardmax,
    image,
    layer_norm,
    mapped,
    reduced,
    softmax,
    topk,
)
from tests.kernels.cases_winograd import winograd
from tests.kernels.test_variants import compiled, inputs_of
from tests.support.opcases import CaseLibrary

TARGET = "x86-64-v3"
COMPILER = "gcc"
FILE = Path(__file__).with_name("budgets.json")
SAME = {"pads": [1] * 4}
COUNTED = [
    matmul((28, 64), 96, "clip"),
    matmul((1, 256), 128),
    product((56, 128), 160, "clip"),
    variable((2, 24, 32), (2, 32, 40)),
    dot((2,), 2, 128, 24),
    quantised((1, 256), 48, 32, "int8", 4),
    quantised((1, 256), 64, 32, "int8", 4, kernel="words"),
    rounded((1, 256), 64, 32, 8),
    attention((2,), 24, 24, 32, 32),
    attention((2,), 2, 100, 32, 32),
    pointwise((1, 32, 14, 14), 48, "residual"),
    direct((1, 3, 28, 28), 16, (3, 3), "clip", strides=[2, 2], **SAME),
    channels((1, 24, 14, 14), 32, (3, 3), "clip", **SAME),
    channels((1, 48, 14, 14), 40, (1, 1), "swish"),
    depthwise((1, 48, 14, 14), (3, 3), "clip", **SAME),
    depthwise((1, 32, 15, 15), (5, 5), pads=[2] * 4, strides=[2, 2]),
    channels((1, 16, 4, 8, 14), 24, (3, 3, 3), "clip", pads=[1] * 6),
    sample((1, 16, 12, 12), (9, 9), "bilinear"),
    winograd((1, 32, 14, 14), 32, (3, 3), "clip", **SAME),
    winograd((1, 32, 28, 28), 32, (3, 3), "clip", strides=[2, 2], **SAME),
    pool((1, 32, 14, 14), "MaxPool", (3, 3), pads=[1] * 4, strides=[2, 2]),
    pool((1, 32, 14, 14), "AveragePool", (2, 2), strides=[2, 2]),
    resize((1, 24, 7, 7), (14, 14), "linear"),
    mapped((64, 100), "Sigmoid"),
    broadcast((16, 8, 24), (8, 1), (24,)),
    softmax((32, 100)),
    hardmax((32, 100)),
    layer_norm((32, 128)),
    reduced("ReduceMean", (16, 8, 25), (2,)),
    both_extremes((16, 200), (1,)),
    *(next(c for c in RECURRENT if c.kernel == cell) for cell in ("lstm.vector", "gru.vector", "gru.scaled")),
    topk((2, 300), 200),
    topk((3, 300), 9, kernel="topk.ranks"),
    best((3, 5, 70), "ArgMax"),
    image((24, 40), (4, 4), "clip", strides=[2, 2], pads=[1] * 4),
]


def compiler_version() -> str:
    """Name and release of what the counts belong to: another one makes other code."""
    said = subprocess.run([COMPILER, "-dumpfullversion"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{COMPILER} {said}"


def count_instructions(cases: Sequence[VariantCase], folder: Path) -> dict[str, int]:
    """Instructions of one run of each network, by name, for inputs that do not matter."""
    counts = folder / "callgrind.out"
    valgrind = ("valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={counts}")
    built = [compiled(case, i, TARGET, folder, case.force) for i, case in enumerate(cases)]
    tools = CrossTools((COMPILER,), valgrind)
    library = CaseLibrary(folder, built, resolve(TARGET).c_flags, tools=tools).build()
    for case, b in zip(cases, built, strict=True):
        library.run(b, inputs_of(case.model(), 1))
    library.close()
    command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", "--show-percs=no", str(counts)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = {m[2]: int(m[1].replace(",", "")) for m in re.finditer(r"^ *([\d,]+) .*:(\w+_run)\b", listing, re.M)}
    return {case.name: found[f"{b.facts.name}_run"] for case, b in zip(cases, built, strict=True)}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        counts = count_instructions(COUNTED, Path(folder))
    before = json.loads(FILE.read_text())["counts"] if FILE.exists() else {}
    for name, count in counts.items():
        change = f"{100 * (count / before[name] - 1):+.1f} %" if name in before else "new"
        print(f"{count:9} {change:>8}  {name}")
    FILE.write_text(json.dumps({"compiler": compiler_version(), "target": TARGET, "counts": counts}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
