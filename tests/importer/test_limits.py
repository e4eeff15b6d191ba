"""What a model asks for beyond a limit is refused at once, with the name of the limit; raised limits let it pass."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile_program, import_graph, open_model
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.limits import LIMITS, limit, limited, require

N = helper.make_node
HUGE = 2**31
SECONDS = 5
"""Of the processor, which is many times what any of these takes."""


def _saved(
    folder: Path, nodes: list[onnx.NodeProto], shape: tuple[int, ...] = (1, 1, 8, 8), **constants: Any
) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(np.asarray(v), name) for name, v in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _loop() -> list[onnx.NodeProto]:
    """Turns over constants, of which x takes the result."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [N("Identity", ["c"], ["go"]), N("Tanh", ["h"], ["next"])], "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("h", TensorProto.FLOAT, None)],
        [value("go", TensorProto.BOOL, []), value("next", TensorProto.FLOAT, None)],
    )  # fmt: skip
    return [N("Loop", ["trips", "on", "k"], ["z"], body=body), N("Add", ["x", "z"], ["y"])]


POOLS = ("MaxPool", "AveragePool", "LpPool")
BOMBS: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], dict[str, Any]]] = {
    **{f"window of {op}": ([N(op, ["x"], ["y"], kernel_shape=[HUGE] * 2, pads=[HUGE] * 4)], (1, 1, 8, 8), {})
       for op in POOLS},
    **{f"padding of {op}": ([N(op, ["x"], ["y"], kernel_shape=[2, 2], pads=[0, 0, HUGE, HUGE])], (1, 1, 8, 8), {})
       for op in POOLS},
    "window that fits its padding": (
        [N("AveragePool", ["x"], ["y"], kernel_shape=[2**14] * 2, pads=[2**14] * 4, count_include_pad=1)],
        (1, 1, 8, 8), {},
    ),
    "padding of Conv": ([N("Conv", ["x", "w"], ["y"], pads=[HUGE] * 4)], (1, 1, 8, 8),
                        {"w": np.ones((1, 1, 3, 3), np.float32)}),
    "strides of ConvTranspose": ([N("ConvTranspose", ["x", "w"], ["y"], strides=[HUGE] * 2)], (1, 1, 8, 8),
                                 {"w": np.ones((1, 1, 3, 3), np.float32)}),
    "nothing, beside very much": ([N("Relu", ["x"], ["y"])], (0, HUGE - 1, HUGE - 1, HUGE - 1), {}),
    "width": ([N("Relu", ["x"], ["y"])], (1, HUGE), {}),
    "width of softmax": ([N("Softmax", ["x"], ["y"])], (1, 2**30), {}),
    "Tile": ([N("Tile", ["x", "s"], ["y"])], (1, 1, 8, 8), {"s": np.array([1, 1, 2**12, 2**12])}),
    "axes": ([N("Unsqueeze", ["x", "s"], ["y"])], (1, 1), {"s": np.arange(10_000)}),
    "tensors that double": (
        [N("Concat", [f"d{i}" if i else "x"] * 2, [f"d{i + 1}" if i < 59 else "y"], axis=0) for i in range(60)],
        (1, 8), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BOMBS)
def test_what_asks_for_too_much_is_refused_at_once(case: str, tmp_path: Path) -> None:
    nodes, shape, constants = BOMBS[case]
    path = _saved(tmp_path, nodes, shape, **constants)
    start = time.process_time()
    with pytest.raises(CompileError, match="the limit is") as caught:
        import_graph(path, Options(target="generic"))
    assert time.process_time() - start < SECONDS
    assert caught.value.where
    assert "--limits tensor-elements=" in caught.value.hint or "are supported" in caught.value.hint


def test_a_table_is_refused_before_it_is_made(tmp_path: Path) -> None:
    """Four places and weights for each of 2^26 results."""
    node = N("Resize", ["x", "", "", "s"], ["y"], mode="cubic")
    path = _saved(tmp_path, [node], (1, 1, 1, 4), s=np.array([1, 1, 1, 2**26]))
    start = time.process_time()
    with pytest.raises(CompileError, match=r"'axis3' .* would take 2,147,483,648 bytes") as caught:
        import_graph(path, Options(target="generic"))
    assert time.process_time() - start < SECONDS
    assert "--limits folded-bytes=" in caught.value.hint


def test_a_raised_limit_lets_it_pass_and_a_lowered_one_does_not(tmp_path: Path) -> None:
    path = _saved(tmp_path, [N("Relu", ["x"], ["y"])])
    with pytest.raises(CompileError, match="'x' has 64 elements, the limit is 63") as caught:
        import_graph(path, Options(target="generic", limits={"tensor-elements": 63}))
    assert caught.value.hint == "if that is meant: --limits tensor-elements=64"
    import_graph(path, Options(target="generic", limits={"tensor-elements": 64}))


PARTS = {
    "Slice": (N("Slice", ["w", "a", "b"], ["p"]), {"a": [0, 0], "b": [8, 8]}),
    "ReduceL2": (N("ReduceL2", ["w"], ["p"], axes=[1], keepdims=1), {}),
    "ReduceSum": (N("ReduceSum", ["w", "a"], ["p"], keepdims=1), {"a": [0]}),
    "Split": (N("Split", ["w", "a"], ["p", "q"], axis=0), {"a": [1, 63]}),
}


@pytest.mark.parametrize("op", PARTS)
def test_a_small_part_of_a_large_constant_is_computed(op: str, tmp_path: Path) -> None:
    """As the rows of a causal mask that a network's extents take."""
    node, given = PARTS[op]
    constants = {name: np.array(v, np.int64) for name, v in given.items()}
    path = _saved(tmp_path, [node, N("Mul", ["x", "p"], ["y"])], (1, 1), w=np.ones((64, 64), np.float32), **constants)
    c = import_graph(path, Options(target="generic", limits={"folded-bytes": 64 * 64 * 4}))
    assert [n.op.name for n in c.graph.nodes] == ["map"]


def test_a_loop_over_constants_is_folded_up_to_a_limit(tmp_path: Path) -> None:
    constants = {"on": np.array(True), "k": np.ones(4, np.float32)}
    path = _saved(tmp_path, _loop(), (4,), **{**constants, "trips": np.array(200)})
    found = {}
    for most in (10**6, 100):
        c = open_model(path, Options(target="generic", limits={"folded-steps": most}))
        compile_program(c)
        found[most] = any(n.op.name == "loop" for n in c.graph.nodes)
    assert found == {10**6: False, 100: True}


def test_limits_hold_inside_and_have_names() -> None:
    usual = limit("nodes")
    with limited({"nodes": 3}):
        require("nodes", 3, "it")
        with pytest.raises(CompileError, match="it has 4 nodes, the limit is 3"), limited({"folded-bytes": 9}):
            require("nodes", 4, "it")
    assert limit("nodes") == usual
    for wrong in ({"nodse": 3}, {"nodes": 0}, {"tensor-elements": 2**31}, {"nodes": "many"}):
        with pytest.raises(UsageError), limited(wrong):  # type: ignore[arg-type]
            pass
    assert all(told.usual <= told.most for told in LIMITS.values())
