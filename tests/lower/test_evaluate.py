"""Kernel IR means what its graph means: evaluated as lowered, and after the passes on kernel IR."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from mccompile.driver import Compilation, Options, import_graph, optimize
from mccompile.ir.errors import InternalError
from mccompile.ir.files import arrays_of, text_of
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Block, Call, KernelModule, Logical
from mccompile.ir.kernel_parse import parse_module
from mccompile.ir.kernel_text import print_program
from mccompile.kernel_passes.pipeline import KERNEL_PIPELINES, improve
from mccompile.kernels.registry import params_of
from mccompile.lower.evaluate import evaluate, unknown
from mccompile.lower.growth import Budget
from mccompile.lower.lower import lower
from mccompile.ops.registry import lookup
from mccompile.plan.plan import plan
from mccompile.targets.target import resolve
from tests._skips import needs_shared
from tests.support.graphs import difference, fill_constants, random_inputs
from tests.support.real_models import RealModel, real_models
from tests.support.small_models import MODELS, Maker, write_model

FAST_MACS = 5e6
"""Larger networks are left to the slow tests."""

def _check(c: Compilation, inputs: dict[str, np.ndarray]) -> None:
    optimize(c)
    want = c.graph.evaluate(inputs, wide=True)
    module = lower(c.graph, c.target, budget=Budget(1 << 30)).module
    for stage in ("lowered", "passed"):
        assert not unknown(module), stage
        assert difference(want, evaluate(module, inputs, wide=True)) < 1e-12, stage
        improve(module, KERNEL_PIPELINES["Os"], c.target)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
@pytest.mark.parametrize("name", MODELS)
def test_small_models(name: str, target: str, tmp_path: Path) -> None:
    c = import_graph(write_model(name, tmp_path), Options(target=target))
    _check(c, random_inputs(c.graph, 1))


@pytest.mark.parametrize("kept", [0, 2, 5])
def test_rows_that_are_counted(kept: int, tmp_path: Path) -> None:
    """What a call counts is the extent of its own results, and of all that are made of them."""
    m = Maker()
    x, most = m.input("x", [5, 3]), m.input("m", [5])
    mask = m.node("Greater", [most, m.const(np.float32(0))])
    rows = m.node("Compress", [x, mask], axis=0)
    m.node("Softmax", [m.node("MatMul", [rows, m.weight((3, 4))])], "y", axis=0)
    m.node("Transpose", [m.node("NonZero", [mask])], "places", perm=[1, 0])
    onnx.save(m.model(["y", "places"]), tmp_path / "net.onnx")
    inputs = {"x": np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3), "m": np.float32(np.arange(5) < kept)}
    for target in ("generic", "x86-64-v3"):
        _check(import_graph(tmp_path / "net.onnx", Options(target=target)), inputs)


def _check_real(model: RealModel, target: str) -> None:
    c = import_graph(model.path, Options(target=target, input_shapes=model.shapes))
    _check(c, {v.name: model.inputs()[v.name].reshape(v.shape) for v in c.graph.inputs})


SUPPORTED = [m for m in real_models() if not m.later]


@pytest.mark.parametrize("target", ["generic", "x86-64-v4"])
@pytest.mark.parametrize("model", [m for m in SUPPORTED if m.macs <= FAST_MACS], ids=lambda m: m.name)
def test_networks(model: RealModel, target: str) -> None:
    _check_real(model, target)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["generic", "x86-64-v4"])
@pytest.mark.parametrize("model", [m for m in SUPPORTED if m.macs > FAST_MACS], ids=lambda m: m.name)
def test_large_networks(model: RealModel, target: str) -> None:
    _check_real(model, target)


def test_there_are_networks() -> None:
    needs_shared("models")
    assert len(SUPPORTED) > 20


# -- what evaluation notices ---------------------------------------------------------------------------------------
TEXT = """graph @g(%x: f32[1,2,3,4]) {
  %w = const [0.5, -1.0, 2.0, 1.5] : f32[2,2,1,1]
  %t = transpose(%x) {perm=(0, 2, 3, 1)} : f32[1,3,4,2]
  %a = reduce(%t) {mode='sum', axes=(1,)} : f32[1,1,4,2]
  %b = softmax(%a) {axis=2} : f32[1,1,4,2]
  %y = conv(%x, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)} : f32[1,2,3,4]
  return %b, %y
}"""


def _module() -> tuple[KernelModule, dict[str, np.ndarray], dict[str, np.ndarray]]:
    graph = parse_graph(TEXT, lookup)
    inputs = random_inputs(graph, 1)
    return lower(graph, resolve("x86-64-v3")).module, inputs, graph.evaluate(inputs, wide=True)


def test_permuted_views_and_packed_weights_are_known_to_the_operator() -> None:
    module, inputs, want = _module()
    calls = [s for s in module.body.linear() if isinstance(s, Call) and s.logical is not None]
    assert {c.op.name for c in calls} >= {"reduce", "softmax"}
    assert difference(want, evaluate(module, inputs, wide=True)) < 1e-14


def test_a_view_that_is_shifted_is_noticed() -> None:
    """A planted error: the copy of the transpose reads one element further on."""
    module, inputs, want = _module()
    steps = list(module.body.linear())
    at, copy = next((i, s) for i, s in enumerate(steps) if isinstance(s, Call) and s.op.name == "transpose")
    assert copy.reads[0] is not None
    view = replace(copy.reads[0], shape=(1, *copy.reads[0].shape[1:]), offset=1)
    steps[at] = replace(copy, reads=(view,), results=(replace(copy.results[0], shape=view.shape),))
    module.body = Block(tuple(steps))
    assert not difference(want, evaluate(module, inputs, wide=True)) < 1e-3


def test_the_phases_of_a_transposed_convolution_are_convolutions() -> None:
    text = """graph @g(%x: f32[1,16,6,6]:nhwc) {
      %w = const : f32[16,8,4,4] ; sha256=000000000000
      %y = conv_transpose(%x, %w) {strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), groups=2,
                                   output_padding=(0, 0)} : f32[1,16,12,12]:nhwc
      return %y
    }"""
    graph = parse_graph(text, lookup)
    fill_constants(graph, 1)
    inputs = random_inputs(graph, 1)
    module = lower(graph, resolve("x86-64-v3")).module
    calls = [s for s in module.body.linear() if isinstance(s, Call) and s.kernel == "conv.channels"]
    assert len(calls) == 4
    assert difference(graph.evaluate(inputs, wide=True), evaluate(module, inputs, wide=True)) < 1e-14


def test_what_is_not_known_is_said() -> None:
    module, inputs, _ = _module()
    known = list(module.body.linear())
    at, call = next((i, s) for i, s in enumerate(known) if isinstance(s, Call) and s.op.name == "reduce")
    known[at] = replace(call, logical=Logical(missing="it was forgotten"))
    module.body = Block(tuple(known))
    assert unknown(module) == {call.kernel: "it was forgotten"}
    with pytest.raises(InternalError, match="cannot be evaluated: it was forgotten"):
        evaluate(module, inputs)


def test_meaning_survives_the_text() -> None:
    module, inputs, want = _module()
    text, arrays = text_of(module), arrays_of(module)
    assert " means " in text
    again = parse_module(text, lookup, params_of, arrays)
    assert difference(want, evaluate(again, inputs, wide=True)) < 1e-14
    assert " means " not in print_program(plan(module), digests=False)  # of which the blob's identity is made
