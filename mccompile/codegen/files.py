"""The files of the output folder, as text and bytes by name."""

from __future__ import annotations

from mccompile._data import data_dir
from mccompile.codegen.blob import declare_c, embed_c
from mccompile.codegen.model import ModelFacts
from mccompile.codegen.templates import indent_c, render


def source_files(m: ModelFacts, embed: bool = False) -> dict[str, bytes]:
    """Everything but the report: ``<name>.h .c .mcb``, the runtime, a main, a CMake list."""
    embedded = declare_c(f"{m.name}_blob", m.blob) if embed else ""
    files = {
        f"{m.name}.h": indent_c(render("_model/model.h.j2", m=m, embedded=embedded)),
        f"{m.name}.c": indent_c(render("_model/model.c.j2", m=m)),
        "example_main.c": indent_c(render("_model/example_main.c.j2", m=m, embed=embed)),
        "CMakeLists.txt": render("_model/CMakeLists.txt.j2", m=m, embed=embed),
    }
    if embed:
        files[f"{m.name}_blob.c"] = embed_c(f"{m.name}_blob", m.blob)
    out = {name: text.encode() for name, text in files.items()}
    out[f"{m.name}.mcb"] = m.blob
    for runtime in ("mcc.h", "mcc.c"):
        out[runtime] = (data_dir() / "runtime_c" / runtime).read_bytes()
    return dict(sorted(out.items()))
