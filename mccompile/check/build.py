"""Builds generated C into a shared library with the system's C compiler, cached by content."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from mccompile.ir.errors import CompileError


def c_compiler() -> list[str]:
    """The C compiler's command: $CC, or cc, gcc, clang. CompileError if there is none."""
    if os.environ.get("CC"):
        return shlex.split(os.environ["CC"])
    for name in ("cc", "gcc", "clang"):
        if shutil.which(name):
            return [name]
    raise CompileError("no C compiler was found", hint="install gcc or clang, or set CC")


def cache_dir() -> Path:
    """Where built libraries are kept: $MCC_CACHE, or the user's cache folder."""
    if os.environ.get("MCC_CACHE"):
        return Path(os.environ["MCC_CACHE"])
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "mccompile"


def run_compiler(command: Sequence[str], cwd: Path) -> None:
    """Run a compiler command. CompileError with its first messages if it fails."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        shown = "\n".join(done.stderr.splitlines()[:20])
        raise CompileError(f"the C compiler failed: {shlex.join(command)}\n{shown}")


def build_library(sources: Sequence[Path], flags: Sequence[str], include: Path) -> Path:
    """The shared library of C files; equal sources, headers, flags and compiler are built once."""
    command = [*c_compiler(), *flags, "-fPIC", "-shared", "-I", str(include)]
    key = hashlib.sha256(shlex.join([c for c in command if c != str(include)]).encode())
    for path in sorted([*sources, *include.glob("*.h")]):
        key.update(path.name.encode() + b"\0" + path.read_bytes())
    library = cache_dir() / f"{key.hexdigest()[:32]}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(suffix=".so", dir=library.parent)
        os.close(handle)
        try:
            run_compiler([*command, *map(str, sources), "-lm", "-o", name], include)
            os.replace(name, library)
        finally:
            Path(name).unlink(missing_ok=True)
    return library
