"""Models that ask for terabytes, or for exponential work, in a few bytes: a clear error, fast, in little memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile_program, import_graph, open_model
from mccompile.ir.errors import CompileError
from mccompile.ir.limits import limit
from tests.support.small_models import ort_run

N = helper.make_node
K = {"k": np.float32(1)}


def _save(
    folder: Path, nodes: Sequence[onnx.NodeProto], constants: Mapping[str, Any], shape: tuple[int, ...] = (1,)
) -> Path:
    graph = helper.make_graph(
        nodes,
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()],
    )
    path = folder / "hostile.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _added(*nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """Nodes that make the constant ``a``, of which the sum is added to x."""
    return [*nodes, N("ReduceSum", ["a"], ["total"], keepdims=0), N("Add", ["x", "total"], ["y"])]


def _doubled(op: str, times: int, **attributes: Any) -> list[onnx.NodeProto]:
    names = ["c", *(f"v{i}" for i in range(times)), "a"]
    return _added(*(N(op, [a, a], [b], **attributes) for a, b in pairwise(names)))


HUGE = np.array([1 << 20, 1 << 20], np.int64)
LONG = np.array([1 << 40], np.int64)
IMAGE = np.ones((1, 1, 2, 2), np.float32)
CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "ConstantOfShape": (_added(N("ConstantOfShape", ["s"], ["a"])), {"s": HUGE}),
    "Expand": (_added(N("Expand", ["k", "s"], ["a"])), {"s": HUGE, **K}),
    "Expand of an input": ([N("Expand", ["x", "s"], ["y"])], {"s": HUGE}),
    "Tile": (_added(N("Tile", ["c", "s"], ["a"])), {"s": LONG, "c": np.ones(1, np.float32)}),
    "Tile of an input": ([N("Tile", ["x", "s"], ["y"])], {"s": LONG}),
    "Range": (
        _added(N("Range", ["f", "t", "d"], ["r"]), N("Cast", ["r"], ["a"], to=1)),
        {"f": np.int64(0), "t": np.int64(1 << 50), "d": np.int64(1)},
    ),
    "Range without end": (
        _added(N("Range", ["f", "t", "d"], ["a"])),
        {"f": np.float32(0), "t": np.float32(np.inf), "d": np.float32(1)},
    ),
    "Pad": (_added(N("Pad", ["c", "s"], ["a"])), {"s": np.array([1 << 40, 0]), "c": np.ones(1, np.float32)}),
    "Pad of an input": ([N("Pad", ["x", "s"], ["y"])], {"s": np.array([1 << 40, 0])}),
    "Resize to sizes": (
        _added(N("Resize", ["c", "", "", "s"], ["a"])), {"s": np.array([1, 1, 1 << 20, 1 << 20]), "c": IMAGE}
    ),
    "Resize by scales": (
        _added(N("Resize", ["c", "", "f"], ["a"])), {"f": np.array([1, 1, 1e9, 1e9], np.float32), "c": IMAGE}
    ),
    "Resize of an input": ([N("Resize", ["x", "", "", "s"], ["y"], mode="linear")], {"s": LONG}),
    "OneHot": (
        _added(N("OneHot", ["i", "d", "v"], ["a"])),
        {"i": np.array([1, 2]), "d": np.int64(1 << 45), "v": np.array([0, 1], np.float32)},
    ),
    "OneHot of an input": (
        [N("Cast", ["x"], ["i"], to=TensorProto.INT64), N("OneHot", ["i", "d", "v"], ["y"])],
        {"d": np.int64(1 << 45), "v": np.array([0, 1], np.float32)},
    ),
    "doubling": (_doubled("Concat", 70, axis=0), {"c": np.ones(1 << 18, np.float32)}),
    "outer product": (
        _added(N("MatMul", ["c", "d"], ["a"])),
        {"c": np.ones((1 << 17, 1), np.float32), "d": np.ones((1, 1 << 17), np.float32)},
    ),
    "outer sum": (
        _added(N("Add", ["c", "d"], ["a"])),
        {"c": np.ones((1 << 17, 1), np.float32), "d": np.ones((1, 1 << 17), np.float32)},
    ),
    "Einsum": (
        _added(N("Einsum", ["c", "c", "c"], ["a"], equation="i,j,k->ijk")), {"c": np.ones(1 << 12, np.float32)}
    ),
    "Gather": (
        _added(N("Gather", ["c", "i"], ["a"])),
        {"c": np.ones((2, 1 << 16), np.float32), "i": np.zeros(1 << 16, np.int64)},
    ),
    "an index of GatherElements": (
        _added(N("GatherElements", ["c", "i"], ["a"])), {"i": LONG, "c": np.ones(4, np.float32)}
    ),
    "an index of extents": (
        [N("GatherElements", ["c", "i"], ["s"]), N("Expand", ["x", "s"], ["y"])],
        {"i": LONG, "c": np.arange(4)},
    ),
    "ConvTranspose": (
        _added(N("ConvTranspose", ["c", "w"], ["a"], strides=[1 << 20, 1 << 20])),
        {"c": IMAGE, "w": np.ones((1, 1, 3, 3), np.float32)},
    ),
    "ConvTranspose by its output_padding": (
        _added(N("ConvTranspose", ["c", "w"], ["a"], output_padding=[1 << 40, 0])),
        {"c": IMAGE, "w": np.ones((1, 1, 3, 3), np.float32)},
    ),
    "ConvTranspose by its dilations": (
        _added(N("ConvTranspose", ["c", "w"], ["a"], dilations=[1 << 40, 1])),
        {"c": IMAGE, "w": np.ones((1, 1, 3, 3), np.float32)},
    ),
    "ConvTranspose by its output_shape": (
        _added(N("ConvTranspose", ["c", "w"], ["a"], output_shape=[1 << 20, 1 << 20])),
        {"c": IMAGE, "w": np.ones((1, 1, 3, 3), np.float32)},
    ),
    "Conv by its pads": (
        _added(N("Conv", ["c", "w"], ["a"], pads=[1 << 20] * 4)), {"c": IMAGE, "w": np.ones((1, 1, 1, 1), np.float32)}
    ),
    "DFT": (_added(N("DFT", ["c", "n"], ["a"])), {"n": np.int64(1 << 62), "c": np.ones((1, 4, 1), np.float32)}),
    "DFT of an input": (
        [N("Unsqueeze", ["x", "s"], ["z"]), N("DFT", ["z", "n"], ["a"]), N("ReduceSum", ["a"], ["y"])],
        {"n": np.int64(1 << 62), "s": np.array([0, 2])},
    ),
    "DFT of an input by a matrix": (
        [N("Unsqueeze", ["x", "s"], ["z"]), N("DFT", ["z", "n"], ["a"]), N("ReduceSum", ["a"], ["y"])],
        {"n": np.int64(1 << 29), "s": np.array([0, 2])},
    ),
    "window": (_added(N("HannWindow", ["n"], ["a"])), {"n": np.int64(1 << 45)}),
    "rank": (_added(N("ConstantOfShape", ["s"], ["a"])), {"s": np.ones(300, np.int64)}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_too_large_is_refused(case: str, tmp_path: Path) -> None:
    path = _save(tmp_path, *CASES[case])
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(CompileError) as caught:
            compile_program(open_model(path, Options(target="generic")))
        seconds, (_, peak) = time.process_time() - start, tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "node " in caught.value.where, "the error says where"
    assert seconds < 10
    assert peak < 4 * limit("folded-bytes")


@pytest.mark.thorough
def test_many_constants_are_too_much_together(tmp_path: Path) -> None:
    """Each is below the limit; the last ones are not made. Their zeros take no memory until they are written."""
    size = limit("folded-bytes") // 8
    count = limit("all-folded-bytes") // (4 * size) + 2
    nodes = [
        *(N("ConstantOfShape", ["s"], [f"c{i}"]) for i in range(count)),
        *(N("Gather", [f"c{i}", "i"], [f"g{i}"]) for i in range(count)),
        N("Sum", ["x", *(f"g{i}" for i in range(count))], ["y"]),
    ]
    path = _save(tmp_path, nodes, {"s": np.array([size]), "i": np.array([0])})
    with pytest.raises(CompileError, match=r"all that is folded would take [\d,]+ bytes, the limit is 2,147,483,648"):
        import_graph(path, Options(target="generic"))


FINE: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "a product whose bound is far too large": (
        _added(N("MatMul", ["c", "d"], ["a"])),
        {"c": np.ones((64, 1 << 12), np.float32), "d": np.ones((1 << 12, 64), np.float32)},
    ),
    "an embedding of constant positions": (
        _added(N("Gather", ["c", "i"], ["a"])),
        {"c": np.ones((1 << 10, 256), np.float32), "i": np.arange(500)},
    ),
    "padding of one axis alone": (
        [N("Pad", ["x", "s"], ["p"]), N("Slice", ["p", "f", "t"], ["y"])],
        {"s": np.array([0, 1000, 0, 0, 0, 1000, 0, 0]), "f": np.array([0, 1000]), "t": np.array([1, 1003])},
    ),
    "an image twice as large": (
        [N("Resize", ["x", "", "", "s"], ["y"], mode="nearest")], {"s": np.array([1, 3, 128, 128])}
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FINE)
def test_what_only_looks_large_is_not_refused(case: str, tmp_path: Path) -> None:
    path = _save(tmp_path, *FINE[case], shape=(1, 3, 64, 64))
    x = np.random.default_rng(0).normal(0, 1, (1, 3, 64, 64)).astype(np.float32)
    graph = import_graph(path, Options(target="generic")).graph
    want = ort_run(path, {"x": x})["y"]
    np.testing.assert_allclose(graph.evaluate({"x": x})["y"], want, rtol=1e-4)


MALFORMED: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "a shape that is not there": (_added(N("ConstantOfShape", [""], ["a"])), {}),
    "Range of nothing": (_added(N("Range", ["e", "e", "e"], ["a"])), {"e": np.zeros(0, np.float32)}),
    "Range of two": (_added(N("Range", ["k", "k"], ["a"])), K),
    "Expand to an infinite shape": (_added(N("Expand", ["k", "s"], ["a"])), {"s": np.float32([np.inf]), **K}),
    "Expand of an input to no number": ([N("Expand", ["x", "s"], ["y"])], {"s": np.float32([np.nan])}),
    "Tile without repeats": (_added(N("Tile", ["k"], ["a"])), K),
    "Tile of an input without repeats": ([N("Tile", ["x"], ["y"])], {}),
    "Pad without pads": (_added(N("Pad", ["k"], ["a"])), K),
    "Pad of nothing": (_added(N("Pad", ["", "s"], ["a"])), {"s": np.array([1, 1])}),
    "Resize without an input": (_added(N("Resize", ["", "", "", "s"], ["a"])), {"s": np.array([2])}),
    "OneHot of no depth": (_added(N("OneHot", ["c", "e", "c"], ["a"])), {"e": np.zeros(0, np.int64), "c": IMAGE}),
    "OneHot of an input and no depth": ([N("OneHot", ["x", "e", "c"], ["y"])], {"e": np.zeros(0), "c": IMAGE}),
    "Gather without indices": (_added(N("Gather", ["c"], ["a"])), {"c": IMAGE}),
    "ConvTranspose without weights": (_added(N("ConvTranspose", ["c"], ["a"])), {"c": IMAGE}),
    "a transposed vector": (_added(N("ConvTranspose", ["k", "k"], ["a"])), {"k": np.ones(3, np.float32)}),
    "a window of nothing": (_added(N("HannWindow", ["e"], ["a"])), {"e": np.zeros(0, np.int64)}),
    "mel bins of nothing": (_added(N("MelWeightMatrix", ["k"], ["a"])), {"k": np.int64(4)}),
    "quantised without an input": (_added(N("DequantizeLinear", ["", ""], ["a"])), {}),
}  # fmt: skip


@pytest.mark.parametrize("case", MALFORMED)
def test_what_no_operator_takes_is_a_clean_error(case: str, tmp_path: Path) -> None:
    path = _save(tmp_path, *MALFORMED[case])
    with pytest.raises(CompileError) as caught:
        import_graph(path, Options(target="generic"))
    assert caught.value.where
