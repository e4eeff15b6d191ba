"""A float network in, a network of 8-bit integers out (QuantizeLinear, DequantizeLinear): by onnxruntime.

What is chosen here is what integer kernels are made for: activations with a zero point, symmetric weights with a
scale for each channel, all 8 bits of them; ranges from the data's least and greatest values.
"""

from __future__ import annotations

import io
import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from mccompile._dataclass import dataclass
from mccompile._files import is_same_place
from mccompile.codegen.names import label
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.whole import written_whole
from mccompile.onnxio import (
    OnnxGraph,
    OnnxModel,
    OnnxNode,
    extract_with_outputs,
    lifted,
    node_label,
    quantisable,
    read_model,
    released,
    subgraphs,
    tensor_names,
    widened,
)
from mccompile.quantize.accuracy import Layer, Run, compare, layers, paired
from mccompile.run.noise import Noise, decibels, json_number
from mccompile.run.samples import Array, Sample, cut, named_arrays, require_finite

METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}
"""How ranges of activations are found, and what onnxruntime calls it."""
ACTIVATIONS = {"int8": "QInt8", "uint8": "QUInt8"}
OPSET = 13
"""The first whose quantised tensors have a scale for each channel."""
QUANTISED = frozenset(
    ("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "ConvInteger", "MatMulInteger", "QLinearConv",
     "QLinearMatMul")
)  # fmt: skip
"""Operators of networks that are quantised already, beside those of other domains that begin with QLinear."""


@dataclass(frozen=True)
class Settings:
    """How to quantise.

    Attributes:
        method: a key of `METHODS`.
        activations: a key of `ACTIVATIONS`.
        per_channel: weights have a scale for each channel, not one for the tensor.
        exclude: names of nodes, or of operators, that stay as they are.
    """

    method: str = "minmax"
    activations: str = "int8"
    per_channel: bool = True
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quantised:
    """What quantisation made, and what it cost on the data that it was calibrated with."""

    file: str
    settings: Settings
    samples: int
    bytes_before: int
    bytes_after: int
    outputs: Mapping[str, Noise]
    layers: Sequence[Layer]
    notes: tuple[str, ...]

    def to_json(self, worst: int) -> dict[str, Any]:
        """Everything, as plain data; of the layers so many."""
        outputs = {
            name: {
                "max_abs_diff": json_number(n.largest),
                "snr_db": decibels(n.relative),
                "argmax_agreement": n.agreement,
            }
            for name, n in self.outputs.items()
        }
        rows = [
            {
                "value": layer.name,
                "nodes": [name for name, _ in layer.nodes],
                "snr_db": decibels(layer.noise.relative),
                "snr_db_of_inputs": decibels(layer.before),
            }
            for layer in self.layers[:worst]
        ]
        return {
            "file": self.file,
            "method": self.settings.method,
            "activations": self.settings.activations,
            "per_channel": self.settings.per_channel,
            "excluded": list(self.settings.exclude),
            "samples": self.samples,
            "bytes": {"float": self.bytes_before, "quantised": self.bytes_after},
            "outputs": outputs,
            "worst_layers": rows,
            "notes": list(self.notes),
        }

    def lines(self, worst: int) -> list[str]:
        """What a user reads."""
        s = self.settings
        kind = f"{s.activations} activations, int8 weights per {'channel' if s.per_channel else 'tensor'}"
        lines = [
            f"{self.file}: {kind}, ranges by {s.method} of {self.samples} samples",
            f"  {self.bytes_before:,} bytes -> {self.bytes_after:,} bytes",
            *(f"  note: {note}" for note in self.notes),
            "  against the float network, on this data:",
        ]
        width = max(map(len, self.outputs), default=0)
        for name, n in self.outputs.items():
            agree = "" if n.agreement is None else f", argmax agrees on {n.agree} of {n.ranked}"
            lines.append(f"    {name:{width}}  max |diff| {n.largest:.4g}, SNR {_text(n.relative)}{agree}")
        shown = [layer for layer in self.layers[:worst] if layer.added]
        if shown:
            lines.append("  layers that add the most noise (SNR behind them; of what they read):")
            lines += [f"    {_nodes(layer)}: {_text(layer.noise.relative)}; {_text(layer.before)}" for layer in shown]
        return lines


def _text(relative: float) -> str:
    number = decibels(relative)
    return ("none" if relative else "exact") if number is None else f"{number:.1f} dB"


def _nodes(layer: Layer) -> str:
    if not layer.nodes:
        return f"input {layer.name}"
    return " + ".join(f"{label(name)} ({op})" for name, op in layer.nodes)


def quantize(model: Path, data: Mapping[str, Array] | Array, out: Path, settings: Settings) -> Quantised:
    """Quantise a model file with data and write the result.

    Args:
        data: samples by input name, or those of the only input (`samples.cut` says how); a hundred are usual.
        out: the .onnx file to write; it is written completely or not at all.

    Raises:
        UsageError: onnxruntime is not installed, the data does not fit, a node to exclude is unknown.
        CompileError: no readable float model, or one that onnxruntime cannot run or quantise.
    """
    tools = _tools()
    read = read_model(model)
    _require_float(read)
    if is_same_place(out, model):
        raise UsageError(f"'{out}' is the model itself", hint="give what is quantised a name of its own: -o NAME")
    excluded = _excluded(read.graph, settings.exclude)
    weights = read.graph.initializers
    inputs = [v for v in read.graph.inputs if v.name not in weights]
    arrays = named_arrays(data, inputs)
    require_finite(arrays)
    samples = cut(arrays, inputs, batch=1)
    with tempfile.TemporaryDirectory(prefix="mccompile-") as folder:
        plain, prepared, made = (Path(folder, f"{name}.onnx") for name in ("plain", "prepared", "quantised"))
        newer, opset = lifted(model, OPSET)
        notes = [f"opset {opset} was converted to {OPSET}"] if opset < OPSET else []
        if len(samples) < FEW:
            notes.append(f"{len(samples)} sample{'s' * (len(samples) > 1)} may not show the ranges of activations")
        wide = widened(newer)
        if wide is not None:
            notes.append("what the network stores in f16 was widened to f32 first")
            samples = [{name: _widened(array) for name, array in sample.items()} for sample in samples]
        plain.write_bytes(newer if wide is None else wide)
        held = _held(plain, read.graph, excluded)
        plain.write_bytes(extract_with_outputs(plain, held))
        with _quiet(tools) as complaints:
            _call(model.name, "prepare", tools.prepare, str(plain), str(prepared), skip_symbolic_shape=True)
            left = released(prepared, held, [name for node in excluded for name in node.outputs if name])
            left += quantisable(prepared)
            _runner(tools, model.name, prepared, [v.name for v in read.graph.outputs])(samples[0])  # the data fits
            notes += _quantised(tools, prepared, made, samples, settings, left, model.name)
        notes += complaints
        _require_quantised(made, model.name)
        outputs, rows = _judge(tools, model.name, read, prepared, made, samples)
        size = made.stat().st_size
        _publish(made, out)
    before = max(model.stat().st_size, len(extract_with_outputs(model, [])))  # with what lies in other files
    return Quantised(str(out), settings, len(samples), before, size, outputs, rows, tuple(notes))


def _widened(array: Array) -> Array:
    return array.astype(np.float32) if array.dtype == np.float16 else array


def _quantised(
    tools: _Tools, prepared: Path, made: Path, samples: Sequence[Sample], settings: Settings, excluded: list[str],
    where: str,
) -> list[str]:  # fmt: skip
    """Write the quantised model; notes on what onnxruntime could not do as it was asked to.

    Of grouped transposed convolutions it takes the wrong axis for the channels (1.31) and fails.
    """
    failed = ""
    for per_channel in (True, False) if settings.per_channel else (False,):
        try:
            _call(
                where, "quantise", tools.static, str(prepared), str(made), _reader(tools, samples),
                quant_format=tools.formats.QDQ, per_channel=per_channel, reduce_range=False,
                activation_type=tools.types[ACTIVATIONS[settings.activations]], weight_type=tools.types.QInt8,
                calibrate_method=tools.methods[METHODS[settings.method]], nodes_to_exclude=excluded,
            )  # fmt: skip
        except CompileError as e:
            if not per_channel:
                raise
            failed = e.rule
        else:
            break
    return [f"weights have one scale for each tensor: for each channel {failed}"] if failed else []


IS_IT_THE_DATA = "is the data what the model expects?"

FEW = 10
"""Fewer samples than this are remarked on."""


@dataclass(frozen=True)
class _Tools:
    """What is used of onnxruntime."""

    onnxruntime: Any
    prepare: Any
    static: Any
    formats: Any
    types: Any
    methods: Any
    reader: Any
    suffix: str


def _tools() -> _Tools:
    try:
        import onnxruntime
        from onnxruntime import quantization as q
        from onnxruntime.quantization.quant_utils import DEQUANT_OUTPUT_SUFFIX
        from onnxruntime.quantization.shape_inference import quant_pre_process
    except ImportError as e:
        raise UsageError(
            f"quantisation needs onnxruntime, which cannot be imported: {e}", hint="pip install 'mccompile[check]'"
        ) from e
    return _Tools(
        onnxruntime, quant_pre_process, q.quantize_static, q.QuantFormat, q.QuantType, q.CalibrationMethod,
        q.CalibrationDataReader, DEQUANT_OUTPUT_SUFFIX,
    )  # fmt: skip


def _require_float(model: OnnxModel) -> None:
    for node in _all_nodes(model.graph):
        if node.op_type in QUANTISED or (node.domain and node.op_type.startswith("QLinear")):
            raise CompileError(
                f"the model is quantised already: {node_label(node)}", where=Path(model.path).name,
                hint="give the float network that it was made from",
            )  # fmt: skip


def _all_nodes(graph: OnnxGraph) -> Iterator[Any]:
    for node in graph.nodes:
        yield node
        for inner in subgraphs(node):
            yield from _all_nodes(inner)


def _excluded(graph: OnnxGraph, names: Sequence[str]) -> list[OnnxNode]:
    """The nodes that names of nodes and operators mean. UsageError for one that means none."""
    found: list[OnnxNode] = []
    for name in names:
        meant = [node for node in graph.nodes if name and name in (node.name, node.op_type)]
        if not meant:
            known = [node.name for node in graph.nodes if node.name]
            shown = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise UsageError(
                f"the model has no node and no operator {name!r}", hint=f"its nodes are {shown or 'without names'}"
            )
        found += meant
    return found


def _held(plain: Path, graph: OnnxGraph, excluded: Sequence[OnnxNode]) -> list[str]:
    """The values around excluded nodes that are no outputs, which they have to be while the model is prepared:
    onnxruntime fuses nodes to others (MatMul and Add to a Gemm), which nobody has excluded."""
    computed, outputs = set(tensor_names(plain)), {v.name for v in graph.outputs}
    around = dict.fromkeys(name for node in excluded for name in (*node.inputs, *node.outputs))
    return [name for name in around if name in computed and name not in outputs]


def _require_quantised(path: Path, name: str) -> None:
    if not any(node.op_type in QUANTISED for node in read_model(path).graph.nodes):
        raise CompileError(
            "onnxruntime found nothing to quantise", where=name,
            hint="it quantises convolutions, products and what lies between them, outside of If, Loop and Scan",
        )  # fmt: skip


_WARNING, _FATAL = 2, 4
"""Severities of onnxruntime's own log; the first is its default."""


@contextmanager
def _quiet(tools: _Tools) -> Iterator[list[str]]:
    """onnxruntime's log while the context lasts: the first lines of its errors; its advice is for its own users."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            if record.levelno >= logging.ERROR and not text.startswith("Traceback"):
                found.append(f"onnxruntime: {text.splitlines()[0]}")

    root, collect = logging.getLogger(), Collect()
    before, root.handlers = root.handlers, [collect]
    tools.onnxruntime.set_default_logger_severity(_FATAL)
    try:
        with redirect_stdout(io.StringIO()):  # it prints, too
            yield found
    finally:
        root.handlers = before
        tools.onnxruntime.set_default_logger_severity(_WARNING)


def _call(where: str, what: str, function: Any, *args: Any, **options: Any) -> None:
    """CompileError for whatever a function of onnxruntime raises."""
    try:
        function(*args, **options)
    except Exception as e:
        hint = IS_IT_THE_DATA if "while running" in str(e) else ""  # it runs on the data to calibrate
        raise CompileError(f"onnxruntime cannot {what} the model: {_first_line(e)}", where=where, hint=hint) from e


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _reader(tools: _Tools, samples: Sequence[Sample]) -> Any:
    """Samples as onnxruntime reads them: one after the other; a part of them where it asks for a range."""

    base: Any = tools.reader

    class Reader(base):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self.left = iter(samples)

        def get_next(self) -> Sample | None:
            return next(self.left, None)

        def __len__(self) -> int:
            return len(samples)

        def set_range(self, start_index: int, end_index: int) -> None:
            self.left = iter(samples[start_index:end_index])

    return Reader()


def _judge(
    tools: _Tools, where: str, read: OnnxModel, prepared: Path, made: Path, samples: Sequence[Sample]
) -> tuple[dict[str, Noise], list[Layer]]:
    """The noise of the outputs, and the layers by what they add to it."""
    graph = read_model(prepared).graph
    ports = [v.name for v in graph.inputs]
    values, others = tensor_names(prepared), tensor_names(made)
    floats = _floats(tools, where, prepared, [*ports, *values], samples[0])
    pairs = paired(floats, [*ports, *others], tools.suffix)
    plain = _runner(tools, where, prepared, [name for name in pairs if name not in ports])
    quantised = _runner(tools, where, made, [name for name in pairs.values() if name not in ports])
    noise = compare(samples, plain, quantised, pairs)
    outputs = {v.name: noise[v.name] for v in read.graph.outputs if v.name in noise}
    return outputs, layers(graph, noise)


def _floats(tools: _Tools, where: str, path: Path, names: Sequence[str], sample: Sample) -> list[str]:
    """The values of a model that are tensors of numbers with a fraction."""
    inner = _runner(tools, where, path, [n for n in names if n not in sample])(sample)
    return [n for n in names if isinstance(inner[n], np.ndarray) and inner[n].dtype.kind == "f"]


def _runner(tools: _Tools, where: str, path: Path, names: Sequence[str]) -> Run:
    """A model as a function from its inputs to these and any of its values; every operator as ONNX defines it.
    ``where`` is the name of the user's file."""
    data = extract_with_outputs(path, list(names))
    options = tools.onnxruntime.SessionOptions()
    options.graph_optimization_level = tools.onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = tools.onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as e:
        raise CompileError(f"onnxruntime cannot load the model: {_first_line(e)}", where=where) from e

    def run(sample: Mapping[str, Array]) -> Mapping[str, Array]:
        try:
            found = session.run(list(names), dict(sample))
        except Exception as e:
            rule = f"onnxruntime cannot run the model: {_first_line(e)}"
            raise CompileError(rule, where=where, hint=IS_IT_THE_DATA) from e
        return {**sample, **dict(zip(names, found, strict=True))}

    return run


def _publish(made: Path, out: Path) -> None:
    """A copy of a file at its place. UsageError where there can be none."""
    if out.is_dir():
        raise UsageError(f"'{out}' is a folder", hint="name the .onnx file itself")
    try:
        with written_whole(out) as staged:
            shutil.copyfile(made, staged)
    except OSError as e:
        raise UsageError(f"'{out}' cannot be written: {e.strerror}") from e
