"""The forms of docs/conformance.md: what the text of the standard says, computed by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

from tests.ops.test_exact_answers import answers

N = helper.make_node


def _line(at: float, x: np.ndarray) -> float:
    return float(np.interp(at, np.arange(len(x)), x))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("stride", [1, 2])
def test_pools_with_dilations_pad_for_the_dilated_window(auto_pad: str, stride: int, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 2, 7)).astype(np.float32)
    kernel, dilation, out = 3, 2, -(-7 // stride)
    pads = (out - 1) * stride + (kernel - 1) * dilation + 1 - 7
    before = pads // 2 if auto_pad == "SAME_UPPER" else pads - pads // 2
    window = {"kernel_shape": [kernel], "dilations": [dilation], "strides": [stride], "auto_pad": auto_pad}
    nodes = [N("MaxPool", ["x"], ["max"], **window), N("AveragePool", ["x"], ["mean"], **window)]
    got = answers(tmp_path, nodes, {"x": x}, "generic", "O2")
    for o in range(out):
        taps = [i for k in range(kernel) if 0 <= (i := o * stride - before + k * dilation) < 7]
        np.testing.assert_allclose(got["max"][0, :, o], x[0][:, taps].max(1))
        np.testing.assert_allclose(got["mean"][0, :, o], x[0][:, taps].mean(1), rtol=1e-6)


def test_a_crop_to_the_extents_of_the_input_crops(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 6)).astype(np.float32)
    node = N("Resize", ["x", "roi", "", "sizes"], ["y"], mode="linear",
             coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
    constants = {"roi": np.array([0, 0.25, 1, 0.75], np.float32), "sizes": np.array([1, 6])}
    (got,) = answers(tmp_path, [node], {"x": x}, "generic", "O2", constants).values()
    at = 0.25 * 5 + np.arange(6) * (0.75 - 0.25) * 5 / 5
    np.testing.assert_allclose(got[0], [_line(a, x[0]) for a in at], rtol=1e-5)


def test_aligned_corners_are_those_of_the_result(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1, 4)).astype(np.float32)
    node = N("Resize", ["x", "", "scales"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")
    (got,) = answers(tmp_path, [node], {"x": x}, "generic", "O2", {"scales": np.array([1, 0.6], np.float32)}).values()
    np.testing.assert_allclose(got[0], x[0, [0, 3]], rtol=1e-6)  # floor(4 * 0.6) = 2 elements: the corners


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("op", ["Conv", "LpPool", "MaxPool", "AveragePool"])
def test_windows_with_gaps_are_not_padded(op: str, auto_pad: str, tmp_path: Path) -> None:
    x = np.arange(1, 9, dtype=np.float32).reshape(1, 1, 8)
    attrs = {"kernel_shape": [1], "strides": [4], "auto_pad": auto_pad}
    operands = ["x", "w"] if op == "Conv" else ["x"]
    constants = {"w": np.ones((1, 1, 1), np.float32)} if op == "Conv" else {}
    (got,) = answers(tmp_path, [N(op, operands, ["y"], **attrs)], {"x": x}, "generic", "O2", constants).values()
    np.testing.assert_allclose(got.ravel(), [1, 5])


@pytest.mark.parametrize("op", ["LpPool", "MaxPool", "AveragePool"])
def test_windows_of_valid_elements_may_reach_beyond_the_end(op: str, tmp_path: Path) -> None:
    x = np.array([[[1, 2, 4, 8, 16, 32]]], np.float32)
    attrs = {"kernel_shape": [3], "strides": [2], "auto_pad": "VALID", "ceil_mode": 1}
    if op == "LpPool":
        attrs["p"] = 1
    (got,) = answers(tmp_path, [N(op, ["x"], ["y"], **attrs)], {"x": x}, "generic", "O2").values()
    want = {"LpPool": [7, 28, 48], "MaxPool": [4, 16, 32], "AveragePool": [7 / 3, 28 / 3, 24]}
    np.testing.assert_allclose(got.ravel(), want[op], rtol=1e-6)


@pytest.mark.parametrize(("element", "places"), [(0, []), (2, [0])])
def test_a_scalar_that_is_not_zero_is_one_element(element: float, places: list[int], tmp_path: Path) -> None:
    x = np.array(element, np.float32)
    (got,) = answers(tmp_path, [N("NonZero", ["x"], ["y"])], {"x": x}, "generic", "O2").values()
    assert got.tolist() == [places]


def test_clip_without_a_limit_leaves_infinities(tmp_path: Path) -> None:
    x = np.array([np.inf, -np.inf, 2, -2], np.float32)
    nodes = [N("Clip", ["x", "one"], ["above"]), N("Clip", ["x", "", "one"], ["below"])]
    got = answers(tmp_path, nodes, {"x": x}, "generic", "O2", {"one": np.array(-1, np.float32)})
    np.testing.assert_array_equal(got["above"], [np.inf, -1, 2, -1])
    np.testing.assert_array_equal(got["below"], [-1, -np.inf, -1, -2])
