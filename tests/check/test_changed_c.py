"""`check` of C that was changed by hand: what is wrong by a step or one place is found, by every way of asking."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.check import check as checking
from mccompile.check.check import check
from mccompile.check.result import CheckResult
from mccompile.driver import Options
from tests.support.quantised import Net

FLOAT = TensorProto.FLOAT
N = helper.make_node
Change = Callable[[str], str]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CheckResult]:
    """`check` of a model whose C is changed before it is built, for ``generic``."""
    written = checking._written

    def run(path: Path, change: Change, **asked: Any) -> CheckResult:
        def other(*given: Any) -> Any:
            compilation, out = written(*given)
            file = out / f"{compilation.graph.name}.c"
            text = file.read_text()
            file.write_text(change(text))
            assert file.read_text() != text, "nothing was changed"
            return compilation, out

        with monkeypatch.context() as patch:
            patch.setattr(checking, "_written", other)
            return check(path, Options(target="generic"), **asked)

    return run


def _model(
    path: Path, nodes: Sequence[onnx.NodeProto], x: Sequence[int], y: tuple[int, Sequence[int] | None],
    functions: Sequence[onnx.FunctionProto] = (), kind: int = FLOAT, **constants: np.ndarray,
) -> Path:  # fmt: skip
    graph = helper.make_graph(
        list(nodes), "g", [helper.make_tensor_value_info("x", kind, x)], [helper.make_tensor_value_info("y", *y)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    opsets = [helper.make_opsetid("", 22), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=opsets, ir_version=10), path)
    return path


def _quarters() -> tuple[np.ndarray, np.ndarray]:
    """Weights of quarters, of which half of the columns are those of another matrix: sums tie, and lie on whole
    numbers."""
    w = np.random.default_rng(0).integers(-4, 5, (8, 8)).astype(np.float32) / 4
    other = w.copy()
    other[:, ::2] += 1
    return w, other


MASK = [
    N("MatMul", ["x", "w"], ["p"]), N("MatMul", ["x", "v"], ["q"]), N("Greater", ["p", "q"], ["m"]),
    N("Cast", ["m"], ["y"], to=FLOAT),
]  # fmt: skip
"""Whether a product is more than another one, as floats."""

WHOLE = np.random.default_rng(1).integers(0, 5, (6, 8)).astype(np.float32)


def test_one_element_that_may_be_off_is_no_excuse_for_others(tmp_path: Path, changed: Any) -> None:
    """Floats that are rounded, and masks: weights one unit off flip some, of which each is allowed by itself."""
    w, other = _quarters()
    floor = [N("MatMul", ["x", "w"], ["p"]), N("Floor", ["p"], ["y"])]
    path = _model(tmp_path / "floor.onnx", floor, [6, 8], (FLOAT, [6, 8]), w=w)
    assert check(path, Options(target="generic"), inputs=WHOLE).ok
    assert not changed(path, lambda c: c.replace("= floorf(", "= 1.0f + floorf("), inputs=WHOLE).ok
    path = _model(tmp_path / "mask.onnx", MASK, [6, 8], (FLOAT, [6, 8]), w=w, v=other)
    assert check(path, Options(target="generic"), inputs=WHOLE).ok
    assert not changed(path, lambda c: c.replace("] > acc", "] <= acc"), inputs=WHOLE).ok


@pytest.mark.parametrize("asked", [{}, {"golden": True}, {"per_layer": True}], ids=str)
def test_every_way_of_asking_takes_either_side_of_what_is_equal(
    asked: dict[str, bool], tmp_path: Path, changed: Any
) -> None:
    w, other = _quarters()
    path = _model(tmp_path / "mask.onnx", MASK, [6, 8], (FLOAT, [6, 8]), w=w, v=other)
    found = changed(path, lambda c: c.replace("] > acc", "] >= acc"), **asked)
    assert found.ok, found.lines()
    w[:, 3] = w[:, 1]
    most = [N("MatMul", ["x", "w"], ["p"]), N("ArgMax", ["p"], ["y"], axis=1, keepdims=0)]
    path = _model(tmp_path / "most.onnx", most, [6, 8], (TensorProto.INT64, [6]), w=w)
    found = changed(path, lambda c: c.replace("value > best", "value >= best"), **asked)
    assert found.ok, found.lines()


def test_the_first_of_equal_inputs_is_the_largest(tmp_path: Path, changed: Any) -> None:
    """What no float computes is as sure as whole numbers."""
    path = _model(tmp_path / "m.onnx", [N("ArgMax", ["x"], ["y"], axis=1)], [1, 5], (TensorProto.INT64, [1, 1]))
    x = np.array([[3, 1, 3, 0, 3]], np.float32)
    assert check(path, Options(target="generic"), inputs=x).ok
    assert not changed(path, lambda c: c.replace("value > best", "value >= best"), inputs=x).ok
    assert not changed(path, lambda c: c.replace("(int64_t)found", "(int64_t)3"), inputs=x).ok


def test_quantised_layers_that_are_a_step_off_are_found(tmp_path: Path, changed: Any) -> None:
    """What adds half a step before it cuts off does not; and the least byte, Relu's 0, is one more."""
    net = Net(5, (1, 3, 6, 6))
    net.conv(8, 3, relu=True)
    net.conv(4, 3)
    path = net.model(tmp_path / "m.onnx")
    assert check(path, Options(target="generic")).ok
    kinds = {
        "cuts off": lambda c: c.replace("mcc_mulhi_add_i32(a, m, c)", "mcc_mulhi_add_i32(a, m, c - 8)"),
        "one more": lambda c: c.replace("return mcc_sat_i8(", "return a < -1000 ? -127 : mcc_sat_i8("),
    }
    for kind, change in kinds.items():
        assert not changed(path, change).ok, kind


def test_layers_in_front_of_an_output_that_nothing_moves_are_judged(tmp_path: Path, changed: Any) -> None:
    """All that follows from the layers is that their mean is not very small: that says nothing of them, as a note
    says, and layer by layer they are asked themselves."""
    net = Net(5, (1, 3, 6, 6))
    net.conv(8, 3, relu=True)
    mean = net._node("ReduceMean", [net._real(net.conv(4, 3))], "mean", keepdims=0)
    net.last = net._node("Greater", [mean, net._constant("least", np.array(-1e9, np.float32))], "y")
    model = onnx.load(net.model(tmp_path / "m.onnx"))
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.BOOL, []))
    onnx.save(model, tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic"), per_layer=True)
    assert found.ok, found.lines()
    assert "random inputs do not move 'y'" in "".join(found.lines())

    def off(c: str) -> str:
        return c.replace("mcc_mulhi_add_i32(a, m, c)", "mcc_mulhi_add_i32(a, m, c - 8)")

    assert changed(tmp_path / "m.onnx", off).ok
    found = changed(tmp_path / "m.onnx", off, per_layer=True)
    assert not found.ok
    assert any("a layer of the C does not compute what its graph does" in f for f in found.faults), found.faults


@pytest.mark.thorough
def test_draws_have_what_decides(tmp_path: Path, changed: Any) -> None:
    """Bytes with a sign, equal floats, numbers far out, rows of a table behind the second."""
    byte = [N("Cast", ["x"], ["y"], to=FLOAT)]
    path = _model(tmp_path / "byte.onnx", byte, [3, 50], (FLOAT, [3, 50]), kind=TensorProto.INT8)
    assert check(path, Options(target="generic")).ok
    assert not changed(path, lambda c: c.replace("(float)x0[", "(float)(uint8_t)x0[")).ok
    more = [N("Greater", ["x", "half"], ["m"]), N("Cast", ["m"], ["y"], to=FLOAT)]
    path = _model(tmp_path / "more.onnx", more, [40], (FLOAT, [40]), half=np.array(0.5, np.float32))
    assert check(path, Options(target="generic")).ok
    assert not changed(path, lambda c: c.replace("] > 0.5f", "] >= 0.5f")).ok
    six = [N("Clip", ["x", "low", "high"], ["y"])]
    ends = {"low": np.array(-9, np.float32), "high": np.array(6, np.float32)}
    path = _model(tmp_path / "six.onnx", six, [60], (FLOAT, [60]), **ends)
    assert check(path, Options(target="generic")).ok
    assert not changed(path, lambda c: c.replace("6.0f", "66.0f")).ok
    word = [N("Gather", ["table", "x"], ["y"])]
    table = np.random.default_rng(0).standard_normal((90, 3)).astype(np.float32)
    path = _model(tmp_path / "word.onnx", word, [40], (FLOAT, [40, 3]), kind=TensorProto.INT64, table=table)
    assert check(path, Options(target="generic")).ok
    assert not changed(path, lambda c: re.sub(r"(x1\[i0\])(?=[^<]*;)", r"(\1 > 1 ? 1 : \1)", c)).ok


def test_what_decides_within_a_function_has_no_name_in_the_file(tmp_path: Path) -> None:
    nodes = [N("MatMul", ["a", "b"], ["t"]), N("ArgMax", ["t"], ["c"], axis=1)]
    function = helper.make_function("my", "F", ["a", "b"], ["c"], nodes, [helper.make_opsetid("", 22)])
    w = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    node = N("F", ["x", "w"], ["y"], domain="my")
    path = _model(tmp_path / "m.onnx", [node], [2, 4], (TensorProto.INT64, [2, 1]), [function], w=w)
    result = check(path, Options(target="generic"), golden=True)
    assert result.ok, result.lines()


def test_layers_of_bfloat16_may_be_a_place_off_as_outputs_may(tmp_path: Path) -> None:
    """A softmax between two products: bits are no numbers."""
    half = TensorProto.BFLOAT16
    nodes = [N("MatMul", ["x", "x"], ["p"]), N("Softmax", ["p"], ["q"]), N("MatMul", ["q", "x"], ["y"])]
    path = _model(tmp_path / "m.onnx", nodes, [96, 96], (half, [96, 96]), kind=half)
    for per_layer in (False, True):
        result = check(path, Options(target="generic"), per_layer=per_layer)
        assert result.ok, result.lines()


def test_a_mask_without_the_axes_that_the_reference_squeezes_out(tmp_path: Path) -> None:
    nodes = [
        N("MatMul", ["x", "w"], ["p"]), N("Greater", ["p", "z"], ["m"]), N("Cast", ["m"], ["f"], to=FLOAT),
        N("Squeeze", ["f"], ["y"]),
    ]  # fmt: skip
    w, z = np.eye(3, dtype=np.float32), np.array(0.1, np.float32)
    path = _model(tmp_path / "m.onnx", nodes, [3, "n", 3], (FLOAT, None), w=w, z=z)  # type: ignore[list-item]
    result = check(path, Options(target="generic", dims={"n": "1..4"}))
    assert result.ok, result.lines()


def _tied(path: Path, kind: str, floats: bool) -> Path:
    """Bytes that are sums of halves, of which half are ties; or an image made twice as large, whose means are."""
    u8, f32 = TensorProto.UINT8, FLOAT
    w = np.zeros((16, 12), np.float32)
    for column in range(12):
        w[2 * (column % 5) :: 7, column] = 0.5
    made = {
        "product": N("MatMul", ["f", "w"], ["p"]),
        "larger": N("Resize", ["f", "", "k"], ["p"], mode="linear", coordinate_transformation_mode="asymmetric"),
    }[kind]
    q = "q" if floats else "y"
    nodes = [N("DequantizeLinear", ["x", "s", "z"], ["f"]), made, N("QuantizeLinear", ["p", "s", "z"], [q])]
    nodes += [N("DequantizeLinear", ["q", "s", "z"], ["y"])] if floats else []
    given, result = {"product": ([8, 16], [8, 12]), "larger": ([1, 3, 5, 6], [1, 3, 10, 12])}[kind]
    constants = {"s": np.array(1, np.float32), "z": np.array(7, np.uint8)}
    constants |= {"w": w} if kind == "product" else {"k": np.array([1, 1, 2, 2], np.float32)}
    return _model(path, nodes, given, (f32 if floats else u8, result), kind=u8, **constants)


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("kind", ["product", "larger"])
def test_many_ties_are_no_excuse_for_what_is_off_everywhere(
    kind: str, floats: bool, tmp_path: Path, changed: Any
) -> None:
    """Each tie moves its element by a step; C that moves them all is wrong, by one step, and by eight."""
    path = _tied(tmp_path / "m.onnx", kind, floats)
    found = check(path, Options(target="generic"))
    assert found.ok, found.lines()
    for steps in (1, 3, 8):

        def off(c: str, by: int = steps) -> str:
            return re.sub(r"mcc_rne_f32\((?!float )", f"{by}.0f + mcc_rne_f32(", c)

        assert not changed(path, off).ok, steps


def test_layers_that_round_and_make_floats_at_once_are_asked_too(tmp_path: Path, changed: Any) -> None:
    """Where all that is left of bytes is within maps, f32(u8(rne(acc) + 7) - 7)."""
    rng, u8 = np.random.default_rng(3), TensorProto.UINT8
    w = np.zeros((16, 12), np.float32)
    for column in range(12):
        w[2 * (column % 5) :: 7, column] = 0.5
    nodes = [
        N("DequantizeLinear", ["x", "s", "z"], ["f"]), N("MatMul", ["f", "w"], ["p"]),
        N("QuantizeLinear", ["p", "s", "z"], ["q"]), N("DequantizeLinear", ["q", "s", "z"], ["g"]),
        N("MatMul", ["g", "v"], ["r"]), N("QuantizeLinear", ["r", "s2", "z2"], ["t"]),
        N("DequantizeLinear", ["t", "s2", "z2"], ["y"]),
    ]  # fmt: skip
    constants = {"s": np.array(1, np.float32), "z": np.array(7, np.uint8), "s2": np.array(0.3, np.float32)}
    constants |= {"z2": np.array(128, np.uint8), "w": w, "v": rng.standard_normal((12, 12)).astype(np.float32)}
    path = _model(tmp_path / "m.onnx", nodes, [8, 16], (FLOAT, [8, 12]), kind=u8, **constants)
    x = rng.integers(0, 40, (8, 16)).astype(np.uint8)
    assert check(path, Options(target="generic"), inputs=x).ok
    for first in (False, True):

        def off(c: str, most: int = 1 if first else 0) -> str:
            return re.sub(r"mcc_rne_f32\((?!float )", "3.0f + mcc_rne_f32(", c, count=most)

        assert not changed(path, off, inputs=x).ok, first
