"""Loops whose turns an extent of the run says, by numbers that may be negative or none of their element type, and
conditions on such extents: against onnxruntime."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from tests.support.runs import compare

N = helper.make_node
FLOAT, I32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
Info = helper.make_tensor_value_info


def _consts(**numbers: np.ndarray[Any, np.dtype[Any]] | np.generic[Any]) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(np.asarray(number), name) for name, number in numbers.items()]


def _model(
    nodes: Sequence[onnx.NodeProto], outputs: Sequence[onnx.ValueInfoProto], weights: Sequence[onnx.TensorProto]
) -> onnx.ModelProto:
    graph = helper.make_graph(list(nodes), "g", [Info("x", FLOAT, ["n", 2])], list(outputs), list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _feeds(*extents: int) -> list[dict[str, np.ndarray[Any, np.dtype[Any]]]]:
    return [{"x": np.arange(2 * n, dtype=np.float32).reshape(n, 2)} for n in extents]


LENGTH = [N("Shape", ["x"], ["length"], start=0, end=1), N("Squeeze", ["length"], ["n"])]


@pytest.mark.parametrize("less", [5, 400])
def test_less_than_no_turn_is_none(less: int, tmp_path: Path) -> None:
    """for _ in range(len(x) - less): what counts, what is stacked and what grows stay as they are."""
    body = helper.make_graph(
        [N("Identity", ["go"], ["on"]), N("Add", ["k", "two"], ["k2"]), N("Concat", ["v", "w"], ["v2"], axis=0),
         N("Cast", ["i"], ["row"], to=FLOAT)],
        "body", [Info("i", I64, []), Info("go", BOOL, []), Info("k", I64, []), Info("v", FLOAT, ["a"])],
        [Info("on", BOOL, []), Info("k2", I64, []), Info("v2", FLOAT, ["b"]), Info("row", FLOAT, [])],
    )  # fmt: skip
    nodes = [
        *LENGTH, N("Sub", ["n", "less"], ["trips"]),
        N("Loop", ["trips", "", "k0", "w"], ["last", "grown", "rows"], body=body),
    ]  # fmt: skip
    outputs = [Info("last", I64, []), Info("grown", FLOAT, ["p"]), Info("rows", FLOAT, ["q"])]
    weights = _consts(less=np.int64(less), two=np.int64(2), k0=np.int64(3), w=np.array([7, 8], np.float32))
    feeds = _feeds(0, 4, 5, 6, 10)
    compare(_model(nodes, outputs, weights), tmp_path, feeds, 0, 0, target="generic", dims={"n": "0..10"})


COUNTED: dict[str, tuple[list[onnx.NodeProto], np.integer[Any]]] = {
    "a truth": ([N("Cast", ["i"], ["b"], to=BOOL), N("Cast", ["b"], ["m"], to=I64), N("Less", ["m", "five"], ["on"])],
                np.int64(0)),
    "wraps": ([N("Cast", ["k"], ["m"], to=I32), N("Greater", ["m", "nought"], ["on"])], np.int64(2**31 - 8)),
    "is rounded": ([N("Cast", ["k2"], ["m"], to=FLOAT), N("Cast", ["most"], ["limit"], to=FLOAT),
                    N("Less", ["m", "limit"], ["on"])], np.int64(2**30)),
    "is i32": ([N("Greater", ["k2", "nought"], ["on"])], np.int32(2**31 - 8)),
}  # fmt: skip


@pytest.mark.parametrize("name", COUNTED)
def test_a_number_that_its_type_does_not_have_counts_no_turns(name: str, tmp_path: Path) -> None:
    nodes, first = COUNTED[name]
    step, kind = first.dtype.type(1), I32 if first.dtype == np.int32 else I64
    body = helper.make_graph(
        [N("Add", ["k", "step"], ["k2"]), *nodes, N("Add", ["v", "unit"], ["v2"])], "body",
        [Info("i", I64, []), Info("go", BOOL, []), Info("k", kind, []), Info("v", FLOAT, [])],
        [Info("on", BOOL, []), Info("k2", kind, []), Info("v2", FLOAT, [])],
    )  # fmt: skip
    weights = _consts(
        trips=np.int64(400), k0=first, v0=np.float32(0), step=step, unit=np.float32(1), five=np.int64(5),
        nought=np.int32(0), most=np.int64(2**30 + 100),
    )
    loop = N("Loop", ["trips", "", "k0", "v0"], ["last", "y"], body=body)
    model = _model([loop], [Info("y", FLOAT, [])], weights)
    compare(model, tmp_path, _feeds(1), 0, 0, target="generic", dims={"n": "1..2"})


def test_what_is_left_of_an_extent_is_no_axis(tmp_path: Path) -> None:
    """n % 2 == 0 holds for every other n, n == 1 is asked of axes."""
    yes = helper.make_graph([N("Concat", ["x", "x"], ["twice"], axis=0)], "yes", [], [Info("twice", FLOAT, ["p", 2])])
    no = helper.make_graph([N("Identity", ["x"], ["once"])], "no", [], [Info("once", FLOAT, ["q", 2])])
    nodes = [
        *LENGTH, N("Mod", ["n", "two"], ["left"]), N("Equal", ["left", "nought"], ["even"]),
        N("If", ["even"], ["y"], then_branch=yes, else_branch=no),
    ]  # fmt: skip
    model = _model(nodes, [Info("y", FLOAT, ["r", 2])], _consts(two=np.int64(2), nought=np.int64(0)))
    compare(model, tmp_path, _feeds(1, 2, 3, 6), 0, 0, target="generic", dims={"n": "1..6"})


@pytest.mark.parametrize("axis", [-2, -1, 0, 1])
def test_a_scan_of_nothing_has_its_axis_where_it_is_said(axis: int, tmp_path: Path) -> None:
    body = helper.make_graph(
        [N("Add", ["s", "r"], ["s2"]), N("Identity", ["s2"], ["row"])], "body",
        [Info("s", FLOAT, [2]), Info("r", FLOAT, [2])], [Info("s2", FLOAT, [2]), Info("row", FLOAT, [2])],
    )  # fmt: skip
    scan = N("Scan", ["s0", "x"], ["last", "rows"], body=body, num_scan_inputs=1, scan_output_axes=[axis])
    model = _model([scan], [Info("rows", FLOAT, ["p", "q"])], _consts(s0=np.zeros(2, np.float32)))
    path = tmp_path / "net.onnx"
    onnx.save(model, path)
    (rows,) = import_graph(path, Options(target="generic", dims={"n": 0})).graph.outputs
    assert rows.shape == ((0, 2) if axis in (0, -2) else (2, 0))


def test_how_many_parts_a_sequence_has_is_known(tmp_path: Path) -> None:
    """Of 3 to 4 elements there are two parts of 2; of 4 to 5 one or two of 4."""
    nodes = [N("SplitToSequence", ["x", "size"], ["parts"]), N("SequenceAt", ["parts", "at"], ["y"])]
    outputs = [Info("y", FLOAT, ["p", 2])]
    model = _model(nodes, outputs, _consts(size=np.int64(2), at=np.int64(-1)))
    compare(model, tmp_path, _feeds(3, 4), 0, 0, target="generic", dims={"n": "3..4"})
    onnx.save(_model(nodes, outputs, _consts(size=np.int64(4), at=np.int64(-1))), tmp_path / "net.onnx")
    with pytest.raises(CompileError, match="how many parts of 4"):
        import_graph(tmp_path / "net.onnx", Options(target="generic", dims={"n": "4..5"}))


def test_a_branch_of_nothing_that_is_always_taken(tmp_path: Path) -> None:
    """Nobody computes the constant that is its result: it is copied to where that lies."""
    yes = helper.make_graph([N("Neg", ["x"], ["some"])], "yes", [], [Info("some", FLOAT, ["p", 2])])
    none = numpy_helper.from_array(np.zeros((0, 2), np.float32))
    no = helper.make_graph([N("Constant", [], ["none"], value=none)], "no", [], [Info("none", FLOAT, ["q", 2])])
    nodes = [
        *LENGTH, N("Cast", ["n"], ["any"], to=BOOL), N("Not", ["any"], ["empty"]),
        N("If", ["empty"], ["y"], then_branch=yes, else_branch=no),
    ]  # fmt: skip
    model = _model(nodes, [Info("y", FLOAT, ["r", 2])], [])
    compare(model, tmp_path, _feeds(1, 6), 0, 0, target="generic", dims={"n": "1..6"})


@pytest.mark.parametrize(("other", "hint"), [("m", "--dim n=m"), (5, "--dim n=5")])
def test_a_scan_along_extents_that_may_differ_is_refused_by_its_name(
    other: str | int, hint: str, tmp_path: Path
) -> None:
    body = helper.make_graph(
        [N("Add", ["a", "b"], ["c"])], "body", [Info("a", FLOAT, [2]), Info("b", FLOAT, [2])], [Info("c", FLOAT, [2])]
    )
    model = _model([N("Scan", ["x", "z"], ["y"], "rows", body=body, num_scan_inputs=2)], [Info("y", FLOAT, None)], [])
    model.graph.input.append(Info("z", FLOAT, [other, 2]))
    onnx.save(model, tmp_path / "net.onnx")
    dims = {"n": "1..8", **({"m": "1..9"} if other == "m" else {})}
    with pytest.raises(CompileError, match="node 0 'rows' Scan") as error:
        import_graph(tmp_path / "net.onnx", Options(dims=dims))
    assert hint in str(error.value)
    alike = Options(dims={**dims, "n": hint.removeprefix("--dim n=")})
    assert import_graph(tmp_path / "net.onnx", alike).graph.outputs


def test_what_no_turn_can_carry_is_refused_by_its_type(tmp_path: Path) -> None:
    carried = TensorProto.BFLOAT16
    body = helper.make_graph(
        [N("Identity", ["go"], ["going"]), N("Add", ["a", "a"], ["b"])], "body",
        [Info("i", I64, []), Info("go", BOOL, []), Info("a", carried, ["n", 2])],
        [Info("going", BOOL, []), Info("b", carried, ["n", 2])],
    )  # fmt: skip
    nodes = [*LENGTH, N("Cast", ["x"], ["c"], to=carried), N("Loop", ["n", "", "c"], ["y"], name="turns", body=body)]
    path = tmp_path / "n.onnx"
    onnx.save(_model(nodes, [Info("y", carried, ["n", 2])], []), path)
    with pytest.raises(CompileError, match=r"'turns' .*: bf16 is not carried from turn to turn"):
        import_graph(path, Options(target="generic", dims={"n": "1..4"}))


def test_numbers_of_an_extent_have_no_room_for_what_the_run_counts(tmp_path: Path) -> None:
    path = tmp_path / "n.onnx"
    onnx.save(_model([N("NonZero", ["x"], ["y"])], [Info("y", I64, [2, None])], []), path)
    with pytest.raises(CompileError, match="axis 1 of output 'y' is as long as the run finds out") as error:
        import_graph(path, Options(target="generic", dims={"n": "1,4,7"}))
    assert "--dim n=1..7" in str(error.value.hint)
