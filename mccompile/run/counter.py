"""Instructions of a network on a board, by step: an emulator with a plugin that counts executions by address.

    marks in the image    0x10a: begin of step 0, 0x136: its end, 0x136: begin of step 1, ...
    slots of the plugin   0x10a: 2, 0x136: 3, ...       0 counts nothing, 1 is between steps, step i is 2 + i
    what it writes        2 10c 64 63                   step 0 ran what is at 0x10c 64 times, and 63 times it jumped
"""

from __future__ import annotations

import functools
import re
import struct
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError, InternalError
from mccompile.run.boards import BARE
from mccompile.run.build import build_library
from mccompile.run.elf import sections

RUN_BEGINS, RUN_ENDS = -2, -1
"""Marks of the call of a network; those of steps are in bare/marks.h."""
NOTHING, BETWEEN, FIRST_STEP = 0, 1, 2
"""Slots."""


@dataclass(frozen=True)
class Executed:
    """How often an instruction ran, and how often the next one to run was not the one behind it."""

    times: int
    taken: int


Counts = Mapping[int, Executed]
"""By address."""


def slots_of_marks(image: Path) -> dict[int, int]:
    """The slot that counts from each marked address of an image on."""
    marks = sections(image)[".mcc_marks"].data
    slots: dict[int, int] = {}
    for address, number in struct.iter_unpack("<Ii", marks):  # of several at one place the last one holds
        slots[address & ~1] = _slot(number)
    return slots


def _slot(mark: int) -> int:
    if mark == RUN_ENDS:
        return NOTHING
    if mark == RUN_BEGINS or mark % 2:
        return BETWEEN
    return FIRST_STEP + mark // 2


class Counter:
    """Makes an emulator count, and reads what it has counted. Its files live as long as it does."""

    def __init__(self, slots: Mapping[int, int], emulator: str) -> None:
        """``slots`` are those that count from each address on.

        Raises:
            CompileError: the host has no C compiler to build the plugin with, or the emulator takes none.
        """
        version = plugin_version(emulator)
        plugin = build_library(
            [BARE / "count_plugin.c"], ["-std=c99", "-O2", "-fvisibility=hidden", f"-DPLUGIN_VERSION={version}"], BARE
        )
        self._folder = tempfile.TemporaryDirectory(prefix="mccompile-count-")
        marks, self._out = (Path(self._folder.name) / name for name in ("marks", "counts"))
        marks.write_text("".join(f"{address:x} {slot}\n" for address, slot in slots.items()))
        self.arguments = ("-plugin", f"{plugin},marks={marks},out={self._out}")

    def last_run(self) -> dict[int, dict[int, Executed]]:
        """Counts of the last complete run by slot. InternalError if none was counted."""
        runs = self._out.read_text().split("run\n")[1:]
        if not runs or not runs[-1].endswith("end\n"):
            raise InternalError("the instruction counter has written no run")
        found: dict[int, dict[int, Executed]] = {}
        for line in runs[-1].splitlines()[:-1]:
            slot, address, times, taken = line.split()
            counts = found.setdefault(int(slot), {})
            old = counts.get(int(address, 16), Executed(0, 0))  # the same code may be translated several times
            counts[int(address, 16)] = Executed(old.times + int(times), old.taken + int(taken))
        return found


@functools.cache
def plugin_version(emulator: str) -> int:
    """The version of its plugin interface that an emulator is asked for. CompileError if it has none."""
    usage = subprocess.run([emulator, "-help"], capture_output=True, text=True).stdout
    said = subprocess.run([emulator, "--version"], capture_output=True, text=True).stdout
    release = re.search(r"version (\d+)", said)
    if "-plugin" not in usage or release is None:
        raise CompileError(f"{emulator} was built without plugins", hint="instructions are not counted")
    return 1 if int(release[1]) < 9 else 2
