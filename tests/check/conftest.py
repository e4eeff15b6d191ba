"""What the tests of the checker share: a cache of their own, and small models with known faults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.codegen.folder import write_folder
from mccompile.driver import Compilation, Options

GENERIC = Options(target="generic")


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def save(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, tuple[int, Sequence[int]]],
    outputs: dict[str, tuple[int, Sequence[int]]],
    weights: dict[str, np.ndarray[Any, Any]] | None = None,
    opset: int = 17,
) -> Path:
    """A model file."""
    graph = helper.make_graph(
        list(nodes),
        "small",
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_tensor_value_info(n, t, s) for n, (t, s) in outputs.items()],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def small_net(path: Path) -> Path:
    """conv+relu -> two branches -> concat (several writers) -> reshape -> gemm: x f32[1,2,6,6] -> y f32[1,5].

    One branch, ``left``, is an output as well, so that it has memory of its own.
    """
    rng = np.random.default_rng(3)

    def f32(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["conv"], name="first/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], name="first/relu"),
        helper.make_node("Conv", ["relu", "w1"], ["left"], name="left/conv", pads=[1, 1, 1, 1]),
        helper.make_node("MaxPool", ["relu"], ["right"], name="right/pool", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("Concat", ["left", "right"], ["both"], name="both/concat", axis=1),
        helper.make_node("Reshape", ["both", "shape"], ["flat"], name="flat"),
        helper.make_node("Gemm", ["flat", "w2", "b2"], ["y"], name="last/gemm"),
    ]
    weights = {"w0": f32(4, 2, 3, 3), "b0": f32(4), "w1": f32(3, 4, 3, 3), "w2": f32(7 * 36, 5), "b2": f32(5)}
    weights["shape"] = np.array([1, -1], np.int64)
    outputs = {"y": (TensorProto.FLOAT, [1, 5]), "left": (TensorProto.FLOAT, [1, 3, 6, 6])}
    return save(path, nodes, {"x": (TensorProto.FLOAT, [1, 2, 6, 6])}, outputs, weights)


def compile_to(model: Path, out: Path, options: Options = GENERIC) -> Compilation:
    compilation, files = driver.compile_files(model, options)
    write_folder(out, files)
    return compilation


def spoil(out: Path, name: str, statement: str, step: int, before: bool = False) -> None:
    """Edit the generated C: a statement right after (or before) a step; ``RESULT`` stands for the step's result."""
    path = out / f"{name}.c"
    text = path.read_text()
    found = re.search(rf"MCC_STEP\({step}, (.*?),\s+(a->\w+)\.v\);", text, re.DOTALL)
    assert found is not None
    hook = "MCC_PROFILE_BEGIN" if before else "MCC_PROFILE_END"
    parts = [f"MCC_PROFILE_BEGIN({step});", f"{found[1]};", f"MCC_PROFILE_END({step});"]
    parts.insert(parts.index(f"{hook}({step});"), statement.replace("RESULT", found[2] + ".v"))
    traced = f"MCC_TRACE({step}, {found[2]}.v, sizeof({found[2]}.v));"
    path.write_text(text.replace(found[0], "\n    ".join([*parts, traced])))


def step_writing(report: dict[str, Any], tensor: str) -> int:
    """The last step that writes a tensor."""
    return max(i for i, step in enumerate(report["steps"]) if tensor in step["writes"])
