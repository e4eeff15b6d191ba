"""The judge: what a model's outputs and inner values should be, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.check.compare import OF_NOISE, Comparison, Tolerance, compare
from mccompile.check.cut_off import before_cut, noise_of_cut
from mccompile.check.decided import deciding, noise_of, picked
from mccompile.check.factors import Factors
from mccompile.check.saturation import UNSIGNED, exact_products, keep_exact
from mccompile.importer.fixed import Fixed, FromDim, fixed_arrays, from_dims
from mccompile.importer.labels import Legend, as_tensors
from mccompile.importer.prepare import prepare
from mccompile.interface.tensors import Interface
from mccompile.ir.errors import CompileError
from mccompile.ir.small_floats import bf16_bits, bf16_values
from mccompile.ir.types import TensorType
from mccompile.onnxio import (
    Draw,
    OnnxModel,
    OnnxNode,
    dtype_of_array,
    ends_of_nothing,
    evaluate_model,
    extract_with_outputs,
    jitter_weights,
    read_model,
    rounded_inputs,
    sigmoids_by_exp,
    sorted_tops,
    sums_in_doubles,
    tensor_names,
    unrounded_recurrence,
    widened,
    with_draws,
)
from mccompile.ops.held import HELD_IN
from mccompile.ops.text import decoded, encoded
from mccompile.run.values import item_name
from mccompile.search.state import Compilation

Array = np.ndarray[Any, np.dtype[Any]]
OF_NOTHING = "onnxruntime ends the program where cells and Scans have nothing to go through"
NOT_THERE = "does not support"
"""What onnxruntime says, when a model runs, of what is not written: "LSTM operator does not support double yet"."""

WRONG_OPTIMISERS = ["Pad_Fusion", "QDQPropagationTransformer"]
"""The first makes padding of MaxPool, which counts as minus infinity, of zeros: no noise, but another network. The
other one ends the program (1.32) where a graph in If, Loop or Scan reads what is dequantised and moved."""

UNROUNDED = (
    "DynamicQuantizeLSTM of onnxruntime rounds the state of each step to 8 bits: LSTM with the same weights, which "
    "reads the same rounded input, is the reference instead"
)
"""The note where cells of a model became others: the weights say which real numbers are right, and no rule says how
far a state may be from these that is rounded at every step."""

FURTHER = 6
"""How many more draws of weights say how unsure the reference is, where one has shown that it is: a network that
magnifies a small change a hundred times in one direction may do it a thousand times in another."""

MOST_PICKED = 4
"""How many times as many picks as a draw of weights has changed may be others than the reference's."""

BF16_PLACE = 2.0**-7
"""The last place of a number of bfloat16, relative to it, at most."""


@dataclass(frozen=True)
class Expected:
    """Values by ONNX name, and the noise of those where it is known (see `compare.tolerances`), of integers how far
    each may be off. Those in ``halves`` are the bits of bfloat16, and their noise is that of the numbers. Floats that
    are ``decided``, as those of a mask, may be off so far, each by itself. Of integers that scores have ``picked`` so
    many are others after small changes of the weights."""

    values: dict[str, Array]
    noise: dict[str, Array]
    halves: frozenset[str] = frozenset()
    decided: Mapping[str, Array] = field(default_factory=dict)
    picked: Mapping[str, int] = field(default_factory=dict)

    @property
    def of_channels(self) -> dict[str, Array]:
        """Noise for who has one tolerance for a channel, and cannot tell which elements are decided by less."""
        return {**self.noise, **{n: np.maximum(a, self.noise.get(n, 0.0)) for n, a in self.decided.items()}}

    def may_differ(self, name: str) -> bool:
        """Whether an element of an integer, or of a mask, is decided by less than floats may be off."""
        whole = self.values[name].dtype.kind != "f"
        return bool(np.any(self.decided.get(name, self.noise.get(name, 0.0) if whole else 0.0)))

    def compared(
        self, name: str, got: Array, factor: float = 1.0, tolerance: Tolerance | None = None
    ) -> Comparison:
        """One value that was computed against what is expected of it."""
        want, noise = self.values[name], self.noise.get(name)
        if tolerance is None and self.picked.get(name) and (got.shape, got.dtype) == (want.shape, want.dtype):
            return self._picked_alike(name, got, want)
        near, each = 0, self.decided.get(name, noise if want.dtype.kind != "f" else None)
        if got.shape == want.shape and got.dtype == want.dtype:
            if name in self.halves:
                got, want = bf16_values(got), bf16_values(want)
            elif each is not None:
                within = (np.abs(got.astype(np.float64) - want) <= each) & (got != want)
                near, want = int(within.sum()), np.where(within, got, want)
        return replace(compare(name, got, want, noise, factor, tolerance), near=near)

    def _picked_alike(self, name: str, got: Array, want: Array) -> Comparison:
        """Integers that scores have picked: as many may be others, of the numbers that there are."""
        within = (got != want) & (got >= want.min()) & (got <= want.max())
        near, most = int(within.sum()), MOST_PICKED * self.picked[name]
        unsure = min(most / want.size, 1.0)
        if near > most:
            return replace(compare(name, got, want), unsure=unsure)
        return replace(compare(name, got, np.where(within, got, want)), near=near, unsure=unsure)


@dataclass(frozen=True)
class OnnxRuntime:
    """onnxruntime on one thread: without graph optimisations, which is the reference, and in ``others`` ways, whose
    greatest distance from it is the noise: with all optimisations; with weights that are one unit in the last place
    off, which shows what is ill-conditioned; models with f16 in f32; sigmoids by their meaning; and sums of
    activations in f64. ``notes`` say what else is unlike the file.

    Of values that floats decide, by the nodes of ``deciding``, the noise comes of what these read: ``operands`` that
    are computed, and ``known`` constants. Its tolerance is multiplied by ``factors``. Of inner values that are what
    is left of others (``cut``), which are among the operands, it is also what those may be off.

    Inputs and outputs of text are bytes: ``texts`` has how many each element takes. Inputs that are ``sequences`` are
    the tensors of each.

    Models with bfloat16 are computed in f32, as they are in the generated code; of ``halves``, inputs and outputs,
    the bits are taken and given, and the last place of an output counts as noise.
    """

    engine: str
    names: tuple[str, ...]
    plain: Any
    others: tuple[Any, ...]
    fixed: Mapping[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    legends: Mapping[str, Legend] = field(default_factory=dict)
    halves: frozenset[str] = frozenset()
    extents: Mapping[str, FromDim] = field(default_factory=dict)
    texts: Mapping[str, int] = field(default_factory=dict)
    sequences: Sequence[str] = ()
    model: bytes = field(default=b"", repr=False)
    deciding: Mapping[str, OnnxNode] = field(default_factory=dict)
    picked: frozenset[str] = frozenset()
    known: Mapping[str, Array] = field(default_factory=dict)
    operands: tuple[str, ...] = ()
    cut: Mapping[str, str] = field(default_factory=dict)
    factors: Callable[[str], float] = lambda name: 1.0
    by_reference: Callable[[str], OnnxReference] | None = None
    """Who judges what onnxruntime does not; it is told why."""
    ends_of_nothing: Callable[[], bool] = lambda: False
    """Whether onnxruntime (1.32) would end the program where an input has no elements."""

    def surer(self) -> OnnxRuntime:
        """The same judge with more draws of weights that are one unit off."""
        import onnxruntime

        drawn = ((jitter_weights(self.model, seed), False) for seed in range(1, FURTHER + 1))
        return replace(self, others=(*self.others, *_sessions(onnxruntime, drawn)))

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """CompileError if onnxruntime cannot run the model on these inputs."""
        empty = any(np.size(a) == 0 for a in inputs.values())
        if self.by_reference and empty and self.ends_of_nothing():
            return self.by_reference(OF_NOTHING).run(inputs)
        feeds = _feeds(inputs, self.fixed, self.extents, self.halves, self.texts, self.sequences)
        asked = tuple(dict.fromkeys([*self.names, *self.operands]))
        try:
            values = _values(self.plain, asked, feeds, self.legends)
        except Exception as e:
            if self.by_reference and (empty or NOT_THERE in str(e)):
                return self.by_reference(f"onnxruntime: {_first_line(e)}").run(inputs)
            raise _refused("onnxruntime", e) from e
        noise: dict[str, Array] = {}
        others: dict[str, int] = {}
        for session in self.others:
            for name, array in _values_or_none(session, asked, feeds, self.legends).items():
                if name in self.picked and array.dtype.kind in "iu" and array.shape == values[name].shape:
                    others[name] = max(others.get(name, 0), int((array != values[name]).sum()))
                if array.dtype.kind == "f" and array.shape == values[name].shape:
                    noise[name] = np.maximum(noise.get(name, 0.0), finite_distance(array, values[name]))
        for name, before in self.cut.items():
            if name in values and before in values and values[name].dtype.kind == "f":
                as_before = noise_of_cut(values[name], values[before], self.factors(name))
                noise[name] = np.maximum(noise.get(name, 0.0), as_before)
        decided: dict[str, Array] = {}
        for name, node in self.deciding.items():
            exact = self.known.keys() | feeds.keys()
            own = noise_of(node, {**self.known, **feeds, **values}, noise, self.factors(name), exact)
            if own is not None and own.size == values[name].size:
                own = own.reshape(values[name].shape)
                if values[name].dtype.kind == "f":  # what one element is off by is not allowed of the others
                    decided[name] = np.maximum(own, noise.pop(name, 0.0))
                else:
                    noise[name] = own
        values = {name: values[name] for name in self.names}
        noise = {name: a for name, a in noise.items() if name in values}
        halves = self.halves.intersection(values)
        for name in halves:
            noise[name] = noise.get(name, 0.0) + last_place(values[name])
            values[name] = bf16_bits(values[name])
        told = {name: count for name, count in others.items() if name in values and name not in noise}
        return Expected(_in_bytes(values, self.texts), noise, halves, decided, told)


@dataclass(frozen=True)
class OnnxReference:
    """onnx.reference on our canonical form: of the old forms of BatchNormalization and Softmax it makes other
    operators. It has no noise to offer. ``why`` says why onnxruntime does not judge."""

    why: str
    names: tuple[str, ...]
    model: OnnxModel
    notes: tuple[str, ...] = ()
    texts: Mapping[str, int] = field(default_factory=dict)

    @property
    def engine(self) -> str:
        return f"onnx.reference ({self.why})"

    def surer(self) -> OnnxReference:
        """It has none to offer."""
        return self

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """CompileError if the reference cannot evaluate the model."""
        self._require_known({v.name: v.dtype for v in self.model.graph.inputs})
        inputs = {n: decoded(a) if n in self.texts else a for n, a in inputs.items()}
        try:
            values = evaluate_model(self.model, inputs, self.names)
        except CompileError as e:
            raise CompileError(e.rule, where=e.where, hint=f"it was asked because {self.why}") from e
        outputs = {v.name for v in self.model.graph.outputs}
        self._require_known({n: dtype_of_array(a) for n, a in values.items() if n in outputs})
        return Expected(_in_bytes(values, self.texts), {})

    def _require_known(self, ports: Mapping[str, str]) -> None:
        """CompileError where inputs or outputs are of types that numpy has not, of which the code has bits."""
        for name, dtype in ports.items():
            if dtype in HELD_IN and dtype != "string":
                raise CompileError(
                    f"onnx.reference does not have {name!r}, which is {dtype}, as the code does",
                    where=self.model.path, hint=f"it was asked because {self.why}",
                )  # fmt: skip


def last_place(values: Array) -> Array:
    """The last place of numbers of bfloat16, as noise."""
    return finite_distance(values, np.zeros(())) * BF16_PLACE / OF_NOISE


def _in_bytes(values: dict[str, Array], texts: Mapping[str, int]) -> dict[str, Array]:
    """Values of which those that are text are the bytes that the generated code gives."""
    return {n: encoded(a, texts[n]) if n in texts else a for n, a in values.items()}


@dataclass(frozen=True)
class Translated:
    """A judge of what the model computes, for generated code with other inputs and outputs: it takes inputs and gives
    outputs as that code has them. Their noise is not known then."""

    judge: OnnxRuntime | OnnxReference
    interface: Interface
    types: Mapping[str, TensorType]

    @property
    def engine(self) -> str:
        return self.judge.engine

    @property
    def notes(self) -> tuple[str, ...]:
        return self.judge.notes

    def surer(self) -> Translated:
        """Noise of what is not translated is known from more draws."""
        return replace(self, judge=self.judge.surer())

    def run(self, inputs: Mapping[str, Array]) -> Expected:
        """CompileError if the reference cannot run the model on these inputs."""
        found = self.judge.run(self.interface.model_inputs(inputs))
        noise = {name: a for name, a in found.noise.items() if name not in self.interface.kept}
        values = self.interface.outputs(found.values, self.types)
        return Expected(values, noise, found.halves, found.decided, found.picked)


Judge = OnnxRuntime | OnnxReference | Translated


def judge_of(path: Path, c: Compilation, inner: Sequence[str] = ()) -> Judge:
    """The judge of a compilation of the model at ``path``: inputs and outputs are those of the generated code.

    ``inner`` are values computed in the model's main graph that are wanted as well.
    """
    o, outputs = c.options, {v.name: v.type for v in c.graph.outputs}
    judge = open_judge(path, list(outputs), inner, o.dims, o.input_shapes, o.constants, c.draws)
    ports = {v.name: v.type for v in (*c.graph.fed, *c.graph.outputs)}
    texts = {n: ports[n].shape[-1] for n in c.interface.texts & ports.keys() - c.interface.legends.keys()}
    judge = replace(judge, texts=texts)
    if isinstance(judge, OnnxRuntime):  # a file need not say of what type its outputs are
        judge = replace(judge, halves=judge.halves | c.interface.halves, factors=Factors.of(c.graph))
    return Translated(judge, c.interface, outputs) if c.interface.changed else judge


def open_judge(
    path: Path,
    outputs: Sequence[str],
    inner: Sequence[str] = (),
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int | str]] | None = None,
    constants: Mapping[str, Fixed] | None = None,
    draws: Sequence[Draw] = (),
) -> OnnxRuntime | OnnxReference:
    """onnxruntime if it is installed and knows the model, else onnx.reference.

    Args:
        path: the .onnx file.
        outputs: names of its graph outputs.
        inner: values computed in its main graph that are wanted as well; those that are gone in the canonical
            form are left out where onnx.reference judges.
        dims, input_shapes: how symbolic dims were bound.
        constants: the values of inputs that were fixed when the model was compiled.
        draws: the inputs that random numbers became.
    """
    names = tuple(dict.fromkeys([*outputs, *inner]))
    ports = _Ports.of(path, constants or {}, names, [name for name in inner if name not in outputs])
    why = "onnxruntime is not installed"

    def reference(why: str) -> OnnxReference:
        model = prepare(read_model(path), dims, input_shapes, constants).model
        left = {o for node in model.graph.nodes for o in node.outputs} | set(outputs)
        return OnnxReference(why, tuple(n for n in names if n in left), model)

    try:
        import onnxruntime
    except ImportError:
        pass
    else:
        inside = set(tensor_names(path)) if ports.operands else set()  # of functions, names are ours
        operands = tuple(n for n in ports.operands if n in inside)
        rounded = [n for n in rounded_inputs(path) if n in inner] if inner else []
        more = dict.fromkeys(n for n in (*inner, *operands) if n not in (*outputs, *rounded))
        asked = extract_with_outputs(path, list(more))
        asked = with_draws(asked, draws) if draws else asked
        plainly = unrounded_recurrence(asked, rounded)
        asked = plainly or asked
        asked = sorted_tops(asked) or asked
        asked = widened(asked, "bf16") or asked
        data = exact_products(onnxruntime, asked)
        try:
            plain = _session(onnxruntime, data, optimise=False)
        except Exception as e:
            why = f"onnxruntime cannot load the model: {_first_line(e)}"
        else:
            engine = f"onnxruntime {onnxruntime.__version__}"
            untold = {v.name for v in plain.get_outputs() if v.name not in outputs and v.type in _UNTOLD}
            names, operands = (tuple(n for n in some if n not in untold) for some in (names, operands))
            notes = () if data is asked else (UNSIGNED,)
            notes = notes if plainly is None else (*notes, UNROUNDED)
            others = _others(onnxruntime, data)
            return OnnxRuntime(
                engine, names, plain, others, ports.fixed, notes, ports.legends, ports.halves, ports.extents,
                sequences=ports.sequences, model=data, deciding=ports.deciding, picked=ports.picked,
                known=ports.known, operands=operands, cut=ports.cut, by_reference=reference,
                ends_of_nothing=lambda: ends_of_nothing(path),
            )  # fmt: skip
    if draws:
        raise CompileError(f"a network whose random numbers are inputs needs onnxruntime to compare with: {why}")
    return reference(why)


_UNTOLD = frozenset(
    f"tensor({t})" for t in ("int4", "uint4", "int2", "uint2", "float8e5m2", "float8e5m2fnuz", "float8e4m3fnuz")
)
"""Types of which onnxruntime gives no arrays: inner values of them are not compared."""


def feeds_of(path: Path, c: Compilation, inputs: Mapping[str, Array]) -> dict[str, Any]:
    """What an engine takes that runs the model at ``path``, where the model's inputs are these as a network has
    them."""
    ports = _Ports.of(path, c.options.constants)
    texts = c.interface.texts & inputs.keys()
    return _feeds(inputs, ports.fixed, ports.extents, ports.halves, texts, ports.sequences)


@dataclass(frozen=True)
class _Ports:
    """What is to know of a model's inputs and outputs: see `OnnxRuntime`; ``operands`` are those of ``deciding`` that
    are computed, and what was there before it was ``cut``. The model itself, with its weights, is not held."""

    fixed: Mapping[str, Array]
    extents: Mapping[str, FromDim]
    halves: frozenset[str]
    legends: Mapping[str, Legend]
    sequences: tuple[str, ...]
    deciding: Mapping[str, OnnxNode]
    picked: frozenset[str]
    known: Mapping[str, Array]
    operands: tuple[str, ...]
    cut: Mapping[str, str]

    @staticmethod
    def of(
        path: Path, constants: Mapping[str, Fixed], wanted: Sequence[str] = (), inner: Sequence[str] = ()
    ) -> _Ports:
        graph = read_model(path).graph
        decides, cut = deciding(graph, wanted), before_cut(graph, inner)
        operands = {name for node in decides.values() for name in node.inputs}
        computed = operands | {*cut.values()}
        return _Ports(
            deciding=decides,
            picked=picked(graph, wanted),
            known={name: graph.initializers[name] for name in operands & graph.initializers.keys()},
            operands=tuple(o for n in graph.nodes for o in n.outputs if o in computed),
            cut=cut,
            fixed=fixed_arrays(graph.inputs, constants),
            extents=from_dims(graph, constants),
            halves=frozenset(v.name for v in (*graph.inputs, *graph.outputs) if v.dtype == "bf16"),
            legends=as_tensors(graph)[1],
            sequences=tuple(v.name for v in graph.inputs if v.dtype == "sequence"),
        )


def _feeds(
    inputs: Mapping[str, Array], fixed: Mapping[str, Array], extents: Mapping[str, FromDim],
    halves: Container[str], texts: Container[str], sequences: Sequence[str],
) -> dict[str, Any]:  # fmt: skip
    """Inputs of a network and what was fixed, as onnxruntime takes them: numbers for bits of bfloat16, text for
    bytes, lists for sequences."""
    numbers = {n: np.asarray(bf16_values(a)) if n in halves else a for n, a in inputs.items()}
    plain = {n: np.asarray(a, np.float32) if n in halves else a for n, a in fixed.items()}
    found: dict[str, Any] = {**numbers, **plain, **{name: e.array(inputs) for name, e in extents.items()}}
    found = {n: decoded(a) if n in texts else a for n, a in found.items()}
    for name in sequences:
        items: list[Array] = []
        while item_name(name, len(items)) in found:
            items.append(found.pop(item_name(name, len(items))))
        found[name] = items
    return found


def _session(onnxruntime: Any, model: bytes, optimise: bool) -> Any:
    options = onnxruntime.SessionOptions()
    level = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimise else level.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    keep_exact(onnxruntime, options)
    return onnxruntime.InferenceSession(
        model, options, providers=["CPUExecutionProvider"], disabled_optimizers=WRONG_OPTIMISERS
    )


def _others(onnxruntime: Any, model: bytes) -> tuple[Any, ...]:
    """The sessions that give noise; one that cannot be made is left out."""
    rewritten = (rewrite(model) for rewrite in (jitter_weights, widened, sigmoids_by_exp, sums_in_doubles))
    return _sessions(onnxruntime, chain([(model, True)], ((data, False) for data in rewritten)))


def _sessions(onnxruntime: Any, models: Iterable[tuple[bytes | None, bool]]) -> tuple[Any, ...]:
    """Of each model, optimised or not; one that cannot be made is left out. Models may be made one by one: each has
    all the weights."""
    sessions = []
    for data, optimise in models:
        try:
            if data is not None:
                sessions.append(_session(onnxruntime, data, optimise))
        except Exception:
            continue
    return tuple(sessions)


def _values_or_none(
    session: Any, names: Sequence[str], inputs: Mapping[str, Any], legends: Mapping[str, Legend]
) -> dict[str, Array]:
    """As `_values`; nothing of a session that fails, as one whose optimisations lose a tensor of no element, where
    the plain one does not: it only offers noise."""
    try:
        return _values(session, names, inputs, legends)
    except Exception:
        return {}


def _values(
    session: Any, names: Sequence[str], inputs: Mapping[str, Any], legends: Mapping[str, Legend]
) -> dict[str, Array]:
    """Run a session, which may take an f16 input in f32; maps, sequences and labels as the tensors that they are
    here."""
    wide = {v.name for v in session.get_inputs() if v.type == "tensor(float)"}
    halves = {n for n in wide & inputs.keys() if inputs[n].dtype == np.float16}
    feeds = {n: np.asarray(a, np.float32) if n in halves else a for n, a in inputs.items()}
    found: dict[str, Any] = {}
    wanted = [v.name for v in session.get_outputs() if v.name in names or v.type.startswith("seq(tensor")]
    for name, value in zip(wanted, session.run(wanted, feeds), strict=True):
        if isinstance(value, list) and name not in legends:
            found |= {f"{name}_{i}": a for i, a in enumerate(value)}  # as `importer/outputs.py` calls them
        else:
            found[name] = legends[name].applied(value) if name in legends else value
    return {name: found[name] for name in names}


def finite_distance(a: Array, b: Array) -> Array:
    """|a - b| in float64, 0 where that is no number (NaN and infinities on either side)."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(np.abs(a.astype(np.float64) - b.astype(np.float64)), nan=0.0, posinf=0.0)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _refused(engine: str, error: Exception) -> CompileError:
    return CompileError(
        f"{engine} cannot run the model on these inputs: {_first_line(error)}",
        hint="random inputs do not suit every model: give real ones (--inputs)",
    )
