"""A compiled network in this process: its C library, its arena, and numpy views of inputs and outputs.

The library is opened in cffi's ABI mode: API mode compiles an extension module and so needs Python's headers,
which a machine with just a C compiler lacks; and the interface is two functions and a struct of two pointers,
of which API mode would check nothing that `init` does not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.check.build import build_library
from mccompile.check.memory import Allocate, Array, aligned_bytes, guarded_bytes
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.types import DTYPES
from mccompile.targets.target import runs_here

__all__ = ["Array", "Hooks", "Network", "aligned_bytes", "guarded_bytes", "read_report"]


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


def read_report(out_dir: Path) -> dict[str, Any]:
    """report.json of a folder made by mccompile. UsageError if there is none or it is damaged."""
    path = out_dir / "report.json"
    if not path.is_file():
        raise UsageError(f"{out_dir} holds no report.json", hint="give a folder made by mccompile")
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as e:
        raise UsageError(f"{path} is damaged: {e}", hint="compile the model again") from e
    wanted = ("model", "target", "memory", "inputs", "outputs")
    if not isinstance(report, dict) or any(key not in report for key in wanted):
        raise UsageError(f"{path} is no report of this mccompile", hint="compile the model again")
    return report


class Network:
    """A network that is ready to run.

    ``inputs`` and ``outputs`` map ONNX names to numpy views into ``arena``, in graph order; the views keep the
    arena's memory alive, also after the network is gone. Writing the inputs and calling `invoke` is all there
    is to it. Without ``keep_inputs`` a run may overwrite the inputs, and in any case the next run overwrites the
    outputs. Several networks are independent of each other; one network belongs to one thread at a time.

    Args:
        out_dir: folder made by `mccompile.compile`; it is not needed any more afterwards.
        flags: C flags behind those of the target.
        hooks: C to build in.
        allocate: where arena and blob come from (`guarded_bytes` finds reads past their ends).

    Raises:
        UsageError: ``out_dir`` holds no compiled model.
        CompileError: no C compiler, the C does not build or not load here, or the blob is not the program's.
    """

    report: dict[str, Any]
    name: str
    inputs: dict[str, Array]
    outputs: dict[str, Array]

    def __init__(
        self,
        out_dir: Path,
        flags: tuple[str, ...] = (),
        *,
        hooks: Hooks | None = None,
        allocate: Allocate = aligned_bytes,
    ) -> None:
        self.report = read_report(out_dir)
        self.name = self.report["model"]["name"]
        target = self.report["target"]["name"]
        if not runs_here(target):
            raise CompileError(
                f"this machine does not run code for target {target}", hint="compile for the target native"
            )
        library = _library(out_dir, self.name, [*self.report["target"]["c_flags"], *flags], hooks)
        align = int(self.report["target"]["align"])
        self._arena = allocate(int(self.report["memory"]["arena_bytes"]), align)
        data = _read(out_dir / f"{self.name}.mcb")
        self._blob = allocate(len(data), align)
        self._blob[:] = np.frombuffer(data, dtype=np.uint8)
        self.ffi, self.lib = _open(library, self.name, hooks)
        self._net = self.ffi.new("net_t *")
        self._run = getattr(self.lib, f"{self.name}_run")
        init = getattr(self.lib, f"{self.name}_init")
        self._expect_ok(init(self._net, self.pointer(self._arena), self.pointer(self._blob), len(data)), "init")
        self.inputs = {p["name"]: self._view(p) for p in self.report["inputs"]}
        self.outputs = {p["name"]: self._view(p) for p in self.report["outputs"]}

    @property
    def arena(self) -> Array:
        """The arena's bytes. Every one but the inputs' may hold anything before a run."""
        return self._arena

    def pointer(self, array: Array) -> Any:
        """An array's address for C; the caller keeps the array alive."""
        return self.ffi.cast("void *", array.ctypes.data)

    def _view(self, port: Mapping[str, Any]) -> Array:
        dtype = DTYPES[port["dtype"]].numpy
        shape = tuple(port["shape"])
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self._arena[port["offset"] : port["offset"] + nbytes].view(dtype).reshape(shape)

    def _expect_ok(self, status: int, what: str) -> None:
        if status != 0:
            text = self.ffi.string(self.lib.mcc_status_text(status)).decode()
            raise CompileError(f"{self.name}_{what} answered status {status}: {text}")

    def invoke(self) -> None:
        """Run once on what lies in `inputs`. CompileError if the generated code answers an error status."""
        status = self._run(self._net)
        if status:
            self._expect_ok(status, "run")

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Copy inputs in. UsageError for a missing or unknown name or another shape or element type."""
        if set(inputs) != set(self.inputs):
            raise UsageError(f"inputs {sorted(inputs)} given, {sorted(self.inputs)} expected")
        for name, array in inputs.items():
            mine, given = self.inputs[name], np.asarray(array)
            if given.shape != mine.shape or given.dtype != mine.dtype:
                raise UsageError(
                    f"input {name!r} is {given.dtype}{list(given.shape)}, not {mine.dtype}{list(mine.shape)}"
                )
        for name, array in inputs.items():
            self.inputs[name][...] = array

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Copy inputs in, run, copy outputs out.

        Raises UsageError for a missing or unknown name or another shape or element type.
        """
        self.set_inputs(inputs)
        self.invoke()
        return {name: view.copy() for name, view in self.outputs.items()}


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as e:
        raise UsageError(f"{path} cannot be read: {e.strerror}", hint="compile the model again") from e


def _library(out_dir: Path, name: str, flags: list[str], hooks: Hooks | None) -> Path:
    sources = [out_dir / f"{name}.c", out_dir / "mcc.c"]
    for path in sources:
        if not path.is_file():
            raise UsageError(f"{path} is missing", hint="compile the model again")
    if hooks is None:
        return build_library(sources, flags, out_dir)
    define = f'-DMCC_HOOKS_HEADER="{hooks.header.name}"'
    return build_library([*sources, *hooks.sources], [*flags, define], out_dir, hooks.header.parent)


def _open(library: Path, name: str, hooks: Hooks | None) -> tuple[Any, Any]:
    """The library in cffi's ABI mode: (ffi, lib)."""
    import cffi

    ffi = cffi.FFI()
    ffi.cdef(
        f"""typedef struct {{ void *arena; const void *weights; }} net_t;
        int {name}_init(net_t *, void *, const void *, size_t);
        int {name}_run(const net_t *);
        const char *mcc_status_text(int);
        {hooks.cdef if hooks else ""}"""
    )
    try:
        return ffi, ffi.dlopen(str(library))
    except OSError as e:
        raise CompileError(
            f"the library of {name} cannot be loaded: {e}", hint="CC must compile for the machine that runs Python"
        ) from e
