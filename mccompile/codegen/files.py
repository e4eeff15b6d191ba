"""The files of the output folder, as text and bytes by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mccompile._data import data_dir
from mccompile.codegen.blob import declare_c, embed_c
from mccompile.codegen.library import Library, library_files
from mccompile.codegen.model import Arena, ModelFacts
from mccompile.codegen.templates import indent_c, render
from mccompile.ir.errors import UsageError


def source_files(m: ModelFacts, embed: bool = False, library: Library | None = None) -> dict[str, bytes]:
    """Everything but the report: ``<name>.h .c .mcb``, the runtime, a main, a CMake list.

    ``library`` holds the kernels where they are in files of their own.
    """
    texts = _model_texts(m, embed)
    texts["example_main.c"] = indent_c(render("_model/example_main.c.j2", m=m, embed=embed))
    if library is not None:
        texts = _joined(texts, library_files(library))
    sources = c_sources(m, library) + ([f"{m.name}_blob.c"] if embed else [])
    texts["CMakeLists.txt"] = render(
        "_model/CMakeLists.txt.j2",
        name=m.name, version=m.version, made_from=m.source, c_flags=m.c_flags, level=m.optimisation,
        sources=sources,
    )  # fmt: skip
    return _files([m], texts)


def c_sources(m: ModelFacts, library: Library | None) -> list[str]:
    """The C files that make a network: its own, those of its kernels, the runtime."""
    return [f"{m.name}.c", *(library.sources if library is not None else ()), "mcc.c"]


@dataclass(frozen=True)
class SharedArena:
    """A union of the arenas that several models have in one memory."""

    type: str
    field: str
    members: tuple[tuple[ModelFacts, Arena], ...]

    @property
    def place(self) -> str:
        """The macro that stands before its definition in an application: that of every arena in it."""
        return self.members[0][1].place


@dataclass(frozen=True)
class Project:
    """Several models that share their kernels, and their arenas if ``shared`` is not empty."""

    name: str
    models: tuple[ModelFacts, ...]
    library: Library
    shared: tuple[SharedArena, ...]

    @property
    def guard(self) -> str:
        return f"{self.name.upper()}_H"

    def arena_of(self, m: ModelFacts, a: Arena) -> str:
        """What an application passes to ``<model>_init`` for one of its arenas."""
        if self.shared:
            found = next(s for s in self.shared if s.field == a.field)
            return f"&{found.field}.{m.name}"
        return f"&{a.field}_of_{m.name}"

    def arena_arguments(self, m: ModelFacts) -> str:
        return ", ".join(self.arena_of(m, a) for a in m.arenas)


def make_project(name: str, models: Sequence[ModelFacts], library: Library, share_arena: bool) -> Project:
    """The facts of a project; with ``share_arena`` the models lie over one another in each memory."""
    fields = dict.fromkeys(a.field for m in models for a in m.arenas) if share_arena else ()
    shared = tuple(
        SharedArena(f"{name}_{field}", field, tuple((m, a) for m in models for a in m.arenas if a.field == field))
        for field in fields
    )
    return Project(name, tuple(models), library, shared)


def project_files(p: Project, embed: bool = False) -> dict[str, bytes]:
    """Everything but the report: the files of each model, of the kernels and of the project.

    Raises UsageError where two of them would have the same name.
    """
    texts: dict[str, str] = {}
    for m in p.models:
        texts = _joined(texts, _model_texts(m, embed))
    texts = _joined(texts, library_files(p.library))
    blobs = [f"{m.name}_blob.c" for m in p.models] if embed else []
    sources = [*(f"{m.name}.c" for m in p.models), *p.library.sources, *blobs, "mcc.c"]
    own = {
        f"{p.name}.h": indent_c(render("_model/project.h.j2", p=p)),
        "example_main.c": indent_c(render("_model/project_main.c.j2", p=p)),
        "CMakeLists.txt": render(
            "_model/CMakeLists.txt.j2",
            name=p.name, version=p.library.version, made_from=", ".join(m.source for m in p.models),
            c_flags=p.library.c_flags, level=p.library.optimisation, sources=sources,
        ),
    }  # fmt: skip
    return _files(p.models, _joined(texts, own))


def header_text(m: ModelFacts, embed: bool = False) -> str:
    """What ``<name>.h`` says."""
    embedded = declare_c(f"{m.name}_blob", m.blob) if embed else ""
    return indent_c(render("_model/model.h.j2", m=m, embedded=embedded))


def runtime_files() -> dict[str, bytes]:
    """The runtime: ``mcc.h`` and ``mcc.c``."""
    return {name: (data_dir() / "runtime_c" / name).read_bytes() for name in ("mcc.h", "mcc.c")}


def _model_texts(m: ModelFacts, embed: bool) -> dict[str, str]:
    texts = {
        f"{m.name}.h": header_text(m, embed),
        f"{m.name}.c": indent_c(render("_model/model.c.j2", m=m)),
    }
    if embed:
        texts[f"{m.name}_blob.c"] = embed_c(f"{m.name}_blob", m.blob)
    return texts


def _joined(a: dict[str, str], b: dict[str, str]) -> dict[str, str]:
    both = sorted(a.keys() & b.keys())
    if both:
        raise UsageError(f"two files would be called {', '.join(both)}", hint="rename a model or the project")
    return a | b


def _files(models: Sequence[ModelFacts], texts: dict[str, str]) -> dict[str, bytes]:
    out = {name: text.encode() for name, text in texts.items()}
    out |= {f"{m.name}.mcb": m.blob for m in models}
    return dict(sorted((out | runtime_files()).items()))
