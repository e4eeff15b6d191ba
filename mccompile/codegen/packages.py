"""Generated files laid out as the build systems of their users want them: ``--package``.

A package is a folder of `kernels_templates/_packages`: templates, and ``package.toml`` that says where files lie.

    title = "a Zephyr module"               what it is, in a few words
    platform = true                         the build system chooses the instruction set
    embed = true                            weights are a C array: there are no files to read them from
    sources = "src"                         the folder of C files,
    headers = "include"                     of headers,
    blobs = "."                             and of .mcb files; without it there are none
    example = "samples/{name}/src/main.c"   where the example is,
    start = "main"                          and the function that it begins with
    [files]
    "zephyr/Kconfig" = "Kconfig.j2"         every other file, and the template it is made of
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from pathlib import PurePosixPath

from mccompile._data import data_dir
from mccompile._dataclass import dataclass
from mccompile._version import __version__
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.pieces import Bytes, Files
from mccompile.codegen.projects import Project
from mccompile.codegen.templates import indent_c, render
from mccompile.ir.errors import UsageError

DEFAULT = "cmake"
"""One folder of all files, with a CMakeLists.txt."""
_FOLDER = "_packages"


POOL_OF_THREADS = "mcc_pool_pthread.c"
"""The C file of a pool of POSIX threads."""


@dataclass(frozen=True)
class Package:
    """A build system's layout: see the top of this file. Paths may have ``{name}`` in them."""

    name: str
    title: str
    sources: str
    headers: str
    files: Mapping[str, str]
    blobs: str = ""
    example: str = ""
    start: str = "main"
    platform: bool = False
    embed: bool = False


@functools.cache
def packages() -> dict[str, Package]:
    """All that there are, by name."""
    found = {}
    for path in sorted((data_dir() / "kernels_templates" / _FOLDER).glob("*/package.toml")):
        found[path.parent.name] = Package(path.parent.name, **tomllib.loads(path.read_text(encoding="utf-8")))
    return found


def find_package(name: str) -> Package:
    """The package of a name. UsageError if there is none."""
    if name not in packages():
        raise UsageError(f"there is no package for {name!r}", hint=f"there are: {', '.join(packages())}")
    return packages()[name]


@dataclass(frozen=True)
class Compiled:
    """C files that are compiled alike: from the root of the package, with flags; ``upper`` is what names them."""

    upper: str
    flags: list[str]
    sources: list[str]


@dataclass(frozen=True)
class Content:
    """What is packed, as templates see it: models, the library's C files and headers by name,
    whether blobs are arrays."""

    project: Project
    package: Package
    names: tuple[str, ...]
    header_names: tuple[str, ...]
    embed: bool

    @property
    def name(self) -> str:
        return self.project.name

    @property
    def upper(self) -> str:
        return self.name.upper()

    @property
    def models(self) -> tuple[ModelFacts, ...]:
        return self.project.models

    @property
    def version(self) -> str:
        """The compiler's."""
        return __version__

    @property
    def release(self) -> str:
        """The version as numbers alone, as every build system takes it."""
        return __version__.split("+")[0].split(".dev")[0]

    @property
    def made_from(self) -> str:
        return ", ".join(m.source for m in self.models)

    @property
    def summary(self) -> str:
        """A sentence without quotes, for the metadata of packages."""
        many = f"{len(self.models)} neural networks" if len(self.models) > 1 else "A neural network"
        return f"{many} in C99 without malloc, compiled by mccompile for {self.models[0].target}"

    @property
    def flags(self) -> list[str]:
        """What the C has to be compiled with; where the platform says so, without language and instruction set."""
        said = self.models[0].c_flags.split()
        return [f for f in said if not f.startswith(("-m", "-std="))] if self.package.platform else said

    @property
    def compiled(self) -> list[Compiled]:
        """All sources but the runtime, by the flags they need: those of each target, and all others."""
        parts = [part.facts for m in self.models for part in m.parts]
        named = {f"{m.name}.c" for m in parts}
        found = [n for n in self.names[:-1] if n not in named]
        common = Compiled(self.upper, self.flags, [_at(self.package.sources, n) for n in found])
        own = (Compiled(m.upper, m.c_flags.split(), [_at(self.package.sources, f"{m.name}.c")]) for m in parts)
        return [common, *own]

    @property
    def level(self) -> str:
        return self.models[0].optimisation

    @property
    def math(self) -> bool:
        """Whether functions of libm may be called."""
        library = self.project.library
        headers = [h for f in (library.files if library is not None else ()) for h in f.headers]
        return "math.h" in [*headers, *(h for m in self.models for h in m.headers)]

    @property
    def pthreads(self) -> bool:
        """Whether a pool of POSIX threads is one of the files."""
        return POOL_OF_THREADS in self.names

    @property
    def printed(self) -> str:
        """A regular expression for the line of the example that has the first output; empty where there is none."""
        shown = next((t.shape_text for m in self.models for t in m.outputs), None)
        return "" if shown is None else f"{re.escape(shown)}:"

    @property
    def sources(self) -> list[str]:
        """The C files of the library, from the root of the package; the runtime is the last."""
        return [_at(self.package.sources, name) for name in self.names]

    @property
    def headers(self) -> str:
        """The folder of headers, from the root of the package."""
        return self.package.headers or "."


def packed(content: Content, files: Files) -> dict[str, Bytes]:
    """All files of a package by their paths in it: the C files, headers and blobs given, and its own.

    Raises UsageError where two of them would have one path.
    """
    package = content.package
    out: dict[str, Bytes] = {}
    for name, data in files.items():
        kind = PurePosixPath(name).suffix
        if kind != ".mcb" or package.blobs:
            out[_at({".h": package.headers, ".mcb": package.blobs}.get(kind, package.sources), name)] = data
    made = {path: render(f"{_FOLDER}/{package.name}/{own}", p=content) for path, own in package.files.items()}
    if package.example:
        example = render("_model/example_main.c.j2", p=content.project, embed=content.embed, start=package.start)
        made[package.example] = example
    for path, text in made.items():
        place = path.format(name=content.name)
        if place in out:
            raise UsageError(f"two files would be called {place}", hint="rename the model")
        out[place] = (indent_c(text) if place.endswith((".c", ".h")) else text).encode()
    return dict(sorted(out.items()))


def _at(folder: str, name: str) -> str:
    return str(PurePosixPath(folder) / name)
