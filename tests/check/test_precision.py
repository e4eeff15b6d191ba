"""What weights in fewer bits cost: what check says of it, and the forms that are found for a given error."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile import driver
from mccompile.check.check import check
from mccompile.check.junit import Outcome, junit_text
from mccompile.check.narrowing import apply
from mccompile.check.precision import Output, Precision, allowed_of
from mccompile.driver import Compilation, Options
from mccompile.ir import expr as ex
from mccompile.ir.errors import UsageError
from mccompile.ir.types import F32
from mccompile.run.noise import Noise
from tests.check.conftest import save
from tests.support.small_models import Maker

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
DATA = {"image": np.random.default_rng(0).uniform(0, 1, (4, 1, 1, 8, 8)).astype(np.float32)}


def test_check_says_the_error_and_fails_above_what_is_allowed() -> None:
    options = Options(target="generic", weights={"*": "i8"})
    result = check(DIGITS, options)
    assert result.ok, "\n".join(result.lines())
    found = result.precision
    assert found is not None
    assert found.forms == {"i8": 4}
    assert 1e-4 < found.outputs[0].f32 < found.allowed
    assert found.outputs[0].judge == pytest.approx(found.outputs[0].f32, rel=0.01)
    assert found.worst is not None
    assert any("worst layer" in line for line in result.lines())
    assert any("scores in fewer bits, as asked for: judged by the error below" in line for line in result.lines())
    assert not any("differ" in line for line in result.lines())
    strict = check(DIGITS, options, max_error=found.outputs[0].f32 / 2)
    assert not strict.ok
    assert not strict.faults
    assert strict.to_json()["precision"]["ok"] is False


@pytest.mark.parametrize("more", [{"weights": {"*": "i8"}}, {"precision": {"*": "bf16"}}])
def test_a_pass_that_is_wrong_in_f32_too_is_found(more: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is measured against a graph that the same passes made."""
    right = driver.optimize

    def wrong(c: Compilation, *observe: Any) -> None:
        right(c, *observe)
        node = c.graph.nodes[-1]
        node.post[0] = ex.apply("mul", node.post.get(0, ex.acc(F32)), ex.num(0.99, F32))

    monkeypatch.setattr(driver, "optimize", wrong)
    result = check(DIGITS, Options(target="generic", **more))
    assert result.precision is not None
    assert result.precision.ok
    assert not result.ok
    assert any("in f32, the optimised graph does not compute what onnx" in line for line in result.lines())


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, np.ndarray]]:
    """Two layers with scores, the largest of them and their numbers of bfloat16 as outputs; weights by name."""
    rng = np.random.default_rng(0)
    weights = {n: rng.standard_normal(s).astype(np.float32) for n, s in (("v", (8, 8)), ("w", (8, 5)))}
    node = helper.make_node
    nodes = [
        node("MatMul", ["x", "v"], ["a"]), node("Relu", ["a"], ["r"]), node("MatMul", ["r", "w"], ["y"]),
        node("ArgMax", ["y"], ["i"], axis=1, keepdims=0), node("Cast", ["y"], ["h"], to=TensorProto.BFLOAT16),
    ]  # fmt: skip
    outputs = {"y": (TensorProto.FLOAT, [1, 5]), "i": (TensorProto.INT64, [1]), "h": (TensorProto.BFLOAT16, [1, 5])}
    folder = tmp_path_factory.mktemp("scores")
    return save(folder / "s.onnx", nodes, {"x": (TensorProto.FLOAT, [1, 8])}, outputs, weights), weights


def test_what_a_user_expects_is_judged_in_fewer_bits_as_well(scores: tuple[Path, dict[str, np.ndarray]]) -> None:
    model, weights = scores
    options = Options(target="generic", weights={"*": "i8"})
    x = np.random.default_rng(1).standard_normal((1, 8)).astype(np.float32)
    y = np.maximum(x @ weights["v"], 0) @ weights["w"]
    good, wrong = y.argmax(1), (y.argmax(1) + 1) % 5
    for expect, ok in (({"y": y}, True), ({"y": y + 9}, False), ({"y": y.reshape(5, 1)}, False), ({"i": good}, True),
                       ({"i": wrong}, False), ({"y": y, "i": wrong}, False)):  # fmt: skip
        result = check(model, options, inputs={"x": x}, expect=expect)
        assert result.ok == ok, "\n".join(result.lines())
        failures = junit_text([Outcome("s", result)]).count("<failure")
        assert (failures == 0) == ok
        assert any(line.lstrip().startswith("FAIL") for line in result.lines()) != ok


@pytest.mark.parametrize("weights", [{}, {"*": "i8"}])
@pytest.mark.parametrize("per_layer", [False, True])
def test_what_a_user_expects_of_a_stream(weights: dict[str, str], per_layer: bool, tmp_path: Path) -> None:
    """Each run begins with what the one before has left, of which the user says nothing."""
    rng, node = np.random.default_rng(0), helper.make_node
    w = {"w": (rng.standard_normal((8, 8)) / 2).astype(np.float32)}
    nodes = [node("Add", ["x", "h"], ["s"]), node("MatMul", ["s", "w"], ["t"]), node("Relu", ["t"], ["n"]),
             node("MatMul", ["n", "w"], ["y"])]  # fmt: skip
    kind = (TensorProto.FLOAT, [1, 8])
    model = save(tmp_path / "m.onnx", nodes, {"x": kind, "h": kind}, {"y": kind, "n": kind}, w)
    x, held, y = rng.standard_normal((3, 1, 8)).astype(np.float32), np.zeros((1, 8), np.float32), []
    for one in x:
        held = np.maximum((one + held) @ w["w"], 0)
        y.append(held @ w["w"])
    options = Options(target="generic", weights=weights, state={"n": "h"})
    for off in (0, 9):
        result = check(model, options, inputs={"x": x}, expect={"y": np.stack(y) + off}, per_layer=per_layer)
        assert result.ok == (off == 0), "\n".join(result.lines())


def test_numbers_of_classes_are_judged_where_somebody_says_how(tmp_path: Path) -> None:
    """What forms explain is an error of numbers; with --max-error, it is the part of the classes that are others."""
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal((32, 64)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("ArgMax", ["y"], ["i"], axis=1)]
    ports = {"x": (TensorProto.FLOAT, [1, 32])}, {"i": (TensorProto.INT64, [1, 1])}
    model, x = save(tmp_path / "m.onnx", nodes, *ports, w), rng.standard_normal((40, 1, 32)).astype(np.float32)
    options = Options(target="generic", weights={"*": "i4"})
    for most, ok in ((None, True), (0.0, False), (0.9, True)):
        result = check(model, options, inputs={"x": x}, max_error=most)
        assert result.ok == ok, "\n".join(result.lines())
        assert result.precision is not None
        (found,) = result.precision.outputs
        assert 0 < found.f32 == found.judge < 0.3
        assert result.accuracy[0].agreement == pytest.approx(1 - found.judge)
        assert result.accuracy[0].to_json()["snr_db"] is None
    auto = apply(Options(target="generic", weights={"*": "auto"}), [model], {"x": x}, found.f32 / 2)
    assert "i4" not in auto.weights.values()


def test_an_image_is_of_numbers(tmp_path: Path) -> None:
    """A pixel that is one step off is an error of a step, and not another class."""
    rng = np.random.default_rng(0)
    w = {"w": rng.uniform(0, 0.1, (3, 3, 3, 3)).astype(np.float32)}
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Conv", ["f", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.UINT8),
    ]
    ports = {"x": (TensorProto.UINT8, [1, 3, 8, 8])}, {"y": (TensorProto.UINT8, [1, 3, 8, 8])}
    model = save(tmp_path / "m.onnx", nodes, *ports, w)
    x = rng.integers(0, 90, (1, 3, 8, 8)).astype(np.uint8)
    result = check(model, Options(target="generic", weights={"*": "bf16"}), inputs={"x": x}, max_error=0.05)
    assert result.precision is not None
    (found,) = result.precision.outputs
    assert 0 < found.f32 < 0.02
    assert result.ok


def test_outputs_in_fewer_bits_that_are_expected_have_a_golden_test(tmp_path: Path) -> None:
    """It expects what fewer bits make of them; and all outputs, though the user has said only one."""
    rng = np.random.default_rng(0)
    w = {"w": rng.standard_normal((32, 8)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    outputs = {name: (TensorProto.FLOAT, [1, 8]) for name in "yz"}
    model = save(tmp_path / "m.onnx", nodes, {"x": (TensorProto.FLOAT, [1, 32])}, outputs, w)
    x = rng.standard_normal((1, 32)).astype(np.float32)
    for weights in ({"*": "i8"}, {}):
        options = Options(target="generic", weights=weights)
        result = check(model, options, inputs={"x": x}, expect={"y": x @ w["w"]}, golden=True)
        assert result.ok, "\n".join(result.lines())


def test_outputs_of_bfloat16_have_an_error(scores: tuple[Path, dict[str, np.ndarray]]) -> None:
    """Of their numbers, not of their bits."""
    result = check(scores[0], Options(target="generic", weights={"*": "i8"}), max_error=1e-6)
    assert result.precision is not None
    found = {o.name: o.f32 for o in result.precision.outputs}
    assert found["h"] == pytest.approx(found["y"], abs=2**-8)
    assert not result.ok
    junit = junit_text([Outcome("s", result)])
    assert "error of fewer bits" in junit
    assert "FAIL h: error" in junit


def test_data_on_which_nothing_is_a_number_says_no_form(scores: tuple[Path, dict[str, np.ndarray]]) -> None:
    options = Options(target="generic", weights={"*": "auto"})
    x = np.full((3, 1, 8), np.nan, np.float32)
    with pytest.raises(UsageError, match="all outputs are NaN or infinite"):
        apply(options, [scores[0]], {"x": x}, 0.1)
    x[1] = 1
    assert set(apply(options, [scores[0]], {"x": x}, 0.1).weights.values()) <= {"f16", "i8", "i4"}


def test_another_shape_is_an_infinite_error() -> None:
    """As of what a condition selects, where rounded weights meet it more often."""
    noise = Noise()
    noise.add(np.ones(3, np.float32), np.ones(4, np.float32))
    assert (noise.relative, noise.largest, noise.ranked) == (np.inf, np.inf, 0)


def test_forms_are_found_for_an_error() -> None:
    """Less is narrowed for a smaller error, and what is found keeps it."""
    sizes = []
    for most in (0.0, 3e-4, 0.02):
        options = apply(Options(target="generic", weights={"*": "auto"}), [DIGITS], DATA, most)
        assert options == apply(Options(target="generic", weights={"*": "auto"}), [DIGITS], DATA, most)
        result = check(DIGITS, options, inputs=DATA, max_error=most + 1e-6)
        assert result.ok, "\n".join(result.lines())
        sizes.append(result.report["weights_bytes"])
    assert sizes[0] > sizes[1] > sizes[2]


def test_what_is_named_keeps_its_form() -> None:
    said = {"*": "auto", "linear": "f32"}
    found = apply(Options(target="generic", weights=said), [DIGITS], DATA, 0.1).weights
    assert found["linear"] == "f32"
    assert set(found.values()) - {"f32"}


@pytest.mark.parametrize(
    ("weights", "precision", "most"),
    [
        ({"*": "auto", "m0": "i8"}, {}, 0.0072),
        ({"*": "auto"}, {"*": "bf16", "m1": "f32", "m2": "f32"}, 0.0035),
        ({"m0": "i8"}, {"*": "auto"}, 0.0068),
    ],
)
def test_what_is_named_costs_a_part_of_the_error(
    weights: dict[str, str], precision: dict[str, str], most: float, tmp_path: Path
) -> None:
    """What is found beside it, of weights or of products, keeps both together below what is allowed."""
    r, f32 = np.random.default_rng(3), TensorProto.FLOAT
    w0, w1, w2 = (r.normal(size=s).astype(np.float32) / d for s, d in (((70, 257), 8), ((257, 45), 16), ((45, 6), 6)))
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["a"], name="m0"), helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "w1"], ["c"], name="m1"), helper.make_node("Tanh", ["c"], ["d"]),
        helper.make_node("MatMul", ["d", "w2"], ["y"], name="m2"),
    ]  # fmt: skip
    ports = {"x": (f32, [33, 70])}, {"y": (f32, [33, 6])}
    path = save(tmp_path / "m.onnx", nodes, *ports, {"w0": w0, "w1": w1, "w2": w2})
    data = {"x": r.normal(size=(4, 33, 70)).astype(np.float32)}
    options = apply(Options(target="generic", weights=weights, precision=precision), [path], data, most)
    result = check(path, options, inputs=data, max_error=most)
    assert result.ok, "\n".join(result.lines())


def test_auto_needs_data_and_an_error() -> None:
    with pytest.raises(UsageError, match="needs data"):
        apply(Options(weights={"*": "auto"}), [DIGITS], None, 0.1)
    with pytest.raises(UsageError, match="no node is named"):
        apply(Options(weights={"*": "auto", "liner": "f32"}), [DIGITS], DATA, 0.1)


def test_products_are_narrowed_for_an_error_and_check_says_what_they_cost() -> None:
    """More are narrowed for a larger error, what is found keeps it, and what is named keeps its form."""
    products = []
    for most in (0.0, 2e-4, 0.02):
        said = Options(target="generic", precision={"*": "auto", "linear": "f32"})
        options = apply(said, [DIGITS], DATA, most)
        assert options == apply(said, [DIGITS], DATA, most)
        assert options.precision["linear"] == "f32"
        result = check(DIGITS, options, inputs=DATA, max_error=most + 1e-6)
        assert result.ok, "\n".join(result.lines())
        forms = list(options.precision.values())
        if result.precision is not None:
            assert result.precision.products == {f: forms.count(f) for f in forms if f != "f32"}
        products.append(sum({"f32": 0, "f16": 1, "bf16": 3}[form] for form in forms))
    assert products[0] < products[1] < products[2]


def _two_layers(path: Path, first: str, head: str) -> Path:
    """Of the second, 8 bits hold next to nothing."""
    r = np.random.default_rng(21)
    w1, w2 = (r.standard_normal(s).astype(np.float32) / 6 for s in ((32, 32), (32, 8)))
    w1[:, 0] *= 1e-7
    w2[0] = 1e5
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name=first),
        helper.make_node("Tanh", ["a"], ["b"], name="th"),
        helper.make_node("MatMul", ["b", "w2"], ["y"], name=head),
    ]
    f32 = TensorProto.FLOAT
    return save(path, nodes, {"x": (f32, [4, 32])}, {"y": (f32, [4, 8])}, {"w1": w1, "w2": w2})


@pytest.mark.parametrize(("first", "head"), [("first", "head"), ("matmul", "head"), ("l[12]", "l2"), ("l?", "l2")])
def test_what_is_found_is_of_the_layer_whatever_its_name_means(first: str, head: str, tmp_path: Path) -> None:
    """Names of nodes that are those of operators, or patterns, mean other layers, too."""
    path = _two_layers(tmp_path / "m.onnx", first, head)
    data = {"x": np.random.default_rng(3).standard_normal((1, 4, 32)).astype(np.float32)}
    options = apply(Options(target="generic", weights={"*": "auto"}), [path], data, 0.02)
    assert set(options.weights.values()) - {"f32"}
    result = check(path, options, inputs={"x": data["x"][0]}, max_error=0.02)
    assert result.ok, "\n".join(result.lines())


@pytest.mark.parametrize(("op", "gates"), [("RNN", 1), ("LSTM", 4), ("GRU", 3)])
def test_cells_are_tried_with_what_has_their_name(op: str, gates: int, tmp_path: Path) -> None:
    r, hidden = np.random.default_rng(4), 24
    rows = gates * hidden
    weights = {"w": r.standard_normal((1, rows, 6)) / 2, "r": r.standard_normal((1, rows, hidden))}
    node = helper.make_node(op, ["x", "w", "r"], ["y"], hidden_size=hidden, name="cell")
    given, made = {"x": (TensorProto.FLOAT, [20, 1, 6])}, {"y": (TensorProto.FLOAT, [20, 1, 1, hidden])}
    path = save(tmp_path / "m.onnx", [node], given, made, {n: a.astype(np.float32) for n, a in weights.items()})
    x = r.standard_normal((20, 1, 6)).astype(np.float32)
    for most in (1e-4, 1e-3, 1e-2, 1e-1):
        options = apply(Options(target="generic", precision={"*": "auto"}), [path], {"x": x[None]}, most)
        result = check(path, options, inputs={"x": x}, max_error=most + 1e-6)
        assert result.ok, "\n".join(result.lines())


def test_forms_of_products_that_make_no_sense_are_errors() -> None:
    with pytest.raises(UsageError, match="one after the other"):
        apply(Options(target="generic", weights={"*": "auto"}, precision={"*": "auto"}), [DIGITS], DATA, 0.1)
    with pytest.raises(UsageError, match="x86-64-v3 has no products of bf16"):
        apply(Options(target="x86-64-v3", precision={"*": "auto"}), [DIGITS], DATA, 0.1)
    with pytest.raises(UsageError, match="cannot be computed in 'i8'"):
        check(DIGITS, Options(target="generic", precision={"*": "i8"}))
    with pytest.raises(UsageError, match="which --exact does not"):
        check(DIGITS, Options(target="generic", precision={"*": "bf16"}, exact=True))


def test_an_output_may_have_no_element() -> None:
    """As what a loop without a turn collects, f32[0,4]."""
    noise = Noise()
    noise.add(np.zeros((0, 4), np.float32), np.zeros((0, 4), np.float32))
    assert (noise.relative, noise.largest, noise.ranked) == (0.0, 0.0, 0)


@pytest.mark.parametrize("weights", ["f16", "bf16"])
def test_bytes_behind_narrow_weights_may_be_a_step_off(weights: str, tmp_path: Path) -> None:
    """Where sums are rounded to bytes, a small error has some of them a whole step off."""
    m, rng = Maker(), np.random.default_rng(0)
    w, v = (rng.standard_normal(shape).astype(np.float32) for shape in ((32, 48), (48, 5)))
    step = [m.const(np.float32(2)), m.const(np.uint8(128))]
    q = m.node("QuantizeLinear", [m.node("MatMul", [m.input("x", (40, 32)), m.const(w)]), *step])
    m.node("MatMul", [m.node("DequantizeLinear", [q, *step]), m.const(v)], "y")
    onnx.save(m.model(["y"]), tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic", weights={"*": weights}), per_layer=True)
    assert found.ok, found.lines()


def test_what_is_no_number_is_text_in_json() -> None:
    found = Precision({}, {}, (Output("y", math.nan, math.inf),), ("y", math.inf, math.nan), math.nan, given=False)
    json.dumps(found.to_json(), allow_nan=False)


@pytest.mark.parametrize("weights", ["f16", "i8"])
def test_what_overflows_as_the_network_does_is_no_error(weights: str, tmp_path: Path) -> None:
    """Two masks of the least float are minus infinity; in float64, in which errors are told, they are a number."""
    r, f32 = np.random.default_rng(3), TensorProto.FLOAT
    mask = np.zeros(12, np.float32)
    mask[3:6] = np.finfo(np.float32).min
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Add", ["a", "k"], ["b"]),
        helper.make_node("Add", ["b", "z"], ["y"]),
    ]  # fmt: skip
    w = r.normal(size=(32, 12)).astype(np.float32) / 6
    ports = {"x": (f32, [4, 32]), "z": (f32, [12])}, {"y": (f32, [4, 12])}
    path = save(tmp_path / "m.onnx", nodes, *ports, {"w": w, "k": mask})
    data = {"x": r.normal(size=(3, 4, 32)).astype(np.float32), "z": np.stack([mask] * 3)}
    result = check(path, Options(target="generic", weights={"*": weights}), inputs=data)
    assert result.ok, "\n".join(result.lines())


def test_infinities_are_apart_where_they_differ() -> None:
    """As where weights divide by a number that is hardly one."""
    noise = Noise()
    noise.add(np.array([np.inf, np.nan, 2], np.float32), np.array([np.inf, np.nan, 3], np.float32))
    assert (noise.relative, noise.largest) == (0.25, 1.0)
    for got in (1.0, -np.inf, np.nan):
        noise = Noise()
        noise.add(np.array([np.inf, 2], np.float32), np.array([got, 2], np.float32))
        assert noise.relative == noise.largest == np.inf


def f16_net(path: Path, mixed: bool) -> Path:
    """Six times x = Tanh(x * w) in f16; ``mixed`` casts to f32 for a last product."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": (rng.standard_normal((32, 32)) * 0.3).astype(np.float16) for i in range(6)}
    nodes = []
    for i in range(6):
        nodes += [
            helper.make_node("MatMul", [f"t{i}", f"w{i}"], [f"p{i}"]),
            helper.make_node("Tanh", [f"p{i}"], [f"t{i + 1}"]),
        ]
    kind, last = TensorProto.FLOAT16, "t6"
    if mixed:
        weights["w"] = rng.standard_normal((32, 8)).astype(np.float32)
        nodes += [
            helper.make_node("Cast", ["t6"], ["c"], to=TensorProto.FLOAT),
            helper.make_node("MatMul", ["c", "w"], ["y"]),
        ]
        kind, last = TensorProto.FLOAT, "y"
    ports = {"t0": (TensorProto.FLOAT16, [4, 32])}, {last: (kind, [4, 8 if mixed else 32])}
    return save(path, nodes, *ports, weights)


def test_what_was_asked_for_and_not_done_is_judged_as_without(tmp_path: Path) -> None:
    """A network of f16 has no weight that is stored in fewer bits: its own rounding is no fault of the option."""
    model = f16_net(tmp_path / "f16.onnx", mixed=False)
    for options in (Options(target="generic", weights={"*": "i8"}), Options(target="generic", weights={"*": "f16"})):
        result = check(model, options)
        assert result.ok, "\n".join(result.lines())
        assert result.precision is None
        assert any("no weight is stored" in note for note in result.notes)
    assert not any("no weight is stored" in note for note in check(model, Options(target="generic")).notes)


def test_what_the_network_is_off_by_itself_is_allowed(tmp_path: Path) -> None:
    """One weight of f16 explains 0.001; behind six products in f16 there is about as much without it."""
    result = check(f16_net(tmp_path / "mixed.onnx", mixed=True), Options(target="generic", weights={"*": "f16"}))
    assert result.ok, "\n".join(result.lines())
    found = result.precision
    assert found is not None
    assert found.forms == {"f16": 1}
    assert found.allowed > allowed_of(found.forms) + 1e-4


def _forms_of_weights(path: Path, **said: str) -> list[str]:
    """The types of the matrices that nodes multiply by, in their order."""
    compilation = driver.open_model(path, Options(target="generic", weights={"*": "i8", **said}))
    driver.optimize(compilation)
    graph = compilation.graph
    read = (v for n in graph.nodes for v in n.operands if v is not None and v in graph.constants)
    return [str(v.dtype) for v in read if v.type.count == 16 * 16]


def test_names_hold_of_what_is_computed_once_for_several(tmp_path: Path) -> None:
    """Of equal nodes, and of those inside of loops that become a cell."""
    r, f32 = np.random.default_rng(5), TensorProto.FLOAT
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="one"),
        helper.make_node("MatMul", ["x", "w"], ["b"], name="two"),
        helper.make_node("Relu", ["a"], ["c"]),
        helper.make_node("Sub", ["c", "b"], ["y"]),
    ]
    w = r.standard_normal((16, 16)).astype(np.float32)
    path = save(tmp_path / "equal.onnx", nodes, {"x": (f32, [3, 16])}, {"y": (f32, [3, 16])}, {"w": w})
    assert _forms_of_weights(path) == ["i8"]
    assert _forms_of_weights(path, two="f32") == _forms_of_weights(path, one="f32") == ["f32"]
    inner = [
        helper.make_node("MatMul", ["t", "w"], ["a"], name="inp"),
        helper.make_node("MatMul", ["before", "r"], ["b"], name="rec"),
        helper.make_node("Add", ["a", "b"], ["c"]),
        helper.make_node("Tanh", ["c"], ["after"]),
        helper.make_node("Identity", ["after"], ["out"]),
    ]
    ports = [helper.make_tensor_value_info(n, f32, [1, 16]) for n in ("before", "t", "after", "out")]
    body = helper.make_graph(inner, "body", ports[:2], ports[2:])
    scan = helper.make_node("Scan", ["h", "x"], ["last", "y"], name="scan", body=body, num_scan_inputs=1)
    given, made = {"x": (f32, [300, 1, 16]), "h": (f32, [1, 16])}, {"y": (f32, [300, 1, 16])}
    path = save(tmp_path / "scan.onnx", [scan], given, made, {"w": w, "r": w + 1})
    assert _forms_of_weights(path) == ["i8", "i8"]
    assert _forms_of_weights(path, rec="f32")[1] == "f32"


@pytest.mark.parametrize("more", [{"opt_level": "O0"}, {"opt_level": "O1"}, {"exact": True}], ids=str)
def test_sums_that_are_not_rounded_are_not_rounded_as_tflite_does(more: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"rounds sums of integers, which .* computes in floats"):
        check(DIGITS, Options(target="generic", requant="tflite", **more))
