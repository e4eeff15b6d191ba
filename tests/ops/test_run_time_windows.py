"""Windows over two axes of the run, of whose pads or extents none is known to be the lesser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support.runs import compare

F32 = TensorProto.FLOAT
EXTENTS = [(1, 1), (2, 5), (3, 4), (9, 6), (8, 8)]


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(("kernel", "stride"), [(3, 2), (3, 3), (2, 3), (3, 4)])
def test_same_pads_of_two_axes(kernel: int, stride: int, auto_pad: str, tmp_path: Path) -> None:
    attrs = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "auto_pad": auto_pad}
    rng = np.random.default_rng(0)
    w = rng.standard_normal((4, 3, kernel, kernel)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], **attrs)], "g",
        [helper.make_tensor_value_info("x", F32, [1, 3, "n", "m"])],
        [helper.make_tensor_value_info("y", F32, None)], [numpy_helper.from_array(w, "w")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    # Of windows with gaps the pads are none: docs/conformance.md.
    sizes = [s for s in EXTENTS if all((-(-e // stride) - 1) * stride + kernel >= e for e in s)]
    feeds = [{"x": rng.standard_normal((1, 3, *s)).astype(np.float32)} for s in sizes]
    compare(model, tmp_path, feeds, 2e-5, 2e-5, target="generic", dims={"n": "1..500", "m": "1..300"})


SMALL: list[tuple[str, dict[str, object]]] = [
    ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
    ("MaxPool", {"kernel_shape": [3, 2], "strides": [3, 4], "dilations": [1, 2], "pads": [1, 0, 0, 0]}),
    ("AveragePool", {"kernel_shape": [3, 3], "strides": [3, 4], "count_include_pad": 1, "pads": [1, 0, 0, 1]}),
    ("AveragePool", {"kernel_shape": [2, 3], "strides": [2, 3], "auto_pad": "VALID"}),
    ("LpPool", {"kernel_shape": [2, 2], "strides": [2, 2], "p": 1}),
]


@pytest.mark.parametrize("extents", [(1, 1), (2, 1), ("n", "m")])
@pytest.mark.parametrize(("op", "attrs"), SMALL)
def test_windows_larger_than_the_image_by_less_than_a_stride(
    op: str, attrs: dict[str, object], extents: tuple[int | str, ...], tmp_path: Path
) -> None:
    graph = helper.make_graph(
        [helper.make_node(op, ["x"], ["y"], ceil_mode=1, **attrs)], "g",
        [helper.make_tensor_value_info("x", F32, [1, 3, *extents])],
        [helper.make_tensor_value_info("y", F32, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    rng = np.random.default_rng(0)
    sizes = EXTENTS if "n" in extents else [extents]
    feeds = [{"x": rng.standard_normal((1, 3, *s)).astype(np.float32)} for s in sizes]
    dims = {"n": "1..50", "m": "1..40"} if "n" in extents else {}
    compare(model, tmp_path, feeds, 1e-6, 1e-6, target="generic", dims=dims)


@pytest.mark.parametrize("stride", [1, 2])
def test_images_of_two_extents(stride: int, tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Reshape", ["x", "flat"], ["columns"]),
        helper.make_node("Shape", ["x"], ["extents"], start=2, end=4),
        helper.make_node("Mul", ["extents", "stride"], ["starts"]),
        helper.make_node("Add", ["starts", "more"], ["image"]),
        helper.make_node("Col2Im", ["columns", "image", "block"], ["y"], strides=[stride] * 2),
    ]
    constants = {"flat": [1, 8, -1], "stride": [stride] * 2, "more": [2 - stride] * 2, "block": [2, 2]}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", F32, [1, 8, "n", "m"])],
        [helper.make_tensor_value_info("y", F32, None)],
        [numpy_helper.from_array(np.array(v), k) for k, v in constants.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((1, 8, *s)).astype(np.float32)} for s in EXTENTS]
    compare(model, tmp_path, feeds, 1e-6, 1e-6, target="generic", dims={"n": "1..50", "m": "1..40"})
