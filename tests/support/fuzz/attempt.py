"""One network in one setting: what onnxruntime expects, compiled, built, run, and compared."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from mccompile.check.check import check
from mccompile.check.compare import OF_NOISE
from mccompile.check.reference import BF16_PLACE
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.small_floats import bf16_bits, bf16_values
from mccompile.kernels.model.widening import rounded_product
from mccompile.ops.text import decoded
from mccompile.run.emulate import EMULATOR_FAULT
from mccompile.run.made import read_report
from mccompile.run.memory import guarded_bytes
from mccompile.run.network import Network
from mccompile.run.values import stored
from mccompile.targets.target import resolve, runs_here, strict_warnings
from tests.support.children import SLOW, answered, in_children
from tests.support.compose.definite import Array, Arrays, Refused
from tests.support.compose.judge import SHAKES, Expected, noises, spread
from tests.support.compose.network import Noise
from tests.support.fuzz.family import MAIN, Family
from tests.support.fuzz.further import NOTHING_MORE, Further, as_elements, model_of, snapped
from tests.support.fuzz.programs import Program, compiled, options_of
from tests.support.fuzz.setting import QUICK, Setting
from tests.support.precompiled import precompiled, runtime_of
from tests.support.sanitized import sanitized_network

SECONDS = 60
"""What all runs of one network may take."""

ONCE = Path(__file__).resolve().parents[3] / "build" / "fuzz" / "once"
"""What is compiled once for all networks."""

HOOKS = Path(__file__).with_name("hooks.h")
"""Reads what steps say that they wrote."""

ROUNDED_RUNS = 3
"""Runs with other inputs, where products round what they read."""

TURNS = 3
"""Runs in a row of a network that keeps state."""

SAME_FUSING = "-ffp-contract=on"
"""Lets clang fuse within a statement alone, and gcc nothing. A program in parts and one that is whole are inlined
differently and leave other turns of their loops over."""

LAST_PLACE = 2.0**-22
"""Of a float, at most, with one more for a product by an inverse."""

UNSURE = ("wrong", "build", "crash")
"""What `QUICK` may be at fault for."""

FAULTS = ("internal", "build", "wrong", "crash", "slow", "memory", "message", "harness")


@dataclass(frozen=True)
class Verdict:
    """``kind`` is ok, refused (an error of ours, with a text), or one of `FAULTS`."""

    kind: str
    text: str = ""


# -- what is expected ---------------------------------------------------------------------------------------------
def expectations(net: Family, setting: Setting, seed: int, shakes: int = SHAKES) -> list[list[Expected]]:
    """For each extent, the runs in a row; what is known of their noise is what so many draws tell."""
    if net.grows(setting.state):
        return [_expected(net, net.inputs_at(min(net.others)), setting, seed, shakes)]
    runs = net.runs() if setting.dims or setting.second else {MAIN: net.inputs}
    return [_expected(net, inputs, setting, seed, shakes) for inputs in runs.values()]


def rounds_sums(net: Family) -> bool:
    """Whether numbers are rounded of which each may be a sum of many that were: of these, any may be ties. The states
    of an LSTM that quantises what it multiplies are such sums, too."""
    return any(not s.kinds.isdisjoint(("QuantizeLinear", "DynamicQuantizeLSTM", "MatMulNBits")) for s in net.steps)


def rounds_halves(net: Family) -> bool:
    """Whether numbers are stored in f16 between nodes: one that lies near a tie is the one or the other."""
    return any(a.dtype == np.float16 for a in net.values.values())


def _expected(net: Family, inputs: Arrays, setting: Setting, seed: int, shakes: int) -> list[Expected]:
    state, inputs = setting.state, snapped(setting.further.formats, inputs)
    net = replace(net, fixed=setting.further.fixed)
    plain = _in_a_row(net, inputs, setting, None)
    shaken = [_in_a_row(net, inputs, setting, noise) for noise in noises(seed, shakes)]
    if rounds_sums(net):
        shaken += [_in_a_row(net, inputs, setting, Noise((seed, 0), sign, even=True)) for sign in (1, -1)]
    if any("TopK" in s.kinds for s in net.steps):  # of three equal numbers, both of a pair leave one in the middle
        shaken += [_in_a_row(net, inputs, setting, Noise((seed, SHAKES + i), 1)) for i in range(SHAKES)]
    wanted = [n for n in net.outputs if n not in state]
    found = []
    for turn, values in enumerate(plain):
        net.require_defined(values)
        want = {n: values[n] for n in wanted}
        if any(run[turn][n].shape != a.shape for run in shaken for n, a in want.items()):
            raise Refused("what is counted depends on the noise")
        given = {net.drawn.get(n, n): values[n] for n in inputs if n not in state.values()}
        noise, certain = spread(want, [run[turn] for run in shaken])
        if net.halves:  # the last place of an output
            noise = {n: a + np.abs(np.nan_to_num(want[n])) * BF16_PLACE / OF_NOISE for n, a in noise.items()}
        sizes = _quotients(net, values)
        for n in sizes.keys() & noise.keys():
            size = np.maximum(np.abs(np.nan_to_num(want[n])), sizes[n])
            noise[n] = noise[n] + size * LAST_PLACE / OF_NOISE
        found.append(Expected(given, want, noise, certain, net.halves))
    return found


def _quotients(net: Family, values: Arrays) -> dict[str, float]:
    """The largest quotient that each float is made of: a whole one, which nothing shakes, may be a number times an
    inverse, and x * 47 / 47 - x of 282 the last place of 282."""
    found: dict[str, float] = {}
    for step in net.steps:
        read = [found[n] for n in step.reads if n in found]
        floats = {n: values[n] for n in step.outputs if n and values[n].dtype.kind == "f"}
        if "Div" in step.kinds:
            read += [float(np.abs(np.nan_to_num(a)).max(initial=0.0)) for a in floats.values()]
        if read:
            found |= dict.fromkeys(floats, max(read))
    return found


def _in_a_row(net: Family, inputs: Arrays, setting: Setting, noise: Noise | None) -> list[Arrays]:
    """The values of each run; what is kept is zero first. Where it grows, so does what else is n."""
    state = setting.state
    kept = {name: np.zeros_like(inputs[name]) for name in state.values()}
    made: list[Arrays] = []
    for turn in range(TURNS if state else 1):
        if turn and net.grows(state):
            inputs = snapped(setting.further.formats, net.inputs_at(min(net.others) + turn * net.grows(state)))
        made.append(net.reference({**inputs, **kept}, noise))
        kept = {name: made[-1][out] for out, name in state.items()}
    return made


# -- what is done ---------------------------------------------------------------------------------------------------
def attempt(
    net: Family, setting: Setting, expected: Sequence[Sequence[Expected]], folder: Path, alone: bool = False
) -> Verdict:
    """Compiled into a folder, its C built with all warnings, every run twice on different garbage.

    ``alone``: this process may end with it. A child costs as much as all that a network of tcc does in it.
    """
    if not resolve(setting.target).denormals and net.has_denormals:
        return Verdict("ok", "denormals")
    model = model_of(net, setting.further).SerializeToString()
    verdict = attempted(model, setting, expected, folder, alone and setting.compiler == QUICK)
    if setting.compiler != QUICK or verdict.kind not in UNSURE:
        return verdict
    return agreed(verdict, attempted(model, setting.surely, expected, folder / "sure"))


def agreed(verdict: Verdict, sure: Verdict) -> Verdict:
    """What is said of a network that `QUICK` found a fault with, by what the sanitizers find."""
    return sure if sure.kind != "ok" else Verdict("ok", f"{QUICK} is wrong: {verdict.text}")


_MORE_ARE_DRAWN = re.compile(r"input '\S+\.(?:normal|uniform)' is \w+\[[\d, ]*\], not ")
"""What is said of an input of drawn numbers where the run counts what they are drawn for: it has the most that these
may be, and onnxruntime was given as many as there are."""


def attempted(
    model: bytes, setting: Setting, expected: Sequence[Sequence[Expected]], folder: Path, alone: bool = False
) -> Verdict:
    """As `attempt`, of a model as a file has it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "drawn.onnx"
    path.write_bytes(model)
    with mock.patch.dict(os.environ, {"CC": setting.compiler, "MCC_CACHE": str(folder / "cache")}):
        try:
            first = expected[0][0]
            programs = compiled(path, folder / "out", setting, first.inputs, _given(first, setting.further))
        except InternalError as e:
            return Verdict("internal", f"{e}\n{traceback.format_exc(limit=-4)}")
        except CompileError as e:
            return Verdict("refused", str(e))
        except Exception:
            return Verdict("internal", traceback.format_exc(limit=-6))
        run = partial(_faults, programs, setting, expected)
        ((text, ended),) = [(answered(run), False)] if alone else in_children([run], SECONDS)
        differs = " instead of " in text and setting.options.get("requant") == "tflite"
        if differs and not ended:
            try:
                if _rounds_twice(path, setting, expected):
                    return Verdict("ok", f"rounded twice: {text}")
            except CompileError as e:  # onnxruntime has no kernel for an operator of the file
                return Verdict("none", str(e))
    if ended:
        return Verdict("slow" if text in SLOW else "crash", text)
    if _MORE_ARE_DRAWN.search(text):
        return Verdict("none", "numbers are drawn for as many elements as the run may count")
    if EMULATOR_FAULT in text:
        return Verdict("none", text)
    if "CPU time limit exceeded" in text:
        return Verdict("none", f"{setting.compiler} has no end")
    if text.startswith("CompileError: the C compiler"):
        return Verdict("build", _complaint(text))
    return Verdict("wrong" if text else "ok", text)


def _rounds_twice(path: Path, setting: Setting, expected: Sequence[Sequence[Expected]]) -> bool:
    """Whether what differs from onnxruntime is TensorFlow Lite's second rounding: `check` holds layers to that."""
    kept = ("target", "opt_level", "requant", "dims", "input_shapes")
    given = {k: v for k, v in setting.arguments.items() if k in kept}
    options, _ = options_of(given)
    with mock.patch.dict(os.environ, {"CC": "gcc"}):
        return all(check(path, options, inputs=row[0].inputs).ok for row in expected)


def _complaint(text: str) -> str:
    lines = text.splitlines()
    first = next((i for i, line in enumerate(lines) if "error:" in line), 0)
    return "\n".join(lines[first : first + 4])


def _faults(programs: Sequence[Program], setting: Setting, expected: Sequence[Sequence[Expected]]) -> str:
    """What is wrong with the first program that anything is wrong with."""
    found = ((p.model, _fault(p, setting, expected)) for p in programs)
    return next((f"{model} {fault}".strip() for model, fault in found if fault), "")


def _fault(program: Program, setting: Setting, expected: Sequence[Sequence[Expected]]) -> str:
    network = _network(program.folder, setting, program.model)
    single = None if program.single is None else _network(program.single, setting)
    for row in (*expected, expected[0]):  # the first extent once more: setters leave nothing stale
        for byte in (0x5A, 0xFF):
            _begin(network, byte)
            if single is not None:
                _begin(single, byte)
            for turn, run in enumerate(row):
                got = _answers(network, run, setting.further)
                if program.graph is not None:
                    run = _meant_by(program.graph, run, network.extents, setting.further)
                fault = run.fault(got)
                if single is not None and not fault:
                    fault = _other_bits(got, _answers(single, run, setting.further))
                if fault:
                    shapes = {n: a.shape for n, a in run.inputs.items()}
                    return f"turn {turn}, arena of {byte:#x}, {shapes}: {fault}"[:900]
    return "" if network.intact() else "something was written outside of the network's memory"


def _begin(network: Network, byte: int) -> None:
    network.fill_arenas(byte)
    network.reset()


def _other_bits(got: Arrays, single: Arrays) -> str:
    """Where a program in parts answers other bits than the one that is whole."""
    other = [n for n, a in got.items() if _bits(a) != _bits(single[n])]
    return f"in parts {other} have other bits" if other else ""


def _bits(array: Array) -> object:
    """What is equal where arrays are the same: of text that is the text, not where it lies."""
    return array.tolist() if array.dtype.kind == "O" else array.tobytes()


def _meant_by(graph: Graph, run: Expected, extents: Mapping[str, int], further: Further = NOTHING_MORE) -> Expected:
    """What the C has to compute whose weights or products are in fewer bits. Floats alone: how far it may be off is
    known of the network as it is, and whether a number that is rounded is a tie of this one is not.

    Where products round what they read, a float that is off in its last place may be rounded to the next number of 16
    bits: how far that carries is seen where all inputs are off by half of such a place.
    """
    shapes = {v.name: v.shape for v in graph.inputs}
    inputs = {n: _in_port(a, shapes.get(n, ())) for n, a in _given(run, further).items()}
    near, wide = (graph.evaluate(inputs, wide=wide, extents=extents) for wide in (False, True))
    others = [graph.evaluate(_off(inputs, i), extents=extents) for i in range(ROUNDED_RUNS)] if _rounds(graph) else []
    values, noise, certain = dict(run.values), dict(run.noise), dict(run.certain)
    for name, a in run.values.items():
        if a.dtype.kind == "f" and near[name].dtype == a.dtype:
            values[name] = near[name]
            noise[name] = run.noise[name] + 4 * _apart(wide[name], near[name])
            for other in others:
                noise[name] = np.maximum(noise[name], _apart(other[name], near[name]) / 4)
        else:
            certain[name] = np.zeros(a.shape, bool)
    return replace(run, values=values, noise=noise, certain=certain)


def _apart(a: Array, b: Array) -> Array:
    """How far numbers are from each other; equal infinities are not."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, np.abs(a.astype(np.float64) - b))


def _rounds(graph: Graph) -> bool:
    """Whether a product rounds what it reads to 16 bits."""
    return any(rounded_product(node) for node, _ in graph.everywhere())


def _off(inputs: Arrays, seed: int) -> dict[str, Array]:
    """Floats off by up to half a place of bfloat16."""
    drawn = np.random.default_rng(seed)
    return {
        n: (a * (1 + BF16_PLACE / 4 * drawn.uniform(-1, 1, a.shape))).astype(a.dtype) if a.dtype.kind == "f" else a
        for n, a in inputs.items()
    }


def _network(out: Path, setting: Setting, model: str = "") -> Network:
    own = (*setting.flags, *((f'-DMCC_HOOKS_HEADER="{HOOKS}"',) if setting.further.hooked else ()))
    if "threads" in setting.options and setting.compiler != QUICK:
        own = (*own, SAME_FUSING)
    if setting.sanitized:
        return sanitized_network(out, own, setting.compiler, model)
    if setting.compiler == QUICK:
        return Network(out, own, allocate=guarded_bytes, model=model)
    if runs_here(setting.target):
        flags = (*own, *strict_warnings(setting.compiler))
        spared = () if "threads" in setting.options else _vector_header(out, setting, flags, model)
        with runtime_of(ONCE):
            return Network(out, (*flags, *spared), allocate=guarded_bytes, model=model)
    return Network(out, (*own, *strict_warnings(setting.compiler)), model=model, emulate=True)


def _vector_header(out: Path, setting: Setting, flags: Sequence[str], model: str) -> list[str]:
    """Flags that spare gcc the header of vector instructions, which is compiled once for all networks."""
    report = read_report(out, model)
    given = [*report["target"]["c_flags"], *flags, "-fPIC"]
    with mock.patch.dict(os.environ, {"MCC_CACHE": str(ONCE)}):
        return precompiled((setting.compiler,), given, out / f"{report['model']['name']}.c")


def _given(run: Expected, further: Further) -> dict[str, Array]:
    """The inputs of a run as the application has them: not what is fixed, and elements where it has such."""
    named = {n: a for n, a in run.inputs.items() if n not in further.fixed}
    return {n: as_elements(further.formats[n], a) if n in further.formats else a for n, a in named.items()}


def _answers(network: Network, run: Expected, further: Further) -> dict[str, Array]:
    """The outputs of a run; bytes of quantised inputs and outputs as the floats that they stand for. What a program
    does not give, as the other one of a project, is as expected."""
    inputs = {}
    for name, array in _given(run, further).items():
        if name not in network.inputs and name.endswith((".normal", ".uniform")):
            continue  # of the other one of a project: a number that is drawn for nothing is no input
        if run.halves and array.dtype == np.float32:
            inputs[name] = bf16_bits(array)
            continue
        made_bytes = _is_bytes(network, name, array)
        inputs[name] = _quantised(network, name, array) if made_bytes else _in_port(array, network.inputs[name].shape)
    try:
        made = network.run(inputs)
    except UsageError as e:
        raise AssertionError(str(e)) from e
    if run.halves:
        made = {n: bf16_values(a) if run.values[n].dtype == np.float32 else a for n, a in made.items()}
    return {**run.values, **{n: _meant(network, n, a, run.values[n]) for n, a in made.items()}}


def _meant(network: Network, name: str, array: Array, wanted: Array) -> Array:
    if name in network.labels and wanted.dtype.kind == "O":
        return np.asarray(np.array(network.labels[name], object)[array], object)
    if wanted.dtype.kind == "O":
        return decoded(array)
    return _floats(network, name, array) if array.dtype != wanted.dtype and name in network.quantised else array


def _in_port(array: Array, shape: Sequence[int]) -> Array:
    """An array as an input of a ``shape`` has it, whose last extent is the size of text."""
    return stored(array, shape[-1]) if array.dtype.kind == "O" else stored(array)


def _is_bytes(network: Network, name: str, array: Array) -> bool:
    """True of an input that `--io quantized` has made bytes."""
    return array.dtype.kind == "f" and network.inputs[name].dtype.kind in "iu"


def _quantised(network: Network, name: str, array: Array) -> Array:
    how, dtype = network.quantised[name], network.inputs[name].dtype
    info = np.iinfo(dtype)
    steps = np.rint(np.asarray(array, np.float32) / np.float32(how.scale)) + how.zero_point
    return np.asarray(np.clip(steps, info.min, info.max)).astype(dtype)


def _floats(network: Network, name: str, array: Array) -> Array:
    how = network.quantised[name]
    return np.asarray((array.astype(np.int64) - how.zero_point).astype(np.float32) * np.float32(how.scale))
