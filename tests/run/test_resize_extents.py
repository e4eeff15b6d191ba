"""Resize along extents of the run, in every mode, where coordinates lie in all ways."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest

import mccompile
from mccompile.ir.errors import CompileError
from tests.support.runs import compare
from tests.support.small_models import Maker

CUBIC: dict[str, Any] = {"mode": "cubic", "coordinate_transformation_mode": "half_pixel"}
CASES: dict[str, tuple[dict[str, Any], Any]] = {
    "cubic": (CUBIC, (8, 5)),
    "excluding": (CUBIC | {"exclude_outside": 1, "cubic_coeff_a": -0.5}, (2.0, 0.75)),
    "widened": (CUBIC | {"antialias": 1, "exclude_outside": 1}, (0.5, 0.75)),
    "linear": ({"mode": "linear", "antialias": 1}, (0.5, 2.0)),
    "symmetric": ({"mode": "linear", "coordinate_transformation_mode": "half_pixel_symmetric"}, (1.5, 0.5)),
    "region": ({"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize",
                "extrapolation_value": 5.0}, (13, 14)),
}  # fmt: skip
"""Attributes, and scales or sizes of two axes."""


def _resized(attributes: dict[str, Any], of: Any) -> onnx.ModelProto:
    m = Maker(opset=18)
    crop = attributes.get("coordinate_transformation_mode") == "tf_crop_and_resize"
    region = m.const(np.float32([0.1, 0.2, 0.9, 1.2])) if crop else ""
    by_scale = isinstance(of[0], float)
    given = ["", m.const(np.array(of))] if not by_scale else [m.const(np.float32(of)), ""]
    m.node("Resize", [m.input("x", [1, 2, "h", "w"]), region, *given], "y", axes=[2, 3], **attributes)
    return m.model(["y"])


@pytest.mark.parametrize("name", CASES)
def test_every_extent_is_resized_as_by_onnxruntime(name: str, tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(_resized(*CASES[name]), path)
    mccompile.compile(path, tmp_path / "out", target="generic", dims={"h": "4..9", "w": "4..12"})
    network = mccompile.load(tmp_path / "out")
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(5)
    for h, w in ((4, 4), (9, 12), (7, 5), (6, 11)):
        x = rng.standard_normal((1, 2, h, w)).astype(np.float32)
        network.fill_arenas(0xFF)
        (wanted,) = session.run(None, {"x": x})
        np.testing.assert_allclose(network.run({"x": x})["y"], wanted, 0, 2e-5, err_msg=f"{h} x {w}")


def test_a_filter_needs_a_width(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(_resized(CUBIC | {"antialias": 1}, (8, 5)), path)
    with pytest.raises(CompileError, match="antialias is not supported where the scale is known at run time only"):
        mccompile.compile(path, tmp_path / "out", target="generic", dims={"h": "4..9", "w": "4..12"})


GROWN: dict[str, dict[str, Any]] = {
    "nearest": {"mode": "nearest"}, "linear": {"mode": "linear"}, "cubic": {"mode": "cubic"},
    "linear filter": {"mode": "linear", "antialias": 1}, "cubic filter": {"mode": "cubic", "antialias": 1},
}  # fmt: skip


@pytest.mark.parametrize("scales", [(1.25, 1.25), (1.25, 0.75)], ids=str)
@pytest.mark.parametrize("attributes", GROWN.values(), ids=GROWN)
def test_what_a_scale_does_not_change_is_a_copy(
    attributes: dict[str, Any], scales: tuple[float, float], tmp_path: Path
) -> None:
    """3 elements by 1.25 are 3: onnxruntime copies where no axis changes, and an axis beside a widened filter."""
    feeds = [{"x": np.random.default_rng(h).standard_normal((1, 2, h, w)).astype(np.float32)}
             for h, w in ((3, 3), (2, 3), (3, 4), (4, 3), (30, 7), (2, 2))]  # fmt: skip
    dims = {"h": "2..3000", "w": "2..99"}
    compare(_resized(attributes, scales), tmp_path, feeds, 0, 2e-5, target="generic", dims=dims)


def test_a_fixed_axis_beside_one_of_the_run_is_copied_with_it(tmp_path: Path) -> None:
    m = Maker(opset=18)
    m.node("Resize", [m.input("x", [3, "w"]), "", m.const(np.float32([1.25, 1.25]))], "y", mode="linear")
    feeds = [{"x": np.random.default_rng(w).standard_normal((3, w)).astype(np.float32)} for w in (1, 3, 4, 50)]
    compare(m.model(["y"]), tmp_path, feeds, 0, 1e-5, target="generic", dims={"w": "1..99"})


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_scales_may_be_bytes_that_are_dequantised(domain: str, tmp_path: Path) -> None:
    """As onnxruntime's configuration for QNN writes them, in either domain: known, though weights stay bytes."""
    m = Maker(opset=13)
    step = [m.const(np.float32(1 / 64)), m.const(np.uint8(0))]
    scales = m.node("QuantizeLinear", [m.const(np.float32([1, 1, 1.5, 2])), *step], domain=domain)
    scales = m.node("DequantizeLinear", [scales, *step], domain=domain)
    m.node("Resize", [m.input("x", [1, 3, 4, 4]), "", scales], "y", mode="linear")
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3, 6, 8])
    opsets = [onnx.helper.make_opsetid("", m.opset), onnx.helper.make_opsetid("com.microsoft", 1)]
    graph = onnx.helper.make_graph(m.nodes, "g", m.inputs, [y], m.weights)
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    feeds = [{"x": np.random.default_rng(1).standard_normal((1, 3, 4, 4)).astype(np.float32)}]
    compare(model, tmp_path, feeds, 0, 1e-5, target="generic")


@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_beside_a_region_of_the_run_are_those_of_extents_of_the_run(mode: str, tmp_path: Path) -> None:
    """An input region: the result had 2 times the largest extent whatever the run's was."""
    m = Maker(opset=18)
    region, scales = m.input("region", [4]), m.const(np.float32([2, 3]))
    m.node("Resize", [m.input("x", [1, 2, "h", 5]), region, scales], "y", axes=[2, 3], mode=mode,
           coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    rng = np.random.default_rng(3)
    feeds = [{"x": rng.standard_normal((1, 2, h, 5)).astype(np.float32), "region": np.float32([0.1, 0.2, 0.9, 0.8])}
             for h in (1, 5, 400)]  # fmt: skip
    compare(m.model(["y"]), tmp_path, feeds, 0, 2e-4, target="generic", dims={"h": "1..3000"})


BY_SCALES: dict[str, dict[str, Any]] = {
    "linear": {"mode": "linear"},
    "nearest": {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
    "cubic": {"mode": "cubic"},
}


@pytest.mark.parametrize("most", [16, 300])
@pytest.mark.parametrize("attributes", BY_SCALES.values(), ids=BY_SCALES)
def test_what_scales_of_the_run_do_not_change_is_a_copy(
    attributes: dict[str, Any], most: int, tmp_path: Path
) -> None:
    """9 by 1.1 are 9, where it is all that changes: beside another axis, it is sampled."""
    m = Maker(opset=18)
    x = m.input("x", [1, 1, "h", "w"])
    m.node("Resize", [x, "", m.input("scales", [4])], "y", **attributes)
    m.node("Relu", [m.input("like", ["p", "q"])], "z")
    graph = onnx.helper.make_graph(
        m.nodes, "resized", m.inputs,
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
         for name, shape in (("y", [1, 1, "p", "q"]), ("z", ["p", "q"]))],
    )  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    rng = np.random.default_rng(3)
    feeds = []
    for h, by, w, along in ((9, 1.1, 9, 1.05), (9, 1.1, 4, 2), (8, 0.75, 4, 1.5), (3, 1.5, 4, 0.75), (1, 1.5, 1, 1)):
        x_, like = rng.standard_normal((1, 1, h, w)), rng.standard_normal((int(h * by), int(w * along)))
        scales = np.float32([1, 1, by, along])
        feeds.append({"x": x_.astype(np.float32), "like": like.astype(np.float32), "scales": scales})
    dims = dict.fromkeys("hwpq", f"1..{most}")
    compare(model, tmp_path, feeds, 0, 2e-5, target="generic", dims=dims)
