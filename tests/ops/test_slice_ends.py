"""Where slices begin and end that go beyond an axis, forwards and backwards: as the text of ONNX clamps them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import onnx

import mccompile
from mccompile import driver
from mccompile.driver import Options
from mccompile.ir.dims import symbol, value
from mccompile.ops.slice import clamp_range
from tests.support.judge import plain_session
from tests.support.small_models import Maker

INDICES, STEPS = (-(2**31), -9, -4, -1, 0, 3, 4, 9), (-3, -1, 1, 2)
CASES = list(itertools.product(INDICES, INDICES, STEPS))


def _count(start: int, stop: int, step: int, extent: int) -> int:
    """How many elements the text of Slice says."""
    own, end = (i + extent if i < 0 else i for i in (start, stop))
    if step > 0:
        return len(range(min(max(own, 0), extent), min(max(end, 0), extent), step))
    return len(range(min(max(own, 0), extent - 1), min(max(end, -1), extent - 1), step))


def test_extents_known_and_of_the_run_are_those_of_the_text() -> None:
    n = symbol("n", 0, 5)
    for (start, stop, step), extent in itertools.product(CASES, range(6)):
        first, count = clamp_range(start, stop, step, extent)
        assert count == _count(start, stop, step, extent)
        assert not count or (0 <= first < extent and 0 <= first + (count - 1) * step < extent)
        _, varying = clamp_range(start, stop, step, n)
        assert value(varying, {"n": extent}) == count, (start, stop, step, extent)


def test_what_arguments_of_the_run_take_is_what_onnxruntime_takes(tmp_path: Path) -> None:
    m = Maker()
    given = [m.input(name, [1], onnx.TensorProto.INT64) for name in ("starts", "ends", "steps")]
    m.node("Slice", [m.input("x", [4]), given[0], given[1], m.const(np.array([0])), given[2]], "y")
    model = m.model(["y"])
    onnx.save(model, tmp_path / "slice.onnx")
    graph = driver.import_graph(tmp_path / "slice.onnx", Options(target="generic")).graph
    session = plain_session(model.SerializeToString())
    far = [(start, end, step) for start in (0, 3) for end in (-9, 9) for step in (2**63 - 1, 1 - 2**63, -(2**63))]
    for case in [*CASES, *far]:
        inputs = {name: np.array([i]) for name, i in zip(("starts", "ends", "steps"), case, strict=True)}
        inputs["x"] = np.arange(4, dtype=np.float32)
        (want,) = session.run(None, inputs)
        np.testing.assert_array_equal(graph.evaluate(inputs)["y"], want, err_msg=str(case))


def test_a_slice_backwards_of_what_may_be_empty(tmp_path: Path) -> None:
    """It begins at the lesser of 1 and n - 1, which is in front of the first element where there is none."""
    m = Maker()
    x = m.input("x", ["n", 5])  # type: ignore[list-item]
    ends = [m.const(np.array([i])) for i in (1, -(2**31), 0, -2)]
    m.node("Relu", [m.node("Slice", [x, *ends])], "y")
    model = m.model(["y"])
    onnx.save(model, tmp_path / "slice.onnx")
    for level in ("O0", "O2"):
        options = {"target": "generic", "opt_level": level}
        mccompile.compile(tmp_path / "slice.onnx", tmp_path / level, dims={"n": "0..7"}, **options)
        network = mccompile.load(tmp_path / level)
        for n in (7, 1, 0, 2):
            given = np.arange(5 * n, dtype=np.float32).reshape(n, 5)
            np.testing.assert_array_equal(network.run({"x": given})["y"], given[1::-2] if n > 1 else given)
