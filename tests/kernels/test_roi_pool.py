"""Regions by their largest elements: at the ends of images, of no pixel, and of images that do not exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import mccompile
from mccompile.ir.errors import CompileError
from tests.support.judge import plain_session

X = np.random.default_rng(0).normal(size=(2, 3, 5, 7)).astype(np.float32)
REGIONS = np.array(
    [
        [0, 0, 0, 6, 4], [1, 0.5, 2.5, 3.5, 1.5], [0, -0.5, -1.5, 1, 2], [1, 8, 6, 9, 9], [0, 4, 4, 2, 0],
        [1, -3, -3, 1, 1], [0.9, 5, 3, 12, 12], [1, 0.49999997, 1, 5, 2], [0, -1e6, 2, 1e6, 3],
    ],
    np.float32,
)  # fmt: skip
"""Of whole images, with halves, beyond an end, outside, from behind, over an end, and wider than any."""


def _model(regions: np.ndarray | None, x: np.ndarray = X, many: int = len(REGIONS), **how: object) -> onnx.ModelProto:
    """``regions`` are constants, or inputs where there are none."""
    given = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    if regions is None:
        given.append(helper.make_tensor_value_info("r", onnx.TensorProto.FLOAT, [many, 5]))
    node = helper.make_node("MaxRoiPool", ["x", "r"], ["y"], **how)
    constants = [] if regions is None else [numpy_helper.from_array(regions, "r")]
    graph = helper.make_graph([node], "g", given, [onnx.ValueInfoProto(name="y")], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 12)], ir_version=8)


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("bins", "scale"), [([2, 3], 1.0), ([1, 1], 0.5), ([7, 4], 1.3), ([3, 2], 0.1)])
def test_regions_at_the_ends_of_images(
    bins: list[int], scale: float, known: bool, target: str, tmp_path: Path
) -> None:
    model = _model(REGIONS if known else None, pooled_shape=bins, spatial_scale=scale)
    feeds = {"x": X} if known else {"x": X, "r": REGIONS}
    mccompile.compile(model, tmp_path / "out", target=target, name="net")
    (wanted,) = plain_session(model.SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run(feeds)["y"], wanted)


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("known", [False, True])
def test_extents_of_the_run(known: bool, target: str, tmp_path: Path) -> None:
    """Of images and of regions. How many images there are is known at run time only, and which constants are of."""
    model = _model(REGIONS if known else None, pooled_shape=[2, 3], spatial_scale=0.8)
    for given, names in zip(model.graph.input, (["n", "", "h", "w"], ["k", ""]), strict=False):
        for dim, name in zip(given.type.tensor_type.shape.dim, names, strict=True):
            if name:
                dim.dim_param = name
    bounds = {"n": "1..2", "h": "1..9", "w": "2..7"} | ({} if known else {"k": "0..9"})
    mccompile.compile(model, tmp_path / "out", target=target, name="net", dims=bounds)
    network, session = mccompile.load(tmp_path / "out"), plain_session(model.SerializeToString())
    for shape, many in (((2, 3, 5, 7), 9), ((2, 3, 1, 2), 4), ((2, 3, 9, 4), 0)):
        x = np.random.default_rng(many).normal(size=shape).astype(np.float32)
        feeds = {"x": x} if known else {"x": x, "r": REGIONS[:many]}
        np.testing.assert_array_equal(network.run(feeds)["y"], session.run(None, feeds)[0])
    with pytest.raises(mccompile.CompileError, match="index"):
        network.run({"x": X[:1]} if known else {"x": X[:1], "r": REGIONS})


def test_regions_that_are_no_numbers_have_no_pixels(tmp_path: Path) -> None:
    """Nor do those that begin beyond all; as constants neither."""
    regions = np.array([[0, np.nan, 0, 3, 3], [0, np.inf, 0, np.inf, 3], [0, 0, 0, 3, np.nan]], np.float32)
    for place, known in (("c", regions), ("r", None)):
        model = _model(known, many=3, pooled_shape=[2, 2])
        mccompile.compile(model, tmp_path / place, target="generic", name="net")
        got = mccompile.load(tmp_path / place).run({"x": X} if known is not None else {"x": X, "r": regions})["y"]
        np.testing.assert_array_equal(got[:2], 0)
        np.testing.assert_array_equal(got[2], X[0, :, :1, :4].reshape(3, 1, 2, 2).max(-1).repeat(2, 1))


def test_images_that_do_not_exist(tmp_path: Path) -> None:
    regions = np.array([[2, 0, 0, 3, 3]], np.float32)
    with pytest.raises(CompileError, match=r"regions are of images \[2.0\], but there are 2"):
        mccompile.compile(_model(regions, pooled_shape=[1, 1]), tmp_path / "known", target="generic")
    mccompile.compile(_model(None, many=1, pooled_shape=[1, 1]), tmp_path / "out", target="generic", name="net")
    with pytest.raises(mccompile.CompileError, match="index"):
        mccompile.load(tmp_path / "out").run({"x": X, "r": regions})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({}, "pooled_shape"),
        ({"pooled_shape": [2]}, r"\(2,\) bins are not supported"),
        ({"pooled_shape": [0, 1]}, r"\(0, 1\) bins are not supported"),
        ({"pooled_shape": [1, 1], "spatial_scale": -1.0}, "has to be greater than 0"),
        ({"pooled_shape": [1, 1], "spatial_scale": float("nan")}, "has to be greater than 0"),
    ],
)
def test_attributes_that_make_no_sense_are_refused(how: dict[str, object], why: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=why):
        mccompile.compile(_model(REGIONS, **how), tmp_path / "out", target="generic")
