"""Steps of optimisers, and statistics of training, against onnx.reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from mccompile import backend

DOMAIN = "ai.onnx.preview.training"
STEPS: dict[str, tuple[int, dict[str, Any]]] = {
    "Adagrad": (3, {"norm_coefficient": 0.01, "epsilon": 1e-5, "decay_factor": 0.1}),
    "Adam": (4, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.1, "alpha": 0.9, "beta": 0.9, "epsilon": 0.1}),
    "Momentum": (3, {"norm_coefficient": 0.01, "alpha": 0.9, "beta": 0.5, "mode": "nesterov"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("op_type", STEPS)
@pytest.mark.parametrize("step", [0, 3])
def test_tensors_move_as_in_the_reference(op_type: str, step: int) -> None:
    parts, attrs = STEPS[op_type]
    rng = np.random.default_rng(step)
    shapes = [(2,), (3, 2)]
    arrays = [rng.uniform(0.1, 1, s).astype(np.float32) for _ in range(parts) for s in shapes]
    given: list[np.ndarray] = [np.array(0.1, np.float32), np.array(step, np.int64), *arrays]
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
    wanted = ReferenceEvaluator(model).run(None, dict(zip(names, given, strict=True)))
    for mine, theirs in zip(backend.run_model(model, given, target="generic"), wanted, strict=True):
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
