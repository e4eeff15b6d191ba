"""What extents cost that are known at run time only: instructions beside those of the same network for one number."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import pytest

import mccompile
from tests._skips import needs_tool
from tests.budgets.counted import COMPILER, TARGET
from tests.run.test_extents import _attention, _classifier, _images
from tests.support.small_models import Maker
from tests.support.targets import needs_target


def _recurrent() -> onnx.ModelProto:
    m = Maker()
    names = [m.input("x", ["t", "n", 6]), m.weight((1, 64, 6)), m.weight((1, 64, 16))]
    m.node("LSTM", names, "y", hidden_size=16)
    return m.model(["y"])


MAIN = """#include "net.h"
#include <stdlib.h>
static net_arena arena;
int main(int argc, char **argv)
{
    static net_t net;
    int status = net_init(&net, &arena, net_blob, NET_BLOB_BYTES);
    (void)argc;
    (void)argv;
    SET
    return (status == MCC_OK) ? (int)net_run(&net) : status;
}
"""


def _count(path: Path, out: Path, dims: Mapping[str, int | str], extents: Mapping[str, int]) -> int:
    """Instructions of a run with extents, on inputs of zeros."""
    mccompile.compile(path, out, target=TARGET, dims=dims, embed=True, name="net")
    ranges = [name for name, given in dims.items() if isinstance(given, str)]
    sets = [f"status |= (int)net_set_{name}(&net, atoi(argv[{i}]));" for i, name in enumerate(ranges, 1)]
    (out / "main.c").write_text(MAIN.replace("SET", "\n    ".join(sets)))
    build = [COMPILER, "-O3", "-march=x86-64-v3", "-o", "net", "main.c", "net.c", "mcc.c", "-lm"]
    sources = [name for name in ("net_weights.c", "net_blob.c") if (out / name).exists()]
    subprocess.run([*build, *sources], cwd=out, check=True)
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=callgrind.out", "--toggle-collect=net_run"]
    done = subprocess.run(
        [*valgrind, "./net", *(str(extents[n]) for n in ranges)], cwd=out, check=True, capture_output=True, text=True
    )
    found = re.search(r"Collected : (\d+)", done.stderr)
    assert found
    return int(found[1])


@pytest.mark.parametrize(
    ("build", "dims", "bound"),
    [
        (_classifier, {"n": "1..64"}, {"n": 64}),
        (lambda: _attention(4, 32), {"n": 1, "s": "1..64"}, {"n": 1, "s": 64}),
        (_recurrent, {"t": "1..24", "n": 2}, {"t": 24, "n": 2}),
        (_images, {"n": "1..8", "h": 16, "w": 16}, {"n": 8, "h": 16, "w": 16}),
    ],
    ids=["rows", "sequence", "time", "batch"],
)
def test_extents_cost_little(
    build: Callable[[], onnx.ModelProto], dims: dict[str, int | str], bound: dict[str, int], tmp_path: Path
) -> None:
    """At the bound at most 5 % more instructions than for that number; at half of it little more than half."""
    needs_target(TARGET)
    needs_tool("valgrind")
    needs_tool(COMPILER)
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    half = {n: e // 2 if isinstance(dims[n], str) else e for n, e in bound.items()}
    fixed = _count(path, tmp_path / "fixed", bound, bound)
    whole = _count(path, tmp_path / "any", dims, bound)
    part = _count(path, tmp_path / "any", dims, half)
    assert whole < 1.05 * fixed
    assert part < 0.56 * whole
