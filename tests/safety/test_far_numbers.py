"""Numbers of a file that lie far from what they are meant to be: each ends in one error, soon and in little memory.

Drawn ones are in `tests/support/fuzz/numbers.py`.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile_files
from mccompile.ir.errors import CompileError

FLOAT, INT64, INT8 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT8
ML, CONTRIB = "ai.onnx.ml", "com.microsoft"
FAR = 2**31 - 1
MOST_MIB = 200
TREE = {
    "nodes_treeids": [0], "nodes_nodeids": [0], "nodes_modes": ["LEAF"], "nodes_featureids": [0],
    "nodes_values": [0.0], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "target_treeids": [0],
    "target_nodeids": [0], "target_ids": [0], "target_weights": [1.0],
}  # fmt: skip


def model(
    op: str, inputs: dict[str, tuple[int, list[int]]], constants: dict[str, Any], domain: str = "", **attributes: Any
) -> onnx.ModelProto:
    """One node on inputs of types and shapes, and on constants, in the order of their names."""
    node = helper.make_node(op, sorted({*inputs, *constants}), ["y"], domain=domain, **attributes)
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info(n, t, s) for n, (t, s) in inputs.items()],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid(d, v) for d, v in (("", 21), (ML, 3), (CONTRIB, 1))]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


REFUSED = {
    "groups below 0": model(
        "ConvTranspose", {"a": (FLOAT, [1, 2, 4])}, {"b": np.ones((2, 1, 3), np.float32)}, group=-1
    ),
    "taps beyond 32 bits, padded away": model(
        "ConvTranspose", {"a": (FLOAT, [1, 1, 3])}, {"b": np.ones((1, 1, 4), np.float32)},
        dilations=[2**62], pads=[2**61, 2**63 - 1],
    ),
    "a dilation of one tap": model(
        "Conv", {"a": (FLOAT, [1, 1, 3])}, {"b": np.ones((1, 1, 1), np.float32)}, dilations=[2**62]
    ),
    "a stride of one window": model("MaxPool", {"a": (FLOAT, [1, 1, 3])}, {}, kernel_shape=[3], strides=[2**62]),
    "a depth": model("OneHot", {"a": (INT64, [1])}, {"b": np.array(FAR), "c": np.array([0.0, 1.0], np.float32)}),
    "a grid": model("AffineGrid", {"a": (FLOAT, [1, 2, 3])}, {"b": np.array([1, 1, FAR, 1])}),
    "targets of trees": model("TreeEnsembleRegressor", {"a": (FLOAT, [1, 1])}, {}, ML, n_targets=FAR, **TREE),
    "blocks of nothing": model(
        "MatMulBnb4", {"a": (FLOAT, [1, 2])}, {"b": np.zeros(2, np.uint8), "c": np.ones(1, np.float32)},
        CONTRIB, K=2, N=2, block_size=0, quant_type=0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED)
def test_refused_before_memory_is_taken(given: onnx.ModelProto, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="node 0"):
        compiled(given, tmp_path)


TAKEN = {
    "one block": model(
        "DequantizeLinear", {"a": (INT8, [4, 1])}, {"b": np.ones((1, 1), np.float32)}, axis=0, block_size=FAR
    ),
    "strides of which most meet no tap": model(
        "ConvTranspose", {"a": (FLOAT, [1, 1, 4, 4])}, {"b": np.ones((1, 1, 2, 2), np.float32)}, strides=[900, 900]
    ),
    "strides of which all meet a tap": model(
        "ConvTranspose", {"a": (FLOAT, [1, 1, 2, 2])}, {"b": np.ones((1, 1, 99, 99), np.float32)}, strides=[99, 99]
    ),
}  # fmt: skip


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN)
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_compiled_in_little_memory(given: onnx.ModelProto, target: str, tmp_path: Path) -> None:
    files = compiled(given, tmp_path, target)
    assert sum(map(len, files.values())) < 1 << 20


def compiled(given: onnx.ModelProto, folder: Path, target: str = "generic") -> dict[str, bytes]:
    """The files of a model; they take so much memory and no more, as it is or when it is refused."""
    path = folder / "far.onnx"
    onnx.save(given, path)
    tracemalloc.start()
    try:
        return compile_files(path, Options(target=target, name="far"))[1]
    finally:
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert most < MOST_MIB << 20
