"""Kinds of layers that few networks have: text beside bytes, casts to 16 bits and back, rows that a loop stacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from mccompile.check.check import CheckResult, check
from mccompile.driver import Options
from tests.check.conftest import save

F32 = TensorProto.FLOAT
n = helper.make_node


def _layers(path: Path, level: str = "O0", **options: object) -> CheckResult:
    result = check(path, Options(target="generic", opt_level=level, **options), per_layer=True)  # type: ignore[arg-type]
    assert result.ok, "\n".join(result.lines())
    return result


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_text_beside_bytes_is_not_rounded(tmp_path: Path, level: str) -> None:
    """One input is text, the other is quantised: ties are looked for in the second."""
    nodes = [
        n("Concat", ["s", "other"], ["t"], axis=0),
        n("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        n("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        n("Exp", ["d"], ["e"]),
        n("QuantizeLinear", ["e", "scale", "zero"], ["y"]),
    ]
    weights = {"scale": np.array(0.1, np.float32), "zero": np.array(3, np.int8)}
    weights["other"] = np.array(["gamma", ""], object)
    given = {"x": (F32, [40]), "s": (TensorProto.STRING, [3])}
    made = {"y": (TensorProto.INT8, [40]), "t": (TensorProto.STRING, [5])}
    result = _layers(save(tmp_path / "m.onnx", nodes, given, made, weights), level)
    assert result.ties is not None
    assert result.ties.layers > 0


@pytest.mark.parametrize("through", [TensorProto.FLOAT16, TensorProto.BFLOAT16])
@pytest.mark.parametrize("level", ["O0", "O2"])
def test_casts_to_16_bits_and_back_are_allowed_for(tmp_path: Path, through: int, level: str) -> None:
    """onnxruntime leaves the pair of casts out, even without optimisations; the generated code rounds."""
    nodes = [n("Cast", ["x"], ["h"], to=through), n("Cast", ["h"], ["w"], to=F32), n("Sigmoid", ["w"], ["y"])]
    _layers(save(tmp_path / "m.onnx", nodes, {"x": (F32, [2, 50])}, {"y": (F32, [2, 50])}), level)


def _scan(path: Path, body: list[NodeProto], rows: int, **attributes: object) -> Path:
    """x f32[rows, 4] is read row by row; s f32[4] is handed on, and row_0, row_1, ... are stacked."""
    stacked = [f"row_{i}" for i in range(rows)]
    ports = [helper.make_tensor_value_info(name, F32, [4]) for name in ("s", "r")]
    outs = [helper.make_tensor_value_info(name, F32, [4]) for name in ("s2", *stacked)]
    graph = helper.make_graph(body, "body", ports, outs)
    names = ["last", *(f"all_{i}" for i in range(rows))]
    given = {"x": (F32, [3, 4]), "first": (F32, [4])}
    nodes = [n("Scan", ["first", "x"], names, body=graph, num_scan_inputs=1, **attributes)]
    nodes.append(n("Neg", ["all_0"], ["y"]))
    return save(path, nodes, given, {"last": (F32, [4]), "y": (F32, [3, 4])})


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_rows_that_are_stacked_backwards_have_their_name(tmp_path: Path, level: str) -> None:
    body = [n("Add", ["s", "r"], ["s2"]), n("Exp", ["s2"], ["row_0"])]
    path = _scan(tmp_path / "m.onnx", body, 1, scan_output_directions=[1])
    _layers(path, level)


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_rows_that_nobody_reads_are_not_compared(tmp_path: Path, level: str) -> None:
    """They have memory for the last turn only."""
    body = [n("Add", ["s", "r"], ["s2"]), n("Exp", ["s2"], ["row_0"]), n("Mul", ["s", "r"], ["row_1"])]
    _layers(_scan(tmp_path / "m.onnx", body, 2), level)
