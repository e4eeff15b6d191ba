"""A compiled network in this process: its C library, its arena, and numpy views of inputs and outputs.

The library is opened in cffi's ABI mode, which needs no Python headers: the C interface is two functions
and a struct of two pointers, so that API mode would add a compiler run and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.check.build import build_library
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.types import DTYPES

Array = np.ndarray[Any, np.dtype[Any]]


def aligned_bytes(count: int, align: int) -> Array:
    """``count`` bytes whose first is at a multiple of ``align``."""
    raw = np.zeros(count + align, dtype=np.uint8)
    start = -raw.ctypes.data % align
    return raw[start : start + count]


class Network:
    """A network that is ready to run.

    ``inputs`` and ``outputs`` map ONNX names to numpy views into the arena, in graph order. Writing an input
    and calling `invoke` is all there is to it; without ``keep_inputs`` a run may overwrite the inputs.
    """

    def __init__(self, out_dir: Path, flags: tuple[str, ...] = ()) -> None:
        import cffi

        path = out_dir / "report.json"
        if not path.exists():
            raise UsageError(f"{out_dir} holds no report.json", hint="give a folder made by mccompile")
        self.report: dict[str, Any] = json.loads(path.read_text())
        self.name: str = self.report["model"]["name"]
        sources = [out_dir / f"{self.name}.c", out_dir / "mcc.c"]
        library = build_library(sources, [*self.report["target"]["c_flags"], *flags], out_dir)
        align = self.report["target"]["align"]
        self.arena = aligned_bytes(self.report["memory"]["arena_bytes"], align)
        data = (out_dir / f"{self.name}.mcb").read_bytes()
        self._blob = aligned_bytes(len(data), align)
        self._blob[:] = np.frombuffer(data, dtype=np.uint8)
        self._ffi = cffi.FFI()
        self._ffi.cdef(
            f"""typedef struct {{ void *arena; const void *weights; }} net_t;
            int {self.name}_init(net_t *, void *, const void *, size_t);
            int {self.name}_run(const net_t *);"""
        )
        self._lib = self._ffi.dlopen(str(library))
        self._net = self._ffi.new("net_t *")
        self._run = getattr(self._lib, f"{self.name}_run")
        init = getattr(self._lib, f"{self.name}_init")
        self._expect_ok(init(self._net, self._pointer(self.arena), self._pointer(self._blob), len(data)), "init")
        self.inputs: dict[str, Array] = {p["name"]: self._view(p) for p in self.report["inputs"]}
        self.outputs: dict[str, Array] = {p["name"]: self._view(p) for p in self.report["outputs"]}

    def _pointer(self, array: Array) -> Any:
        return self._ffi.cast("void *", array.ctypes.data)

    def _view(self, port: Mapping[str, Any]) -> Array:
        dtype = DTYPES[port["dtype"]].numpy
        shape = tuple(port["shape"])
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.arena[port["offset"] : port["offset"] + nbytes].view(dtype).reshape(shape)

    @staticmethod
    def _expect_ok(status: int, what: str) -> None:
        if status != 0:
            raise CompileError(f"{what} answered status {status} (see mcc_status in mcc.h)")

    def invoke(self) -> None:
        """Run once on what lies in `inputs`. CompileError if the generated code answers an error status."""
        status = self._run(self._net)
        if status:
            self._expect_ok(status, "run")

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Copy inputs in, run, copy outputs out.

        Raises UsageError for a missing or unknown name or another shape or element type.
        """
        if set(inputs) != set(self.inputs):
            raise UsageError(f"inputs {sorted(inputs)} given, {sorted(self.inputs)} expected")
        for name, array in inputs.items():
            mine = self.inputs[name]
            given = np.asarray(array)
            if given.shape != mine.shape or given.dtype != mine.dtype:
                raise UsageError(f"input {name!r} is {given.dtype}{list(given.shape)}, not {mine.dtype}{list(mine.shape)}")
            mine[...] = given
        self.invoke()
        return {name: view.copy() for name, view in self.outputs.items()}
