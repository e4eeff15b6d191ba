"""IR in files: the text, and the elements of large constants in ``<file>.npz`` beside it."""

from __future__ import annotations

import hashlib
import re
import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np

from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import OpLookup, arrays, parse_graph, print_graph
from mccompile.ir.kernel import KernelModule
from mccompile.ir.kernel_parse import ParamsLookup, parse_module, parse_program
from mccompile.ir.kernel_text import module_arrays, print_module, print_program
from mccompile.ir.program import Program
from mccompile.ir.scalar import Array
from mccompile.ir.whole import written_whole

IR: TypeAlias = Graph | KernelModule | Program
SUFFIX = ".mcir"


def text_of(ir: IR) -> str:
    """The text of any of the three IRs."""
    if isinstance(ir, Graph):
        return print_graph(ir)
    return print_program(ir) if isinstance(ir, Program) else print_module(ir)


_SEAL = "// sha256 "


def sealed(ir: IR) -> str:
    """The text as files have it, which ends with its digest."""
    return resealed(text_of(ir))


def resealed(text: str) -> str:
    """Text with the digest of what it says now."""
    text = text.rpartition(_SEAL)[0] or text
    return f"{text}{_SEAL}{_digest(text)}\n"


def require_seal(path: Path, ir: IR) -> None:
    """CompileError where text is not just as it was printed, of which only a part can be checked.

    The operators of a graph have rules, but some trust indices that were checked when the model was read. What
    kernels do with their views is not checked: text that says otherwise than what we lowered could be C that reads
    beside its operands.
    """
    if isinstance(ir, Graph) and not any(n.op.trusted for n, _ in ir.everywhere()):
        return
    text, _, seal = path.read_text(encoding="utf-8").rpartition(_SEAL)
    if _digest(text) != seal.strip():
        what = "indices that were checked are" if isinstance(ir, Graph) else "kernels are"
        raise CompileError(
            f"{what} compiled as they were printed, and this text was changed",
            where=str(path),
            hint=f"`mccompile opt {path.name} -o {path.name}` seals it as it is: then it is trusted like C",
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def arrays_of(ir: IR) -> dict[str, Array]:
    """The elements that the text shows by digest only, by name."""
    if isinstance(ir, Graph):
        return arrays(ir)
    return module_arrays(ir.module if isinstance(ir, Program) else ir)


def arrays_path(path: Path) -> Path:
    return path.with_suffix(".npz")


def save(path: Path, ir: IR) -> None:
    """Write the text, and the arrays beside it if there are any. CompileError where that fails."""
    try:
        with written_whole(path) as staged:
            staged.write_bytes(sealed(ir).encode())
        data = arrays_of(ir)
        if data:
            _write_arrays(arrays_path(path), data)
        else:
            arrays_path(path).unlink(missing_ok=True)  # those of another text would not fit
    except OSError as e:
        raise CompileError(f"cannot write {path}: {e.strerror or e}") from e


def _write_arrays(path: Path, data: Mapping[str, Array]) -> None:
    """An .npz. Not by `numpy.savez`, which takes names as keywords (one may be ``file``) and stamps the time."""
    with written_whole(path) as staged, zipfile.ZipFile(staged, "w") as archive:
        for name, array in data.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(array), allow_pickle=False)


_UNREADABLE = (
    OSError, ValueError, EOFError, KeyError, SyntaxError, RuntimeError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error, OverflowError, MemoryError,
)  # fmt: skip
"""What numpy and the parts of Python that it asks raise for files that are damaged, or no arrays."""

_TEXT = "; arrays of text have to be array.astype(str)"


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of an .npz by name. UsageError if there is no such file, CompileError if it cannot be read."""
    if not path.exists():
        raise UsageError(f"there is no file '{path}'", code="no-file")
    try:
        archive = np.load(path, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it holds one array without a name: is it an .npy?")
        with archive:
            return {name: archive[name] for name in archive.files}
    except _UNREADABLE as e:
        hint = f"an .npz is written with numpy.savez{_TEXT}"
        raise CompileError(f"the arrays cannot be read: {e}", where=str(path), hint=hint) from e


def read_inputs(path: Path) -> dict[str, Array] | Array:
    """The arrays of an .npz by name, or the one array of an .npy. Errors as `read_arrays`."""
    if path.suffix != ".npy":
        return read_arrays(path)
    if not path.exists():
        raise UsageError(f"there is no file '{path}'", code="no-file")
    try:
        return np.asarray(np.load(path, allow_pickle=False))
    except _UNREADABLE as e:
        hint = f"an .npy is written with numpy.save{_TEXT}"
        raise CompileError(f"the array cannot be read: {e}", where=str(path), hint=hint) from e


def load(path: Path, ops: OpLookup, params: ParamsLookup) -> IR:
    """Read a text of any of the three IRs, with the arrays if they lie beside it.

    Raises UsageError if there is no such file, CompileError with file and line where it is malformed.
    """
    if not path.is_file():
        raise UsageError(f"there is no file '{path}'", code="no-file")
    try:
        source = path.read_text(encoding="utf-8")
    except OSError as e:
        raise UsageError(f"'{path}' cannot be read: {e.strerror}") from e
    except UnicodeDecodeError as e:
        raise CompileError("the file is no text", where=str(path), hint="an .mcir file is IR as text") from e
    data = read_arrays(arrays_path(path)) if arrays_path(path).exists() else {}
    kind = re.match(r"(?:\s|//[^\n]*\n)*(\w*)", source)
    match kind[1] if kind else "":
        case "graph":
            return parse_graph(source, ops, data, str(path))
        case "kernels":
            return parse_module(source, ops, params, data, str(path))
        case "program":
            return parse_program(source, ops, params, data, str(path))
    raise CompileError("the text has to begin with 'graph', 'kernels' or 'program'", where=f"{path}:1")
