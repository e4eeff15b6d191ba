"""What nodes are made of has names of its own, whatever the values of the model are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.importer.fixed import Fixed
from mccompile.importer.fold_values import computed
from mccompile.ir.names import Names
from mccompile.onnxio import OnnxNode
from mccompile.ops.registry import front_ends
from tests.support.draw import SeededDraw
from tests.support.opcases import case_inputs, case_model
from tests.support.small_models import ort_run

Array = np.ndarray[Any, np.dtype[Any]]
N = helper.make_node
ML, MS = "ai.onnx.ml", "com.microsoft"
W = np.array([1, -2], np.float32)


def _value(name: str, array: Array) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _model(
    nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, Array], outputs: Sequence[str],
    constants: Mapping[str, Array] | None = None, info: Sequence[onnx.ValueInfoProto] = (), opset: int = 23,
) -> onnx.ModelProto:  # fmt: skip
    graph = helper.make_graph(
        list(nodes), "g", [_value(k, a) for k, a in feeds.items()], [onnx.ValueInfoProto(name=o) for o in outputs],
        [numpy_helper.from_array(a, k) for k, a in (constants or {}).items()], value_info=list(info),
    )  # fmt: skip
    opsets = [helper.make_opsetid(*o) for o in (("", opset), (ML, 3), (MS, 1), ("ai.onnx.preview.training", 1))]
    return onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=opsets, ir_version=10))


def _results(
    path: Path, model: onnx.ModelProto, feeds: Mapping[str, Array], constants: Mapping[str, Fixed] | None = None
) -> dict[str, Array]:
    path.write_bytes(model.SerializeToString())
    graph = import_graph(path, Options(target="generic", constants=constants or {})).graph
    return graph.evaluate({v.name: feeds[v.name] for v in graph.inputs})


def _like_onnxruntime(
    path: Path, model: onnx.ModelProto, feeds: Mapping[str, Array], constants: Mapping[str, Fixed] | None = None
) -> None:
    got = _results(path, model, feeds, constants)
    for name, want in ort_run(path, dict(feeds)).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-5, atol=1e-6, err_msg=name)


X = np.arange(-6, 6, dtype=np.float32).reshape(3, 4)
SAMPLES = [
    *((MS, op) for op in (
        "QLinearAdd", "QGemm", "QAttention", "MatMulNBits", "DynamicQuantizeMatMul", "DynamicQuantizeLSTM",
        "SkipLayerNormalization", "MultiHeadAttention", "GroupQueryAttention", "GatherBlockQuantized",
    )),
    *(("", op) for op in ("DynamicQuantizeLinear", "QLinearConv", "TensorScatter", "MaxUnpool", "AffineGrid")),
]  # fmt: skip
GIVEN = [
    ("", "SoftmaxCrossEntropyLoss", [X, np.array([1, 0, 3])]),
    ("", "Attention", [X[None, None], X[None, None], X[None, None]]),
    ("", "CumSum", [X.reshape(3, 2, 2), np.array(1)]),
    ("ai.onnx.preview.training", "Momentum", [np.float32(0.1), np.array(1), X, X, X]),
]
MOMENTUM = {"alpha": 0.9, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}


def _case(domain: str, op: str, arrays: Sequence[Array] | None) -> tuple[onnx.ModelProto, dict[str, Array]]:
    front_end = front_ends().get((domain, op))
    if arrays is None:
        assert front_end is not None
        assert front_end.sample is not None
        case = front_end.sample(SeededDraw(1))
        return case_model(front_end, case), case_inputs(case)
    feeds = {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)}
    attrs = MOMENTUM if op == "Momentum" else {}
    outputs = ["y0", "y1"] if op == "Momentum" else ["y0"]
    return _model([N(op, list(feeds), outputs, name="node", domain=domain, **attrs)], feeds, outputs), feeds


@pytest.mark.parametrize(("domain", "op", "arrays"), [*((d, op, None) for d, op in SAMPLES), *GIVEN])
def test_values_may_be_called_as_what_a_node_is_made_of(
    domain: str, op: str, arrays: Sequence[Array] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, feeds = _case(domain, op, arrays)
    made: dict[str, None] = {}
    fresh = Names.fresh

    def recorded(self: Names, base: str) -> str:
        made[fresh(self, base)] = None
        return list(made)[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Names, "fresh", recorded)
        want = _results(tmp_path / "plain.onnx", model, feeds)
    assert made
    beside = onnx.ModelProto.FromString(model.SerializeToString())
    graph, before = beside.graph, list(beside.graph.node)
    del graph.node[:]
    graph.node.extend(N("Mul", ["w", f"c{i}"], [name]) for i, name in enumerate(made))
    graph.node.extend([*before, *(N("Neg", [name], [f"z{i}"]) for i, name in enumerate(made))])
    graph.input.append(_value("w", W))
    graph.initializer.extend(numpy_helper.from_array(np.float32(i), f"c{i}") for i in range(len(made)))
    graph.output.extend(onnx.ValueInfoProto(name=f"z{i}") for i in range(len(made)))
    got = _results(tmp_path / "beside.onnx", beside, {**feeds, "w": W})
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array)
    for i, name in enumerate(made):
        np.testing.assert_array_equal(got[f"z{i}"], -i * W, err_msg=name)


def _labels() -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Fixed]]:
    linear = N("LinearClassifier", ["x"], ["label", "s"], domain=ML, coefficients=[1.0, 2.0, -1.0, 0.5],
               intercepts=[0.0, 0.0], classlabels_strings=["a", "b"])  # fmt: skip
    encoder = N("LabelEncoder", ["label"], ["e"], domain=ML, keys_strings=["a", "b"], values_int64s=[5, 6])
    nodes = [N("Relu", ["w"], ["label.number"]), linear, encoder, N("Neg", ["label.number"], ["z"])]
    feeds = {"x": np.array([[1, 2], [-3, 1]], np.float32), "w": W}
    return _model(nodes, feeds, ["e", "z"], opset=13), feeds, {}


def _extent() -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Fixed]]:
    """An input that is the extent of another one is computed by nodes."""
    names = ("n/axis", "n/shape", "n/number")
    nodes = [N("Mul", ["w", "w"], [name]) for name in names]
    nodes += [N("Cast", ["n"], ["m"], to=TensorProto.FLOAT), N("Sum", ["w", "m", *names], ["y"])]
    feeds = {"w": W, "n": np.array(2)}
    model = _model(nodes, feeds, ["y"])
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "length"
    return model, feeds, {"n": "length"}


def _stated() -> tuple[onnx.ModelProto, dict[str, Array], dict[str, Fixed]]:
    """What a model states of the shape of "x.1" is said of no part of the node that makes "x"."""
    nodes = [N("CumSum", ["a", "axis"], ["x"]), N("Reshape", ["a", "s"], ["x.1"]), N("Neg", ["x.1"], ["y"])]
    feeds = {"a": X, "axis": np.array(1), "s": np.array([2, 6])}
    info = [_value("x", X), _value("x.1", X.reshape(2, 6)), _value("y", X.reshape(2, 6))]
    return _model(nodes, feeds, ["x", "y"], info=info), feeds, {}


@pytest.mark.parametrize("make", [_labels, _stated])
def test_other_names_that_are_made_of_names(make: Any, tmp_path: Path) -> None:
    model, feeds, constants = make()
    _like_onnxruntime(tmp_path / "m.onnx", model, feeds, constants)


def test_an_input_that_is_an_extent_is_made_of_new_names(tmp_path: Path) -> None:
    model, feeds, constants = _extent()
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    options = Options(target="generic", constants=constants, dims={"length": 2})
    got = import_graph(path, options).graph.evaluate({"w": W})
    np.testing.assert_array_equal(got["y"], ort_run(path, feeds)["y"])


@pytest.mark.parametrize("op", ["Abs", "Identity"])
def test_what_has_the_name_of_a_value_is_that_value(op: str, tmp_path: Path) -> None:
    """``check --per-layer`` compares by name; what ReduceLogSumExp subtracts is called as its result, too."""
    nodes = [N("ReduceLogSumExp", ["x"], ["y"]), N("Mul", ["w", "w"], ["v"]), N(op, ["v"], ["y.max"])]
    model = _model([*nodes, N("Neg", ["y.max"], ["z"])], {"x": X, "w": W}, ["y", "z"])
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    graph = import_graph(tmp_path / "m.onnx", Options(target="generic")).graph
    inner = graph.evaluate({"x": X, "w": W}, keep=True)
    np.testing.assert_array_equal(inner["z"], -W * W)
    np.testing.assert_array_equal(inner.get("y.max", W * W), W * W)
    assert ("y.max" in inner) == (op == "Abs")
    assert graph.value("y.max", graph.outputs[0].type).name != "y.max"


def test_turns_of_a_loop_that_is_unrolled_name_their_parts_alike() -> None:
    names = Names(["y"])
    with names.lent():
        assert names.fresh("y") == "y_2"
        assert names.is_made("y_2")
    assert not names.is_made("y_2")
    assert names.fresh("y") == "y_2"


def test_an_input_of_a_folded_node_is_not_hidden() -> None:
    """QLinearAdd dequantises its operands first: to a value that may have the name of the scale that is read next."""
    quantised = [np.array([3, 5], np.uint8), np.float32(0.5), np.array(1, np.uint8)]
    arrays = [*quantised, *quantised, np.float32(0.25), np.array(2, np.uint8)]
    plain = OnnxNode("QLinearAdd", tuple(f"in{i}" for i in range(8)), ("y",), MS, "n", {}, 0)
    (want,) = computed(plain, arrays)
    for name in ("real0", "real3", "real"):
        hidden = [f"in{i}" for i in range(8)]
        hidden[6] = f"y.{name}"
        (got,) = computed(OnnxNode("QLinearAdd", tuple(hidden), ("y",), MS, "n", {}, 0), arrays)
        np.testing.assert_array_equal(got, want)
