"""Extents in C: rounded down as they are, and of 64 bits where 32 are too few; gcc traps what overflows."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from mccompile.codegen.c_extent import WIDE, c_extent
from mccompile.ir.dims import Dim, maximum, minimum, reach, span, symbol, value
from mccompile.ir.errors import CompileError
from mccompile.targets.target import STRICT_WARNINGS

N, M, K = symbol("n", 0, 100_000), symbol("m", 1, 2**31 - 1), symbol("k", 4, 4000, 4)
RANGES = {"n": (0, 1, 2, 77_777, 100_000), "m": (1, 5, 46_341, 2**31 - 1), "k": (4, 8, 2000, 4000)}
HEADER = "#include <inttypes.h>\n#include <stdint.h>\n#include <stdio.h>\n"


def _drawn(r: random.Random, depth: int) -> int:
    if depth == 0:
        return r.choice([N, M, K, r.randint(0, 9), r.choice([1000, 70_000, 2**31 - 1, 2**40])])
    a, b = _drawn(r, depth - 1), _drawn(r, depth - 1)
    plain = r.choice([1, 2, 3, 7, 70_000])
    made = r.choice([lambda: a + b, lambda: a - b, lambda: a * b, lambda: a // plain, lambda: minimum(a, plain * 3),
                     lambda: maximum(a - b, plain - 2), lambda: (a - b) // plain])()  # fmt: skip
    return made if reach(made) <= WIDE // 4 else a


def test_extents_in_c_are_those_of_each_run(tmp_path: Path) -> None:
    r = random.Random(1)
    extents = [e for e in (_drawn(r, 1 + i % 4) for i in range(300)) if isinstance(e, Dim)]
    lines, wanted = [], []
    for i, extent in enumerate(extents):
        low, high = span(extent)
        kind = "int32_t" if max(-low, high) < 2**31 else "int64_t"
        lines.append(
            f"static {kind} e{i}(int32_t n, int32_t m, int32_t k)\n"
            f"{{\n    (void)n; (void)m; (void)k;\n    return {c_extent(extent, str)};\n}}\n"
        )
    calls = []
    for _ in range(12):
        at = {name: r.choice(found) for name, found in RANGES.items()}
        arguments = ", ".join(str(at[name]) for name in "nmk")
        calls += [f'    printf("%" PRId64 "\\n", (int64_t)e{i}({arguments}));' for i in range(len(extents))]
        wanted += [value(e, at) for e in extents]
    source = tmp_path / "extents.c"
    source.write_text(HEADER + "".join(lines) + "int main(void)\n{\n" + "\n".join(calls) + "\n    return 0;\n}\n")
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error", "-Wno-extra"]
    built = ["cc", "-std=c99", "-O1", *STRICT_WARNINGS, *traps, str(source), "-o", str(tmp_path / "extents")]
    subprocess.run(built, check=True, timeout=300)
    ran = subprocess.run([tmp_path / "extents"], check=True, capture_output=True, text=True, timeout=60)
    assert len(extents) > 150
    assert [int(line) for line in ran.stdout.split()] == wanted


def test_quotients_are_rounded_down() -> None:
    n = symbol("n", 0, 9)
    assert c_extent((n + 1) // 2, str) == "((n + 1) / 2)"
    assert c_extent((n - 7) // 3, str) == "((n + 2) / 3) - 3"
    assert c_extent(n * 2 + 1, {"n": "net->dim_n"}.__getitem__) == "2 * net->dim_n + 1"


def test_what_may_not_fit_into_64_bits_is_refused() -> None:
    with pytest.raises(CompileError, match="may not fit into 64 bits"):
        c_extent(M * M * M, str)
