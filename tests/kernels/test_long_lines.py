"""Long windows over lines of the run: what is written out for their ends is bounded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.ir.dims import symbol
from mccompile.kernels.conv.channel_windows import MOST_PRODUCTS, ChannelWindow, fit_line_ends, has_short_ends
from tests.support.runs import compare
from tests.support.targets import needs_target

N = symbol("n", 1, 20_000)


def test_as_many_pixels_as_the_code_of_the_ends_allows() -> None:
    window = ChannelWindow(14, 1, 5, kernel=(1, 31), strides=(1, 1), dilations=(1, 1), pads=(0, 15))
    fitting = fit_line_ends(window, N, N)
    assert fit_line_ends(window, 100, 100) is window
    assert 1 < fitting.pixels < 14
    ends = fitting.line_ends(N, N)
    assert ends is not None
    assert sum(tile.strip.products for tile in ends.tiles) <= MOST_PRODUCTS


def test_ends_of_very_long_windows_are_not_written_out() -> None:
    assert has_short_ends((1, 90), (N, N))
    assert not has_short_ends((1, 91), (N, N))
    assert not has_short_ends((31, 31), (N, N))
    assert has_short_ends((1, 127), (300, 300))


@pytest.mark.parametrize("taps", [31, 127])
def test_depthwise_layers_of_long_windows(taps: int, tmp_path: Path) -> None:
    weights = np.random.default_rng(taps).standard_normal((16, 1, taps)).astype(np.float32)
    node = helper.make_node("Conv", ["x", "w"], ["y"], group=16, pads=[taps // 2] * 2)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 16, "n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.standard_normal((1, 16, n)).astype(np.float32)} for n in (1, 2, taps, 3 * taps + 1)]
    target = needs_target("x86-64-v2")
    compare(model, tmp_path, feeds, 1e-4, 1e-4, target=target, dims={"n": "1..20000"})
    assert (tmp_path / "out" / "net.c").stat().st_size < 200_000


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_ends_of_long_pools_are_not_written_out(kind: str, tmp_path: Path) -> None:
    taps = 63
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"], kernel_shape=[taps], pads=[taps // 2] * 2)], "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 5, "n"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((1, 5, n)).astype(np.float32)} for n in (2, 62, 63, 200)]
    compare(model, tmp_path, feeds, 2e-5, 2e-5, target="x86-64-v2", dims={"n": "2..5000"})
    assert (tmp_path / "out" / "net.c").stat().st_size < 200_000
