"""No attribute of a node is passed over in silence: front ends read each one, or say that it is without effect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnxruntime.capi import onnxruntime_pybind11_state

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Graph
from mccompile.ir.types import DTYPES, TensorType
from mccompile.onnxio import OnnxNode, attributes, dtype_of_array
from mccompile.onnxio.contrib import MICROSOFT
from mccompile.ops.frontend import Import
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tools.write_contrib import defaults

DRAWS = 40
ONE, ZERO = np.ones((), np.float32), np.zeros((), np.uint8)
PIXELS = np.ones((1, 2, 3, 3), np.float32)
UNSAMPLED: Mapping[str, Case] = {
    "NonMaxSuppression": Case([np.ones((1, 3, 4), np.float32), np.ones((1, 2, 3), np.float32)]),
    "NonZero": Case([PIXELS]),
    "ConstantOfShape": Case([np.array([2, 3])], {}, frozenset({0})),
    "Shape": Case([PIXELS]),
    "Size": Case([PIXELS]),
    "TreeEnsemble": Case([np.ones((1, 1), np.float32)], {
        "nodes_modes": np.zeros(1, np.uint8), "nodes_splits": np.zeros(1, np.float32), "nodes_featureids": (0,),
        "nodes_truenodeids": (0,), "nodes_trueleafs": (1,), "nodes_falsenodeids": (1,), "nodes_falseleafs": (1,),
        "leaf_weights": np.zeros(2, np.float32), "leaf_targetids": (0, 0), "tree_roots": (0,), "n_targets": 1,
    }),
    "Unique": Case([PIXELS]),
    "CategoryMapper": Case([np.ones(2, np.int64)], {"cats_int64s": (1, 2), "cats_strings": ("a", "b")}),
    "Adagrad": Case([ONE, ZERO.astype(np.int64), *[PIXELS] * 3], {}, outputs=2),
    "Adam": Case([ONE, ZERO.astype(np.int64), *[PIXELS] * 4], {}, outputs=3),
    "Momentum": Case([ONE, ZERO.astype(np.int64), *[PIXELS] * 3], {
        "alpha": 0.5, "beta": 0.5, "norm_coefficient": 0.0, "mode": "standard",
    }, outputs=2),
    "QLinearReduceMean": Case([np.zeros((2, 3), np.uint8), ONE, ZERO, ONE, ZERO], {}, frozenset(range(1, 5))),
    "QuantizeLinear": Case([PIXELS, ONE, ZERO], {}, frozenset({1, 2})),
    "DequantizeLinear": Case([np.zeros((2, 3), np.uint8), ONE, ZERO], {}, frozenset({1, 2})),
}
"""A case of each front end that has no sample."""


def _cases(front_end: FrontEnd) -> Sequence[Case]:
    if front_end.sample is None:
        return [UNSAMPLED[front_end.op_type]]
    return [front_end.sample(SeededDraw(seed)) for seed in range(DRAWS)]


def _known(front_end: FrontEnd) -> Collection[str] | None:
    """The attributes of an operator by ONNX, or by onnxruntime, whose own operators ONNX does not know."""
    found = attributes(front_end.op_type, front_end.domain)
    if found is not None:
        return found
    wanted = (front_end.domain, front_end.op_type)
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    return next((set(s.attributes) for s in schemas if (s.domain, s.name) == wanted), None)


def _converted(front_end: FrontEnd, case: Case) -> Import:
    """The front end's view of a case after it was converted."""
    graph, inputs = Graph("case"), []
    for i, array in enumerate(case.inputs):
        if array is None:
            inputs.append(None)
        elif i in case.constant:
            inputs.append(graph.constant(f"x{i}", np.asarray(array)))
        else:
            inputs.append(graph.value(f"x{i}", TensorType(DTYPES[dtype_of_array(array)], array.shape)))
    attrs: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in case.attrs.items()}
    names = tuple(f"x{i}" for i in range(len(inputs)))
    outputs = tuple(f"y{i}" for i in range(case.outputs))
    n = Import(graph, OnnxNode(front_end.op_type, names, outputs, front_end.domain, "node", attrs), inputs)
    front_end.convert(n)
    return n


KNOWN = [f for f in front_ends().values() if attributes(f.op_type, f.domain) is not None]
"""ONNX says which attributes they have; those of com.microsoft are refused where nothing reads them."""


@pytest.mark.parametrize("front_end", KNOWN, ids=lambda f: f.op_type)
def test_every_attribute_is_read_or_without_effect(front_end: FrontEnd) -> None:
    known = _known(front_end)
    assert known is not None
    assert set(front_end.without_effect) <= set(known)
    for case in _cases(front_end) if set(known) - set(front_end.without_effect) else ():
        read = _converted(front_end, case).attributes_read
        own = {name for name in read if name.startswith("__")}  # no node of a file: what others become
        assert read - own <= set(known), "a front end reads what no node may have"
        assert not read & set(front_end.without_effect)
        left = set(known) - read - set(front_end.without_effect)
        assert not left, f"{left} of {dict(case.attrs)} on {[a is not None and a.shape for a in case.inputs]}"


def _model(path: Path, node: onnx.NodeProto, opset: int = 23) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 6, 6])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def _refusal(path: Path, node: onnx.NodeProto) -> CompileError:
    with pytest.raises(CompileError) as error:
        import_graph(_model(path / "m.onnx", node), Options(target="generic"))
    return error.value


def test_unread_attributes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the front end of LeakyRelu did not know its attribute yet."""
    monkeypatch.setitem(front_ends(), ("", "LeakyRelu"), FrontEnd("LeakyRelu", lambda n: n.bind(0, n.input(0))))
    default = helper.make_node("LeakyRelu", ["x"], ["y"], alpha=0.01)
    import_graph(_model(tmp_path / "m.onnx", default), Options(target="generic"))
    error = _refusal(tmp_path, helper.make_node("LeakyRelu", ["x"], ["y"], name="node", alpha=0.25))
    assert "'alpha' = 0.25" in error.rule
    assert "node" in error.where
    assert "0.01" in error.hint


def test_unknown_attributes_are_refused(tmp_path: Path) -> None:
    error = _refusal(tmp_path, helper.make_node("LeakyRelu", ["x"], ["y"], alhpa=0.25))
    assert "no attribute 'alhpa' = 0.25" in error.rule
    assert "alpha" in error.hint


def test_private_attributes_are_left_alone(tmp_path: Path) -> None:
    node = helper.make_node("LeakyRelu", ["x"], ["y"], __exporter="x")
    import_graph(_model(tmp_path / "m.onnx", node), Options(target="generic"))


ODD: Mapping[str, dict[str, Any]] = {
    "ReduceSum": {"keepdims": 2}, "ReduceMax": {"noop_with_empty_axes": -1}, "ArgMin": {"keepdims": 3},
    "MaxPool": {"kernel_shape": [2, 2], "ceil_mode": 2}, "Gelu": {"approximate": "some"},
    "AveragePool": {"kernel_shape": [2, 2], "count_include_pad": 7}, "SpaceToDepth": {"blocksize": 2, "mode": "ABC"},
}  # fmt: skip


@pytest.mark.parametrize("op_type", ODD)
def test_values_outside_of_the_standard_are_refused(op_type: str, tmp_path: Path) -> None:
    error = _refusal(tmp_path, helper.make_node(op_type, ["x"], ["y"], **ODD[op_type]))
    assert list(ODD[op_type])[-1] in error.rule


SAVED = [f for f in front_ends().values() if f.domain == MICROSOFT and (f.sample or f.op_type in UNSAMPLED)]


@pytest.mark.parametrize("front_end", SAVED, ids=lambda f: f.op_type)
def test_defaults_ask_for_nothing(front_end: FrontEnd) -> None:
    """onnxruntime saves optimised networks with all of them."""
    schemas = onnxruntime_pybind11_state.get_all_operator_schema()
    for schema in [s for s in schemas if (s.domain, s.name) == (MICROSOFT, front_end.op_type)]:
        for case in _cases(front_end):
            n = _converted(front_end, replace(case, attrs={**defaults(schema), **case.attrs}))
            n.refuse_unread(front_end.without_effect)
