"""Calls that write memory are not dropped: gcc 12 overlooks stores whose address is made of several pointers."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from mccompile.codegen.helpers import preamble
from mccompile.targets.target import resolve
from tests._skips import needs_tool

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
PROGRAM = """#include <stdio.h>
typedef struct { float x[280]; float y[280]; } arena;
typedef struct { arena *arena; } network;
static void kernel(const float *restrict x0, float *restrict y0, int32_t n)
{
    MCC_WRITES();
    for (int32_t i0 = 0; i0 < n; ++i0) {
        for (int32_t i1 = 0; i1 < 8; ++i1) {
            y0[i0 * 8 + i1] = -x0[i0 + i1 * 35];
        }
    }
}
static __attribute__((noinline)) void step(const network *net, int32_t n)
{
    arena *const a = net->arena;
    kernel(a->x, a->y, n);
}
int main(void)
{
    static arena memory;
    const network net = { &memory };
    memory.x[3] = 5.0f;
    step(&net, 12);
    step(&net, 35);
    printf("%g\\n", (double)memory.y[24]);
    return 0;
}
"""


@pytest.mark.parametrize("level", ["-O0", "-O1", "-O2", "-O3", "-Os"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_a_step_that_writes_is_made(compiler: str, level: str, tmp_path: Path) -> None:
    needs_tool(compiler)
    word = preamble(["MCC_WRITES"], resolve("generic")).helpers
    (tmp_path / "net.c").write_text(f"#include <stdint.h>\n{word}{PROGRAM}")
    subprocess.run([compiler, "-std=c99", level, "net.c", "-o", "net"], cwd=tmp_path, check=True)
    assert subprocess.run(["./net"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout == "-5\n"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("[!h]*.c")), ids=lambda path: path.stem)
def test_each_part_of_a_kernel_says_that_it_writes(path: Path) -> None:
    """Calls of parts are dropped as those of kernels are: that of the powers of scores was, at -O1."""
    heads = r"^static [\w ]*(?:void|mcc_status) \w+_k\d\w*\([^{;]*\)\n{\n(.*)\n"
    assert set(re.findall(heads, path.read_text(), re.M)) == {"    MCC_WRITES();"}
