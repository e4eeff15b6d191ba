"""Boxes by vectors, where choices could go wrong: equal scores, zeros of both signs, infinities, boxes without area,
corners in any order, more boxes than a vector has lanes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from mccompile.ops.nms import NonMaxSuppression
from tests.support.targets import needs_target

MOST = [(1, 3), (2, 40), (3, 300)]
"""Classes, and the most boxes of each."""


def _model(classes: int, boxes: int, given: list[Array], center: bool) -> onnx.ModelProto:
    ports = [("b", (2, boxes, 4)), ("s", (2, classes, boxes))]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ports]
    names = [f"c{i}" for i in range(len(given))]
    node = helper.make_node("NonMaxSuppression", ["b", "s", *names], ["y"], center_point_box=int(center))
    found = helper.make_tensor_value_info("y", TensorProto.INT64, ("n", 3))
    constants = [numpy_helper.from_array(a, n) for a, n in zip(given, names, strict=True)]
    graph = helper.make_graph([node], "boxes", inputs, [found], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _drawn(rng: np.random.Generator, classes: int, boxes: int, center: bool) -> tuple[Array, Array]:
    """Numbers of a coarse grid: many scores are equal or neighbours, boxes have no area or lie in one another."""
    places = rng.integers(-6, 7, (2, boxes, 4)).astype(np.float32) / 4
    if center:
        places[..., 2:] = np.abs(places[..., 2:])
    scores = rng.integers(-20, 21, (2, classes, boxes)).astype(np.float32) / 8
    scores = np.where(rng.random(scores.shape) < 0.3, np.nextafter(scores, 9 * scores), scores)
    special = rng.choice(np.array([-0.0, np.inf, -np.inf, 1e-40, 3.4e38], np.float32), scores.shape)
    return places, np.where(rng.random(scores.shape) < 0.1, special, scores).astype(np.float32)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize(("classes", "most"), MOST)
def test_boxes_are_those_of_the_definition(
    classes: int, most: int, center: bool, target: str, tmp_path: Path
) -> None:
    needs_target(target)
    rng = np.random.default_rng(most + center)
    boxes = 3 * most if most < 100 else most
    given = [np.array([most]), np.float32([0.25]), np.float32([-1.5])][: 1 + 2 * int(rng.integers(2))]
    model = _model(classes, boxes, given, center)
    vectors = mccompile.compile(model, tmp_path / "v", target=target, kernels={"nms": "nms.vector"})
    assert "nms.vector" in [s["kernel"] for s in vectors.report["steps"]]
    network = mccompile.load(tmp_path / "v")
    for _ in range(5):
        places, scores = _drawn(rng, classes, boxes, center)
        got = network(places, scores)
        wanted, count = NonMaxSuppression(2 * classes * most, center).evaluate(
            places, scores, *given, *[None] * (3 - len(given))
        )
        assert len(wanted) == count
        np.testing.assert_array_equal(next(iter(got.values())) if isinstance(got, dict) else got, wanted)
