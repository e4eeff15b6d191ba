"""Constant folding keeps what a graph means and does not let its constants grow by more than its limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mccompile
from mccompile.ir import expr as ex
from mccompile.ir.graph import Graph, Value
from mccompile.ir.types import F32, TensorType
from mccompile.ops.concat import Concat
from mccompile.ops.expand import Expand
from mccompile.ops.map import Map
from mccompile.ops.reduce import Reduce
from mccompile.passes.clean.fold_constants import DEAR_GROWTH_BYTES, MAX_GROWTH_BYTES
from mccompile.passes.manager import run_passes
from mccompile.targets.target import resolve
from tests.kernels.cases import Net

X, Y = ex.var(0, F32), ex.var(1, F32)


def _bytes(graph: Graph) -> int:
    graph.remove_dead()
    return sum(v.type.nbytes for v in graph.constants)


def _fold(graph: Graph, target: str = "generic") -> tuple[int, int, int]:
    """Changes, and the bytes of the constants before and after; what the graph means stays."""
    inputs = {"x": np.float32([1.5])}
    before, size = graph.evaluate(inputs), _bytes(graph)
    (record,) = run_passes(graph, ["fold-constants"], target=resolve(target))
    graph.verify()
    for name, value in graph.evaluate(inputs).items():
        np.testing.assert_allclose(value, before[name], rtol=1e-6)
    return record.changes, size, _bytes(graph)


def _graph() -> tuple[Graph, Value]:
    graph = Graph("g")
    x = graph.value("x", TensorType(F32, (1,)))
    graph.inputs.append(x)
    return graph, x


def _end(graph: Graph, x: Value, values: list[Value]) -> None:
    """Let the output depend on everything."""
    total = x
    for v in values:
        (part,) = graph.emit(Reduce("sum", tuple(range(len(v.shape)))), [v], ["part"])
        (total,) = graph.emit(Map(ex.apply("add", X, Y)), [total, part], ["total"])
    graph.outputs.append(total)


def test_one_large_result_stays_a_node() -> None:
    graph, x = _graph()
    c = graph.constant("c", np.ones((1, 512), np.float32))
    (big,) = graph.emit(Expand((1024, 512)), [c], ["big"])
    (y,) = graph.emit(Map(ex.apply("mul", X, Y)), [big, x], ["y"])
    _end(graph, x, [y])
    changes, before, after = _fold(graph)
    assert (changes, after) == (0, before)


def test_many_small_results_stop_at_the_limit() -> None:
    """Each is far below the limit, all together are far above."""
    graph, x = _graph()
    values = []
    for i in range(64):
        c = graph.constant(f"c{i}", np.full((1, 128), i, np.float32))
        (big,) = graph.emit(Expand((256, 128)), [c], [f"big{i}"])
        values += graph.emit(Map(ex.apply("mul", X, Y)), [big, x], [f"y{i}"])
    _end(graph, x, values)
    changes, before, after = _fold(graph)
    assert 0 < changes < 64
    assert after - before <= MAX_GROWTH_BYTES
    assert after - before > MAX_GROWTH_BYTES // 2, "the limit is used"


def test_exponential_chains_stop_at_the_limit() -> None:
    graph, x = _graph()
    value = graph.constant("c", np.ones((1, 4), np.float32))
    for i in range(24):
        (value,) = graph.emit(Concat(0), [value, value], [f"v{i}"])
        if i == 17:
            break
    (y,) = graph.emit(Map(ex.apply("mul", X, Y)), [value, x], ["y"])
    _end(graph, x, [y])
    _, before, after = _fold(graph)
    assert after - before <= MAX_GROWTH_BYTES


def test_an_operand_that_others_read_is_not_counted_as_freed() -> None:
    graph, x = _graph()
    c = graph.constant("c", np.ones((64, 1024), np.float32))
    values = [c]
    for i in range(16):
        (new,) = graph.emit(Map(ex.apply("add", X, ex.num(float(i)))), [c], [f"n{i}"])
        values += graph.emit(Map(ex.apply("mul", X, Y)), [new, x], [f"y{i}"])
    _end(graph, x, values[1:])
    _, before, after = _fold(graph)
    assert after - before <= MAX_GROWTH_BYTES


def test_what_frees_its_operand_is_folded_however_large() -> None:
    graph, x = _graph()
    c = graph.constant("c", np.random.default_rng(0).normal(0, 1, (1024, 1024)).astype(np.float32))
    value = c
    for i in range(4):
        (value,) = graph.emit(Map(ex.apply("add", X, ex.num(1.0))), [value], [f"v{i}"])
    (y,) = graph.emit(Map(ex.apply("mul", X, Y)), [value, x], ["y"])
    _end(graph, x, [y])
    changes, before, after = _fold(graph)
    assert (changes, after) == (4, before)


@pytest.mark.parametrize("seed", range(12))
def test_random_constant_graphs_stay_within_the_limit(seed: int) -> None:
    random = np.random.default_rng(seed)
    graph, x = _graph()
    values = [graph.constant(f"c{i}", random.normal(0, 1, (1, int(random.integers(1, 300)))).astype(np.float32))
              for i in range(6)]  # fmt: skip
    made = []
    for i in range(40):
        v, kind = values[int(random.integers(0, len(values)))], int(random.integers(0, 4))
        if kind == 0 and v.shape[0] == 1:
            (new,) = graph.emit(Expand((int(random.integers(2, 400)), v.shape[1])), [v], [f"v{i}"])
        elif kind == 1 and v.type.count < 1 << 18:
            (new,) = graph.emit(Concat(0), [v, v], [f"v{i}"])
        elif kind == 2:
            (new,) = graph.emit(Reduce("sum", (0,)), [v], [f"v{i}"])
        else:
            (new,) = graph.emit(Map(ex.apply("tanh", X)), [v], [f"v{i}"])
        values.append(new)
        made += graph.emit(Map(ex.apply("mul", X, Y)), [new, x], [f"y{i}"]) if random.random() < 0.4 else []
    _end(graph, x, made)
    changes, before, after = _fold(graph)
    assert after - before <= MAX_GROWTH_BYTES
    assert changes


def _sines(rows: int) -> Graph:
    """sin(a[rows, 1] + b[1024]) of constants, in two nodes, of which each result has 4 KB a row."""
    graph, x = _graph()
    a = graph.constant("a", np.arange(rows, dtype=np.float32).reshape(rows, 1))
    b = graph.constant("b", np.linspace(0, 1, 1024, dtype=np.float32))
    (t,) = graph.emit(Map(ex.apply("add", X, Y)), [a, b], ["t"])
    (sines,) = graph.emit(Map(ex.apply("sin", X)), [t], ["sines"])
    _end(graph, x, graph.emit(Map(ex.apply("mul", X, Y)), [sines, x], ["y"]))
    return graph


def test_what_is_dear_to_compute_is_folded_where_there_is_memory() -> None:
    """And what it is computed of, which nothing reads then."""
    changes, before, after = _fold(_sines(512), "x86-64-v3")
    assert changes == 2
    assert MAX_GROWTH_BYTES < after - before <= 512 * 4096
    assert _fold(_sines(512))[0] == 0


@pytest.mark.parametrize("asked", [{"max_blob_growth": 0}, {"opt_level": "Os"}], ids=str)
def test_constants_grow_by_as_much_as_is_asked_for(asked: dict[str, Any], tmp_path: Path) -> None:
    """Sines of sums of two vectors, 2 MB."""
    n = Net(1)
    sines = n("Sin", n("Add", n.weight(512, 1), n.weight(1, 1024)))
    (tmp_path / "net.onnx").write_bytes(n.model(n("Mul", sines, n.input(512, 1024))).SerializeToString())
    for options, grows in (({}, True), (asked, False)):
        made = mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="x86-64-v3", **options)
        assert (made.report["blob_bytes"] > 1 << 20) == grows


def test_what_is_dear_to_compute_has_a_limit_too() -> None:
    rows = DEAR_GROWTH_BYTES // 4096 + 64
    assert _fold(_sines(rows), "x86-64-v3")[0] == 0


def test_what_is_cheap_beside_what_is_dear_has_the_limit_of_others() -> None:
    graph, x = _graph()
    a = graph.constant("a", np.ones((512, 1), np.float32))
    b = graph.constant("b", np.ones(1024, np.float32))
    (t,) = graph.emit(Map(ex.apply("add", X, Y)), [a, b], ["t"])
    (sines,) = graph.emit(Map(ex.apply("sin", X)), [a], ["sines"])
    (y,) = graph.emit(Map(ex.apply("mul", X, Y)), [t, x], ["y"])
    (z,) = graph.emit(Map(ex.apply("mul", X, Y)), [sines, x], ["z"])
    _end(graph, x, [y, z])
    changes, before, after = _fold(graph, "x86-64-v3")
    assert (changes, after) == (1, before + 512 * 4)
