"""Differences that are 0 in onnxruntime are 0, whatever makes them: what is divided by one, or has no root below 0,
depends on it. So do samples whose places kernels compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from tests.ops.test_exact_answers import Array, N, answers

TARGETS = [("generic", "O2"), ("x86-64-v3", "O2")]
_SQUARE, _LESS = N("Mul", ["a", "a"], ["aa"]), N("Sub", ["b", "aa"], ["v"])
FORMS = {
    "root of an output": [_SQUARE, _LESS, N("Sqrt", ["v"], ["r"])],
    "product an output": [_SQUARE, _LESS, N("Sqrt", ["v"], ["r"]), N("Neg", ["aa"], ["out"])],
    "negated product": [_SQUARE, N("Neg", ["aa"], ["n"]), N("Add", ["b", "n"], ["v"]), N("Sqrt", ["v"], ["r"])],
    "negated factor": [
        N("Neg", ["a"], ["n"]), N("Mul", ["n", "a"], ["an"]), N("Add", ["an", "b"], ["v"]), N("Sqrt", ["v"], ["r"]),
    ],
    "times -1": [
        N("Mul", ["a", "minus"], ["n"]), N("Mul", ["n", "a"], ["an"]), N("Add", ["b", "an"], ["v"]),
        N("Sqrt", ["v"], ["r"]),
    ],
    "power": [_SQUARE, _LESS, N("Pow", ["v", "exponent"], ["r"])],
    "moved": [_SQUARE, _LESS, N("Concat", ["v", "v"], ["w"], axis=0), N("Sqrt", ["w"], ["r"])],
    "clipped": [_SQUARE, _LESS, N("Relu", ["v"], ["w"]), N("Div", ["a", "w"], ["p"]), N("Div", ["w", "p"], ["r"])],
    "with an epsilon": [_SQUARE, _LESS, N("Add", ["v", "tiny"], ["w"]), N("Div", ["v", "w"], ["r"])],
}  # fmt: skip


def _renamed(node: onnx.NodeProto, form: int) -> onnx.NodeProto:
    """With results of its own, so that all forms stand in one network."""
    new = onnx.NodeProto.FromString(node.SerializeToString())
    for names in (new.input, new.output):
        for i, name in enumerate(names):
            if name not in ("a", "b", "minus", "exponent", "tiny"):
                names[i] = f"{name}{form}"
    return new


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_differences_of_equal_numbers_are_0(target: str, level: str, tmp_path: Path) -> None:
    """Each difference is an output, which keeps it from standing in the expression that depends on it."""
    a = np.linspace(0.1, 9, 67).astype(np.float32)
    nodes = [_renamed(n, i) for i, form in enumerate(FORMS.values()) for n in form]
    nodes += [N("Identity", [f"v{i}"], [f"kept{i}"]) for i in range(len(FORMS))]
    given = {"minus": np.float32(-1), "exponent": np.float32(1.5), "tiny": np.float32(1e-12)}
    got = answers(tmp_path, nodes, {"a": a, "b": a * a}, target, level, given, opset=17)
    for i, form in enumerate(FORMS):
        assert not got[f"kept{i}"].any(), form
        assert not got[f"r{i}"].any(), form


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_cosines_of_1_have_an_angle(target: str, level: str, tmp_path: Path) -> None:
    a = np.linspace(0.1, 0.9, 67).astype(np.float32)
    nodes = [
        N("Mul", ["a", "a"], ["aa"]), N("Add", ["aa", "b"], ["c"]), N("Acos", ["c"], ["angle"]),
        N("Asin", ["c"], ["other"]), N("Identity", ["c"], ["kept"]),
    ]  # fmt: skip
    b = np.float32(1) - a * a
    got = answers(tmp_path, nodes, {"a": a, "b": b}, target, level, opset=17)
    np.testing.assert_array_equal(got["kept"], a * a + b)
    np.testing.assert_allclose(got["angle"], np.arccos(a * a + b), rtol=1e-6)
    np.testing.assert_allclose(got["other"], np.arcsin(a * a + b), rtol=1e-6)


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_vectors_of_one_direction_have_no_normal(target: str, level: str, tmp_path: Path) -> None:
    """Their product is 0, and what it is divided by is as small: a norm, or a root of its square in other nodes."""
    sides, axis = [np.random.default_rng(i).normal(size=(8, 1)).astype(np.float32) for i in range(3)], np.array([1])
    nodes = [n for i, (j, k) in enumerate(((1, 2), (2, 0), (0, 1))) for n in (
        N("Mul", [f"a{j}", f"b{k}"], [f"p{i}"]), N("Mul", [f"a{k}", f"b{j}"], [f"q{i}"]),
        N("Sub", [f"p{i}", f"q{i}"], [f"c{i}"]),
    )]  # fmt: skip
    nodes += [
        N("Concat", ["c0", "c1", "c2"], ["c"], axis=1), N("ReduceL2", ["c"], ["l"], axes=[1]),
        N("Max", ["l", "tiny"], ["size"]), N("Div", ["c", "size"], ["unit"]), N("LpNormalization", ["c"], ["same"]),
        N("Abs", ["c"], ["away"]), N("ReduceSum", ["away", "axis"], ["all"]), N("Add", ["all", "tiny"], ["sum"]),
        N("Div", ["away", "sum"], ["shares"]), N("Identity", ["l"], ["kept"]),
    ]  # fmt: skip
    feeds = {f"{v}{i}": side for v in "ab" for i, side in enumerate(sides)}
    got = answers(tmp_path, nodes, feeds, target, level, {"tiny": np.float32(1e-12), "axis": axis}, opset=17)
    for name in ("unit", "shares", "kept"):
        assert not got[name].any(), name


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_nothing_is_left_of_a_scaled_row_of_equal_elements(target: str, level: str, tmp_path: Path) -> None:
    """A normalisation that multiplies what it reads takes rounded products away from each other."""
    x = np.repeat(np.array([[0.3], [3], [255]], np.float32), 64, 1)
    nodes = [N("Mul", ["x", "by"], ["s"]), N("LayerNormalization", ["s", "ones"], ["y"], epsilon=1e-12)]
    given = {"by": np.float32(0.7), "ones": np.ones(64, np.float32)}
    got = answers(tmp_path, nodes, {"x": x}, target, level, given, opset=17)
    assert not got["y"].any()


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_regions_have_as_many_samples_as_pixels(target: str, level: str, tmp_path: Path) -> None:
    """From 70 to 80 in tenths, there is one: 80 * 0.1 - 70 * 0.1 is 1."""
    x = np.random.default_rng(0).normal(size=(1, 4, 20, 20)).astype(np.float32)
    how = {"spatial_scale": 0.1, "output_height": 1, "output_width": 1}
    nodes = [
        N("RoiAlign", ["x", "r", "i"], [f"{form}{count}"], sampling_ratio=count, **how,
          coordinate_transformation_mode=form)
        for form in ("half_pixel", "output_half_pixel") for count in (0, 1)
    ]  # fmt: skip
    feeds = {"x": x, "r": np.array([[70, 20, 80, 30], [30, 70, 40, 80]], np.float32)}
    got = answers(tmp_path, nodes, feeds, target, level, {"i": np.zeros(2, np.int64)}, opset=18)
    for form in ("half_pixel", "output_half_pixel"):
        np.testing.assert_array_equal(got[f"{form}0"], got[f"{form}1"])


@pytest.mark.parametrize(("target", "level"), TARGETS)
@pytest.mark.parametrize("channels", [1, 8])
def test_places_between_two_pixels(target: str, level: str, channels: int, tmp_path: Path) -> None:
    """(-0.97938144 + 1) * 97 is 2 when it is rounded, the middle of two pixels, of which the even one is taken."""
    x = np.broadcast_to(np.arange(97, dtype=np.float32), (1, channels, 1, 97)).copy()
    grid = np.array([-0.97938144, 0], np.float32).reshape(1, 1, 1, 2)
    nodes = [N("GridSample", ["x", "g"], ["y"], mode="nearest")]
    got = answers(tmp_path, nodes, {"x": x, "g": grid}, target, level, opset=17)
    assert not got["y"].any()


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_matrices_of_a_row_and_its_multiple_have_no_volume(target: str, level: str, tmp_path: Path) -> None:
    """The second row is taken away from the first, times a third, say: 5 - 15 * (1 / 3) is 0 when that is rounded."""
    row = np.random.default_rng(0).integers(-5, 6, (200, 1, 2)).astype(np.float32)
    x = np.concatenate([row, row * (np.arange(200) % 5 + 1).reshape(-1, 1, 1).astype(np.float32)], 1)
    (got,) = answers(tmp_path, [N("Det", ["x"], ["y"])], {"x": x}, target, level, opset=17).values()
    assert not got.any()


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_a_normalised_batch_is_rounded_before_a_step(level: str, tmp_path: Path) -> None:
    x = np.arange(10, 650, 10, dtype=np.float32).reshape(1, 1, 64)
    nodes = [N("BatchNormalization", ["x", "s", "b", "m", "v"], ["n"], epsilon=0.0), N("Ceil", ["n"], ["y"])]
    given = {k: np.array([v], np.float32) for k, v in (("s", 0.1), ("b", -1), ("m", 0), ("v", 1))}
    got = answers(tmp_path, nodes, {"x": x}, "x86-64-v3", level, given, opset=17)["y"]
    np.testing.assert_array_equal(got, np.ceil(x * np.float32(0.1) - np.float32(1)))


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_products_round_where_extents_are_those_of_the_run(target: str, tmp_path: Path) -> None:
    ports = [helper.make_tensor_value_info(v, TensorProto.FLOAT, ["n", 30]) for v in ("x", "y")]
    nodes = [N("Mul", ["x", "tenth"], ["p"]), N("Sub", ["p", "one"], ["less"]), N("Ceil", ["less"], ["y"])]
    given = [numpy_helper.from_array(np.float32(v), name) for name, v in (("tenth", 0.1), ("one", 1))]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    x = np.arange(10, 610, 10, dtype=np.float32).reshape(2, 30)
    mccompile.compile(model, tmp_path / "out", target=target, dims={"n": "1..4"})
    got = mccompile.load(tmp_path / "out").run({"x": x})["y"]
    np.testing.assert_array_equal(got, np.ceil(x * np.float32(0.1) - np.float32(1)))


def _means() -> tuple[list[onnx.NodeProto], dict[str, Array]]:
    nodes = [
        N("ReduceMean", ["x"], ["m0"], axes=[3]), N("GlobalAveragePool", ["x"], ["m1"]),
        N("AveragePool", ["x"], ["m2"], kernel_shape=[1, 41]), N("ReduceSum", ["x", "axis"], ["s"]),
        N("Div", ["s", "count"], ["m3"]), N("Identity", ["s"], ["sum"]),
    ]  # fmt: skip
    nodes += [N("Sub", ["x", f"m{i}"], [f"left{i}"]) for i in range(4)]
    return nodes, {"axis": np.array([3]), "count": np.float32(41)}


@pytest.mark.parametrize(("target", "level"), [*TARGETS, ("generic", "O3"), ("native", "O3")])
def test_nothing_is_left_of_equal_elements_without_their_mean(target: str, level: str, tmp_path: Path) -> None:
    """Of a blank image, or of silence: what is left is divided by a deviation that is as small."""
    x = np.tile(np.arange(1, 17, dtype=np.float32)[:, None], 41).reshape(1, 16, 1, 41)
    nodes, given = _means()
    got = answers(tmp_path, nodes, {"x": x}, target, level, given, opset=17)
    for i in range(4):
        assert not got[f"left{i}"].any(), i


def test_nothing_is_left_of_grey_without_the_mean_of_its_colours(tmp_path: Path) -> None:
    """Of seven bands: seven times 3 times the inverse of 7 is more than 3."""
    x = np.arange(1, 200, dtype=np.float32)
    bands = [f"x{i}" for i in range(7)]
    nodes = [N("Mean", bands, ["m"]), N("Sub", ["x0", "m"], ["y"])]
    got = answers(tmp_path, nodes, dict.fromkeys(bands, x), "generic", "O2", opset=17)
    assert not got["y"].any()


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_products_of_elements_are_rounded_before_a_step(level: str, tmp_path: Path) -> None:
    """10 * 0.1 - 1 is 0, and a little more where the product is not rounded."""
    x = np.array([[k, 0.1] for k in range(1, 65)], np.float32)
    nodes = [
        N("ReduceProd", ["x"], ["p"], axes=[1]), N("Sub", ["p", "one"], ["a"]), N("Ceil", ["a"], ["y"]),
        N("ReduceProd", ["t"], ["q"], axes=[0]), N("Sub", ["q", "one"], ["b"]), N("Ceil", ["b"], ["z"]),
    ]  # fmt: skip
    got = answers(tmp_path, nodes, {"x": x, "t": x.T.copy()}, "x86-64-v3", level, {"one": np.float32(1)}, opset=17)
    wanted = np.ceil(x[:, :1] * x[:, 1:] - np.float32(1))
    np.testing.assert_array_equal(got["y"], wanted)
    np.testing.assert_array_equal(got["z"], wanted.T)


def test_means_of_equal_bytes_are_such_a_byte(tmp_path: Path) -> None:
    """Their sum is a whole number, which 1 / 41 times the scale would be multiplied by."""
    q = np.tile(np.arange(-50, 14, dtype=np.int8)[:, None], 41).reshape(1, 64, 1, 41)
    nodes, given = _means()
    nodes = [N("DequantizeLinear", ["q", "scale", "zero"], ["x"]), *nodes]
    given |= {"scale": np.float32(0.25), "zero": np.int8(3)}
    got = answers(tmp_path, nodes, {"q": q}, "generic", "O2", given, opset=17)
    for i in range(4):
        assert not got[f"left{i}"].any(), i


@pytest.mark.parametrize("extents", [[1, 5], [1, "n"]])
def test_bytes_in_a_window_are_divided_as_exactly_where_extents_are_those_of_the_run(
    extents: list[int | str], tmp_path: Path
) -> None:
    """49 times 10 tenths, over 49, is 1, which Floor behind an Add of so many columns makes 0 of if it is less."""
    nodes = [
        N("DequantizeLinear", ["q", "tenth"], ["x"]), N("AveragePool", ["x"], ["a"], kernel_shape=[49]),
        N("Reshape", ["a", "row"], ["b"]), N("Add", ["b", "c"], ["s"]), N("Floor", ["s"], ["y"]),
    ]  # fmt: skip
    ports = [
        helper.make_tensor_value_info("q", TensorProto.INT8, [1, 1, 49]),
        helper.make_tensor_value_info("c", TensorProto.FLOAT, extents),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, extents),
    ]
    given = [numpy_helper.from_array(np.float32(0.1), "tenth"), numpy_helper.from_array(np.array([1, 1]), "row")]
    graph = helper.make_graph(nodes, "g", ports[:2], ports[2:], given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    mccompile.compile(model, tmp_path / "out", target="generic", dims={"n": "1..8"} if "n" in extents else {})
    feeds = {"q": np.full((1, 1, 49), 10, np.int8), "c": np.zeros((1, 5), np.float32)}
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run(feeds)["y"], np.ones((1, 5)))


_SIZES = {
    "squares": [N("Mul", ["d", "d"], ["dd"]), N("ReduceSum", ["dd", "last"], ["n2"]), N("Sqrt", ["n2"], ["n"])],
    "largest": [N("Abs", ["d"], ["a"]), N("ReduceMax", ["a"], ["n"], axes=[1])],
    "product": [
        N("Reshape", ["d", "rows"], ["r"]), N("Reshape", ["d", "columns"], ["c"]), N("MatMul", ["r", "c"], ["m"]),
        N("Reshape", ["m", "one"], ["n2"]), N("Sqrt", ["n2"], ["n"]),
    ],
    "ones": [N("Mul", ["d", "d"], ["dd"]), N("MatMul", ["dd", "ones"], ["n2"]), N("Sqrt", ["n2"], ["n"])],
    "einsum": [
        N("Einsum", ["d", "d"], ["e"], equation="bi,bi->b"), N("Reshape", ["e", "one"], ["n2"]),
        N("Sqrt", ["n2"], ["n"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize("divided", [[N("Div", ["d", "s"], ["y"])],
                                     [N("Reciprocal", ["s"], ["i"]), N("Mul", ["d", "i"], ["y"])]])  # fmt: skip
def test_a_difference_that_is_0_is_so_by_its_size(
    size: str, divided: list[onnx.NodeProto], tmp_path: Path
) -> None:
    """The difference is computed in the kernel of its size, and again in that of the quotient."""
    x = np.arange(1, 65, dtype=np.float32).reshape(4, 16) * np.float32(7.3)
    nodes = [N("Mul", ["x", "tenth"], ["p"]), N("Sub", ["p", "q"], ["d"]), *_SIZES[size]]
    nodes += [N("Add", ["n", "tiny"], ["s"]), *divided]
    shapes = {"one": [4, 1], "rows": [4, 1, 16], "columns": [4, 16, 1], "last": [1]}
    given: dict[str, Array] = {"tenth": np.float32(0.1), "tiny": np.float32(1e-12)}
    given["ones"] = np.ones((16, 1), np.float32)
    given |= {name: np.array(shape) for name, shape in shapes.items()}
    got = answers(tmp_path, nodes, {"x": x, "q": x * np.float32(0.1)}, "x86-64-v3", "O2", given, opset=13)
    assert not got["y"].any()


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_means_that_a_product_picks_are_as_exact(target: str, tmp_path: Path) -> None:
    """By rows of one 1."""
    q = np.tile(np.array([10, 20, 30, 50], np.int8)[:, None], 47)[None]
    nodes = [
        N("DequantizeLinear", ["q", "tenth"], ["b"]), N("AveragePool", ["b"], ["a"], kernel_shape=[47]),
        N("Reshape", ["a", "row"], ["m"]), N("MatMul", ["m", "picks"], ["o"]), N("Floor", ["o"], ["means"]),
    ]  # fmt: skip
    given = {"tenth": np.float32(0.1), "row": np.array([1, 4]), "picks": np.eye(4, dtype=np.float32)[:, ::-1].copy()}
    got = answers(tmp_path, nodes, {"q": q}, target, "O2", given, opset=13)
    np.testing.assert_array_equal(got["means"], [[5, 3, 2, 1]])


def test_places_of_regions_and_ends_of_ranges_are_those_of_rounded_products(tmp_path: Path) -> None:
    """310 * 0.1 - 29 is 2; by one instruction it is 2.0000005: another pixel, and one more number."""
    x = np.random.default_rng(0).normal(size=(1, 4, 8, 8)).astype(np.float32)
    nodes = [
        N("Mul", ["p", "tenth"], ["q"]), N("Sub", ["q", "first"], ["r"]),
        N("RoiAlign", ["x", "r", "image"], ["y"], output_height=1, output_width=1, sampling_ratio=0),
        N("RoiAlign", ["x", "exact", "image"], ["z"], output_height=1, output_width=1, sampling_ratio=0),
    ]  # fmt: skip
    p, first = np.array([[10, 10, 310, 310]], np.float32), np.array([0, 0, 29, 29], np.float32)
    given = {"tenth": np.float32(0.1), "first": first, "image": np.zeros(1, np.int64)}
    feeds = {"x": x, "p": p, "exact": p * np.float32(0.1) - first}
    got = answers(tmp_path, nodes, feeds, "x86-64-v3", "O2", given, opset=16)
    np.testing.assert_allclose(got["y"], got["z"], rtol=1e-5)
    port, result = (helper.make_tensor_value_info(*v) for v in (("p", 1, []), ("y", 1, ["n"])))
    nodes = [*nodes[:2], N("Range", ["zero", "r", "one"], ["y"])]
    numbers = {"tenth": 0.1, "first": 29, "zero": 0, "one": 1}
    held = [numpy_helper.from_array(np.float32(v), name) for name, v in numbers.items()]
    graph = helper.make_graph(nodes, "g", [port], [result], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=9)
    mccompile.compile(model, tmp_path / "range", target="x86-64-v3", bounds={"n": 9})
    found = mccompile.load(tmp_path / "range").run({"p": np.float32(310)})["y"]
    np.testing.assert_array_equal(found, [0, 1])
