"""States and rows put aside as digits: as exact as sums of floats, for any size of what is multiplied by bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from mccompile import driver
from mccompile.check.check import check
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.ir.scalar import Array
from mccompile.ops.recurrent import FIXED, Lstm
from mccompile.run.network import Network
from tests._skips import needs_sanitizers
from tests.support.harness import SANITIZERS, SPLIT, build
from tests.support.targets import needs_target

TARGETS = ["x86-64-v4-vnni", pytest.param("aarch64-dotprod", marks=pytest.mark.slow)]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _cell(kind: str, r: np.random.Generator, hidden: int, largest: Array | float, **said: object) -> onnx.ModelProto:
    """Two steps of a cell by recurrent weights of bytes, from a state up to ``largest``."""
    rows, size = GATES[kind] * hidden, 3
    dtype = r.choice([np.int8, np.uint8])
    least = np.iinfo(dtype).min
    zero = dtype(0 if r.integers(2) else 100 if least == 0 else -5)
    state = (r.standard_normal((1, 1, hidden)) * largest).astype(np.float32)
    constants = {
        "w": r.standard_normal((1, rows, size)).astype(np.float32),
        "r": r.integers(max(least, -100), 100, (1, rows, hidden)).astype(dtype),
        "s": (r.random((1, rows, 1)) * 0.01 + 0.001).astype(np.float32),
        "z": np.full((1, rows, 1), zero, dtype),
        "h": state,
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["r", "s", "z"], ["r.f"], axis=2, block_size=hidden),
        helper.make_node(kind, ["x", "w", "r.f", "", "", "h"], ["y"], hidden_size=hidden, **said),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (2, 1, size))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    weights = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "cell", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", GATES)
def test_cells_by_digits_are_right(kind: str, target: str, tmp_path: Path) -> None:
    """Units that are no whole words or vectors, every direction, both forms of GRU, states of any size."""
    needs_target(target)
    for seed, largest in enumerate((0.0, 1e-38, 1e-33, 1e-20, 1.0, 30.0, 1e20)):
        r = np.random.default_rng(seed)
        hidden = int(r.choice([1, 3, 7, 16, 21, 33, 50, 64]))
        said = {"linear_before_reset": int(r.integers(2))} if kind == "GRU" else {}
        path = tmp_path / f"n{seed}.onnx"
        onnx.save(_cell(kind, r, hidden, largest, direction=str(r.choice(["forward", "reverse"])), **said), path)
        result = check(path, Options(target=target))
        assert result.ok, f"seed {seed}\n" + "\n".join(result.lines())
        assert {s["kernel"] for s in result.report["steps"]} & {f"{kind.lower()}.vector", "gru.scaled"}


@pytest.mark.parametrize("kind", GATES)
def test_digits_stay_in_their_memory(kind: str, tmp_path: Path) -> None:
    """With scratch memory of its own, to the last float: in an arena what lies behind it hides one too few."""
    target = needs_target("x86-64-v4-vnni")
    compiler = needs_sanitizers("gcc")
    r = np.random.default_rng(1)
    onnx.save(_cell(kind, r, 11, 1.0), tmp_path / "cell.onnx")
    compilation, files = driver.compile_files(tmp_path / "cell.onnx", Options(target=target))
    write_folder(tmp_path / "out", files)
    inputs = {"x": r.standard_normal((2, 1, 3)).astype(np.float32)}
    (got,) = build(tmp_path / "out", [*SANITIZERS, SPLIT, "-O0"], compiler).run("odd", [inputs])
    np.testing.assert_allclose(got["y"], compilation.graph.evaluate(inputs)["y"], rtol=0, atol=3e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_digits_are_as_exact_as_floats(target: str, tmp_path: Path) -> None:
    """What a linear cell shows is its sum: off by less than a 2^20th of what its terms could be, whatever else a
    state holds, and no number where a state is none."""
    needs_target(target)
    r = np.random.default_rng(3)
    hidden = 70
    for spread in (0.0, 3.0, 12.0):
        wide = np.exp2(r.uniform(-spread, spread, hidden))
        model = _cell("RNN", r, hidden, wide, activations=["Affine"], activation_alpha=[1.0], activation_beta=[0.0])
        found = _shown(model, target, tmp_path / f"{spread}")
        arrays = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
        weights = ((arrays["r"] - arrays["z"]) * arrays["s"])[0]
        state = arrays["h"][0, 0]
        terms = np.abs(weights).sum(1) * np.abs(state).max()
        np.testing.assert_array_less(np.abs(found - weights @ state), terms / 2**20)
    state = next(t for t in model.graph.initializer if t.name == "h")
    for lost in (np.nan, np.inf):
        array = numpy_helper.to_array(state).copy()
        array[0, 0, 5] = lost
        state.CopyFrom(numpy_helper.from_array(array, "h"))
        assert not np.isfinite(_shown(model, target, tmp_path / f"{lost}")).any()


def _shown(model: onnx.ModelProto, target: str, folder: Path) -> Array:
    """The first step for an input of zeros."""
    folder.mkdir()
    onnx.save(model, folder / "cell.onnx")
    compilation, files = driver.compile_files(folder / "cell.onnx", Options(target=target))
    write_folder(folder / compilation.graph.name, files)
    network = Network(folder / compilation.graph.name, emulate=True)
    network.set_inputs({"x": np.zeros((2, 1, 3), np.float32)})
    network.invoke()
    return np.array(network.outputs["y"])[0, 0, 0]


def _dynamic(r: np.random.Generator, hidden: int, begins: str) -> onnx.ModelProto:
    """A cell of com.microsoft that reads nothing of its input, from no state, from zeros for each sequence, from a
    constant or from what the caller gives."""
    constants = {
        "w": np.zeros((1, 3, 4 * hidden), np.int8),
        "r": r.integers(-127, 128, (1, hidden, 4 * hidden)).astype(np.int8),
        "b": r.normal(0, 2, (1, 8 * hidden)).astype(np.float32),
        "s": r.uniform(0.001, 0.003, (1, 4 * hidden)).astype(np.float32),
        "z": np.zeros((1, 4 * hidden), np.int8),
        "constant": r.uniform(-1, 1, (1, 2, hidden)).astype(np.float32),
        "axis": np.array([1, 2]),
        "one": np.array([1]),
        "units": np.array([hidden]),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["many"], start=1, end=2),
        helper.make_node("Concat", ["one", "many", "units"], ["extents"], axis=0),
        helper.make_node("ConstantOfShape", ["extents"], ["zeros"]),
        helper.make_node(
            "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", begins, "", "", "s", "z", "s", "z"], ["y", "h", "c"],
            domain="com.microsoft", hidden_size=hidden,
        ),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (5, "batch", 3))
    given = [helper.make_tensor_value_info("given", onnx.TensorProto.FLOAT, (1, "batch", hidden))]
    outputs = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "yh"]
    weights = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    graph = helper.make_graph(nodes, "cell", [x] + given * (begins == "given"), outputs, weights)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def _states(model: onnx.ModelProto, h: Array, steps: int, grid: float) -> Array:
    """Every state of `_dynamic` in doubles, rounded to so many steps before it is multiplied, if any."""
    arrays = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    r, bias = arrays["r"][0] * arrays["s"], arrays["b"][0].reshape(2, -1).sum(0)
    c, found = np.zeros_like(h), []
    for _ in range(steps):
        i, o, f, g = np.split(bias + (np.rint(h * grid) / grid if grid else h) @ r, 4, axis=-1)
        i, o, f = (1 / (1 + np.exp(-gate)) for gate in (i, o, f))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        found.append(h)
    return np.stack(found)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", *TARGETS])
def test_states_between_ones_are_multiplied_as_two_digits(target: str, tmp_path: Path) -> None:
    """Where onnxruntime rounds a state to 8 bits, it is rounded to 15 if it begins with zeros; others are floats."""
    needs_target(target)
    for seed, hidden in enumerate((3, 33)):
        for begins in ("", "zeros", "constant", "given"):
            model = _dynamic(np.random.default_rng(seed), hidden, begins)
            folder = tmp_path / f"{begins}{hidden}"
            folder.mkdir()
            onnx.save(model, folder / "cell.onnx")
            options = Options(target=target, dims={"batch": "1..2" if begins == "zeros" else 2})
            compilation, files = driver.compile_files(folder / "cell.onnx", options)
            write_folder(folder / "c", files)
            network = Network(folder / "c", emulate=True)
            state = np.random.default_rng(seed).normal(0, 20, (1, 2, hidden)).astype(np.float32)
            inputs = {"x": np.ones((5, 2, 3), np.float32)} | ({"given": state} if begins == "given" else {})
            constant = numpy_helper.to_array(model.graph.initializer[5])
            first = {"constant": constant, "given": state}.get(begins, 0 * state)
            fixed = begins in ("", "zeros")
            cells = [n.op for n in compilation.graph.nodes if isinstance(n.op, Lstm)]
            assert [cell.rounded for cell in cells] == ["fixed" if fixed else ""]
            want = _states(model, first[0].astype(np.float64), 5, FIXED if fixed else 0)
            np.testing.assert_allclose(network.run(inputs)["y"][:, 0], want, rtol=0, atol=3e-6)


def test_what_is_wrong_within_a_cell_is_told_alone(tmp_path: Path) -> None:
    """A state of two sequences beside inputs of one or two: not, as well, that the cell has no result."""
    onnx.save(_dynamic(np.random.default_rng(0), 3, "constant"), tmp_path / "cell.onnx")
    with pytest.raises(CompileError, match=r"whether 2 is batch depends on batch = 1\.\.2") as caught:
        driver.compile_files(tmp_path / "cell.onnx", Options(dims={"batch": "1..2"}))
    assert "not supported" not in str(caught.value)


@pytest.mark.parametrize("target", TARGETS)
def test_rows_by_digits_are_right(target: str, tmp_path: Path) -> None:
    """Products of any number of rows by weights of bytes, some of the rows with elements far above all others."""
    needs_target(target)
    kernels = set()
    for seed in range(8):
        path = tmp_path / f"rows{seed}.onnx"
        onnx.save(_rows(np.random.default_rng(seed)), path)
        result = check(path, Options(target=target))
        assert result.ok, f"seed {seed}\n" + "\n".join(result.lines())
        kernels |= {s["kernel"] for s in result.report["steps"]}
    assert "matmul_quantised.words" in kernels


def _rows(r: np.random.Generator) -> onnx.ModelProto:
    """A product whose rows are computed."""
    rows, steps, columns = (int(r.choice(n)) for n in ([1, 2, 3, 5, 17, 33], [16, 21, 64, 300], [1, 5, 16, 40, 70]))
    dtype = r.choice([np.int8, np.uint8])
    weights = r.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (steps, columns)).astype(dtype)
    of_block = {"axis": 0, "block_size": 32} if steps == 64 and r.integers(2) else {"axis": 1}
    parts = (2, columns) if of_block["axis"] == 0 else (columns,)
    zero = np.full(parts, r.choice([0, 3]), dtype)
    scale = (r.random(parts) * 0.01 + 0.001).astype(np.float32)
    left = r.standard_normal((rows, steps)).astype(np.float32)
    left[r.random(left.shape) < 0.02] *= 1000.0
    constants = {"w": weights, "s": scale, "z": zero, "left": left}
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], **of_block),
        helper.make_node("Mul", ["x", "left"], ["rows"]),
        helper.make_node("MatMul", ["rows", "f"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1,))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "rows", [x], [y], [numpy_helper.from_array(a, n) for n, a in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
