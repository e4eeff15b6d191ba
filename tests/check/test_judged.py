"""Golden tests of quantised networks, and of weights of fewer bits: the reference judges what they expect."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile import driver
from mccompile.check.drawn import drawn_inputs
from mccompile.check.golden import reference_golden
from mccompile.check.judged import judged_stream
from mccompile.check.reference import judge_of
from mccompile.driver import Compilation, Options
from mccompile.ir import expr as ex
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.types import F32
from tests.check.conftest import compile_to, save
from tests.check.test_golden import build_and_run
from tests.support.quantised import Net, residual
from tests.support.small_models import Maker


def _product(path: Path) -> Path:
    m = Maker()
    m.node("MatMul", [m.input("x", [3, 40]), m.weight((40, 30))], "h")
    m.node("Relu", ["h"], "y")
    onnx.save(m.model(["y"]), path)
    return path


def _kept(path: Path) -> Path:
    """An integrator of bytes: kept = x + h, which is h in the next run, and y is half of it."""
    nodes = [
        helper.make_node("DequantizeLinear", ["h", "s", "z"], ["hr"]),
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xr"]),
        helper.make_node("Add", ["hr", "xr"], ["sum"]),
        helper.make_node("QuantizeLinear", ["sum", "s", "z"], ["kept"]),
        helper.make_node("QuantizeLinear", ["sum", "t", "z"], ["y"]),
    ]
    stored = {"s": np.array(0.05, np.float32), "t": np.array(0.1, np.float32), "z": np.array(3, np.int8)}
    ports = {n: (TensorProto.INT8, [1, 8]) for n in ("h", "x", "kept", "y")}
    return save(path, nodes, {n: ports[n] for n in "hx"}, {n: ports[n] for n in ("kept", "y")}, stored)


def _bytes(path: Path) -> Path:
    net = Net(1, (1, 3, 5, 5))
    net.conv(4, 3, relu=True)
    net.conv(4, 1)
    return net.model(path)


MODELS = {
    "quantised": (_bytes, Options(target="generic")),
    "as TensorFlow Lite": (_bytes, Options(target="generic", requant="tflite")),
    "weights of fewer bits": (_product, Options(target="generic", weights={"*": "i8"})),
    "products of fewer bits": (_product, Options(target="generic", precision={"*": "bf16"})),
    "state": (_kept, Options(target="generic", state={"kept": "h"})),
}


def _wrong_pass(c: Compilation) -> None:
    """Makes the last layer another one."""
    node = c.graph.nodes[-1]
    spoiled = [v for v in node.inputs if ".multiplier" in v.name]
    for v in spoiled:
        c.graph.constants[v] = (c.graph.array(v) * 0.9).astype(np.int32)
    if not spoiled:
        body = node.post.get(0, ex.acc(node.result.dtype))
        node.post[0] = ex.convert(ex.apply("mul", ex.convert(body, F32), ex.num(0.9, F32)), node.result.dtype)


@pytest.mark.parametrize("installed", [True, False])
@pytest.mark.parametrize("kind", MODELS)
def test_a_wrong_pass_is_found_when_the_test_is_written(
    kind: str, installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "onnxruntime", None)
    make, options = MODELS[kind]
    model, right = make(tmp_path / "net.onnx"), driver.optimize
    made = driver.compile(model, tmp_path / "right", options, extra=reference_golden(model))
    assert not any("golden" in note for note in made.notes)

    def wrong(c: Compilation, *more: object) -> None:
        right(c)
        _wrong_pass(c)

    monkeypatch.setattr(driver, "optimize", wrong)
    with pytest.raises(CompileError, match="the optimised graph does not compute what onnx"):
        driver.compile(model, tmp_path / "wrong", options, extra=reference_golden(model))
    assert not (tmp_path / "wrong").exists()


@pytest.mark.parametrize("kind", ["quantised", "state"])
def test_the_program_passes(kind: str, tmp_path: Path) -> None:
    make, options = MODELS[kind]
    model = make(tmp_path / "net.onnx")
    driver.compile(model, tmp_path / "out", options, extra=reference_golden(model))
    assert build_and_run(tmp_path / "out", "net").stdout == "PASS net\n"
    assert "which the reference has judged" in (tmp_path / "out" / "test_net.c").read_text()


def test_where_no_tie_is_in_the_way_the_bytes_are_the_references(tmp_path: Path) -> None:
    model = _bytes(tmp_path / "net.onnx")
    c = compile_to(model, tmp_path / "out")
    inputs = drawn_inputs(c, 0, {})
    (want,) = judge_of(model, c).run(inputs).values.values()
    (text,) = reference_golden(model)(c).values()
    written = re.search(r"want_\w+\[\d+\] = \{(.*?)\};", text.decode(), re.DOTALL)
    assert written is not None
    assert [int(x) for x in written[1].replace(",", " ").split()] == want.reshape(-1).tolist()
    assert b"allowed_" not in text


def test_behind_a_tie_the_side_of_the_graph_is_expected_to_the_bit(tmp_path: Path) -> None:
    model = residual(tmp_path / "net.onnx")
    c = compile_to(model, tmp_path / "out")
    stream = judged_stream(model, c)
    ((inputs, expected),) = stream.drawn_runs(c, 0)
    theirs = judge_of(model, c).run(inputs)
    assert not all(expected.compared(n, a).ok for n, a in theirs.values.items())
    assert not any(a.any() for a in expected.noise.values())


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "no array is given for input 'x'"),
        ({"x": np.zeros(75, np.int8)}, r"input 'x' is int8\[75\]"),
        ({"x": np.zeros((1, 3, 5, 5), np.uint8)}, "input 'x' is uint8"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    model = _bytes(tmp_path / "net.onnx")
    with pytest.raises(UsageError, match=said):
        reference_golden(model, given)(compile_to(model, tmp_path / "out"))


def test_what_no_reference_runs_is_told(tmp_path: Path) -> None:
    """onnxruntime takes no bits of 8-bit floats from Python."""
    kind = TensorProto.FLOAT8E5M2
    cast = helper.make_node
    nodes = [cast("Cast", ["x"], ["f"], to=TensorProto.FLOAT), cast("Cast", ["f"], ["y"], to=kind)]
    model = save(tmp_path / "net.onnx", nodes, {"x": (kind, [4])}, {"y": (kind, [4])}, opset=19)
    made = driver.compile(model, tmp_path / "out", Options(target="generic"), extra=reference_golden(model))
    assert len([note for note in made.notes if "which nothing has judged: onnx" in note]) == 1
    assert build_and_run(tmp_path / "out", "net").stdout == "PASS net\n"
