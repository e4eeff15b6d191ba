"""Instructions of runs, with extents that are given when the program runs or with other options, by callgrind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mccompile
from mccompile.ir.dims import identifier
from tests.budgets.counted import COMPILER, TARGET

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


@dataclass
class Counted:
    """A program compiled into ``out`` for ``dims`` with ``options``, whose runs are counted on inputs of zeros."""

    path: Path
    out: Path
    dims: Mapping[str, int | str]
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        options = {"target": TARGET, "dims": dict(self.dims), "embed": True, "name": "net", **self.options}
        mccompile.compile(self.path, self.out, **options)
        declared = re.findall(r"net_set_(\w+)\(", (self.out / "net.h").read_text())
        self._set = [name for name in self.dims if identifier(name) in declared]
        sets = [f"status |= (int)net_set_{identifier(n)}(&net, atoi(argv[{i}]));" for i, n in enumerate(self._set, 1)]
        (self.out / "main.c").write_text(MAIN.replace("SET", "\n    ".join(sets)))
        sources = sorted(s.name for s in self.out.glob("*.c") if s.name != "example_main.c")
        command = [COMPILER, "-O3", "-march=x86-64-v3", "-o", "net", *sources, "-lm"]
        subprocess.run(command, cwd=self.out, check=True)

    def run(self, extents: Mapping[str, int]) -> int:
        """Instructions of one run with these extents."""
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=callgrind.out", "--toggle-collect=net_run"]
        command = [*valgrind, "./net", *(str(extents[n]) for n in self._set)]
        done = subprocess.run(command, cwd=self.out, check=True, capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", done.stderr)
        assert found
        return int(found[1])
