"""Constants that are mostly repetitions are computed on the device; weights that are cast are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.graph import Graph
from mccompile.ir.program import Program
from mccompile.ir.views import Buffer
from mccompile.plan import check
from tests.cli.conftest import floats, save

N = helper.make_node
ROW = np.arange(512, dtype=np.float32)
MADE: dict[str, tuple[list[NodeProto], dict[str, np.ndarray[Any, Any]]]] = {
    "Expand": ([N("Expand", ["c", "s"], ["a"])], {"c": ROW, "s": np.array([1024, 512])}),
    "Tile": ([N("Tile", ["c", "s"], ["a"])], {"c": ROW[None], "s": np.array([1024, 1])}),
    "MatMul": ([N("MatMul", ["c", "d"], ["a"])], {"c": np.ones((1024, 2), np.float32), "d": np.stack([ROW, -ROW])}),
    "Add": ([N("Add", ["c", "d"], ["a"])], {"c": np.ones((1024, 1), np.float32), "d": ROW}),
    "ConstantOfShape": (
        [N("ConstantOfShape", ["s"], ["a"], value=numpy_helper.from_array(np.float32([2.5])))],
        {"s": np.array([1024, 512])},
    ),
}
STORED: dict[str, tuple[list[NodeProto], dict[str, np.ndarray[Any, Any]]]] = {
    "cast": ([N("Cast", ["c"], ["a"], to=TensorProto.FLOAT)], {"c": np.ones((1024, 512), np.float16)}),
    "small": ([N("Expand", ["c", "s"], ["a"])], {"c": ROW, "s": np.array([64, 512])}),
    "range": (
        [N("Range", ["b", "e", "d"], ["r"]), N("Cast", ["r"], ["a"], to=TensorProto.FLOAT)],
        {"b": np.array(0), "e": np.array(1 << 19), "d": np.array(1)},
    ),
}  # fmt: skip


def _graph(folder: Path, nodes: list[NodeProto], constants: dict[str, np.ndarray[Any, Any]]) -> Graph:
    path = save(folder / "m.onnx", [*nodes, N("Mul", ["a", "x"], ["y"])], [floats("x", [1])], initializer=[
        numpy_helper.from_array(a, name) for name, a in constants.items()])  # fmt: skip
    return import_graph(path, Options(target="generic")).graph


def _stored(graph: Graph) -> int:
    return sum(v.type.nbytes for v in graph.constants)


@pytest.mark.parametrize("case", MADE)
def test_repetitions_are_not_stored(case: str, tmp_path: Path) -> None:
    nodes, constants = MADE[case]
    graph = _graph(tmp_path, nodes, constants)
    assert _stored(graph) < 16384
    want = {
        "MatMul": np.broadcast_to(ROW * 0, (1024, 512)), "Add": np.broadcast_to(ROW + 1, (1024, 512)),
        "ConstantOfShape": np.full((1024, 512), 2.5, np.float32),
    }.get(case, np.broadcast_to(ROW, (1024, 512)))  # fmt: skip
    (got,) = graph.evaluate({"x": np.float32([3])}).values()
    np.testing.assert_array_equal(got, 3 * want)


@pytest.mark.parametrize("case", STORED)
def test_what_hardly_grows_is_stored(case: str, tmp_path: Path) -> None:
    nodes, constants = STORED[case]
    graph = _graph(tmp_path, nodes, constants)
    assert [n.op.name for n in graph.nodes] == ["map"]


@pytest.mark.parametrize(
    ("op", "level"),
    [*(("Sum", level) for level in ("O0", "O1", "O2", "Os")), ("Mean", "O2"), ("Max", "O0"), ("Max", "O2")],
)
def test_operators_of_many_inputs(op: str, level: str, tmp_path: Path) -> None:
    """They are no single expression as deep as they have inputs."""
    names = [f"x{i}" for i in range(330)]
    path = save(tmp_path / "m.onnx", [N(op, names, ["y"])], [floats(n, [2]) for n in names])
    c = import_graph(path, Options(target="generic", opt_level=level))
    feeds = {n: np.array([i, -i], np.float32) for i, n in enumerate(names)}
    compile_program(c)
    want = {"Sum": [54285, -54285], "Mean": [164.5, -164.5], "Max": [329, 0]}[op]
    np.testing.assert_array_equal(next(iter(c.graph.evaluate(feeds).values())), want)


@pytest.mark.parametrize("level", ["O0", "O2"])
def test_sums_of_many_branches(level: str, tmp_path: Path) -> None:
    nodes, total = [N("Cos", ["x"], ["s0"])], "s0"
    for i in range(1, 330):
        nodes.append(N("Sin" if i % 2 else "Cos", [f"b{i - 1}" if i > 1 else "x"], [f"b{i}"]))
        nodes.append(N("Add", [total, f"b{i}"], [f"s{i}"]))
        total = f"s{i}"
    path = save(tmp_path / "m.onnx", [*nodes, N("Neg", [total], ["y"])], [floats("x", [2])])
    compile_program(import_graph(path, Options(target="generic", opt_level=level)))


def test_the_check_of_a_plan_looks_at_each_buffer_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It compares all that live together, but does not work out where they lie for every pair."""
    spans = 0
    span = check._span

    def counted(program: Program, buffer: Buffer) -> tuple[int, int]:
        nonlocal spans
        spans += 1
        return span(program, buffer)

    monkeypatch.setattr(check, "_span", counted)
    work = []
    for count in (30, 60):
        spans = 0
        names = [f"x{i}" for i in range(count)]
        path = save(tmp_path / "m.onnx", [N("Concat", names, ["y"], axis=0)], [floats(n, [2, 8]) for n in names])
        compile_program(import_graph(path, Options(target="generic", opt_level="O0")))
        work.append(spans)
    assert work[1] < 2.2 * work[0]
