"""Kernels in files of their own, with external names: for several models that share them, or one file each."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile._dataclass import dataclass
from mccompile._version import __version__
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.helpers import preamble
from mccompile.codegen.kernels import Kernel, KernelPool
from mccompile.codegen.templates import indent_c, render
from mccompile.targets.target import Target


@dataclass(frozen=True)
class LibraryKernel:
    """A kernel as printed, and what it is."""

    kernel: Kernel
    comment: str


@dataclass(frozen=True)
class LibraryFile:
    """A C file of kernels: what it includes, the helpers it needs, the kernels."""

    name: str
    headers: tuple[str, ...]
    helpers: str
    kernels: tuple[LibraryKernel, ...]


@dataclass(frozen=True)
class Library:
    """``<prefix>_kernels.h`` and the C files behind it; ``foreign``: headers of users whose functions are called."""

    prefix: str
    version: str
    models: tuple[str, ...]
    target: str
    c_flags: str
    optimisation: str
    requires: tuple[str, ...]
    kernels: tuple[LibraryKernel, ...]
    files: tuple[LibraryFile, ...]
    foreign: tuple[str, ...] = ()

    @property
    def header(self) -> str:
        return kernels_header(self.prefix)

    @property
    def guard(self) -> str:
        return f"{self.prefix.upper()}_KERNELS_H"

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.files)


def kernels_header(prefix: str) -> str:
    """The name of the header that declares a library's kernels."""
    return f"{prefix}_kernels.h"


def make_library(pool: KernelPool, models: Sequence[ModelFacts], target: Target, split: bool) -> Library:
    """The kernels that ``models`` were rendered with; ``split`` gives each a file of its own."""
    kernels = tuple(LibraryKernel(k, pool.comment(k)) for k in pool.kernels)
    if split:
        files = tuple(_file(f"{k.kernel.name}.c", (k,), target) for k in kernels)
    else:
        files = (_file(f"{pool.prefix}_kernels.c", kernels, target),)
    names = tuple(m.name for m in models)
    flags, level = models[0].c_flags, models[0].optimisation
    foreign = tuple(dict.fromkeys(f.header.name for m in models for f in m.functions))
    return Library(
        pool.prefix, __version__, names, target.name, flags, level, target.requires, kernels, files, foreign
    )


def _file(name: str, kernels: tuple[LibraryKernel, ...], target: Target) -> LibraryFile:
    tables = (table for k in kernels for table in k.kernel.tables)
    before = preamble((name for k in kernels for name in k.kernel.uses), target, tables)
    return LibraryFile(name, before.headers, before.helpers, kernels)


def library_files(library: Library) -> dict[str, str]:
    """The text of the header and of each C file, by name."""
    files = {library.header: indent_c(render("_model/kernels.h.j2", lib=library))}
    for f in library.files:
        files[f.name] = indent_c(render("_model/kernels.c.j2", lib=library, file=f))
    return files
