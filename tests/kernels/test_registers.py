"""Tile functions keep their accumulators in registers: counted in the machine code, with gcc and with clang."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mccompile.codegen.files import source_files
from mccompile.driver import Options, compile_program, import_graph
from mccompile.targets.target import targets
from tests._skips import needs_tool
from tests.kernels.cases import VariantCase, direct, matmul, pointwise

NETS = [
    matmul((28, 64), 96, "clip"),
    pointwise((1, 64, 14, 16), 84, "residual"),
    direct((1, 16, 16, 16), 24, (3, 3), "clip", pads=[1] * 4),
    direct((1, 24, 16, 32), 24, (3, 3), "clip", pads=[1] * 4, group=24),
]
X86_VECTORS = sorted(name for name in targets() if name.startswith("x86-64-v"))
SPILLS = {"matmul.packed": (0, 0), "conv.pointwise": (0, 0), "conv.direct": (0.06, 0.5)}
"""Stack accesses per multiply-add that gcc 12 and clang 14 may have: both unroll taps and load weights of the next
ones early, clang (which has no barrier) those of several."""


def tile_functions(case: VariantCase, target: str, compiler: str, folder: Path) -> dict[str, tuple[int, int]]:
    """(multiply-adds, vector accesses to the stack among them) of each function that multiplies, by name.

    What an epilogue spills once, behind the reduction, is not counted.
    """
    (folder / "tiles.onnx").write_bytes(case.model().SerializeToString())
    c = import_graph(folder / "tiles.onnx", Options(target=target, name="tiles", kernels=case.force))
    for name, data in source_files(compile_program(c)).items():
        (folder / name).write_bytes(data)
    command = [compiler, *c.target.c_flags, "-c", "tiles.c", "-o", "tiles.o"]
    subprocess.run(command, cwd=folder, check=True)
    listing = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "tiles.o"], cwd=folder, check=True, capture_output=True, text=True
    ).stdout
    counts = {}
    for name, body in re.findall(r"<([\w.]+)>:\n(.*?)(?=\n\n|\Z)", listing, re.DOTALL):
        products = [m.start() for m in re.finditer(r"\tvfn?m(?:add|sub)\d+ps", body)]
        if products:
            loop = body[products[0] : products[-1]]
            counts[name] = (len(products), len(re.findall(r"\tv\w+\s.*\(%r[sb]p", loop)))
    return counts


@pytest.mark.parametrize("target", X86_VECTORS)
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("case", NETS, ids=lambda c: c.name)
def test_accumulators_stay_in_registers(case: VariantCase, compiler: str, target: str, tmp_path: Path) -> None:
    needs_tool("objdump")
    counts = tile_functions(case, target, needs_tool(compiler), tmp_path)
    assert counts, "no function multiplies and adds in one instruction"
    for name, (products, spills) in counts.items():
        allowed = products * SPILLS[case.kernel][compiler == "clang"]
        assert spills <= allowed, f"{name}: {spills} accesses to the stack beside {products} multiply-adds"
