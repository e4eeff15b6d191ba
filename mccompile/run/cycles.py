"""Estimated cycles of a Cortex-M4, from how often each instruction was executed.

The numbers are those of its technical reference manual (r0p1, 3.3.1 and 7.2.3) for memory without wait states.
Instructions alone mislead: VFMA takes three cycles where VMUL and VADD take two, LDRD saves an instruction and no
cycle.

>>> estimate([Instruction(0, "ldr", "r3, [r0], #4"), Instruction(2, "subs", "r2, #1"), Instruction(4, "bne.n", "0")],
...          {0: Executed(10, 0), 2: Executed(10, 0), 4: Executed(10, 9)})
58

Ten loads of two cycles, ten subtractions and ten branches of one, and nine refills of the pipeline of two.

What is not known exactly: a load behind a load or store is taken for pipelined, a division takes the middle of its 2
to 12 cycles, and a refill the middle of 1 to 3.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.run.counter import Counts, Executed

__all__ = ["Executed", "Instruction", "cost", "disassembled", "estimate", "estimates", "words_of"]

REFILL = 2
"""Cycles that any jump takes beside its instruction's own."""

_LOAD = re.compile(r"ldr(ex|t)?s?[bh]?(al|eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?$")
_STORE = re.compile(r"str(ex|t)?[bh]?(al|eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le)?$")
_LINE = re.compile(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)")

_BY_BEGINNING = (
    ("ldrd", 3), ("strd", 3), ("tbb", 2), ("tbh", 2), ("sdiv", 7), ("udiv", 7), ("vfma", 3), ("vfms", 3), ("vfnm", 3),
    ("vmla", 3), ("vmls", 3), ("vnml", 3), ("vdiv", 14), ("vsqrt", 14),
)  # fmt: skip
"""Cycles of those that are neither 1 nor counted in registers."""
_MULTIPLE = ("vldm", "vstm", "vpush", "vpop", "ldm", "stm", "push", "pop")


@dataclass(frozen=True)
class Instruction:
    """An instruction as objdump shows it."""

    address: int
    opcode: str
    operands: str


def knows(core: str) -> bool:
    """Whether there are estimates for a core by what -mcpu calls it."""
    return core == "cortex-m4"


def disassembled(image: Path, objdump: str) -> list[Instruction]:
    """The instructions of an image in the order of their addresses. CompileError where objdump fails."""
    command = [objdump, "-d", "--no-show-raw-insn", str(image)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as e:
        raise CompileError(f"{objdump} cannot be run: {e.strerror}", hint="install the compiler's binutils") from e
    if done.returncode:
        raise CompileError(f"{objdump} failed on {image}: {done.stderr.strip()}")
    found = (_LINE.match(line) for line in done.stdout.splitlines())
    return [Instruction(int(m[1], 16), m[2], re.sub(r"\s*[@;].*", "", m[3]).strip()) for m in found if m]


def estimate(program: Iterable[Instruction], counts: Counts) -> int:
    """Cycles of all that was counted."""
    return estimates(program, {0: counts})[0]


def estimates(program: Iterable[Instruction], slots: Mapping[int, Counts]) -> dict[int, int]:
    """Cycles of each slot."""
    total = dict.fromkeys(slots, 0)
    before = ""
    for instruction in program:
        each = cost(instruction, before)
        before = instruction.opcode
        for slot, counts in slots.items():
            ran = counts.get(instruction.address)
            if ran is not None:
                total[slot] += ran.times * each + ran.taken * REFILL
    return total


def cost(instruction: Instruction, before: str = "") -> int:
    """Cycles of one execution that does not jump, behind an instruction of opcode ``before``."""
    opcode = instruction.opcode.split(".")[0]
    if _LOAD.match(opcode):
        return 1 if _single(before.split(".")[0]) else 2
    if opcode.startswith(_MULTIPLE):
        return 1 + words_of(instruction.operands)
    if opcode.startswith(("vldr", "vstr")):
        return 1 + _width(instruction.operands)
    if opcode == "vmov" and instruction.operands.count(",") == 2:
        return 2  # two core registers at once
    return next((cycles for beginning, cycles in _BY_BEGINNING if opcode.startswith(beginning)), 1)


def _single(opcode: str) -> bool:
    return bool(_LOAD.match(opcode) or _STORE.match(opcode))


def _width(operands: str) -> int:
    """Words of the first register: 2 of a double one."""
    return 2 if operands.startswith("d") else 1


def words_of(operands: str) -> int:
    """Words of the registers that a list in braces names; 1 where there is none.

    >>> words_of("{r4-r7, lr}"), words_of("d1")
    (5, 1)
    """
    listed = re.search(r"\{(.*)\}", operands)
    if not listed:
        return 1
    words = 0
    for part in listed[1].split(","):
        span = re.match(r"\s*([a-z])(\d+)-[a-z](\d+)", part)
        registers = int(span[3]) - int(span[2]) + 1 if span else 1
        words += registers * (2 if part.strip().startswith("d") else 1)
    return words
