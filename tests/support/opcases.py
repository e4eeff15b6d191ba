"""Single-operator models from samples: onnxruntime's answer, and many of them as one C library."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from mccompile.codegen.facts import ModelFacts
from mccompile.codegen.files import header_text, runtime_files
from mccompile.codegen.helpers import preamble
from mccompile.codegen.templates import indent_c, render
from mccompile.driver import Compilation, Options, compile_program, import_graph
from mccompile.ops.registry import FrontEnd
from mccompile.ops.sampling import Case
from mccompile.run.build import build_program, run_compiler
from mccompile.run.emulate import CrossTools, EmulatedNet, Emulator, cross_tools, emulated_main
from mccompile.run.firmware import build_firmware
from mccompile.run.memory import Allocate, aligned_bytes
from mccompile.targets.target import STRICT_WARNINGS, Target, runs_here, strict_warnings
from tests._skips import needs_tool
from tests.support.draw import SeededDraw
from tests.support.judge import plain_session
from tests.support.precompiled import precompiled
from tests.support.sanitized import main_for
from tests.support.uses import check_uses

Bytes = np.ndarray[Any, np.dtype[np.uint8]]

ORT_OPSET = 23
"""Newest opset that the oldest onnxruntime we test with implements in full."""


OTHER_OPSETS = {"ai.onnx.ml": 3}
"""Of other domains: the version that exporters write."""


def case_model(front_end: FrontEnd, case: Case, opset: int = ORT_OPSET) -> onnx.ModelProto:
    """The ONNX model of one case; inputs listed as constant become initializers."""
    names, inputs, initializers = [], [], []
    for i, array in enumerate(case.inputs):
        if array is None:
            names.append("")
            continue
        names.append(f"x{i}")
        if i in case.constant:
            initializers.append(numpy_helper.from_array(np.asarray(array), f"x{i}"))
        else:
            dtype = helper.np_dtype_to_tensor_dtype(array.dtype)
            inputs.append(helper.make_tensor_value_info(f"x{i}", dtype, array.shape))
    while names and not names[-1]:
        names.pop()
    outputs = [f"y{i}" for i in range(case.outputs)]
    node = helper.make_node(front_end.op_type, names, outputs, name="node", domain=front_end.domain, **case.attrs)
    infos = [helper.make_tensor_value_info(o, TensorProto.UNDEFINED, None) for o in outputs]
    graph = helper.make_graph([node], "case", inputs, infos, initializers)
    for info in infos:
        info.ClearField("type")
    graph.ClearField("output")
    graph.output.extend(infos)
    opsets = [helper.make_opsetid("", case.opset or opset)]
    if front_end.domain:
        opsets.append(helper.make_opsetid(front_end.domain, OTHER_OPSETS.get(front_end.domain, 1)))
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def ort_outputs(model: onnx.ModelProto, case: Case) -> list[np.ndarray[Any, Any]]:
    """onnxruntime's answer, all optimisations off."""
    return list(plain_session(model.SerializeToString()).run(None, case_inputs(case)))


def case_inputs(case: Case) -> dict[str, np.ndarray[Any, Any]]:
    return {
        f"x{i}": np.asarray(a) for i, a in enumerate(case.inputs) if a is not None and i not in case.constant
    }


@dataclass
class Built:
    """One case as compiled: its facts and compilation, and onnxruntime's outputs."""

    seed: int
    case: Case
    expected: list[np.ndarray[Any, Any]]
    compilation: Compilation
    facts: ModelFacts

    @property
    def label(self) -> str:
        shapes = ["-" if a is None else f"{a.dtype}{list(a.shape)}" for a in self.case.inputs]
        return f"seed {self.seed}: {', '.join(shapes)} {dict(self.case.attrs)}"


def compile_case(front_end: FrontEnd, seed: int, folder: Path, options: Options, name: str = "") -> Built:
    """Draw a case, ask onnxruntime, compile in memory under the C prefix ``name``."""
    name = name or f"case{seed}"
    assert front_end.sample is not None
    case = front_end.sample(SeededDraw(seed))
    model = case_model(front_end, case)
    path = folder / f"{name}.onnx"
    path.write_bytes(model.SerializeToString())
    c = import_graph(path, replace(options, name=name))
    return Built(seed, case, ort_outputs(model, case), c, compile_program(c))


_OBJECTS = tempfile.TemporaryDirectory(prefix="mccompile-objects-")


@functools.cache
def object_of(source: bytes, header: bytes, command: tuple[str, ...]) -> Path:
    """The runtime as an object, compiled once in a process for equal text and flags."""
    folder = Path(tempfile.mkdtemp(dir=_OBJECTS.name))
    (folder / "mcc.c").write_bytes(source)
    (folder / "mcc.h").write_bytes(header)
    run_compiler([*command, "-c", "mcc.c", "-o", "mcc.o"], folder)
    return folder / "mcc.o"


Pool = Callable[[Bytes, Callable[[int, int], None], int], None]
"""Gets the arena of a network, what does the parts of a step from one to below another, and how many there are."""

POOL_RUN = "void(void *, void (*)(const void *, uint32_t, uint32_t), const void *, uint32_t)"


@dataclass
class CaseLibrary:
    """Cases compiled by one call of the C compiler.

    For a target that is not this machine's they run in its emulator; ``tools`` are others to make and run a program.
    ``allocate`` gives the memory for arenas and blobs.
    """

    folder: Path
    built: Sequence[Built]
    flags: Sequence[str]
    compiler: Sequence[str] = ("gcc",)
    tools: CrossTools | None = None
    allocate: Allocate = aligned_bytes
    _ffi: Any = field(default=None, init=False)
    _lib: Any = field(default=None, init=False)
    _emulator: Emulator | None = field(default=None, init=False)

    def build(self) -> CaseLibrary:
        parts = []
        for name, data in runtime_files(parted=any(b.facts.threads > 1 for b in self.built)).items():
            (self.folder / name).write_bytes(data)
        for b in self.built:
            check_uses(b.facts)
            (self.folder / f"{b.facts.name}.h").write_text(header_text(b.facts))
            parts.append(indent_c(render("_model/model.c.j2", m=replace(b.facts, helpers=""))))
        body = "\n".join(parts)
        head = '#include "mcc.h"\n#include <math.h>\n#include <string.h>\n'
        uses = [name for b in self.built for name in b.facts.uses]
        before = preamble(uses, self.target, [table for b in self.built for table in b.facts.tables])
        unit = self.folder / "cases.c"
        unit.write_text(head + before.helpers + "\n\n" + body)
        if self.tools is None and not runs_here(self.target.name):
            self.tools = cross_tools(self.target)
        if self.tools is not None:
            self._emulator = self._emulated(self.tools, unit)
            return self
        needs_tool(self.compiler[0])
        flags = [*self.flags, "-fPIC"]
        sources = [unit, self._runtime(self.compiler, flags)]
        spared = precompiled(self.compiler, flags, unit)
        library = build_program(self.compiler, sources, [*flags, *spared, "-shared"], self.folder)
        self._ffi = cffi.FFI()
        names = [b.facts.name for b in self.built]
        self._ffi.cdef(
            "typedef struct { void *arena; const void *weights; void *pool; } net_t;"
            + "".join(f"int {n}_init(net_t *, void *, const void *, size_t);" for n in names)
            + "".join(f"int {n}_run(const net_t *);" for n in names)
        )
        self._lib = self._ffi.dlopen(str(library))
        return self

    def _runtime(self, compiler: Sequence[str], flags: Sequence[str]) -> Path:
        """mcc.c as an object, compiled once for equal flags."""
        text = (self.folder / "mcc.c").read_bytes(), (self.folder / "mcc.h").read_bytes()
        return object_of(*text, (*compiler, *flags))

    @property
    def target(self) -> Target:
        return self.built[0].compilation.target

    def close(self) -> None:
        """End the program of ``tools``."""
        assert self._emulator is not None
        self._emulator.close()

    def again(self) -> None:
        """Start the program of ``tools`` anew: it has ended."""
        assert self.tools is not None
        assert self._emulator is not None
        self._emulator = Emulator(Path(self._emulator.command[-1]), self.tools)

    def _emulated(self, tools: CrossTools, unit: Path) -> Emulator:
        """All cases as a program, or as the image of a board."""
        nets = [EmulatedNet(b.facts.name) for b in self.built]
        align = max(b.facts.align for b in self.built)
        if tools.board is not None:
            runtime = self._runtime(tools.compiler, self.flags)
            image = build_firmware(tools, nets, self.target, align, [unit, runtime], self.flags, self.folder)
            return Emulator(image, tools)
        spelled = dict(zip(STRICT_WARNINGS, strict_warnings(tools.compiler[0]), strict=True))
        flags = [spelled.get(flag, flag) for flag in self.flags]
        main = self.folder / "emulated_main.c"
        main.write_text(main_for(self.flags, emulated_main(nets, align)))
        static = tools.link if tools.emulator else []  # an emulator has no libraries of its machine
        sources = [unit, self._runtime(tools.compiler, flags), main]
        spared = precompiled(tools.compiler, flags, unit)
        program = build_program(tools.compiler, sources, [*flags, *spared, *static], self.folder)
        return Emulator(program, tools)

    def call(self, b: Built, arena: Bytes, blob: Bytes, pool: Pool | None = None) -> int:
        """Initialise and run a case on its arena: its status. ``pool`` gets the parts of steps done."""
        if self._emulator is not None:
            net = next(i for i, other in enumerate(self.built) if other is b)
            assert self._emulator.init([arena], blob, net) == 0
            return self._emulator.run([arena], net)
        net = self._ffi.new("net_t *")
        at = [self._ffi.cast("void *", a.ctypes.data) for a in (arena, blob)]
        assert getattr(self._lib, f"{b.facts.name}_init")(net, *at, blob.nbytes) == 0
        if pool is not None:
            run = self._ffi.callback(POOL_RUN, lambda _, task, net, parts: pool(arena, partial(task, net), parts))
            struct = self._ffi.new("void *[1]", [run])
            net.pool = self._ffi.cast("void *", struct)
        return int(getattr(self._lib, f"{b.facts.name}_run")(net))

    def run(
        self,
        b: Built,
        inputs: Mapping[str, np.ndarray[Any, Any]],
        poison: int = 0xFF,
        allocate: Allocate | None = None,
        pool: Pool | None = None,
    ) -> list[np.ndarray[Any, Any]]:
        """Run a case on an arena full of ``poison``; outputs in graph order."""
        return self.run_each(b, [inputs], poison, allocate, pool)[0]

    def run_each(
        self,
        b: Built,
        runs: Sequence[Mapping[str, np.ndarray[Any, Any]]],
        poison: int = 0xFF,
        allocate: Allocate | None = None,
        pool: Pool | None = None,
    ) -> list[list[np.ndarray[Any, Any]]]:
        """The outputs of run after run: the first finds its arena full of ``poison``, the others what was left."""
        f = b.facts
        allocate = allocate or self.allocate
        arena = allocate(f.arena_bytes, f.align)
        arena[:] = poison
        blob = allocate(len(f.blob), f.align)
        blob[:] = np.frombuffer(bytes(f.blob), dtype=np.uint8)
        answers = []
        for inputs in runs:
            for p in f.inputs:
                raw = np.ascontiguousarray(inputs[p.name])
                arena[p.offset : p.offset + raw.nbytes] = raw.reshape(-1).view(np.uint8)
            status = self.call(b, arena, blob, pool)
            assert status == 0, f"{b.label}: run answered {status}"
            answers.append([_output(b, p, arena) for p in f.outputs])
        return answers


def _output(b: Built, port: Any, arena: Bytes) -> np.ndarray[Any, Any]:
    dtype = next(v.dtype.numpy for v in b.compilation.graph.outputs if v.name == port.name)
    n = port.count * dtype.itemsize
    return arena[port.offset : port.offset + n].copy().view(dtype).reshape(port.shape)


def mismatch(got: np.ndarray[Any, Any], want: np.ndarray[Any, Any], tolerance: float) -> str:
    """Empty if ``got`` is ``want`` within ``tolerance * max|want|`` (NaN and infinities alike), else what differs."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} instead of {want.dtype}{list(want.shape)}"
    if want.dtype.kind != "f":
        bad = got != want
        if tolerance and want.dtype.kind in "iu":
            bad = np.abs(got.astype(np.float64) - want) > tolerance * np.abs(want.astype(np.float64)).max(initial=0)
        return f"{bad.sum()} of {bad.size} differ: {got[bad][:4]} instead of {want[bad][:4]}" if bad.any() else ""
    g, w = got.astype(np.float64), want.astype(np.float64)
    finite = np.isfinite(w)
    if not np.array_equal(np.isnan(g), np.isnan(w)) or not np.array_equal(g[np.isinf(w)], w[np.isinf(w)]):
        return f"NaN or infinity in other places: {got.reshape(-1)[:8]} instead of {want.reshape(-1)[:8]}"
    scale = np.abs(w[finite]).max(initial=0)
    error = np.abs(g[finite] - w[finite]).max(initial=0)
    return f"error {error:.3g} on values up to {scale:.3g}" if error > tolerance * scale + 1e-30 else ""


def agreement(front_end: FrontEnd, b: Built, outputs: Sequence[np.ndarray[Any, Any]]) -> str:
    """Empty if a case's outputs are onnxruntime's within the operator's tolerance, else what differs."""
    for got, want in zip(outputs, b.expected, strict=True):
        dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
        tolerance = front_end.tolerance.get(dtype, 0.0) if b.case.tolerance is None else b.case.tolerance
        fault = mismatch(got, want, tolerance)
        if fault:
            return f"{front_end.op_type} {b.label}: {fault}"
    return ""
