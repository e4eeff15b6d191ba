"""The C library of a network in this process.

The library is opened in cffi's ABI mode: API mode compiles an extension module and so needs Python's headers,
which a machine with just a C compiler lacks; and the interface is two functions and a struct of two pointers,
of which API mode would check nothing that `init` does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mccompile._data import data_dir
from mccompile._dataclass import dataclass
from mccompile.codegen.packages import POOL_OF_THREADS
from mccompile.ir.errors import CompileError
from mccompile.run.build import build_library
from mccompile.run.made import present


@dataclass(frozen=True)
class Hooks:
    """C to build into a network's library: for MCC_TRACE and MCC_PROFILE (the end of mcc.h).

    Attributes:
        header: what MCC_HOOKS_HEADER names.
        sources: C files beside the generated ones.
        cdef: declarations of what Python calls or reads there, through `Network.ffi` and `Network.lib`.
    """

    header: Path
    sources: tuple[Path, ...]
    cdef: str


def built_library(out_dir: Path, names: list[str], flags: list[str], hooks: Hooks | None, pooled: bool) -> Path:
    """The shared library of a folder's C files, with the hooks and, if it has threads, a pool of them."""
    sources, include = present(out_dir, names), [out_dir]
    if pooled:
        runtime = data_dir() / "runtime_c"
        sources += [runtime / POOL_OF_THREADS] if POOL_OF_THREADS not in names else []
        flags, include = [*flags, "-pthread"], [*include, runtime]
    if hooks is None:
        return build_library(sources, flags, *include)
    define = f'-DMCC_HOOKS_HEADER="{hooks.header.name}"'
    return build_library([*sources, *hooks.sources], [*flags, define], *include, hooks.header.parent)


def opened(
    library: Path, report: Mapping[str, Any], arenas: int, lent: int, hooks: Hooks | None
) -> tuple[Any, Any]:
    """The library of a network of so many arenas and lent buffers in cffi's ABI mode: (ffi, lib)."""
    name, dims = report["model"]["name"], report.get("dims", ())
    import cffi

    ffi = cffi.FFI()
    fields = f" const void *lent[{lent}];" if lent else ""
    fields += f" int32_t dims[{len(dims)}];" if dims else ""
    fields += " void *pool;" if "threads" in report["options"] else ""
    fields += f" int32_t ran[{len(dims)}];" if dims else ""  # at most so many
    setters = "".join(f"int {name}_set_{d['name']}(net_t *, int32_t); " for d in dims)
    for role, key in (("input", "inputs"), ("output", "outputs"), ("state", "state")):
        ports = (p for p in report[key] if "extents" in p)
        setters += "".join(f"void {name}_{role}_{p['c_name']}_dims(const net_t *, int32_t *); " for p in ports)
    if "threads" in report["options"]:
        setters += "void *mcc_pool_pthread_start(uint32_t); void mcc_pool_pthread_stop(void *); "
        setters += f"void {name}_set_pool(net_t *, void *); "
    setters += f"int {name}_reset(const net_t *); " if report["state"] else ""
    ffi.cdef(
        f"""typedef struct {{ void *arenas[{arenas}]; const void *weights;{fields} }} net_t;
        int {name}_init(net_t *, {"void *, " * arenas}const void *, size_t);
        int {name}_run(const net_t *);
        {setters}
        const char *mcc_status_text(int);
        {hooks.cdef if hooks else ""}"""
    )
    try:
        return ffi, ffi.dlopen(str(library))
    except OSError as e:
        raise CompileError(
            f"the library of {name} cannot be loaded: {e}", hint="CC must compile for the machine that runs Python"
        ) from e
