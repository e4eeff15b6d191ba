"""Sorting by bits, where orders could go wrong: equal elements, zeros of both signs, infinities, NaN."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile.ir.scalar import Array
from mccompile.ops.topk import TopK
from tests.support.harness import SANITIZERS, build
from tests.support.targets import needs_target


def _model(shape: tuple[int, ...], k: int, axis: int, largest: bool, dtype: int) -> onnx.ModelProto:
    result = [k if a == axis else e for a, e in enumerate(shape)]
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], axis=axis, largest=int(largest))
    ports = [helper.make_tensor_value_info("x", dtype, shape)]
    outputs = [("y", dtype), ("i", TensorProto.INT64)]
    results = [helper.make_tensor_value_info(name, t, result) for name, t in outputs]
    graph = helper.make_graph([node], "topk", ports, results, [numpy_helper.from_array(np.array([k]), "k")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def _special(shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(3)
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, -1e-40, 3.4e38, -2.5], np.float32)
    return rng.choice(special, shape)


@pytest.mark.parametrize("kernel", ["topk.radix", "topk.ranks"])
@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "k", "axis"), [((700,), 600, 0), ((3, 90, 2), 90, 1), ((2, 700), 5, 1), ((300, 2), 9, 0)]
)
def test_floats_are_in_order(
    kernel: str, largest: bool, shape: tuple[int, ...], k: int, axis: int, tmp_path: Path
) -> None:
    x = _special(shape)
    _agrees(kernel, _model(shape, k, axis, largest, TensorProto.FLOAT), x, k, axis, largest, tmp_path)


@pytest.mark.parametrize(("kernel", "k"), [("topk.radix", 100), ("topk.ranks", 100), ("topk.ranks", 10)])
def test_whole_numbers_are_in_order(kernel: str, k: int, tmp_path: Path) -> None:
    x = np.array([5, -(2**31), 2**31 - 1, 0, -1, 5, 7, 0] * 20, np.int32)
    _agrees(kernel, _model(x.shape, k, 0, True, TensorProto.INT32), x, k, 0, True, tmp_path)


@pytest.mark.parametrize(
    ("dtype", "best", "step"),
    [(TensorProto.INT32, 100, 1), (TensorProto.INT32, 2**31 - 1, 1), (TensorProto.FLOAT, 100, 2**-23)],
)
def test_the_best_number_ends_no_search_for_the_next(dtype: int, best: int, step: float, tmp_path: Path) -> None:
    """Behind it are more candidates than there is room for, all equal, and one that is better by the least step."""
    x = np.ones(2000, helper.tensor_dtype_to_np_dtype(dtype))
    x[[3, 1987]] = best, 1 + step
    _agrees("topk.ranks", _model(x.shape, 2, 0, True, dtype), x, 2, 0, True, tmp_path)


@pytest.mark.parametrize("dtype", [TensorProto.DOUBLE, TensorProto.INT64, TensorProto.UINT8, TensorProto.INT16])
@pytest.mark.parametrize("largest", [True, False])
def test_ranks_of_any_type_are_in_order(dtype: int, largest: bool, tmp_path: Path) -> None:
    numpy = helper.tensor_dtype_to_np_dtype(dtype)
    rng = np.random.default_rng(dtype)
    ends = [np.iinfo(numpy).min, np.iinfo(numpy).max] if numpy.kind in "iu" else [np.nan, -np.inf, np.inf, -0.0]
    drawn, special = rng.integers(0, 50, (3, 200)).astype(numpy), np.resize(np.array(ends, numpy), (3, 77))
    x = np.concatenate([drawn, special], axis=1)
    _agrees("topk.ranks", _model(x.shape, 20, 1, largest, dtype), x, 20, 1, largest, tmp_path)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("kind", ["rising", "falling", "equal", "zeros", "best", "periodic", "early", "nan"])
def test_candidates_beyond_their_room_are_ranked(kind: str, largest: bool, tmp_path: Path) -> None:
    """What the columns say is far from the bound, so that candidates are dropped, more than once."""
    count, k = 2000, 12
    steps = np.arange(count, dtype=np.float32)
    x = {
        "rising": steps,
        "falling": -steps,
        "equal": np.full(count, 2.5, np.float32),
        "zeros": np.maximum(np.sin(steps) - 0.999, 0) * (-1) ** steps,
        "best": np.full(count, np.inf if largest else -np.inf, np.float32),
        "periodic": np.where(steps % 32 == 5, steps if largest else -steps, 0),
        "early": np.where(steps % 32 == 5, steps, np.where(steps == k, 1900.5, 0)) * (1 if largest else -1),
        "nan": np.where(steps < 1990, np.nan, steps),
    }[kind].astype(np.float32)
    _agrees("topk.ranks", _model(x.shape, k, 0, largest, TensorProto.FLOAT), x, k, 0, largest, tmp_path)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [TensorProto.FLOAT, TensorProto.DOUBLE])
def test_columns_without_a_number_bound_nothing(dtype: int, largest: bool, tmp_path: Path) -> None:
    """Their best has the last key of all, behind which there is none: one more would leave the type."""
    x = np.full((200, 2), np.nan, helper.tensor_dtype_to_np_dtype(dtype))
    x[::40] = np.arange(10).reshape(5, 2)
    model = _model(x.shape, 9, 0, largest, dtype)
    mccompile.compile(model, tmp_path / "out", target="x86-64-v2", kernels={"topk": "topk.ranks"})
    (got,) = build(tmp_path / "out", SANITIZERS).run("same", [{"x": x}])
    np.testing.assert_array_equal(got["y"], TopK(9, 0, largest).evaluate(x)[0])


def _agrees(kernel: str, model: onnx.ModelProto, x: Array, k: int, axis: int, largest: bool, folder: Path) -> None:
    options = {"target": "x86-64-v2", "kernels": {"topk": kernel}}
    artifacts = mccompile.compile(model, folder / "topk", **options)  # type: ignore[arg-type]
    assert [s["kernel"] for s in artifacts.report["steps"]] == [kernel]
    network = mccompile.load(folder / "topk")
    got = network(x)
    wanted = TopK(k, axis, largest).evaluate(x)
    for a, b in zip(got.values() if isinstance(got, dict) else got, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("target", ["generic", "native", "x86-64-v2"])
def test_rows_whose_elements_lie_apart(target: str, largest: bool, tmp_path: Path) -> None:
    """As of images with their channels innermost, read where they are: blocks of a row are no neighbours there."""
    needs_target(target)
    x = np.random.default_rng(4).permutation(2 * 100 * 5).astype(np.float32).reshape(2, 100, 5)
    model = _model((2, 5, 100), 4, 2, largest, TensorProto.FLOAT)
    model.graph.node.insert(0, helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]))
    model.graph.node[1].input[0] = "t"
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape))
    mccompile.compile(model, tmp_path / "out", target=target, kernels={"topk": "topk.generic"})
    got = mccompile.load(tmp_path / "out").run(x)["i"]
    rows = x.transpose(0, 2, 1)
    np.testing.assert_array_equal(got, np.argsort(-rows if largest else rows, axis=2)[..., :4])
