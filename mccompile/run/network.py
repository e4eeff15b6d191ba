"""A compiled network in this process: its C library, its arena, and numpy views of inputs and outputs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from mccompile.interface.tensors import Quantisation
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.scalar import array_of, conversion
from mccompile.ir.types import DTYPES, TensorType
from mccompile.run.emulate import FENCE_BYTES, EmulatedNet, Emulator, build_emulated, cross_tools
from mccompile.run.firmware import build_firmware
from mccompile.run.library import Hooks, built_library, opened
from mccompile.run.made import blob_of, present, read_report
from mccompile.run.measure import Measured, Meter
from mccompile.run.memory import Allocate, Array, aligned_bytes
from mccompile.targets.target import Target, resolve, runs_here


class Network:
    """A network that is ready to run.

    ``inputs`` and ``outputs`` map ONNX names to numpy views into ``arenas`` (by name of the memory; most networks
    have one, called ""), in graph order; the views keep the
    arena's memory alive, also after the network is gone. Writing the inputs and calling `invoke` is all there
    is to it. Without ``keep_inputs`` a run may overwrite the inputs, and in any case the next run overwrites the
    outputs. ``state`` are views of what is kept from run to run, by the name of the input: zero until the first
    run, and after `reset`. ``quantised`` says what the bytes of an input or output stand for, where the model does;
    ``labels`` what the numbers of an output, which were text, or its columns, which were a map, are.
    Several networks are independent of each other. `run` may be called from several threads: they take turns. Views
    and `invoke` belong to one thread at a time; a second one gets a UsageError while a run is going on.

    Args:
        out_dir: folder made by `mccompile.compile`; it is not needed any more afterwards.
        flags: C flags behind those of the target.
        hooks: C to build in.
        allocate: where arena and blob come from (`guarded_bytes` finds reads past their ends).
        model: which one, where the folder holds several.
        threads: as many work at a run, that of the caller among them; 0: as many as the steps have parts for
            (`Options.threads`). An emulated network has one.
        emulate: run what this machine does not run in an emulator: right, but slow, and without ``hooks``. What runs
            without an operating system runs on an emulated board, and `measured` tells what that took.

    Raises:
        UsageError: ``out_dir`` holds no compiled model, or it was compiled for one thread and several are asked for.
        CompileError: no C compiler, the C does not build or not load here, or the blob is not the program's.
    """

    report: dict[str, Any]
    name: str
    arenas: dict[str, Array]
    quantised: dict[str, Quantisation]
    labels: dict[str, list[str | int]]
    _net: Any
    _run: Callable[[Any], int]
    _text: Callable[[int], str]
    _has_run = False
    _emulator: Emulator | None = None
    _meter: Meter | None = None

    def __init__(
        self,
        out_dir: Path,
        flags: tuple[str, ...] = (),
        *,
        hooks: Hooks | None = None,
        allocate: Allocate = aligned_bytes,
        model: str = "",
        threads: int = 0,
        emulate: bool = False,
    ) -> None:
        self._lock = threading.RLock()
        self.report = read_report(out_dir, model)
        self.name = self.report["model"]["name"]
        target = self.report["target"]["name"]
        here = runs_here(target)
        if not here and (hooks is not None or not emulate):
            board = "; `mccompile check --profile` counts the instructions of this one on an emulated board"
            raise CompileError(
                f"this machine does not run code for target {target}"
                + (", and an emulator shows no inner values" if emulate else ""),
                hint="compile for the target native" + (board if resolve(target).board else ""),
            )
        sources = self.report.get("sources", [f"{self.name}.c", "mcc.c"])
        c_flags = [*self.report["target"]["c_flags"], *flags]
        align = int(self.report["target"]["align"])
        memory = self.report["memory"]
        regions = memory.get("regions", [{"name": "", "arena_bytes": memory["arena_bytes"]}])
        self.arenas = {r["name"]: allocate(int(r["arena_bytes"]), align) for r in regions}
        ports = [*self.report["inputs"], *self.report["outputs"]]
        self._lent = {p["c_field"]: _lent(p, allocate) for p in ports if _is_lent(p)}
        self._blob = blob_of(out_dir, self.report, lambda nbytes: allocate(nbytes, align))
        parts = int(self.report["options"].get("threads", 1))
        if threads > 1 and parts == 1:
            raise UsageError(f"{self.name} was compiled for one thread", hint=f"compile it with --threads {threads}")
        if here:
            library = built_library(out_dir, sources, c_flags, hooks, pooled=parts > 1)
            self.ffi, self.lib = opened(library, self.report, len(self.arenas), len(self._lent), hooks)
            self._bind_library()
            if parts > 1:
                self._start_threads(threads or parts)
        else:
            self._bind_emulator(resolve(target), present(out_dir, sources), c_flags, out_dir)
        self.extents = {d["name"]: int(d["high"]) for d in self.report.get("dims", ())}
        counted = any(p.get("counted") for p in self.report["outputs"])
        self._questions: dict[int, Callable[[], tuple[int, ...]]] = {}
        self._moves = self._read_extents() or counted
        self._forget_views()
        self.reset()
        self.quantised = {
            p["name"]: Quantisation(p["scale"], p["zero_point"], p["name"]) for p in ports if "scale" in p
        }
        self.labels = {p["name"]: p["labels"] for p in ports if "labels" in p}

    def reset(self) -> None:
        """Begin anew: what is kept from run to run is zero."""
        if self._emulator is not None:  # a run gets the bytes that are here
            for array in self.state.values():
                array[...] = 0
        elif self.state:
            self._expect_ok(getattr(self.lib, f"{self.name}_reset")(self._net), "reset")
            self._read_extents()
            self._forget_views()

    def set_extents(self, extents: Mapping[str, int]) -> None:
        """Set extents that the network was compiled to take in a range, by name; `inputs` have them from now on, and
        `outputs` after the run.

        UsageError for an unknown name or an extent out of its range, and nothing is changed.
        """
        before = dict(self.extents)
        strange = [f"{name} is {e!r}" for name, e in extents.items() if not hasattr(e, "__index__")]
        if strange:
            raise UsageError(f"extents of {self.name} are whole numbers, and {strange[0]}")
        for name in extents:
            if name not in before:
                known = f"its run-time extents are {', '.join(before)}" if before else "it has none"
                raise UsageError(f"{self.name} has no run-time extent {name!r}", hint=known)
        for name, extent in extents.items():
            if not -(2**31) <= extent < 2**31 or self._set_extent(name, int(extent)):
                for earlier, old in before.items():
                    self._set_extent(earlier, old)
                range_ = next(d["range"] for d in self.report["dims"] if d["name"] == name)
                raise UsageError(f"the extent {name} of {self.name} may be {range_}, not {extent}")
        self.extents = before | {name: int(extent) for name, extent in extents.items()}
        self._forget_views()

    def _read_extents(self) -> bool:
        """Extents as the network has them, if some are of state that grows: these begin at their least, and a run
        changes them."""
        dims = self.report.get("dims", ())
        if not any("grows_by" in d for d in dims):
            return False
        if self._emulator is not None:
            raise CompileError("an emulator does not tell how state grows", hint="run it on the target generic")
        self.extents = {d["name"]: int(self._net.dims[i]) for i, d in enumerate(dims)}
        return True

    def _forget_views(self, after_run: bool = False) -> None:
        """Extents may have changed. Views are made when they are asked for: a run of a network with much state is
        shorter than to make those of all of it."""
        self._has_run = after_run
        for role in ("inputs", "outputs", "state"):
            self.__dict__.pop(role, None)

    @cached_property
    def inputs(self) -> dict[str, Array]:
        return {p["name"]: self._view(p) for p in self.report["inputs"]}

    @cached_property
    def outputs(self) -> dict[str, Array]:
        return {p["name"]: self._view(p, counted=self._has_run) for p in self.report["outputs"]}

    @cached_property
    def state(self) -> dict[str, Array]:
        return {p["name"]: self._state_view(p) for p in self.report["state"]}

    def _see_counted(self) -> None:
        """Sees the outputs in the extents that the last run counted. All else is where and what it was."""
        self._has_run = True
        seen: dict[str, Array] = self.__dict__.get("outputs", {})
        for port in self.report["outputs"] if seen else ():
            if port.get("counted") and self._shape(port, counted=True) != seen[port["name"]].shape:
                seen[port["name"]] = self._view(port, counted=True)

    def _shape(self, port: Mapping[str, Any], counted: bool) -> tuple[int, ...]:
        """The extents of an input or output now; of those that kernels count, with ``counted`` what they were in the
        last run, else the bounds."""
        if "extents" not in port or (not counted and port.get("counted")):
            return tuple(port["shape"])
        ask = self._questions.get(id(port))
        if ask is None:
            ask = self._questions[id(port)] = self._question(port)
        return ask()

    def _question(self, port: Mapping[str, Any]) -> Callable[[], tuple[int, ...]]:
        """What asks for the extents of an input or output: of small networks that would take longer than the run."""
        role = next(r for r, ps in self._roles() if any(p is port for p in ps))
        asked, rank = f"{role}_{port['c_name']}", len(port["shape"])
        if self._emulator is not None:
            emulator, at = self._emulator, _varying(self.report).index((asked, rank))
            return lambda: emulator.dims(at, rank)
        dims, function = self.ffi.new("int32_t[]", max(rank, 1)), getattr(self.lib, f"{self.name}_{asked}_dims")

        def ask() -> tuple[int, ...]:
            function(self._net, dims)
            return tuple(dims)[:rank]

        return ask

    @property
    def input_types(self) -> dict[str, TensorType]:
        """Element type and shape of each input by ONNX name."""
        return {p["name"]: TensorType(DTYPES[p["dtype"]], tuple(p["shape"])) for p in self.report["inputs"]}

    @property
    def arena(self) -> Array:
        """The arena's bytes. Every one but the inputs' may hold anything before a run.

        UsageError where it lies in several memories: `arenas` are these.
        """
        if len(self.arenas) != 1:
            raise UsageError(f"the arena of {self.name} lies in {', '.join(self.arenas)}", hint="see Network.arenas")
        return next(iter(self.arenas.values()))

    def fill_arenas(self, byte: int) -> None:
        """Set every byte of the arena in all its memories, and of inputs and outputs wherever they are. State, which
        is in the arena, wants a `reset` then."""
        for arena in (*self.arenas.values(), *self._lent.values()):
            arena[:] = byte

    def tensor_bytes(self, place: Mapping[str, Any]) -> Array:
        """The arena, or what the network was lent, from the first byte of a tensor or port of the report."""
        if _is_lent(place):
            return self._lent[place["c_field"]]
        return self.arenas[place.get("region", "")][place["offset"] :]

    def is_lent(self, name: str) -> bool:
        """True if an input or output is in memory of the caller, not in the arena."""
        return any(p["name"] == name and _is_lent(p) for p in (*self.report["inputs"], *self.report["outputs"]))

    def pointer(self, array: Array) -> Any:
        """An array's address for C; the caller keeps the array alive."""
        return self.ffi.cast("void *", array.ctypes.data)

    def _view(self, port: Mapping[str, Any], counted: bool = False) -> Array:
        dtype = DTYPES[port["dtype"]].numpy
        shape = self._shape(port, counted)
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.tensor_bytes(port)[:nbytes].view(dtype).reshape(shape)

    def _roles(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return [(role, self.report[f"{role}s" if role != "state" else role]) for role in ("input", "output", "state")]

    def _state_view(self, port: Mapping[str, Any]) -> Array:
        """State lies in the extents of its room, of which it fills the first."""
        dtype = DTYPES[port["dtype"]].numpy
        nbytes = int(np.prod(port["shape"], dtype=np.int64)) * dtype.itemsize
        room = self.tensor_bytes(port)[:nbytes].view(dtype).reshape(port["shape"])
        part: tuple[Any, ...] = (*map(slice, self._shape(port, counted=False)), ...)  # a view of a number, too
        return np.asarray(room[part])

    def _bind_library(self) -> None:
        self._net = self.ffi.new("net_t *")
        self._run = getattr(self.lib, f"{self.name}_run")
        self._text = lambda status: self.ffi.string(self.lib.mcc_status_text(status)).decode()
        arenas = [self.pointer(a) for a in self.arenas.values()]
        init = getattr(self.lib, f"{self.name}_init")
        self._expect_ok(init(self._net, *arenas, self.pointer(self._blob), self._blob.nbytes), "init")
        for i, array in enumerate(self._lent.values()):
            self._net.lent[i] = self.pointer(array)

    def _start_threads(self, threads: int) -> None:
        """Let a pool of threads work at runs, as long as the network lives."""
        pool = self.lib.mcc_pool_pthread_start(threads)
        if pool == self.ffi.NULL:
            raise CompileError(f"{self.name} gets no {threads} threads of the system", hint="ask for fewer threads")
        weakref.finalize(self, self.lib.mcc_pool_pthread_stop, pool)
        getattr(self.lib, f"{self.name}_set_pool")(self._net, pool)

    def _set_extent(self, name: str, extent: int) -> int:
        """The status of the generated setter."""
        if self._emulator is not None:
            return self._emulator.set_extent(list(self.extents).index(name), extent)
        return int(getattr(self.lib, f"{self.name}_set_{name}")(self._net, extent))

    def _bind_emulator(self, target: Target, sources: list[Path], flags: list[str], include: Path) -> None:
        self._net = [*self.arenas.values(), *self._lent.values()]
        tools = cross_tools(target)
        align = int(self.report["target"]["align"])
        extents = tuple(d["name"] for d in self.report.get("dims", ()))
        net = EmulatedNet(self.name, len(self.arenas), tuple(self._lent), extents, _varying(self.report))
        if tools.board is None:
            program = build_emulated(tools, net, align, sources, flags, include)
        else:
            fences = 2 * FENCE_BYTES + align
            tools.board.require_room([self._blob.nbytes + fences, *(a.nbytes + fences for a in self._net)])
            program = build_firmware(tools, [net], target, align, sources, flags, include)
            self._meter = Meter(program, target, tools.board, self.report)
            tools = tools.with_arguments(self._meter.arguments)
        self._emulator = emulator = Emulator(program, tools)
        self._run, self._text = emulator.run, emulator.text
        self._expect_ok(emulator.init(self._net, self._blob), "init")

    def intact(self) -> bool:
        """False if anything was written beside the memory that an emulated network has there."""
        return self._emulator is None or self._emulator.broken_fences() == 0

    def measured(self) -> Measured | None:
        """What the last run has taken on an emulated board; None where it was on none."""
        if self._meter is None or self._emulator is None:
            return None
        clocked = 0.0 if self._meter.counts else self._emulator.clocked()
        return self._meter.measured(self._emulator.stack_bytes(), clocked)

    def _expect_ok(self, status: int, what: str) -> None:
        if status:
            raise CompileError(f"{self.name}_{what} answered status {status}: {self._text(status)}")

    def invoke(self) -> None:
        """Run once on what lies in `inputs`.

        Raises:
            CompileError: the generated code answers an error status.
            UsageError: another thread runs this network now.
        """
        if not self._lock.acquire(False):
            raise UsageError(
                f"{self.name} is running in another thread, and both would write to the same arena",
                hint="call run, for which threads take turns; or give each thread a network of its own",
            )
        try:
            status = self._run(self._net)
            if status:
                self._expect_ok(status, "run")
            if self._moves:
                if self._read_extents():
                    self._forget_views(after_run=True)
                else:
                    self._see_counted()
        finally:
            self._lock.release()

    def repeated(self, extents: Mapping[str, int]) -> Callable[[], None]:
        """`invoke` for who measures it: state that grows has these extents before each run, so that all runs are of
        one size. What is known here of extents is not asked anew. UsageError as of `set_extents`."""
        self.set_extents(extents)
        setters = [(getattr(self.lib, f"{self.name}_set_{name}"), extent) for name, extent in extents.items()]

        def run() -> None:
            for setter, extent in setters:
                setter(self._net, extent)
            if status := self._run(self._net):
                self._expect_ok(status, "run")

        return run if setters else self.invoke

    def set_inputs(self, inputs: Mapping[str, Array]) -> None:
        """Copy inputs in. They may be views of this network, such as `outputs` of the run before.

        UsageError for a missing or unknown name or another shape or element type.
        """
        views = self.inputs
        if inputs.keys() != views.keys():
            raise UsageError(f"inputs {sorted(inputs)} given, {sorted(views)} expected")
        given = {}
        for name, array in inputs.items():
            array = array_of(f"input {name!r}", array)
            given[name] = array if array.base is None else self._detached(array)
        if self.extents:
            self.set_extents(self._extents_of(given))
            views = self.inputs
        for name, array in given.items():
            mine = views[name]
            if array.shape != mine.shape or array.dtype != mine.dtype:
                raise UsageError(
                    f"input {name!r} is {array.dtype}{list(array.shape)}, not {mine.dtype}{list(mine.shape)}",
                    hint=_way(array, mine),
                )
        for name, array in given.items():
            views[name][...] = array

    def _detached(self, array: Array) -> Array:
        """The view, or a copy where it lies in memory of this network: another input may be copied over it."""
        memory = (*self.arenas.values(), *self._lent.values())
        return array.copy() if any(np.may_share_memory(array, own) for own in memory) else array

    def _extents_of(self, inputs: Mapping[str, Array]) -> dict[str, int]:
        """The run-time extents that arrays have."""
        found: dict[str, int] = {}
        for port in self.report["inputs"]:
            given = np.shape(inputs[port["name"]])
            for extent, e in zip(port.get("extents", ()), given, strict=False):
                if extent in self.extents:
                    found.setdefault(extent, e)
        return found

    def run(self, *arrays: Mapping[str, Array] | Array, **named: Array) -> dict[str, Array]:
        """Copy inputs in, run, copy outputs out: ``run({"x": a, "h": b})``, ``run(a, b)`` or ``run(x=a, h=b)``.

        Threads take turns.

        Args:
            arrays: the inputs in the model's order, or a mapping of all by name.
            named: inputs by name; those that are no names of Python are in a mapping.

        Returns:
            The outputs by name.

        Raises:
            UsageError: a missing or unknown name or another shape or element type.
            CompileError: the generated code answers an error status.
        """
        first = arrays[0] if len(arrays) == 1 and not named else None
        inputs = first if type(first) is dict else self._by_name(arrays, named)  # the usual call in the least time
        with self._lock:
            self.set_inputs(inputs)
            self.invoke()
            return {name: view.copy() for name, view in self.outputs.items()}

    def __call__(self, *arrays: Mapping[str, Array] | Array, **named: Array) -> Any:
        """As `run`; gives the output, where there is only one, and else a tuple of all in the model's order."""
        outputs = tuple(self.run(*arrays, **named).values())
        return outputs[0] if len(outputs) == 1 else outputs

    def _by_name(
        self, arrays: tuple[Mapping[str, Array] | Array, ...], named: Mapping[str, Array]
    ) -> Mapping[str, Array]:
        """Inputs by name, as `run` is given them. UsageError where there are more of them than the network has, or
        one is given twice."""
        if len(arrays) == 1 and isinstance(arrays[0], Mapping):
            return {**arrays[0], **named} if named else arrays[0]
        names = list(self.inputs)
        if len(arrays) > len(names):
            raise UsageError(f"{len(arrays)} inputs are given, {self.name} takes {', '.join(names) or 'none'}")
        found: dict[str, Any] = dict(zip(names, arrays, strict=False))
        twice = [name for name in named if name in found]
        if twice:
            raise UsageError(f"input {twice[0]!r} is given twice: by its place and by its name")
        return found | dict(named)

    def __repr__(self) -> str:
        def ports(kind: str) -> str:
            return ", ".join(f"{p['name']} {p['dtype']}{p.get('extents', p['shape'])}" for p in self.report[kind])

        return f"<Network {self.name} for {self.report['target']['name']}: {ports('inputs')} -> {ports('outputs')}>"


def _way(given: Array, mine: Array) -> str:
    """What to do about an array that does not fit."""
    if given.shape == mine.shape:
        return conversion(given.dtype, mine.dtype)
    if given.ndim == mine.ndim:
        return "run it part by part, or compile the model for other extents: dims={...} or input_shapes={...}"
    return ""


def _is_lent(place: Mapping[str, Any]) -> bool:
    """True of an input or output of the report that is in memory of the caller."""
    return place.get("space") == "caller"


def _varying(report: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    """The inputs and outputs with extents of the run, as the functions of C name them, and their ranks."""
    roles = (("input", report["inputs"]), ("output", report["outputs"]))
    return tuple((f"{role}_{p['c_name']}", len(p["shape"])) for role, ports in roles for p in ports if "extents" in p)


def _lent(port: Mapping[str, Any], allocate: Allocate) -> Array:
    """Memory for a port, no better aligned than it has to be."""
    dtype = DTYPES[port["dtype"]].numpy
    return allocate(max(int(np.prod(port["shape"], dtype=np.int64)), 1) * dtype.itemsize, dtype.itemsize)
