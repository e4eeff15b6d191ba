"""Steps of optimisers, and statistics of training, against onnx.reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from mccompile import backend
from mccompile.driver import Options, import_graph

DOMAIN = "ai.onnx.preview.training"
STEPS: dict[str, tuple[int, dict[str, Any]]] = {
    "Adagrad": (3, {"norm_coefficient": 0.01, "epsilon": 1e-5, "decay_factor": 0.1}),
    "Adam": (4, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.1, "alpha": 0.9, "beta": 0.9, "epsilon": 0.1}),
    "Momentum": (3, {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
}


def step_of(
    op_type: str, parts: int, attrs: dict[str, Any], step: int
) -> tuple[onnx.ModelProto, list[np.ndarray[Any, Any]]]:
    """A step of two tensors, and its inputs."""
    rng = np.random.default_rng(step)
    shapes = [(2,), (3, 2)]
    arrays = [rng.uniform(0.1, 1, s).astype(np.float32) for _ in range(parts) for s in shapes]
    given: list[np.ndarray[Any, Any]] = [np.array(0.1, np.float32), np.array(step, np.int64), *arrays]
    names = [f"x{i}" for i in range(len(given))]
    outs = [f"y{i}" for i in range(2 * (parts - 1))]
    node = helper.make_node(op_type, names, outs, domain=DOMAIN, **attrs)
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(names, given, strict=True)
    ]
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[i % 2]) for i, n in enumerate(outs)
    ]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, outputs),
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, 1)],
    )
    return model, given


@pytest.mark.slow
@pytest.mark.parametrize("op_type", STEPS)
@pytest.mark.parametrize("step", [0, 3])
def test_tensors_move_as_in_the_reference(op_type: str, step: int) -> None:
    model, given = step_of(op_type, *STEPS[op_type], step)
    wanted = ReferenceEvaluator(model).run(None, {f"x{i}": a for i, a in enumerate(given)})
    for mine, theirs in zip(backend.run_model(model, given, target="generic"), wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


@pytest.mark.parametrize("op_type", ["Adagrad", "Adam"])
def test_attributes_have_the_defaults_of_the_operator(op_type: str, tmp_path: Path) -> None:
    """Gradients, and what is remembered of their squares, are small: most of the divisor is ``epsilon``."""
    model, given = step_of(op_type, STEPS[op_type][0], {}, 0)
    sizes = dict.fromkeys((4, 5), 1e-07) | dict.fromkeys((len(given) - 2, len(given) - 1), 1e-14)
    inputs = {f"x{i}": a * np.asarray(sizes.get(i, 1), a.dtype) for i, a in enumerate(given)}
    onnx.save(model, tmp_path / "m.onnx")
    got = import_graph(tmp_path / "m.onnx", Options(target="generic")).graph.evaluate(inputs)
    for mine, theirs in zip(got.values(), ReferenceEvaluator(model).run(None, inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


@pytest.mark.slow
def test_running_statistics() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(2, 3, (4, 3, 5)).astype(np.float32)
    others = [rng.uniform(0.5, 1, 3).astype(np.float32) for _ in range(4)]
    node = helper.make_node(
        "BatchNormalization", ["x", "s", "b", "m", "v"], ["y", "mean", "var"], training_mode=1, momentum=0.7
    )
    y, mean, var = backend.run_node(node, [x, *others], target="generic")
    np.testing.assert_allclose(mean, 0.7 * others[2] + 0.3 * x.mean((0, 2)), rtol=1e-5)
    np.testing.assert_allclose(var, 0.7 * others[3] + 0.3 * x.var((0, 2)), rtol=1e-5)
    apart = (x - x.mean((0, 2), keepdims=True)) / np.sqrt(x.var((0, 2), keepdims=True) + 1e-5)
    np.testing.assert_allclose(y, apart * others[0][:, None] + others[1][:, None], rtol=1e-4, atol=1e-5)
