"""What a program asks the processor it runs on before it takes the code of a target.

A target's `features` are words of /proc/cpuinfo. A generated program has no such file to read: it asks by the
instruction ``cpuid``, or on Arm reads what Linux hands to each program.

>>> questions(targets()["x86-64-v2"])
(Question(leaf=1, subleaf=0, register=2, mask=9961984),)
>>> [q.mask for q in questions(targets()["x86-64-v3"]) if q.leaf == SAVED]    # the system must save 256-bit registers
[6]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from mccompile._dataclass import dataclass
from mccompile.ir.errors import UsageError
from mccompile.targets.target import Target, resolve, targets

EAX, EBX, ECX, EDX = range(4)
SAVED: Final = 0xD
"""The leaf that stands for XCR0: the registers that the operating system saves, of those that the leaf names."""

_X86: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "ssse3": (1, 0, ECX, 9),
    "fma": (1, 0, ECX, 12),
    "sse4_1": (1, 0, ECX, 19),
    "sse4_2": (1, 0, ECX, 20),
    "movbe": (1, 0, ECX, 22),
    "popcnt": (1, 0, ECX, 23),
    "avx": (1, 0, ECX, 28),
    "f16c": (1, 0, ECX, 29),
    "bmi1": (7, 0, EBX, 3),
    "avx2": (7, 0, EBX, 5),
    "bmi2": (7, 0, EBX, 8),
    "avx512f": (7, 0, EBX, 16),
    "avx512dq": (7, 0, EBX, 17),
    "avx512cd": (7, 0, EBX, 28),
    "avx512bw": (7, 0, EBX, 30),
    "avx512vl": (7, 0, EBX, 31),
    "avx512_vnni": (7, 0, ECX, 11),
    "avx_vnni": (7, 1, EAX, 4),
    "avx512_bf16": (7, 1, EAX, 5),
    "abm": (0x80000001, 0, ECX, 5),
}
"""Where cpuid tells of a feature: leaf, subleaf, register, bit."""

_ARM: Final[Mapping[str, tuple[int, int, int, int]]] = {
    "asimddp": (16, 0, 0, 20), "asimdfhm": (16, 0, 0, 23), "i8mm": (26, 0, 0, 13), "bf16": (26, 0, 0, 14),
}  # fmt: skip
"""Where Linux does: the entry of the auxiliary vector (AT_HWCAP, AT_HWCAP2), and its bit."""

_RISCV: Final[Mapping[str, tuple[int, int, int, int]]] = {"v": (16, 0, 0, 21)}
"""The same: a bit for each letter."""

_TABLES: Final = {"x86_64": _X86, "aarch64": _ARM, "riscv64": _RISCV}


@dataclass(frozen=True, order=True)
class Question:
    """Bits that must all be set in what the processor answers for a leaf."""

    leaf: int
    subleaf: int
    register: int
    mask: int


def questions(target: Target) -> tuple[Question, ...]:
    """What a processor of the target's kind has to answer to run its code.

    UsageError where a program cannot find out.
    """
    found: dict[tuple[int, int, int], int] = {}
    table = _TABLES.get(family(target), {})
    for word in target.features:
        if word not in table:
            raise UsageError(f"a program cannot find out whether it may run code for {target.name}",
                             hint="compile for that target alone: --target")
        leaf, subleaf, register, bit = table[word]
        found[leaf, subleaf, register] = found.get((leaf, subleaf, register), 0) | 1 << bit
    saved = _saved(target.features)
    if saved:
        found[SAVED, 0, EAX] = saved
    return tuple(sorted(Question(*place, mask) for place, mask in found.items()))


def _saved(features: Sequence[str]) -> int:
    """The registers of XCR0 that instructions need: of 128 and 256 bits, and those of AVX-512."""
    if any(f.startswith("avx512") for f in features):
        return 0xE6
    return 0x06 if any(f.startswith(("avx", "fma", "f16c")) for f in features) else 0


def family(target: Target) -> str:
    """The kind of machine it runs on, by the first name of it; empty: all."""
    return target.machines[0] if target.machines else ""


def choosable(names: Sequence[str]) -> list[Target]:
    """The targets that one program may choose from when it runs.

    UsageError for unknown and repeated ones, and where no machine runs all of them.
    """
    found = [resolve(name) for name in names]
    if len(found) < 2 or len({t.name for t in found}) < len(found):
        raise UsageError("several targets are wanted, each once", hint="such as --targets x86-64-v2,x86-64-v3")
    kinds = {family(t) for t in found} - {""}
    alone = [t.name for t in found if not t.hosted]
    if alone or len(kinds) > 1:
        said = f"{alone[0]} is a microcontroller's" if alone else f"they are of {' and of '.join(sorted(kinds))}"
        raise UsageError(f"no machine has a choice among the targets {', '.join(names)}: {said}",
                         hint="give --targets of one kind of processor")
    for target in found:
        questions(target)
    return found


__all__ = ["SAVED", "Question", "choosable", "family", "questions", "targets"]
