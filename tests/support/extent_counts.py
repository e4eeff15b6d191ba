"""Instructions of runs, with extents that are given when the program runs or with other options, by callgrind."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mccompile
from mccompile.ir.dims import identifier
from tests.budgets.counted import COMPILER, TARGET

MAIN = """#include "net.h"
#include <stdio.h>
#include <stdlib.h>
static net_arena arena;
static _Alignas(NET_ALIGN) unsigned char blob[BLOB_BYTES];
int main(int argc, char **argv)
{
    static net_t net;
    FILE *file = fopen("net.mcb", "rb");
    int status = ((file != NULL) && (fread(blob, 1, sizeof blob, file) == sizeof blob)) ? MCC_OK : MCC_E_SIZE;
    (void)argc;
    (void)argv;
    status |= (int)net_init(&net, &arena, blob, sizeof blob);
    SET
    return (status == MCC_OK) ? (int)net_run(&net) : status;
}
"""
"""The weights are read, not compiled: gcc takes twenty minutes for ninety megabytes of a C array."""


@dataclass
class Counted:
    """A program compiled into ``out`` with ``options``; its runs are counted on inputs of zeros."""

    path: Path
    out: Path
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        mccompile.compile(self.path, self.out, target=TARGET, name="net", **self.options)
        declared = re.findall(r"net_set_(\w+)\(", (self.out / "net.h").read_text())
        self._set = [name for name in self.options.get("dims", {}) if identifier(name) in declared]
        sets = [f"status |= (int)net_set_{identifier(n)}(&net, atoi(argv[{i}]));" for i, n in enumerate(self._set, 1)]
        (self.out / "main.c").write_text(MAIN.replace("SET", "\n    ".join(sets)))
        sources = sorted(s.name for s in self.out.glob("*.c") if s.name != "example_main.c")
        size = f"-DBLOB_BYTES={(self.out / 'net.mcb').stat().st_size}"
        command = [COMPILER, "-O3", "-march=x86-64-v3", size, "-o", "net", *sources, "-lm"]
        subprocess.run(command, cwd=self.out, check=True)

    def run(self, extents: Mapping[str, int]) -> int:
        """Instructions of one run with these extents."""
        valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=callgrind.out", "--toggle-collect=net_run"]
        command = [*valgrind, "./net", *(str(extents[n]) for n in self._set)]
        done = subprocess.run(command, cwd=self.out, check=True, capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", done.stderr)
        assert found
        return int(found[1])
