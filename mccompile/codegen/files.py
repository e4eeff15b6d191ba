"""The files of the output folder, as text and bytes by name."""

from __future__ import annotations

from mccompile._data import data_dir
from mccompile.codegen.blob import embed_c
from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.library import Library, library_files
from mccompile.codegen.packages import DEFAULT, POOL_OF_THREADS, Content, find_package, packed
from mccompile.codegen.pieces import Bytes
from mccompile.codegen.projects import Project
from mccompile.codegen.templates import indent_c, render
from mccompile.ir.errors import UsageError
from mccompile.targets.processor import SAVED

RUNTIME = "mcc.c"
"""The C file of the runtime, the last of all sources."""


def source_files(
    m: ModelFacts, embed: bool = False, library: Library | None = None, package: str = DEFAULT,
    pthread_pool: bool = False,
) -> dict[str, Bytes]:
    """Everything but the report: ``<name>.h .c .mcb``, the runtime, a main, what the package is built by.

    ``library`` holds the kernels where they are in files of their own.
    """
    return project_files(Project(m.name, (m,), library, ()), embed, package, pthread_pool)


def c_sources(m: ModelFacts, library: Library | None) -> list[str]:
    """The C files that make a network: its own, those of its targets or of its kernels, the runtime."""
    return [*own_sources(m), *(library.sources if library is not None else ()), RUNTIME]


def own_sources(m: ModelFacts) -> list[str]:
    """The C files that are a network's alone: one, and one for each target that it takes its code from."""
    foreign = [f.source.name for f in m.functions if f.source is not None]
    return [f"{m.name}.c", *(f"{part.facts.name}.c" for part in m.parts), *foreign]


def project_files(
    p: Project, embed: bool = False, package: str = DEFAULT, pthread_pool: bool = False
) -> dict[str, Bytes]:
    """Everything but the report: the files of each model, of the kernels, of the project, and those of the package;
    with ``pthread_pool`` a pool of threads.

    Raises UsageError where two of them would have the same name.
    """
    kind = find_package(package)
    embed = embed or kind.embed
    texts: dict[str, str] = {}
    for m in p.models:
        texts = _joined(texts, _model_texts(m, embed))
    if p.library is not None:
        texts = _joined(texts, library_files(p.library))
    if not p.is_one_model:
        texts = _joined(texts, {p.header: indent_c(render("_model/project.h.j2", p=p))})
    kernels = p.library.sources if p.library is not None else ()
    blobs = [f"{m.name}_blob.c" for m in p.models] if embed else []
    own = dict.fromkeys(name for m in p.models for name in own_sources(m))
    pools = [POOL_OF_THREADS] if pthread_pool else []
    sources = (*own, *kernels, *blobs, *pools, RUNTIME)
    parted = any(m.threads > 1 for m in p.models)
    files: dict[str, Bytes] = {name: text.encode() for name, text in texts.items()}
    files |= runtime_files(parted, pthread_pool)
    files |= {f"{m.name}.mcb": m.blob for m in p.models}
    for name, data in {n: d for m in p.models for f in m.functions for n, d in f.files.items()}.items():
        if name in files:
            raise UsageError(f"two files would be called {name}", hint="rename the header of --custom-op")
        files[name] = data
    headers = tuple(sorted(name for name in files if name.endswith(".h")))
    return packed(Content(p, kind, sources, headers, embed), files)


def header_text(m: ModelFacts, embed: bool = False) -> str:
    """What ``<name>.h`` says."""
    return indent_c(render("_model/model.h.j2", m=m, embed=embed))


def runtime_files(parted: bool = False, pthread_pool: bool = False) -> dict[str, bytes]:
    """The runtime: ``mcc.h`` and ``mcc.c``; where steps are in parts, what pools of threads are, and one of these."""
    names = ["mcc.h", RUNTIME]
    names += ["mcc_pool.h"] if parted else []
    names += ["mcc_pool_pthread.h", POOL_OF_THREADS] if pthread_pool else []
    return {name: (data_dir() / "runtime_c" / name).read_bytes() for name in names}


def _model_texts(m: ModelFacts, embed: bool) -> dict[str, str]:
    template = "_model/choice.c.j2" if m.parts else "_model/model.c.j2"
    texts = {
        f"{m.name}.h": header_text(m, embed),
        f"{m.name}.c": indent_c(render(template, m=m, saved=SAVED), m.indent),
    }
    for part in m.parts:
        texts = _joined(texts, _model_texts(part.facts, embed=False))
    if embed:
        texts[f"{m.name}_blob.c"] = embed_c(f"{m.name}_blob", m.blob)
    return texts


def _joined(a: dict[str, str], b: dict[str, str]) -> dict[str, str]:
    both = sorted(a.keys() & b.keys())
    if both:
        raise UsageError(f"two files would be called {', '.join(both)}", hint="rename a model or the project")
    return a | b
