"""Vector helpers that compute with the bits of floats: lanes may hold any number, or none of the operand's at all.

Rows of 7 fill no vector: lanes behind them are 0, which is 1000 more than the largest of a row of numbers by -1000.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.targets.target import runs_here
from tests.support.sanitized import sanitized_network

TARGETS = [t for t in ("x86-64-v2", "x86-64-v3", "native") if runs_here(t)]

OPERATORS = {
    "Softmax": {"axis": -1}, "LogSoftmax": {"axis": -1}, "ReduceLogSumExp": {}, "Exp": {}, "Log": {}, "Tanh": {},
    "Sigmoid": {}, "Softplus": {}, "Mish": {}, "Sinh": {}, "Acosh": {}, "Atanh": {}, "Elu": {},
}  # fmt: skip

BITS = (0x7FFFFFFF, 0xFFFFFFFF, 0x80000000, 0x7FC00081, 0xFF800000, 0x7F800000, 0x00000001)
"""NaN of several kinds, -0, infinities, the least number."""


def _data(shape: tuple[int, ...]) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    odd = r.integers(0, 2**32, shape, dtype=np.uint64).astype(np.uint32)
    odd.flat[: len(BITS)] = BITS
    even = [np.full(shape, number, np.float32) for number in (-1000, 1000)]
    return [odd.view(np.float32), r.normal(-900, 200, shape).astype(np.float32), *even]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", OPERATORS)
def test_bits_of_any_float_overflow_nothing(op: str, target: str, tmp_path: Path) -> None:
    for shape in ((3, 7), (3, 40)):
        nodes = [
            helper.make_node(op, ["x"], ["f"], **OPERATORS[op]),
            helper.make_node("Cast", ["f"], ["half"], to=TensorProto.BFLOAT16),
            helper.make_node("Cast", ["half"], ["h"], to=TensorProto.FLOAT),
        ]
        outputs = [helper.make_empty_tensor_value_info(name) for name in ("f", "h")]
        given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        graph = helper.make_graph(nodes, "g", given, outputs)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), tmp_path / "m.onnx")
        out = tmp_path / f"{shape[1]}"
        mccompile.compile(tmp_path / "m.onnx", out, target=target)
        network = sanitized_network(out)
        for x in _data(shape):
            network.run({"x": x})
