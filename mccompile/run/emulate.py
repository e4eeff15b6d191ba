"""Networks for other machines: built by a cross compiler, run by an emulator, their memory sent and fetched.

What runs under an operating system is an ordinary program there; what does not is the image of a board (`firmware`).
"""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.templates import indent_c, render
from mccompile.ir.errors import CompileError
from mccompile.run import wasi
from mccompile.run.boards import Board, board_of
from mccompile.run.build import build_program, c_compiler, compiler_version
from mccompile.run.memory import Array
from mccompile.targets.target import Target, runs_here

_WRITE, _READ, _INIT, _RUN, _FENCES, _STACK, _CLOCK, _EXTENT, _DIMS = range(9)
_BLOB = 0

NEWEST, ASKED_FOR = 29, "clang-19"
"""Releases of clang that are looked for, and the one that Debian has."""

FENCE_BYTES = 4 * 1024
"""Of known bytes before and behind each memory of a network."""

EMULATOR_FAULT = "this is a fault of the emulator"
"""What is said of a program that ended because the emulator did."""


@dataclass(frozen=True)
class CrossTools:
    """Commands: what compiles for a target, and what runs the program; on a board, where there is one. ``link`` are
    flags of a program that the emulator runs."""

    compiler: tuple[str, ...]
    emulator: tuple[str, ...]
    board: Board | None = None
    link: tuple[str, ...] = ("-static",)

    def with_arguments(self, arguments: Sequence[str]) -> CrossTools:
        """The same with more arguments for the emulator."""
        return replace(self, emulator=(self.emulator[0], *arguments, *self.emulator[1:]))


@dataclass(frozen=True)
class EmulatedNet:
    """A network of a program: the prefix of its functions, in how many memories its arena lies, and the fields of its
    struct that point to what it is lent: inputs and outputs of the caller, whose places are behind the arenas'. Of a
    network with run-time extents: those that the caller gives, and the inputs and outputs that have such ones, as
    its functions name them, with their ranks."""

    name: str
    arenas: int = 1
    lent: tuple[str, ...] = ()
    extents: tuple[str, ...] = ()
    varying: tuple[tuple[str, int], ...] = ()

    @property
    def memories(self) -> int:
        return self.arenas + len(self.lent)


def cross_tools(target: Target) -> CrossTools:
    """The tools for a target that this machine does not run. CompileError if there are none or they are missing."""
    refused = f"this machine does not run code for target {target.name}"
    board = board_of(target)
    emulator = target.emulator if board is None else board.emulator
    if not emulator:
        device = "let the device run the test program that --golden DIR writes, or compile for the target native"
        raise CompileError(f"{refused}, and no emulator for it is known", hint=device, code="no-compiler")
    compiler = cross_compiler(target)
    wasm = emulator[0] == "wasmtime"
    there = (shutil.which(compiler[0]) is not None, wasi.FOUND if wasm else shutil.which(emulator[0]) is not None)
    missing = [name for name, found in zip((compiler[0], emulator[0]), there, strict=True) if not found]
    if missing:
        package = ", and pip install 'mccompile[wasm]'" if wasm else ""
        raise CompileError(
            f"{refused}, and its compiler and emulator are not complete: {' and '.join(missing)} not found",
            hint=f"install them (Debian, Ubuntu: apt install {' '.join(target.packages)}{package}), or let the "
            "device run the test program that --golden DIR writes",
            code="no-compiler",
        )
    return CrossTools(
        (*compiler, *(board.specs if board else ())), wasi.COMMAND if wasm else emulator, board, target.link
    )


def cross_compiler(target: Target) -> tuple[str, ...]:
    """The command that compiles for a target where its programs do not run; whether it is there is not asked."""
    return (_clang(target.clang), f"--target={target.triple}") if target.clang else (f"{target.triple}-gcc",)


@functools.cache
def _clang(least: int) -> str:
    """clang of a release or a later one: the newest that has its release in its name, or the one without; where
    there is none, the name of what `Target.packages` ask for."""
    named = next((n for n in (f"clang-{release}" for release in range(NEWEST, least - 1, -1)) if shutil.which(n)), "")
    if named or shutil.which("clang") is None:
        return named or ASKED_FOR
    release = re.search(r"version (\d+)", compiler_version(["clang"]))
    return "clang" if release is not None and int(release[1]) >= least else ASKED_FOR


def compiler_for(target: Target) -> Sequence[str]:
    """The C compiler for programs of a target that run here, by themselves or emulated."""
    return c_compiler() if runs_here(target.name) else cross_tools(target).compiler


def emulated_main(nets: Sequence[EmulatedNet], align: int, *, board: bool = False, fence: int = 0) -> str:
    """The C of the main program that serves networks.

    Args:
        align: of arenas and blobs, in bytes.
        board: for a board; else for an operating system.
        fence: known bytes before and behind each memory (sanitizers, which know its bounds, want none).
    """
    most = max((rank for n in nets for _, rank in n.varying), default=1)
    return indent_c(render("_model/emulated_main.c.j2", nets=nets, align=align, board=board, fence=fence, most=most))


def build_emulated(
    tools: CrossTools, net: EmulatedNet, align: int, sources: Sequence[Path], flags: Sequence[str], include: Path
) -> Path:
    """The program that serves a network, built once for equal content."""
    with tempfile.TemporaryDirectory(prefix="mccompile-emulated-") as folder:
        main = Path(folder) / "emulated_main.c"
        main.write_text(emulated_main([net], align, fence=FENCE_BYTES))
        return build_program(tools.compiler, [*sources, main], [*flags, *tools.link], include)


class Emulator:
    """A running program of `build_emulated` or `firmware.build_firmware`. Its memory outlives a run; it ends with
    this object."""

    def __init__(self, program: Path, tools: CrossTools) -> None:
        self.command = [*tools.emulator, str(program)]
        self._texts: dict[int, str] = {}
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  # read when the program ends
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors
        )

    def close(self) -> None:
        """Let the program end by itself."""
        self._pipe(self._process.stdin).close()
        self._process.wait()

    def __del__(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
            self._errors.close()

    def init(self, arenas: Sequence[Array], blob: Array, net: int = 0) -> int:
        """Send everything and initialise a network: its status."""
        self._write(net, _BLOB, blob)
        for place, arena in enumerate(arenas, 1):
            self._write(net, place, arena)
        return self._status(_INIT, net)

    def run(self, arenas: Sequence[Array], net: int = 0) -> int:
        """Run a network on arenas as they are here and bring them up to date: its status."""
        for place, arena in enumerate(arenas, 1):
            self._write(net, place, arena)
        status = self._status(_RUN, net)
        for place, arena in enumerate(arenas, 1):
            self._send(struct.pack("=4I", _READ, net, place, arena.nbytes))
            arena[:] = np.frombuffer(self._receive(arena.nbytes), np.uint8)
        return status

    def set_extent(self, number: int, extent: int, net: int = 0) -> int:
        """Give an extent of a network, by its number in `EmulatedNet.extents`, a value: the status."""
        return self._status(_EXTENT, net, number, extent & 0xFFFFFFFF)

    def dims(self, number: int, rank: int, net: int = 0) -> tuple[int, ...]:
        """The extents now of an input or output, by its number in `EmulatedNet.varying`."""
        self._send(struct.pack("=4I", _DIMS, net, number, 4 * rank))
        return struct.unpack(f"={rank}i", self._receive(4 * rank))

    def broken_fences(self) -> int:
        """Bytes beside the memories of the networks that were overwritten so far."""
        return self._word(_FENCES)

    def stack_bytes(self) -> int:
        """The stack that the last run has used; 0 where nobody knows."""
        return self._word(_STACK)

    def clocked(self) -> float:
        """Instructions of the last run by the clock of a board whose emulator's time goes by instructions; 0 where it
        is not known."""
        self._send(struct.pack("=4I", _CLOCK, 0, 0, 0))
        ticks, known, instructions = struct.unpack("=3Q", self._receive(24))
        return float(ticks * instructions / known) if known else 0.0

    def text(self, status: int) -> str:
        """What a status that was answered means."""
        return self._texts[status]

    def _write(self, net: int, place: int, data: Array) -> None:
        self._send(struct.pack("=4I", _WRITE, net, place, data.nbytes) + data.tobytes())

    def _status(self, what: int, net: int, place: int = 0, nbytes: int = 0) -> int:
        self._send(struct.pack("=4I", what, net, place, nbytes))
        code, length = struct.unpack("=iI", self._receive(8))
        self._texts[code] = self._receive(length).decode()
        return int(code)

    def _word(self, what: int) -> int:
        self._send(struct.pack("=4I", what, 0, 0, 0))
        (word,) = struct.unpack("=I", self._receive(4))
        return int(word)

    def _send(self, data: bytes) -> None:
        try:
            pipe = self._pipe(self._process.stdin)
            pipe.write(data)
            pipe.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def _receive(self, count: int) -> bytes:
        data = self._pipe(self._process.stdout).read(count)
        if len(data) != count:
            raise self._ended()
        return data

    @staticmethod
    def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
        assert pipe is not None
        return pipe

    def _ended(self) -> CompileError:
        code = self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip().splitlines()[:5]
        own = any(line.startswith(f"{self.command[0]}: ") and "Assertion" in line for line in said)
        hint = f"{EMULATOR_FAULT}: a newer one may do (QEMU 7.2 fails at vfncvt.rtz of RISC-V)" if own else ""
        return CompileError("\n".join([f"{shlex.join(self.command)} ended with status {code}", *said]), hint=hint)
