"""Drawn networks as the tools of their users leave them: quantised, in f16, optimised, by onnxruntime's own programs.

A tool is given a drawn network of fixed shapes as a file, and data to calibrate by. What it writes is read as a
network again, each node a step that onnxruntime runs alone, so that it is judged and made smaller like any other.
Example: of ``v1 = Conv(x); v2 = Relu(v1)`` the optimiser makes ``v2 = FusedConv(x)`` of domain com.microsoft.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

from tests.support.children import in_children
from tests.support.compose.definite import Arrays, Refused
from tests.support.compose.network import Step
from tests.support.fuzz.family import Family, FamilyComposer
from tests.support.fuzz.profiles import PROFILES, family

NAME = "tooled"
"""The attack."""

BASES = (
    "all", "all", "newest", "layers", "extents", "cells", "control", "quant", "wide", "wide", "wide_quant", "floats",
)  # fmt: skip
"""Profiles whose networks are given to tools."""

SECONDS = 20
"""What a tool may take: onnxruntime's quantiser has no end where scales are shared in a circle."""

CALIBRATED = 3
"""Sets of data beside the one that the network is run on."""

LEVELS = (
    ort.GraphOptimizationLevel.ORT_ENABLE_BASIC,
    ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED,
    ort.GraphOptimizationLevel.ORT_ENABLE_ALL,
)


@dataclass(frozen=True)
class Job:
    """What a tool has: choices, the network's file, one for what it makes, and the network's inputs."""

    random: random.Random
    path: Path
    made: Path
    inputs: Arrays


Tool = Callable[[Job], None]


def tooled(seed: int) -> tuple[Family, bool]:
    """The network of a seed, and whether it fills wide vectors. Refused if nothing came of it, or of a tool."""
    r = random.Random(f"{NAME} {seed}")
    base = r.choice(BASES)
    net = family(seed, base)
    if not net.inputs or not net.judged_by_file or net.drawn:
        raise Refused("not for tools")
    with tempfile.TemporaryDirectory(prefix="mccompile-fuzz-") as name:
        job = Job(r, Path(name) / "0.onnx", Path(name) / "1.onnx", net.inputs)
        model = through(r.choice(CHAINS), job, net.model())
    return read(seed, model, net.inputs), PROFILES[base].wide


def through(chain: Sequence[Tool], job: Job, model: onnx.ModelProto) -> onnx.ModelProto:
    """What tools one after the other make of a model. Refused where one fails."""
    for tool in chain:
        onnx.save(model, job.path)
        ((text, ended),) = in_children([partial(_call, tool, job)], SECONDS)
        if text or ended:
            raise Refused(f"{tool.__name__}: {text}")
        model = onnx.load(job.made)
    return model


def _call(tool: Tool, job: Job) -> str:
    """In a process of its own: what tools print is of no use."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    tool(job)
    return ""


# -- tools --------------------------------------------------------------------------------------------------------
def optimise(job: Job) -> None:
    """As a session saves what it made of a model."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = job.random.choice(LEVELS)
    options.optimized_model_filepath = str(job.made)
    ort.InferenceSession(str(job.path), options, providers=["CPUExecutionProvider"])


def quantise(job: Job, operators: bool = False) -> None:
    """By ranges of what was computed on some data; QDQ pairs, or operators that compute in integers."""
    from onnxruntime.quantization import QuantFormat, QuantType, quantize_static

    r = job.random
    wide = () if operators else (QuantType.QInt16, QuantType.QUInt16)
    activations = r.choice((QuantType.QInt8, QuantType.QUInt8, QuantType.QUInt8, *wide))
    extra = {key: r.choice(values) for key, (percent, values) in EXTRA.items() if r.random() * 100 < percent}
    if activations in wide and r.random() < 0.3:
        extra["UseQDQContribOps"] = True
    quantize_static(
        str(_with_shapes(job.path)),
        str(job.made),
        _data(job.inputs),
        quant_format=QuantFormat.QOperator if operators else QuantFormat.QDQ,
        activation_type=activations,
        weight_type=QuantType.QInt8 if operators else r.choice((QuantType.QInt8, QuantType.QInt8, QuantType.QUInt8)),
        per_channel=r.random() < 0.6,
        reduce_range=r.random() < 0.2,
        extra_options=extra,
    )


EXTRA: dict[str, tuple[int, tuple[bool, ...]]] = {
    "ActivationSymmetric": (30, (True,)),
    "WeightSymmetric": (30, (True, False)),
    "AddQDQPairToWeight": (30, (True,)),
    "DedicatedQDQPair": (20, (True,)),
    "QuantizeBias": (20, (False,)),
    "ForceQuantizeNoInputCheck": (30, (True,)),
}
"""How often in a hundred an option of the quantiser is given, and its values."""


def quantise_operators(job: Job) -> None:
    quantise(job, operators=True)


def quantise_at_run_time(job: Job) -> None:
    """Weights alone; what is multiplied by them is measured in each run."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    r = job.random
    weights = r.choice((QuantType.QInt8, QuantType.QUInt8))
    quantize_dynamic(
        str(_with_shapes(job.path)), str(job.made), weight_type=weights, per_channel=r.random() < 0.5,
        reduce_range=r.random() < 0.2,
    )  # fmt: skip


def halve(job: Job) -> None:
    """In f16, with f32 at its inputs and outputs."""
    from onnxruntime.transformers.float16 import convert_float_to_float16

    model = onnx.shape_inference.infer_shapes(onnx.load(job.path))
    onnx.save(convert_float_to_float16(model, keep_io_types=True, disable_shape_infer=True), job.made)


CHAINS: tuple[tuple[Tool, ...], ...] = (
    (optimise,), (optimise,), (optimise,), (halve,), (halve, optimise),
    (quantise,), (quantise,), (quantise_operators,), (quantise_operators,), (quantise_at_run_time,),
    (quantise, optimise), (quantise, optimise), (quantise_operators, optimise), (quantise_at_run_time, optimise),
    (optimise, quantise), (optimise, quantise_at_run_time),
)  # fmt: skip


def _with_shapes(path: Path) -> Path:
    """The model with the shapes of all its values, without which the quantiser leaves much as it is."""
    known = path.with_name("shapes.onnx")
    onnx.shape_inference.infer_shapes_path(str(path), str(known))
    return known


def _data(inputs: Arrays) -> Any:
    """The network's inputs, and some that are a bit off, as onnxruntime reads them."""
    from onnxruntime.quantization import CalibrationDataReader

    left = iter([_near(inputs, seed) for seed in range(CALIBRATED + 1)])

    class Reader(CalibrationDataReader):
        def get_next(self) -> Arrays | None:
            return next(left, None)

    return Reader()


def _near(inputs: Arrays, seed: int) -> Arrays:
    r = np.random.default_rng(seed)
    off = {n: seed * r.normal(0, 0.05, a.shape) for n, a in inputs.items() if a.dtype.kind == "f"}
    return {n: (a + off[n]).astype(a.dtype) if n in off else a for n, a in inputs.items()}


# -- a file as a network --------------------------------------------------------------------------------------------
def read(seed: int, model: onnx.ModelProto, inputs: Arrays) -> Family:
    """A model and its inputs as a network of steps. Refused where onnxruntime does not run each of them alone."""
    graph = model.graph
    opset = next(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    c = FamilyComposer(seed, ())
    c.net.constants = {t.name: np.asarray(numpy_helper.to_array(t)) for t in graph.initializer}
    c.net.inputs = {v.name: inputs[v.name] for v in graph.input if v.name in inputs}
    c.net.values = {**c.net.constants, **c.net.inputs}
    steps = [_step(node, opset) for node in graph.node]
    while steps:  # the converter to f16 adds casts of inputs behind everything else
        ready = [s for s in steps if c.net.values.keys() >= set(s.reads)]
        if not ready:
            raise Refused("a circle, or a value that nothing makes")
        for step in ready:
            c.add(step)
        steps = [s for s in steps if not any(s is r for r in ready)]
    c.net.outputs = [v.name for v in graph.output]
    c.net.prune()
    return c.net


def _step(node: onnx.NodeProto, opset: int) -> Step:
    attrs = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}
    captured = sorted(set().union(*(_captured(a.g) for a in node.attribute if a.HasField("g"))))
    domain = "" if node.domain == "ai.onnx" else node.domain
    return Step(node.op_type, tuple(node.input), tuple(node.output), attrs, domain, tuple(captured), opset)


def _plain(value: Any) -> Any:
    """An attribute with its texts as drawn steps have them."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    return value.decode() if isinstance(value, bytes) else value


def _captured(graph: onnx.GraphProto) -> set[str]:
    """What a sub-graph reads of those around it."""
    made = {v.name for v in (*graph.input, *graph.initializer)} | {o for node in graph.node for o in node.output}
    read = {v.name for v in graph.output} | {n for node in graph.node for n in node.input if n}
    for inner in (a.g for node in graph.node for a in node.attribute if a.HasField("g")):
        read |= _captured(inner)
    return read - made
