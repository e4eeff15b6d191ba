"""A network as the image of a board: linked with a start, a linker script and semihosting of our own.

The image holds what the network needs of the C library as well, and nothing that it does not need. What belongs to
the board (the start, the serving of requests) lies in sections of its own, so that the sizes of the others are the
network's:

    .board   start, semihosting, main       .board_bss, .stacks   their memory
    .text    network, runtime, library      .data, .bss           the network has none: the library's
    .rodata  their constants                .mcc_marks            addresses of steps, not loaded
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mccompile.ir.errors import CompileError
from mccompile.run.boards import BARE, Board
from mccompile.run.build import build_object, build_program
from mccompile.run.cache import cached
from mccompile.run.emulate import FENCE_BYTES, CrossTools, EmulatedNet, emulated_main
from mccompile.targets.target import Target

PARTS = (".text", ".rodata", ".data", ".bss")
"""The sections of an image that are the network's."""

_OWN_FLAGS = ("-std=gnu99", "-O1", "-foptimize-sibling-calls", "-g0")
"""Of the board's own C: it needs assembly, and calls in tail position that take no stack of the network's."""


def build_firmware(
    tools: CrossTools,
    nets: Sequence[EmulatedNet],
    target: Target,
    align: int,
    sources: Sequence[Path],
    flags: Sequence[str],
    include: Path,
) -> Path:
    """The image that serves networks on a board; built once for equal content. The steps of one alone are marked.

    Args:
        tools: of `cross_tools`, with a board.
        align: of arenas and blobs, in bytes.
        sources, flags, include: of the networks, as `build_program` takes them.

    Raises:
        CompileError: the compiler complains, or the code does not fit into the board's memory.
    """
    assert tools.board is not None
    with tempfile.TemporaryDirectory(prefix="mccompile-firmware-") as folder:
        main = Path(folder) / "emulated_main.c"
        main.write_text(emulated_main(nets, align, board=True, fence=FENCE_BYTES))
        objects = [*board_objects(tools, target, "board.c"), *_objects(tools, target, [main], include)]
    marked = ['-DMCC_HOOKS_HEADER="marks.h"'] if len(nets) == 1 else []
    return link(tools, tools.board, [*sources, *objects], [*flags, *marked], include)


def board_objects(tools: CrossTools, target: Target, *parts: str) -> list[Path]:
    """Object files of the board's own parts: its start, and files of `BARE`, if not those of a program with files."""
    assert tools.board is not None
    names = (tools.board.start, *(parts or ("board.c", "program.c")))
    return _objects(tools, target, [BARE / name for name in names], BARE)


def _objects(tools: CrossTools, target: Target, sources: Sequence[Path], include: Path) -> list[Path]:
    flags = [*target.flags, *_OWN_FLAGS]
    return [build_object(tools.compiler, path, flags, include, BARE) for path in sources]


def link(
    tools: CrossTools, board: Board, sources: Sequence[Path], flags: Sequence[str], include: Path
) -> Path:
    """The image of C files and objects, without what nothing refers to."""
    sections = ["-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections"]
    start = ["-nostartfiles", f"-T{_linker_script(board)}"]
    try:
        return build_program(tools.compiler, sources, [*flags, *sections, *start], include, BARE)
    except CompileError as e:
        if "overflowed by" not in str(e):
            raise
        words = str(e).replace("'", "`").split("`")
        region = next(word for word in words if word in ("CODE", "RAM", "BULK"))
        memory = {"CODE": board.code, "RAM": board.ram, "BULK": board.bulk}[region]
        over = str(e).split("overflowed by ")[1].split()[0]
        raise CompileError(
            f"the program does not fit on the emulated board {board.name}: its {memory.length:,} bytes of {region} "
            f"are exceeded by {int(over):,}",
            hint="compile with -Os, or check a smaller network there", code="does-not-fit",
        ) from e


def _linker_script(board: Board) -> Path:
    """The script as a file whose name changes with its text, as what is cached goes by the names in flags."""
    text = board.linker_script
    name = f"{board.name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.ld"
    return cached(name, lambda path: path.write_text(text))
