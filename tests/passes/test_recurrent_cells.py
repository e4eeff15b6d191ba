"""Recurrent cells that were written out, each form: one operator after the passes, and what onnxruntime computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest

from mccompile.driver import Options, import_graph, optimize
from mccompile.ir.graph import Graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.loop import Loop
from mccompile.ops.matmul import MatMul
from mccompile.ops.recurrent import Recurrent
from mccompile.ops.reshape import Reshape
from mccompile.passes.analysis.cells import NotACellError
from mccompile.passes.recognize.cell_inputs import for_all_turns
from tests.support.cells import BATCH, DEPTH, GATES, UNITS, Place, Style, Writer, looped, model, network
from tests.support.runs import compare

pytestmark = pytest.mark.thorough


def optimized(folder: Path, network: onnx.ModelProto, **options: object) -> Graph:
    """The graph after all passes, with the results of onnxruntime for drawn inputs."""
    path = folder / "net.onnx"
    onnx.save(network, path)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    r = np.random.default_rng(7)
    feed = {i.name: r.normal(size=i.shape).astype(np.float32) for i in session.get_inputs()}
    c = import_graph(path, Options(opt_level="O2", **options))  # type: ignore[arg-type]
    optimize(c)
    got = c.graph.evaluate(feed)
    for o, wanted in zip(session.get_outputs(), session.run(None, feed), strict=True):
        np.testing.assert_allclose(got[o.name], wanted, rtol=1e-5, atol=2e-6, err_msg=o.name)
    return c.graph


def cells(graph: Graph) -> list[str]:
    """The cells of a graph, and the loops and products that are left, by their names."""
    return sorted(n.op.name for n, _ in graph.everywhere() if isinstance(n.op, Recurrent | Loop | MatMul))


def drawn(seed: int) -> tuple[Style, Place]:
    r = np.random.default_rng(seed)
    kind = ("lstm", "gru", "rnn")[seed % 3]
    order = "".join(r.permutation(list(GATES[kind])))
    sigmoid = str(r.choice(["Sigmoid", "Sigmoid", "HardSigmoid"]))
    tanh = str(r.choice(["Tanh", "Tanh", "Relu", "Softsign"]))
    linear_first = bool(r.integers(2))
    products = ["two", "gates", "gemm", "joined"]
    if kind == "gru" and linear_first:
        products = ["two", "gemm"]
    style = Style(
        kind, str(r.choice(products)), order, str(r.choice(["Split", "Slice"])), int(r.integers(4)),
        (sigmoid, tanh), linear_first, bool(r.integers(4)), seed=seed,
    )  # fmt: skip
    where = str(r.choice(["chain", "chain", "loop", "scan"]))
    turns = int(r.integers(3, 6)) if where == "chain" or r.integers(2) else 40
    return style, Place(where, turns, bool(r.integers(2)), bool(r.integers(2)), bool(r.integers(2)))


@pytest.mark.parametrize("seed", range(15))
def test_cells_become_operators_however_they_are_written(tmp_path: Path, seed: int) -> None:
    style, place = drawn(seed)
    found = cells(optimized(tmp_path, model(style, place)))
    assert found == sorted([style.kind, "matmul"]), (style, place)


SPOILED = [
    *(("lstm", spoil) for spoil in (
        "state twice", "product of states", "activation", "clipped cell", "old cell", "residual", "cell in between",
        "square of the cell",
    )),
    ("gru", "weighted"), ("gru", "other gate"), ("gru", "state twice"), ("gru", "both ways"),
    ("gru", "square of the state"), ("rnn", "leaky"), ("rnn", "first sequence"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "spoil"), SPOILED)
@pytest.mark.parametrize("where", ["chain", "loop"])
def test_what_is_nearly_a_cell_stays(tmp_path: Path, kind: str, spoil: str, where: str) -> None:
    if (spoil, where) == ("cell in between", "loop"):
        pytest.skip("a loop gives the last cell state only")
    style = Style(kind, "gates", linear_first=spoil == "other gate", spoil=spoil, seed=3)
    if spoil == "other gate":
        style.products = "two"
    graph = optimized(tmp_path, model(style, Place(where, 4 if where == "chain" else 30)))
    assert not {"lstm", "gru", "rnn"} & set(cells(graph))
    assert ("loop" in cells(graph)) == (where == "loop")


@pytest.mark.parametrize("spoil", ["one bias", "one activation"])
def test_one_turn_that_differs_is_none_of_the_cell(tmp_path: Path, spoil: str) -> None:
    """Turns 0 and 1, 3 and 4 are cells, turn 2 stays what it is."""
    graph = optimized(tmp_path, model(Style("lstm", "two", spoil=spoil, seed=4), Place("chain", 5)))
    assert cells(graph) == ["lstm", "lstm", "matmul", "matmul", "matmul", "matmul"]


STATES = (BATCH, UNITS)
LONG = 40
"""Turns that are too many to be unrolled."""


def test_a_loop_that_counts_for_itself(tmp_path: Path) -> None:
    """Keras' layers as tf2onnx writes them: the number of turns is found in what the loop carries."""
    style, w = Style("lstm", "joined"), Writer()

    def turn(inner: Writer, x: str, states: list[str]) -> tuple[list[str], list[str]]:
        made = style.turn(inner, x, states)
        return made, made[:1]

    outputs = looped(w, turn, ["h", "c"], LONG, counting=True)
    made = network(w, {"x": (LONG, BATCH, DEPTH), "h": STATES, "c": STATES}, outputs)
    assert cells(optimized(tmp_path, made)) == ["lstm", "matmul"]


@pytest.mark.parametrize("before", [1, LONG])
@pytest.mark.parametrize("most", [LONG, LONG + 5])
def test_rows_that_are_counted_from_the_end(tmp_path: Path, before: int, most: int) -> None:
    """The first turn reads the last row, x[-1], and the next one row 0; or all are counted so, of a run's n rows."""
    style, w = Style("rnn"), Writer()

    def turn(inner: Writer, x: str, states: list[str]) -> tuple[list[str], list[str]]:
        row = inner("Gather", "x", inner("Sub", "i", w.constant(before, "int64")), axis=0)
        (h,) = style.turn(inner, row, states)
        return [h], [h]

    made = network(w, {"x": (LONG, BATCH, DEPTH), "h": STATES}, looped(w, turn, ["h"], LONG))
    if most == LONG:
        optimized(tmp_path, made)
        return
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    r = np.random.default_rng(1)
    feeds = [{"x": r.normal(size=(n, BATCH, DEPTH)).astype(np.float32), "h": np.ones(STATES, np.float32)}
             for n in (LONG, most)]  # fmt: skip
    compare(made, tmp_path, feeds, 1e-5, 1e-5, target="generic", dims={"n": f"{LONG}..{most}"})


def test_layers_of_one_loop(tmp_path: Path) -> None:
    """The second cell reads what the first one makes; rows are made of both, which stays a loop."""
    first, second, w = Style("gru"), Style("lstm", "gates"), Writer()
    deep = w.constant(np.ones((UNITS, DEPTH)) * 0.3)

    def turn(inner: Writer, x: str, states: list[str]) -> tuple[list[str], list[str]]:
        (h,) = first.turn(inner, x, states[:1])
        made = second.turn(inner, inner("MatMul", h, deep), states[1:])
        return [h, *made], [inner("Softmax", inner("MatMul", inner("Add", h, made[0]), deep)), h]

    outputs = looped(w, turn, ["h", "k", "c"], LONG)
    made = network(w, {"x": (LONG, BATCH, DEPTH), "h": STATES, "k": STATES, "c": STATES}, outputs)
    found = cells(optimized(tmp_path, made))
    assert [name for name in found if name != "matmul"] == ["gru", "loop", "lstm"]


@pytest.mark.parametrize("turns", [4, LONG])
def test_what_is_fed_back_by_another_way_stays(tmp_path: Path, turns: int) -> None:
    """A decoder reads in each turn what it made of its state in the one before."""
    style, w = Style("gru", "joined", linear_first=False), Writer()
    deep, wide = w.constant(np.ones((UNITS, DEPTH)) * 0.3), w.constant(np.ones((UNITS, UNITS)) * 0.2)

    def turn(inner: Writer, x: str, states: list[str]) -> tuple[list[str], list[str]]:
        fed = inner("Add", x, inner("Tanh", inner("MatMul", states[1], deep)))
        (h,) = style.turn(inner, fed, states[:1])
        return [h, inner("Sigmoid", inner("MatMul", h, wide))], [h]

    outputs = looped(w, turn, ["h", "k"], turns)
    made = network(w, {"x": (turns, BATCH, DEPTH), "h": STATES, "k": STATES}, outputs)
    assert "gru" not in cells(optimized(tmp_path, made))


def test_layers_that_were_written_out(tmp_path: Path) -> None:
    """Both layers of a turn before the next one; the first one's states are read by the second one only."""
    first, second, w = Style("rnn"), Style("gru", "gemm", linear_first=True, seed=1), Writer()
    deep = w.constant(np.random.default_rng(0).normal(size=(UNITS, DEPTH)))
    h, k = "h", "k"
    for t in range(5):
        (h,) = first.turn(w, w("Gather", "x", w.constant(t, "int64"), axis=0), [h])
        (k,) = second.turn(w, w("MatMul", h, deep), [k])
    made = network(w, {"x": (5, BATCH, DEPTH), "h": STATES, "k": STATES}, [k, h])
    assert cells(optimized(tmp_path, made)) == ["gru", "matmul", "matmul", "matmul", "rnn"]


def test_columns_of_one_sequence(tmp_path: Path) -> None:
    """Weights times vectors, W x + U h, of tokens that are looked up; the forget gate is 1 less the input gate."""
    r, w = np.random.default_rng(2), Writer()
    weights = {"W" + gate: w.constant(r.normal(size=(UNITS, DEPTH))) for gate in "igo"}
    weights |= {"U" + gate: w.constant(r.normal(size=(UNITS, UNITS))) for gate in "igo"}
    tokens = w.constant(r.normal(size=(7, DEPTH)))
    h, c = "h", "c"
    for t in range(4):
        row = w("Gather", tokens, w.constant(t, "int64"), axis=0)
        x = w("Add", w("Unsqueeze", row, w.constant([1], "int64")), "x")
        i, g, o = (w(f, w("Add", w("MatMul", weights["W" + n], x), w("MatMul", weights["U" + n], h)))
                   for f, n in (("Sigmoid", "i"), ("Tanh", "g"), ("Sigmoid", "o")))  # fmt: skip
        c = w("Add", w("Mul", w("Sub", w.constant(1.0), i), c), w("Mul", i, g))
        h = w("Mul", o, w("Tanh", c))
    made = network(w, {"x": (DEPTH, 1), "h": (UNITS, 1), "c": (UNITS, 1)}, [h, c])
    assert cells(optimized(tmp_path, made)) == ["lstm", "matmul"]


def test_peepholes_and_a_product_for_all_rows(tmp_path: Path) -> None:
    """Input and forget gate read the cell state as well; the rows of all gates are computed before the loop."""
    r, w = np.random.default_rng(5), Writer()
    product = w("MatMul", "x", w.constant(r.normal(size=(DEPTH, 4 * UNITS))))
    rows = w("Add", product, w.constant(r.normal(size=4 * UNITS)))
    recurrent = w.constant(r.normal(size=(UNITS, 4 * UNITS)) * 0.5)
    holes = [w.constant(r.normal(size=UNITS)) for _ in "if"]
    h, c = "h", "c"
    for t in range(4):
        both = w("Add", w("Gather", rows, w.constant(t, "int64"), axis=0), w("MatMul", h, recurrent))
        f, i, g, o = w("Split", both, outputs=4, axis=1, num_outputs=4)
        i, f = (w("Sigmoid", w("Add", s, w("Mul", c, p))) for s, p in zip((i, f), holes, strict=True))
        c = w("Add", w("Mul", w("Tanh", g), i), w("Mul", c, f))
        h = w("Mul", w("Tanh", c), w("Sigmoid", o))
    made = network(w, {"x": (4, BATCH, DEPTH), "h": STATES, "c": STATES}, [h, c])
    assert cells(optimized(tmp_path, made)) == ["lstm", "matmul"]


@pytest.mark.parametrize("late", [2, 3])
@pytest.mark.parametrize("through", ["", "Neg"])
def test_a_first_turn_of_zeros_that_a_later_one_reads(tmp_path: Path, late: int, through: str) -> None:
    """The first turn's product was folded; its state is what a later turn reads, or a function of it."""
    style, w = Style("rnn", biased=False), Writer()
    states = [w.constant(np.zeros((BATCH, UNITS)))]
    wide = w.constant(np.random.default_rng(1).normal(size=(UNITS, DEPTH)))
    for t in range(5):
        x = w("Gather", "x", w.constant(t, "int64"), axis=0)
        if t == late:
            x = w("MatMul", w(through, states[1]) if through else states[1], wide)
        states += style.turn(w, x, states[-1:])
    made = network(w, {"x": (5, BATCH, DEPTH)}, states[-1:])
    assert "rnn" in cells(optimized(tmp_path, made))


def test_an_operator_that_does_not_take_all_turns_is_none_of_a_cell() -> None:
    with pytest.raises(NotACellError, match="is not computed for all turns at once: f32"), for_all_turns():
        Reshape((3, 5)).infer(TensorType(F32, (3, 4)))
