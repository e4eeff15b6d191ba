"""The boards that an emulator has: their memories, and the command that runs a program on one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.targets.target import Target

BARE = Path(__file__).parent / "bare"
"""C, assembly and linker script of programs that run without an operating system."""

START_STACK, RUN_STACK = 16 * 1024, 64 * 1024
"""Bytes of stack for what serves a network, and of the stack that the network itself runs on and that is watched.
There is as much again below it, so that it is seen where that was not enough."""


@dataclass(frozen=True)
class Region:
    """A memory: its first address, its bytes."""

    origin: int
    length: int

    def text(self, name: str) -> str:
        """As a line of a linker script's MEMORY command."""
        return f"    {name} (rwx) : ORIGIN = {self.origin:#x}, LENGTH = {self.length:#x}\n"


@dataclass(frozen=True)
class Board:
    """A machine of an emulator.

    Attributes:
        name: what `Target.board` calls it.
        emulator: the command, which the image's path follows.
        start: file of `BARE` with what the processor does before C.
        code: where programs and their constants lie; the processor starts at its first address.
        ram: where data, stacks, and what fits beside them lie.
        bulk: larger and, on a real board, slower; what does not fit into ``ram``.
        specs: what a C compiler needs behind its name to find a C library.
    """

    name: str
    emulator: tuple[str, ...]
    start: str
    code: Region
    ram: Region
    bulk: Region
    specs: tuple[str, ...] = ()

    @property
    def linker_script(self) -> str:
        """The whole text: this board's regions, and how a program is laid out in them."""
        regions = [self.code.text("CODE"), self.ram.text("RAM"), self.bulk.text("BULK")]
        stacks = f"START_STACK = {START_STACK};\nRUN_STACK = {RUN_STACK};\n"
        return f"MEMORY\n{{\n{''.join(regions)}}}\n{stacks}\n{(BARE / 'board.ld').read_text()}"

    def require_room(self, blocks: Sequence[int]) -> None:
        """CompileError unless blocks of so many bytes fit, each into the first memory with room for it."""
        left = {"RAM": self.ram.length - START_STACK - 2 * RUN_STACK - DATA_BYTES, "bulk memory": self.bulk.length}
        for size in blocks:
            place = next((name for name, room in left.items() if size <= room), None)
            if place is None:
                rest = ", ".join(f"{room:,} bytes of {name}" for name, room in left.items())
                sizes = ", ".join(f"{b:,}" for b in blocks)
                raise CompileError(
                    f"the network does not fit on the emulated board {self.name}: weights and arenas take {sizes} "
                    f"bytes, and for {size:,} of them {rest} are left",
                    hint="check a smaller network there, or this one for another target",
                    code="does-not-fit",
                )
            left[place] -= size


DATA_BYTES = 16 * 1024
"""Of RAM, that a program's own data may take: the C library's."""

_KIB, _MIB = 1024, 1024 * 1024


def _arm(machine: str, code: Region, ram: Region, bulk: Region) -> Board:
    command = ("qemu-system-arm", "-M", machine)
    return Board(machine, (*command, *_QUIET), "start_arm.S", code, ram, bulk)


_QUIET = (
    "-display", "none", "-monitor", "none", "-serial", "none", "-semihosting-config", "enable=on,target=native",
    "-kernel",
)  # fmt: skip
"""The standard streams are the program's alone."""

_MPS2 = (Region(0, 4 * _MIB), Region(0x20000000, 4 * _MIB))

BOARDS = {
    board.name: board
    for board in (
        _arm("mps2-an385", *_MPS2, Region(0x21000000, 16 * _MIB)),
        _arm("mps2-an386", *_MPS2, Region(0x21000000, 16 * _MIB)),
        _arm("mps2-an500", *_MPS2, Region(0x60000000, 16 * _MIB)),
        # The aliases that only secure code sees: cores of ARMv8-M start in it.
        _arm("mps2-an505", Region(0x10000000, 4 * _MIB), Region(0x38000000, 2 * _MIB), Region(0x80000000, 16 * _MIB)),
        _arm("mps3-an547", Region(0, 512 * _KIB), Region(0x30000000, 512 * _KIB), Region(0x60000000, 256 * _MIB)),
        Board(
            "virt-rv32",
            ("qemu-system-riscv32", "-M", "virt", "-bios", "none", "-m", "256M", *_QUIET),
            "start_riscv.S",
            Region(0x80000000, 16 * _MIB),
            Region(0x81000000, 16 * _MIB),
            Region(0x82000000, 224 * _MIB),
            ("--specs=picolibc.specs",),
        ),
    )
}
"""By name."""


def board_of(target: Target) -> Board | None:
    """The board of a target; None for one whose programs run under an operating system, or that has no board."""
    if not target.board:
        return None
    if target.board not in BOARDS:
        raise CompileError(
            f"target {target.name} names an unknown board {target.board!r}", hint=f"known are {', '.join(BOARDS)}"
        )
    return BOARDS[target.board]
