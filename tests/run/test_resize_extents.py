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
