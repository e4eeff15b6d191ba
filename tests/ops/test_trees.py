"""Trees beyond what samples draw: sets, what is refused; and pipelines that end in maps and text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check.check import check
from mccompile.driver import Options, finish, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ops.forest import COMPARISONS
from mccompile.report.support import Status, support_of
from tests.ops.test_contrib import evaluated, floats

ML = "ai.onnx.ml"


def _ensemble(**more: Any) -> dict[str, Any]:
    """Two trees: x0 <= 0.5, then x1 in {1, 3}; and x1 > 2."""
    tensor = numpy_helper.from_array
    return {
        "nodes_featureids": [0, 1, 1], "nodes_modes": tensor(np.array([0, 6, 3], np.uint8), "modes"),
        "nodes_splits": tensor(np.array([0.5, 0, 2], np.float32), "splits"), "tree_roots": [0, 2],
        "nodes_truenodeids": [1, 0, 3], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 4], "nodes_falseleafs": [1, 1, 1],
        "leaf_targetids": [0, 1, 0, 1, 0], "n_targets": 2,
        "leaf_weights": tensor(np.array([1, 2, 4, 8, 16], np.float32), "weights"),
        "membership_values": tensor(np.array([1, 3, np.nan], np.float32), "members"), **more,
    }  # fmt: skip


def test_trees_with_sets(tmp_path: Path) -> None:
    x = np.array([[0, 1], [0, 2], [1, 3], [0, 3], [np.nan, np.nan]], np.float32)
    (got,) = evaluated(tmp_path, "TreeEnsemble", [x], domain=ML, version=5, **_ensemble())
    np.testing.assert_array_equal(got, [[17, 0], [16, 2], [4, 8], [1, 8], [20, 0]])
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(got, session.run(None, {"x0": x})[0])


TENTHS = np.array([[0.1], [np.nextafter(0.1, 1)], [np.float32(0.1)], [-0.1], [np.nan]])
"""The float nearest to a tenth is more than the double."""


def _doubles(given: str, ids: list[int], mode: str = "BRANCH_LEQ") -> dict[str, Any]:
    """x0 <= 0.1, and leaves of numbers that f32 does not hold."""
    tree = _stump(ids, [])
    del tree["nodes_values"], tree["class_weights"]
    named = {name.replace("class_", f"{given}_"): value for name, value in tree.items()}
    weights = np.arange(1, len(ids) + 1) * 0.1
    return named | {
        "nodes_modes": [mode, "LEAF", "LEAF"],
        "nodes_values_as_tensor": numpy_helper.from_array(np.array([0.1, 0, 0]), "values"),
        f"{given}_weights_as_tensor": numpy_helper.from_array(weights, "weights"),
        "base_values_as_tensor": numpy_helper.from_array(np.full(max(ids) + 1, 0.7), "base"),
    }


def _in_c(tmp_path: Path, op: str, x: np.ndarray[Any, Any], version: int, **attrs: Any) -> None:
    _as_onnxruntime(tmp_path, op, x, version=version, **attrs)
    for target in ("generic", "native"):
        assert check(tmp_path / "m.onnx", Options(target=target), inputs={"x0": x}).ok


@pytest.mark.parametrize("mode", COMPARISONS[:6])
def test_doubles_are_compared_as_doubles(mode: str, tmp_path: Path) -> None:
    _in_c(tmp_path, "TreeEnsembleRegressor", TENTHS, 3, **_doubles("target", [0, 0], mode), n_targets=1)


def test_labels_by_scores_of_double_precision(tmp_path: Path) -> None:
    for ids in ([0, 1, 2, 0, 1, 2], [1, 1]):
        tree = _doubles("class", ids) | {"classlabels_int64s": [5, 7, 9][: max(ids) + 1]}
        if ids == [1, 1]:
            del tree["base_values_as_tensor"]
        _in_c(tmp_path, "TreeEnsembleClassifier", TENTHS, 3, outputs=2, **tree)


def test_trees_with_sets_of_doubles(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array
    wide = {
        "nodes_splits": tensor(np.array([0.1, 0, 2]), "splits"),
        "leaf_weights": tensor(np.arange(5) * 0.1, "weights"),
        "membership_values": tensor(np.array([1 / 3, 3, np.nan]), "members"),
    }
    x = np.array([[0.1, 1 / 3], [0.1, np.float32(1 / 3)], [np.float32(0.1), 3], [0, 3], [np.nan, np.nan]])
    _in_c(tmp_path, "TreeEnsemble", x, 5, **_ensemble(**wide))
    with pytest.raises(CompileError, match="nodes_splits of double precision for rows of f32"):
        evaluated(tmp_path, "TreeEnsemble", [x.astype(np.float32)], domain=ML, version=5, **_ensemble(**wide))
    with pytest.raises(CompileError, match="LOGISTIC of double precision"):
        evaluated(tmp_path, "TreeEnsemble", [x], domain=ML, version=5, **_ensemble(**wide), post_transform=2)


def test_of_two_classes_with_scores_the_larger_counts(tmp_path: Path) -> None:
    """onnxruntime answers 1 where the second score is positive."""
    tree = _stump([0, 1, 0, 1], [0.75, 0.25, 0.5, 1.0]) | {"classlabels_int64s": [5, 7]}
    x = np.array([[-1], [1]], np.float32)
    got = evaluated(tmp_path, "TreeEnsembleClassifier", [x], domain=ML, version=3, outputs=2, **tree)
    np.testing.assert_array_equal(got[0], [5, 7])
    np.testing.assert_array_equal(got[1], [[0.75, 0.25], [0.5, 1.0]])


@pytest.mark.parametrize(("scored", "weights"), [
    ([0, 2], [-1.0, -2.0, -4.0, -3.0]), ([1], [-1.0, -3.0]), ([2, 1], [-2.0, 0.0, -2.0, -2.0]), ([1, 2], [0.0] * 4),
])  # fmt: skip
def test_classes_that_no_leaf_scores_are_not_chosen(tmp_path: Path, scored: list[int], weights: list[float]) -> None:
    tree = _stump([*scored, *scored], weights)
    for labels in ({"classlabels_int64s": [5, 7, 9]}, {"classlabels_int64s": [0, 1, 2]}):
        x = np.array([[-1], [1]], np.float32)
        _as_onnxruntime(tmp_path, "TreeEnsembleClassifier", x, version=3, outputs=2, **tree, **labels)


def test_classes_that_some_leaves_score_are_refused_where_none_may_be_positive(tmp_path: Path) -> None:
    x = np.array([[-1], [1]], np.float32)
    tree = _stump([0, 1], [0.25, 0.5]) | {"classlabels_int64s": [5, 7, 9]}
    _as_onnxruntime(tmp_path, "TreeEnsembleClassifier", x, version=3, outputs=2, **tree)
    for weights in ([0.25, 0.0], [-1.0, 0.5]):
        tree["class_weights"] = weights
        with pytest.raises(CompileError, match="some leaves have no score for a class"):
            _as_onnxruntime(tmp_path, "TreeEnsembleClassifier", x, version=3, outputs=2, **tree)


def _stump(ids: list[int], weights: list[float]) -> dict[str, Any]:
    """x0 <= 0: half of the weights are of the one leaf, half of the other."""
    half = len(ids) // 2
    return {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "class_treeids": [0] * len(ids),
        "class_nodeids": [1] * half + [2] * half, "class_ids": ids, "class_weights": weights,
    }  # fmt: skip


def _as_onnxruntime(tmp_path: Path, op: str, x: np.ndarray[Any, Any], version: int = 1, **attrs: Any) -> None:
    got = evaluated(tmp_path, op, [x], domain=ML, version=version, **attrs)
    session = ort.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    for mine, theirs in zip(got, session.run(None, {"x0": x}), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_doubles_are_scaled_as_doubles(tmp_path: Path) -> None:
    """1e9 + 0.5 is 1e9 in f32."""
    x = np.array([[1e9 + 0.5, 0.1], [16777217, 3]])
    for offset in ([1e9, 0.1], [16777216.0, 1.0]):
        _as_onnxruntime(tmp_path, "Scaler", x, offset=offset, scale=[2.0, 0.5])


def test_what_is_no_number_is_of_no_category(tmp_path: Path) -> None:
    x = np.array([[np.nan, 0, 1]], np.float32)
    _as_onnxruntime(tmp_path, "OneHotEncoder", x, cats_int64s=[1, 0], zeros=1)


@pytest.mark.parametrize("kernel", ["LINEAR", "RBF"])
def test_one_class_is_inside_or_outside(tmp_path: Path, kernel: str) -> None:
    x = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    _as_onnxruntime(
        tmp_path, "SVMRegressor", x, kernel_type=kernel, kernel_params=[0.5, 0.0, 0.0], n_supports=2, one_class=1,
        support_vectors=[1.0, 2.0, -1.0, 0.5], coefficients=[1.0, 0.5], rho=[-0.4],
    )  # fmt: skip


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_two_classes_have_one_linear_function(tmp_path: Path, transform: str) -> None:
    x = np.array([[1, 0], [0, 1], [0, 0], [2, 2.5]], np.float32)
    _as_onnxruntime(
        tmp_path, "LinearClassifier", x, outputs=2, coefficients=[1.0, -2.0], intercepts=[0.0],
        classlabels_ints=[4, 9], post_transform=transform,
    )  # fmt: skip


def test_two_classes_of_one_score_are_transformed(tmp_path: Path) -> None:
    """Of a softmax onnxruntime makes 1 - s and s."""
    svm = {"coefficients": [1.0, -1.0], "support_vectors": [1.0, 5.0], "vectors_per_class": [1, 1], "rho": [2.0],
           "classlabels_ints": [5, 7], "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}  # fmt: skip
    x = np.array([[0], [1]], np.float32)
    for transform, want in (("NONE", [[-2, 2], [2, -2]]), ("LOGISTIC", [[0.1192, 0.8808], [0.8808, 0.1192]])):
        got = evaluated(tmp_path, "SVMClassifier", [x], domain=ML, outputs=2, post_transform=transform, **svm)
        np.testing.assert_allclose(got[1], want, atol=1e-4)
    with pytest.raises(CompileError, match="SOFTMAX of two classes by one score"):
        evaluated(tmp_path, "SVMClassifier", [x], domain=ML, outputs=2, post_transform="SOFTMAX", **svm)


@pytest.mark.parametrize("threshold", [0.0, -0.5, 0.5, 1e30, -1e30, np.nan, np.inf, -np.inf, -(2.0**31), 2.0**31])
def test_whole_numbers_above_what_is_none(tmp_path: Path, threshold: float) -> None:
    """A threshold is a float, whatever the elements are."""
    x = np.array([[-1, 0, 1, 5, -(2**31), 2**31 - 1]], np.int32)
    (got,) = evaluated(tmp_path, "Binarizer", [x], domain=ML, threshold=threshold)
    np.testing.assert_array_equal(got, x > np.float64(threshold))


def test_no_element_is_a_number_that_its_type_has_not(tmp_path: Path) -> None:
    x = np.array([[0, 1, -7]], np.int32)
    attrs = {"imputed_value_int64s": [9], "replaced_value_int64": 2**32}
    np.testing.assert_array_equal(evaluated(tmp_path, "Imputer", [x], domain=ML, **attrs)[0], x)


def test_what_onnxruntime_leaves_out_of_regressors_is_refused(tmp_path: Path) -> None:
    svm = {"coefficients": [1.0], "support_vectors": [2.0], "n_supports": 1, "rho": [0.5], "kernel_type": "LINEAR",
           "kernel_params": [0.0, 0.0, 0.0]}  # fmt: skip
    for op, attrs in (("LinearRegressor", {"coefficients": [2.0]}), ("SVMRegressor", svm)):
        with pytest.raises(CompileError, match="LOGISTIC of one target"):
            evaluated(tmp_path, op, [floats(3, 1)], domain=ML, post_transform="LOGISTIC", **attrs)


def test_tests_of_categories_share_a_part(tmp_path: Path) -> None:
    """x0 in {1, 3, 4} as LightGBM's converter has it: one test behind the other, which share what is true."""
    attrs = {
        "nodes_treeids": [0] * 5, "nodes_nodeids": [0, 1, 2, 3, 4], "nodes_featureids": [0] * 5,
        "nodes_modes": ["BRANCH_EQ"] * 3 + ["LEAF"] * 2, "nodes_values": [1.0, 3.0, 4.0, 0.0, 0.0],
        "nodes_truenodeids": [3, 3, 3, 0, 0], "nodes_falsenodeids": [1, 2, 4, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [3, 4], "target_ids": [0, 0], "target_weights": [5.0, -7.0], "n_targets": 1,
    }  # fmt: skip
    x = np.arange(6, dtype=np.float32)[:, None]
    (y,) = evaluated(tmp_path, "TreeEnsembleRegressor", [x], domain=ML, **attrs)
    np.testing.assert_array_equal(y[:, 0], [-7, 5, -7, 5, 5, -7])


@pytest.mark.parametrize("mode", ["MIN", "MAX"])
def test_a_leaf_that_gives_to_a_target_twice(mode: str, tmp_path: Path) -> None:
    """x0 <= 0.5: 5 to target 0; else 7 and 9 to target 1."""
    attrs = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0, 0],
        "target_nodeids": [1, 2, 2], "target_ids": [0, 1, 1], "target_weights": [5.0, 7.0, 9.0], "n_targets": 2,
    }  # fmt: skip
    x = np.float32([[0], [1]])
    (y,) = evaluated(tmp_path, "TreeEnsembleRegressor", [x], domain=ML, aggregate_function=mode, **attrs)
    np.testing.assert_array_equal(y, [[5, 0], [0, 7 if mode == "MIN" else 9]])
    far = {**attrs, "target_weights": [np.inf if mode == "MIN" else -np.inf, 7.0, 9.0]}
    with pytest.raises(CompileError, match="as if it gave nothing"):
        evaluated(tmp_path, "TreeEnsembleRegressor", [x], domain=ML, aggregate_function=mode, **far)


@pytest.mark.parametrize("mode", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_targets_that_no_leaf_gives_to_are_zero(mode: str, tmp_path: Path) -> None:
    """x0 <= 0: 5 to target 0; else -7 to target 1; nothing ever to target 2."""
    attrs = {k.replace("class", "target"): v for k, v in _stump([0, 1], [5.0, -7.0]).items()}
    x = np.float32([[-1], [1]])
    _in_c(tmp_path, "TreeEnsembleRegressor", x, 3, aggregate_function=mode, n_targets=3, **attrs)


@pytest.mark.parametrize("mode", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_one_target_has_the_first_number_of_a_leaf(mode: str, tmp_path: Path) -> None:
    """As onnxruntime has it, though the text adds them up: skl2onnx tells leaves of forests so. A leaf that is given
    none has its own."""
    attrs = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 3.0, 4.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [2, 2], "target_ids": [0, 0], "target_weights": [7.0, 9.0], "n_targets": 1,
    }  # fmt: skip
    x = np.float32([[0], [1]])
    (y,) = evaluated(tmp_path, "TreeEnsembleRegressor", [x], domain=ML, aggregate_function=mode, **attrs)
    np.testing.assert_array_equal(y, [[3], [7]])


def test_what_are_no_trees_is_refused(tmp_path: Path) -> None:
    x = floats(1, 1, 2)
    for wrong, why in (
        ({"nodes_truenodeids": [0, 0, 3]}, "from itself"), ({"nodes_featureids": [0, 2, 1]}, "outside of rows"),
        ({"nodes_falsenodeids": [9, 1, 4]}, "leaf 9"), ({"tree_roots": [0, 7]}, "root"),
        ({"leaf_targetids": [0, 1, 0, 2, 0]}, "target 2"), ({"nodes_trueleafs": [0, 1]}, "unequal"),
    ):  # fmt: skip
        with pytest.raises(CompileError, match=why):
            evaluated(tmp_path, "TreeEnsemble", [x], domain=ML, version=5, **_ensemble(**wrong))


def test_maps_and_text_become_tensors(tmp_path: Path) -> None:
    names, probabilities = ["cat", "ant"], helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain=ML, classlabels_strings=names,
                         coefficients=[1.0, 0.0, 0.0, 1.0], multi_class=1),
        helper.make_node("ZipMap", ["p"], ["maps"], domain=ML, classlabels_strings=names),
    ]  # fmt: skip
    maps = helper.make_sequence_type_proto(helper.make_map_type_proto(TensorProto.STRING, probabilities))
    outputs = [helper.make_tensor_value_info("label", TensorProto.STRING, [2]), helper.make_value_info("maps", maps)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])], outputs)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    c = import_graph(path, Options(target="generic", name="net"))
    assert [str(v.type) for v in c.graph.outputs] == ["i64[2]", "f32[2,2]"]
    assert any("'cat', 'ant'" in note for note in c.notes)
    assert support_of(ML, "ZipMap").status is Status.SUPPORTED
    files = {k: v.decode() for k, v in finish(c).items() if k.endswith((".c", ".h"))}
    assert "extern const char net_labels_label[2][4];" in files["net.h"]
    assert 'const char net_labels_maps[2][4] = {\n    "cat",\n    "ant",\n};' in files["net.c"]


def test_labels_that_are_read_as_text_are_text(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain=ML, classlabels_strings=["b", "a,é"],
                         coefficients=[1.0, 0.0, 0.0, 1.0], multi_class=1),
        helper.make_node("StringSplit", ["label"], ["parts", "n"], delimiter=","),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9, 2])],
        [helper.make_tensor_value_info("n", TensorProto.INT64, [9])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    compiled = import_graph(path, Options(target="generic", name="net")).graph
    x = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    np.testing.assert_array_equal(compiled.evaluate({"x": x})["n"], 1 + x.argmax(1))


def test_text_of_a_constant_that_is_moved_about_stays_numbers(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ArgMax", ["x"], ["place"], axis=1, keepdims=0),
        helper.make_node("ArrayFeatureExtractor", ["names", "place"], ["row"], domain=ML),
        helper.make_node("Reshape", ["row", "whole"], ["flat"]), helper.make_node("Identity", ["flat"], ["label"]),
    ]  # fmt: skip
    names = helper.make_tensor("names", TensorProto.STRING, [3], [b"cat", b"ant", b"cat"])
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("label", TensorProto.STRING, [2])],
        [names, helper.make_tensor("whole", TensorProto.INT64, [1], [-1])],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(ML, 3)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString())
    result = check(path, Options(target="generic"))
    assert result.ok, result
    assert any("'ant', 'cat'" in note for note in result.notes)


def test_labels_in_a_file_that_is_not_sorted(tmp_path: Path) -> None:
    """Whoever reads a label as text may stand in front of what makes it."""
    nodes = [
        helper.make_node("LabelEncoder", ["t"], ["y"], domain=ML, classes_strings=["cow", "cat"]),
        helper.make_node("Reshape", ["label", "flat"], ["t"]),
        helper.make_node("LinearClassifier", ["x"], ["label", "p"], domain=ML, classlabels_strings=["cat", "cow"],
                         coefficients=[1.0, 0.0, 0.0, 1.0], multi_class=1),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [2])],
        [numpy_helper.from_array(np.array([-1]), "flat")],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 1)]
    path = tmp_path / "m.onnx"
    path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString())
    compiled = import_graph(path, Options(target="generic", name="net")).graph
    (y,) = compiled.evaluate({"x": np.eye(2, dtype=np.float32)}).values()
    np.testing.assert_array_equal(y, [1, 0])


def test_trees_that_share_a_function_build_without_warnings(tmp_path: Path) -> None:
    """At -Os the numbers that they differ in are parameters."""
    nodes = [
        helper.make_node("TreeEnsembleRegressor", [x], [f"y{x}"], domain="ai.onnx.ml", **_one_split(feature))
        for x, feature in (("a", 2), ("b", 8))
    ]
    infos = [
        [helper.make_tensor_value_info(f"{y}{x}", TensorProto.FLOAT, [2, n]) for x, n in (("a", a), ("b", b))]
        for y, a, b in (("", 3, 9), ("y", 1, 1))
    ]
    graph = helper.make_graph(nodes, "g", *infos)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("ai.onnx.ml", 3)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "m.onnx")
    result = check(tmp_path / "m.onnx", Options(target="generic", opt_level="Os"))
    assert result.ok, result.lines()


def _one_split(feature: int) -> dict[str, Any]:
    return {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_featureids": [feature, 0, 0],
        "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.5, 0.0, 0.0],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0],
        "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1,
    }  # fmt: skip
