"""Builds generated C into a shared library or a program, cached by content."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from mccompile.ir.errors import CompileError
from mccompile.run.cache import cached


def c_compiler() -> list[str]:
    """The C compiler's command: $CC, or cc, gcc, clang, or that of the package ziglang. CompileError if there is
    none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    hint = "install gcc or clang, or set CC, or: pip install 'mccompile[cc]', a clang from PyPI"
    raise CompileError("no C compiler was found", hint=hint, code="no-compiler")


def compiler_version(command: Sequence[str]) -> str:
    """What a compiler says of itself: tells clang from gcc behind the name cc, and one release from the next."""
    return _version(tuple(command))


@functools.cache
def _version(command: tuple[str, ...]) -> str:
    try:
        done = subprocess.run([*command, "--version"], capture_output=True, text=True)
    except OSError as e:
        raise CompileError(
            f"the C compiler {shlex.join(command)!r} cannot be run: {e.strerror}",
            hint="set CC to gcc or clang", code="no-compiler",
        ) from e  # fmt: skip
    return done.stdout


def spelled(command: Sequence[str]) -> list[str]:
    """A compiler command with flags as that compiler spells them: zig has underscores in the names of processors.

    >>> spelled(["python", "-m", "ziglang", "cc", "-march=x86-64-v3"])[-1], spelled(["gcc", "-march=x86-64-v3"])[-1]
    ('-march=x86_64_v3', '-march=x86-64-v3')
    """
    if list(command[1:3]) != ["-m", "ziglang"]:
        return list(command)
    return [flag.replace("=x86-64-", "=x86_64_") for flag in command]


def run_compiler(command: Sequence[str], cwd: Path) -> None:
    """Run a compiler command. CompileError with its first messages if it fails."""
    command = spelled(command)
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        shown = "\n".join(done.stderr.splitlines()[:20])
        raise CompileError(f"the C compiler failed: {shlex.join(command)}\n{shown}", code="compiler-failed")


def build_library(sources: Sequence[Path], flags: Sequence[str], *include: Path) -> Path:
    """The shared library of C files; equal sources, headers, flags and compiler are built once.

    Args:
        sources: C files.
        flags: for compiler and linker; paths among them are not looked into.
        include: folders of headers; the compiler runs in the first.

    Raises:
        CompileError: no compiler, what it complains about, or a cache folder that cannot be written.
    """
    return _built(c_compiler(), sources, [*flags, "-fPIC", "-shared"], include, ".so")


def build_program(compiler: Sequence[str], sources: Sequence[Path], flags: Sequence[str], *include: Path) -> Path:
    """As `build_library`, the program of C files by a compiler that may be one for another machine."""
    return _built(compiler, sources, flags, include, "")


def build_object(compiler: Sequence[str], source: Path, flags: Sequence[str], *include: Path) -> Path:
    """As `build_program`, the object file of one source; its name ends in `.board.o`, which linker scripts go by."""
    return _built(compiler, [source], [*flags, "-c"], include, ".board.o")


def _built(
    compiler: Sequence[str], sources: Sequence[Path], flags: Sequence[str], include: Sequence[Path], suffix: str
) -> Path:
    key = hashlib.sha256(shlex.join([*compiler, *flags]).encode() + compiler_version(compiler).encode())
    headers = [path for folder in include for path in sorted(folder.glob("*.h"))]
    for path in [*sorted(sources), *headers]:
        key.update(path.name.encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    places = [part for folder in include for part in ("-I", str(folder.absolute()))]
    named = [str(path.absolute()) for path in sources]
    libraries = [] if "-c" in flags else ["-lm"]  # an object is not linked, which clang warns of

    def make(result: Path) -> None:
        run_compiler([*compiler, *flags, *places, *named, *libraries, "-o", str(result)], include[0])

    return cached(f"{key.hexdigest()[:32]}{suffix}", make)
