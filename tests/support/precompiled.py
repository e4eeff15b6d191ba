"""What all networks have alike, compiled once for many: most of a small network's time.

The header of vector instructions is compiled once for all sources that include it.

`gcc -O3 -march=x86-64-v3` reads <immintrin.h> in 0.18 s, and a kernel in 0.05 s. With ``-include`` of a header that
was compiled by the same compiler and flags it begins where that ended: what the source includes is there already.

The runtime, mcc.c, is an object of the same compiler and flags: 0.05 of 0.12 s.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from mccompile.run.build import build_library, build_object, c_compiler, compiler_version, run_compiler
from mccompile.run.cache import cache_dir

HEADERS = ("immintrin.h", "arm_neon.h")


def precompiled(compiler: Sequence[str], flags: Sequence[str], source: Path) -> list[str]:
    """Flags that spare gcc the vector header of a C source; none where it includes none, or of another compiler.

    What else is compiled by the same command sees the header too.
    """
    text = source.read_text()
    found = [h for h in HEADERS if f"#include <{h}>" in text]
    if not found or "gcc" not in Path(compiler[0]).name:
        return []
    affecting = [f for f in flags if not f.startswith(("-W", "-D", "-I")) and f not in ("-shared", "-static")]
    key = hashlib.sha256(shlex.join([*compiler, *affecting, found[0]]).encode())
    key.update(compiler_version(compiler).encode())
    header = cache_dir() / "headers" / f"{key.hexdigest()[:32]}.h"  # where another worker's prune does not look
    made = header.with_suffix(".h.gch")
    if not (made.exists() and header.exists()):
        header.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=header.parent) as folder:
            (Path(folder) / "all.h").write_text(f"#include <{found[0]}>\n")
            run_compiler([*compiler, *affecting, "-x", "c-header", "all.h", "-o", "all.gch"], Path(folder))
            os.replace(Path(folder) / "all.h", header)
            os.replace(Path(folder) / "all.gch", made)
    return ["-include", str(header)]


@contextmanager
def runtime_of(cache: Path) -> Iterator[None]:
    """Libraries that are built meanwhile link an object of the runtime, which is compiled once for all of them."""

    def build(sources: Sequence[Path], flags: Sequence[str], *include: Path) -> Path:
        made = [_object(s, flags, cache) if s.name == "mcc.c" else s for s in sources]
        return build_library(made, flags, *include)

    with mock.patch("mccompile.run.library.build_library", build):
        yield


def _object(source: Path, flags: Sequence[str], cache: Path) -> Path:
    """The object of mcc.c, by what that and its header say: the folder's other headers are of one network."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path in (source, source.with_suffix(".h")):
            shutil.copy(path, folder)
        with mock.patch.dict(os.environ, {"MCC_CACHE": str(cache)}):
            return build_object(c_compiler(), folder / source.name, [*flags, "-fPIC"], folder)
