"""Answers that are exact or wrong: powers, shifts and rounding of whole numbers, roundings to f16 on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from tests.support.targets import needs_target

Array = np.ndarray[Any, np.dtype[Any]]
N = helper.make_node
TARGETS = [("generic", "O2"), ("native", "O2")]


def answers(
    folder: Path, nodes: Sequence[onnx.NodeProto], feeds: Mapping[str, Array], target: str, level: str,
    constants: Mapping[str, Array] | None = None, opset: int = 23,
) -> dict[str, Array]:  # fmt: skip
    """What a network of ``nodes`` answers; every result that no node reads is an output."""
    inputs = [
        helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in feeds.items()
    ]
    read = {i for n in nodes for i in n.input}
    outputs = [onnx.ValueInfoProto(name=o) for n in nodes for o in n.output if o and o not in read]
    initializers = [numpy_helper.from_array(v, k) for k, v in (constants or {}).items()]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    mccompile.compile(folder / "m.onnx", folder / "out", target=target, opt_level=level)
    return mccompile.load(folder / "out").run(dict(feeds))


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_infinite_operands_of_a_sum_of_powers(target: str, level: str, tmp_path: Path) -> None:
    """The largest is subtracted from all, but not where it is infinite: inf - inf is no number."""
    x = np.linspace(-1, 1, 5 * 40).reshape(5, 40).astype(np.float32)
    x[0, 3], x[1], x[2, 4], x[3, 7] = np.inf, -np.inf, np.nan, -np.inf
    nodes = [N("ReduceLogSumExp", ["x"], ["y"], axes=[1], keepdims=0)]
    got = answers(tmp_path, nodes, {"x": x}, target, level, opset=13)["y"]
    finite = np.log(np.exp(x[3:].astype(np.float64)).sum(axis=1))
    np.testing.assert_allclose(got, [np.inf, -np.inf, np.nan, *finite], rtol=1e-6)


def _graph(nodes: Sequence[onnx.NodeProto], inputs: Sequence[str], outputs: Sequence[str]) -> onnx.GraphProto:
    kinds = {"i": (TensorProto.INT64, []), "go": (TensorProto.BOOL, []), "on": (TensorProto.BOOL, [])}
    infos = [[helper.make_tensor_value_info(v, *kinds.get(v, (TensorProto.FLOAT, [200]))) for v in side]
             for side in (inputs, outputs)]  # fmt: skip
    return helper.make_graph(list(nodes), "inside", *infos)


@pytest.mark.parametrize(("target", "level"), [("generic", "O3"), ("native", "O3")])
def test_quotients_inside_that_are_rounded_outside(target: str, level: str, tmp_path: Path) -> None:
    """41 times the inverse of 41 is less than 1, of which Floor makes 0: behind a branch or a loop that divides, too,
    and in its next turn."""
    x = 41 * np.arange(1, 201, dtype=np.float32)
    on = N("Identity", ["go"], ["on"])
    cases = [_graph([N("Div", ["x", by], [out])], [], [out]) for by, out in (("k", "a"), ("m", "b"))]
    last = _graph([on, N("Max", ["s", "x"], ["o"]), N("Div", ["o", "k"], ["t"])], ["i", "go", "s"], ["on", "t"])
    later = [on, N("Div", ["x", "k"], ["t"]), N("Floor", ["s"], ["r"])]
    row = _graph(later, ["i", "go", "s"], ["on", "t", "r"])
    nodes = [
        N("If", ["c"], ["if"], then_branch=cases[0], else_branch=cases[1]),
        N("Loop", ["turns", "", "x"], ["loop"], body=last),
        N("Loop", ["turns", "", "x"], ["", "rows"], body=row),
        N("Floor", ["if"], ["of_if"]), N("Cast", ["loop"], ["of_loop"], to=TensorProto.INT64),
    ]  # fmt: skip
    given = {"k": np.float32(41), "m": np.float32(43), "turns": np.array(4)}
    got = answers(tmp_path, nodes, {"x": x, "c": np.array([True])}, target, level, given, opset=17)
    whole = np.arange(1, 201)
    np.testing.assert_array_equal(got["of_if"], whole)
    np.testing.assert_array_equal(got["of_loop"], whole)
    np.testing.assert_array_equal(got["rows"], [x, whole, whole, whole])


@pytest.mark.parametrize(("target", "level"), [("generic", "O3"), ("native", "O3")])
def test_quotients_that_are_counted_compared_or_divided_by(target: str, level: str, tmp_path: Path) -> None:
    """What an operator compares for itself is a step, too: places of what is not 0, of the least and the largest,
    elements that are equal, thresholds; and 1 / (41 / 41 - 1) is infinite."""
    whole = np.arange(1, 201, dtype=np.float32)
    lines = np.arange(200, dtype=np.float32)[:, None] * [0, 9, 0, 9] + np.array([0, 0, 1, 5], np.float32)
    two = {"axis": 0, "keepdims": 0}
    nodes = [
        N("Div", ["x", "k"], ["q"]), N("Sub", ["q", "w"], ["d"]), N("NonZero", ["d"], ["places"]),
        N("Concat", ["q", "w"], ["twice"], axis=0), N("Unique", ["twice"], ["once"]),
        N("Unsqueeze", ["q", "0"], ["row"]), N("Concat", ["v", "row"], ["after"], axis=0),
        N("Concat", ["row", "v"], ["before"], axis=0), N("ArgMin", ["after"], ["least"], **two),
        N("ArgMax", ["before"], ["largest"], **two), N("Hardmax", ["before"], ["hard"], axis=0),
        N("TopK", ["before", "1"], ["", "first"], axis=0), N("Reciprocal", ["d"], ["pole"]),
        N("Reshape", ["q", "shape"], ["scores"]),
        N("NonMaxSuppression", ["lines", "scores", "all", "", "least score"], ["boxes"]),
    ]  # fmt: skip
    constants: dict[str, Array] = {
        "k": np.array(41, np.float32), "w": whole, "v": whole[None], "0": np.array([0]), "1": np.array([1]),
        "lines": lines[None].astype(np.float32), "all": np.array([200]), "shape": np.array([1, 1, 200]),
        "least score": np.array([47], np.float32),
    }  # fmt: skip
    got = answers(tmp_path, nodes, {"x": 41 * whole}, target, level, constants, opset=17)
    assert got["places"].size == 0
    np.testing.assert_array_equal(got["once"], whole)
    for name in ("least", "largest", "first"):
        assert not got[name].any(), name
    np.testing.assert_array_equal(got["hard"], [whole * 0 + 1, whole * 0])
    assert np.isinf(got["pole"]).all()
    np.testing.assert_array_equal(got["boxes"][:, 2], np.arange(199, 46, -1))


@pytest.mark.parametrize(("target", "level"), [("generic", "O3"), ("native", "O3")])
def test_quotients_that_are_put_among_others(target: str, level: str, tmp_path: Path) -> None:
    x = 41 * np.arange(1, 41, dtype=np.float32)
    nodes = [
        N("Div", ["x", "k"], ["q"]), N("ScatterND", ["zeros", "places", "q"], ["a"]), N("Floor", ["a"], ["known"]),
        N("ScatterElements", ["zeros", "i", "q"], ["b"], reduction="max"), N("Floor", ["b"], ["given"]),
    ]  # fmt: skip
    constants = {"k": np.float32(41), "zeros": np.zeros(50, np.float32), "places": np.arange(40)[:, None] + 3}
    got = answers(tmp_path, nodes, {"x": x, "i": np.arange(40) + 3}, target, level, constants, opset=18)
    want = np.pad(np.arange(1, 41), (3, 7))
    np.testing.assert_array_equal(got["known"], want)
    np.testing.assert_array_equal(got["given"], want)


@pytest.mark.parametrize(("target", "level"), [("generic", "O3"), ("native", "O3")])
def test_clipped_sums_that_are_rounded(target: str, level: str, tmp_path: Path) -> None:
    """A HardSigmoid multiplies before it adds; behind Floor that would be another number of a bin."""
    x = np.arange(-100, 400, dtype=np.float32)
    scale = np.float32(1) / np.float32(41)
    nodes = [
        N("Add", ["x", "k"], ["s"]), N("Clip", ["s", "low", "high"], ["c"]), N("Mul", ["c", "scale"], ["y"]),
        N("Floor", ["y"], ["bin"]), N("Cast", ["y"], ["i"], to=TensorProto.INT32),
    ]  # fmt: skip
    given = {"k": np.float32(41), "low": np.float32(0), "high": np.float32(420), "scale": scale}
    got = answers(tmp_path, nodes, {"x": x}, target, level, given, opset=17)
    want = np.floor(np.clip(x + 41, 0, 420) * scale)
    np.testing.assert_array_equal(got["bin"], want)
    np.testing.assert_array_equal(got["i"], want)


@pytest.mark.parametrize(("target", "level"), [*TARGETS, ("native", "O3"), ("x86-64-v3", "O2")])
def test_products_round_before_a_step_takes_their_sum(target: str, level: str, tmp_path: Path) -> None:
    """One instruction for x * 0.1 - 1 has 1.49e-8 for 10, of which Ceil makes 1; a * a - a * a is not 0 by one."""
    x = np.arange(1, 301, dtype=np.float32) * np.float32(1.1)
    tenth = np.float32(0.1)
    nodes = [
        N("Mul", ["x", "tenth"], ["p"]), N("Sub", ["p", "one"], ["less"]), N("Ceil", ["less"], ["up"]),
        N("Mul", ["x", "x"], ["q"]), N("Mul", ["a", "c"], ["r"]), N("Sub", ["q", "r"], ["e"]),
        N("Sqrt", ["e"], ["root"]), N("Sign", ["e"], ["sign"]), N("Sub", ["p", "y"], ["f"]),
        N("Equal", ["f", "zero"], ["same"]),
    ]  # fmt: skip
    given = {"tenth": tenth, "one": np.float32(1), "zero": np.float32(0)}
    got = answers(tmp_path, nodes, {"x": x, "a": x, "c": x, "y": x * tenth}, target, level, given, opset=17)
    np.testing.assert_array_equal(got["up"], np.ceil(x * tenth - np.float32(1)))
    assert not got["root"].any()
    assert not got["sign"].any()
    assert got["same"].all()


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_powers_of_whole_numbers(target: str, level: str, tmp_path: Path) -> None:
    base = np.array([4097, 16777217, 3, 46340, 10001, -7, 2**31 + 3])
    ints = np.array([-1, -1, 1, 2, -2, 0, 5, -1])
    negative = np.array([-1, -2, -3, -1, -1, -1, 2**32 + 1, 2**32])
    ones = np.array([-1, -1], np.float32)
    feeds = {
        "b64": base, "f": np.array([2, 1, 3, 2, 2, 3, 1], np.float32), "i64": ints, "n64": negative,
        "i32": ints.astype(np.int32), "n32": np.clip(negative, -9, 9).astype(np.int32), "ones": ones,
        "odd": np.array([16777217, 16777218]),
    }  # fmt: skip
    nodes = [
        N("Pow", ["b64", "f"], ["y_float"]), N("Pow", ["i64", "n64"], ["y_i64"]), N("Pow", ["i32", "n32"], ["y_i32"]),
        N("Pow", ["i32", "n64"], ["y_wide"]), N("Pow", ["b64", "two"], ["y_two"]),
        N("Pow", ["i32", "half"], ["y_half"]), N("Pow", ["ones", "odd"], ["y_sign"]),
    ]  # fmt: skip
    got = answers(tmp_path, nodes, feeds, target, level, {"two": np.float32(2), "half": np.float32(0.5)})
    powers = [b**e for b, e in zip(base.tolist(), [2, 1, 3, 2, 2, 3, 1], strict=True)]
    np.testing.assert_array_equal(got["y_float"], powers)
    np.testing.assert_array_equal(got["y_two"], base**2)
    np.testing.assert_array_equal(got["y_i64"], [-1, 1, 1, 0, 0, 0, _wrapped(pow(5, 2**32 + 1, 2**64), 64), 1])
    np.testing.assert_array_equal(got["y_i32"], [-1, 1, 1, 0, 0, 0, _wrapped(5**9, 32), -1])
    np.testing.assert_array_equal(got["y_wide"], [-1, 1, 1, 0, 0, 0, _wrapped(pow(5, 2**32 + 1, 2**32), 32), 1])
    np.testing.assert_array_equal(got["y_half"][[2, 3, 5]], [1, 1, 0])
    np.testing.assert_array_equal(got["y_sign"], [-1, 1])


def _wrapped(value: int, bits: int) -> int:
    """A number as a signed integer of so many bits."""
    low = value % 2**bits
    return low - 2**bits if low >= 2 ** (bits - 1) else low


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_shifts_of_signed_numbers(target: str, level: str, tmp_path: Path) -> None:
    """Counts below 0 and from the width on leave the sign (BitShift-28)."""
    for dtype in (np.int8, np.int16, np.int32, np.int64):
        info = np.iinfo(dtype)
        x, by = (a.reshape(-1) for a in np.meshgrid(
            np.array([info.min, -77, -1, 0, 1, 77, info.max], dtype),
            np.array([info.min, -1, 0, 1, info.bits - 1, info.bits, info.max if info.bits == 8 else 100], dtype),
        ))  # fmt: skip
        nodes = [N("BitShift", ["x", "by"], [f"y_{d}"], direction=d) for d in ("LEFT", "RIGHT")]
        got = answers(tmp_path, nodes, {"x": x, "by": by}, target, level, opset=onnx.defs.onnx_opset_version())
        for a, b, left, right in zip(x.tolist(), by.tolist(), got["y_LEFT"], got["y_RIGHT"], strict=True):
            inside = 0 <= b < info.bits
            assert left == (_wrapped(a << b, info.bits) if inside else 0)
            assert right == (a >> b if inside else -(a < 0))


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_round_to_the_nearest_even(target: str, level: str, tmp_path: Path) -> None:
    near = [0.49999997, 0.5, 0.50000006, 1.5, 2.5, 3.5, 0.3, 8388607.5, 8388609.0, 8388611.0, 16777215.0, np.inf]
    for dtype in (np.float32, np.float64):
        below = np.nextafter(dtype(0.5), dtype(0))
        x = np.array([*near, below, 2.0**52 + 1, 2.0**52 - 0.5, 0.0, np.nan], dtype)
        x = np.concatenate([x, -x])
        (got,) = answers(tmp_path, [N("Round", ["x"], ["y"])], {"x": x}, target, level).values()
        np.testing.assert_array_equal(got, np.rint(x))
        np.testing.assert_array_equal(np.signbit(got[~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))


@pytest.mark.parametrize(("target", "level"), TARGETS)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduced_bools(target: str, level: str, keepdims: int, tmp_path: Path) -> None:
    x = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1]], bool)
    nodes = [N(op, ["x", "axes"], [op], keepdims=keepdims) for op in ("ReduceMax", "ReduceMin")]
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"axes": np.array([1])})
    np.testing.assert_array_equal(got["ReduceMax"], x.max(1, keepdims=bool(keepdims)))
    np.testing.assert_array_equal(got["ReduceMin"], x.min(1, keepdims=bool(keepdims)))


@pytest.mark.parametrize(("target", "level"), TARGETS)
@pytest.mark.parametrize("convolved", [False, True])
def test_space_to_depth_by_columns(target: str, level: str, convolved: bool, tmp_path: Path) -> None:
    x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
    nodes = [N("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")]
    w = np.random.default_rng(0).integers(-2, 3, (5, 12, 1, 1)).astype(np.float32)
    want = x.reshape(2, 3, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 12, 2, 3)
    if convolved:
        nodes.append(N("Conv", ["y", "w"], ["z"]))
        want = np.einsum("nchw,oc->nohw", want, w[:, :, 0, 0])
    opset = onnx.defs.onnx_opset_version()
    (got,) = answers(tmp_path, nodes, {"x": x}, target, level, {"w": w} if convolved else None, opset).values()
    np.testing.assert_array_equal(got, want)


CAST = {"f64": TensorProto.DOUBLE, "f32": TensorProto.FLOAT, "i32": TensorProto.INT32, "bool": TensorProto.BOOL}


@pytest.mark.parametrize(("target", "level"), TARGETS)
@pytest.mark.parametrize("source", ["float64", "float32", "int32"])
def test_casts_through_f16_round(target: str, level: str, source: str, tmp_path: Path) -> None:
    x = np.array([1.2251461, 0.1, 65503.9, 1e-8, 3.14159, 2049.0, 4099.7, -2051.0]).astype(source)
    half = x.astype(np.float16)
    nodes = [N("Cast", ["x"], ["h"], to=TensorProto.FLOAT16), N("Neg", ["h"], ["n"])]
    nodes += [N("Cast", ["h"], [k], to=to) for k, to in CAST.items()]
    nodes += [N("Cast", ["n"], [f"{k}_neg"], to=to) for k, to in CAST.items()]
    nodes += [N("Floor", ["h"], ["floor"]), N("ArgMax", ["h"], ["arg"]), N("Equal", ["h", "n"], ["eq"])]
    nodes += [N("Greater", ["h", "edge"], ["gt"])]
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"edge": np.array(2048, np.float16)})
    dtypes = {"f64": np.float64, "f32": np.float32, "i32": np.int32, "bool": bool}
    for k, dtype in dtypes.items():
        np.testing.assert_array_equal(got[k], half.astype(dtype), k)
        np.testing.assert_array_equal(got[f"{k}_neg"], (-half).astype(dtype), f"{k}_neg")
    np.testing.assert_array_equal(got["floor"], np.floor(half))
    np.testing.assert_array_equal(got["gt"], half > np.float16(2048))


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_steps_of_sums_of_halves(target: str, level: str, tmp_path: Path) -> None:
    """2048 + 1 is 2048 in f16; so is what a cast, a comparison or a floor makes of it."""
    x = np.array([[2048, 1, 1024.5, 0.1]], np.float16)
    w = np.array([[1, 1], [1, -1], [0, 0], [0, 0]], np.float16)
    nodes = [
        N("Add", ["x", "one"], ["s"]), N("Cast", ["s"], ["i"], to=TensorProto.INT32), N("Equal", ["s", "x"], ["eq"]),
        N("MatMul", ["x", "w"], ["m"]), N("Cast", ["m"], ["j"], to=TensorProto.INT64),
    ]  # fmt: skip
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"one": np.array(1, np.float16), "w": w})
    s = x + np.float16(1)
    np.testing.assert_array_equal(got["i"], s.astype(np.int32))
    np.testing.assert_array_equal(got["eq"], s == x)
    np.testing.assert_array_equal(got["j"], np.array([[2048, 2047]], np.float16).astype(np.int64))


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_thresholds_and_exponents_of_sums_of_halves(target: str, level: str, tmp_path: Path) -> None:
    """Operators jump that are no steps by their type: 2048 + 1 is not above 2048 in f16, and is even."""
    nodes = [
        N("Add", ["x", "one"], ["s"]), N("ThresholdedRelu", ["s"], ["t"], alpha=2048.0),
        N("Shrink", ["s"], ["u"], lambd=2048.0), N("Pow", ["minus", "s"], ["v"]), N("Hardmax", ["s"], ["w"]),
    ]  # fmt: skip
    constants = {"one": np.array([0, 1], np.float16), "minus": np.array(-1, np.float16)}
    got = answers(tmp_path, nodes, {"x": np.full((1, 2), 2048, np.float16)}, target, level, constants)
    for name, want in (("t", [0, 0]), ("u", [0, 0]), ("v", [1, 1]), ("w", [1, 0])):
        np.testing.assert_array_equal(got[name], [want], name)


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_choices_at_0_that_do_not_meet_there(target: str, level: str, tmp_path: Path) -> None:
    """Half of the least number of f16 is 0: 0 is not moved by `bias`, but every number above is."""
    nodes = [N("Mul", ["x", "half"], ["s"]), N("Shrink", ["s"], ["y"], lambd=0.0, bias=1.0)]
    x = np.array([[2.0**-24, -(2.0**-24), 4.0]], np.float16)
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"half": np.array(0.5, np.float16)})["y"]
    np.testing.assert_array_equal(got, [[0, 0, 1]])


JUMPS = [
    (N("Hardmax", ["s"], ["y"]), [[1, 0]]), (N("MaxPool", ["s"], ["m", "y"], kernel_shape=[2]), [[0]]),
    (N("NonZero", ["s"], ["y"]), [[]] * 3), (N("Pow", ["minus", "s"], ["y"]), [[1, 1]]),
    (N("ThresholdedRelu", ["s"], ["y"], alpha=256.0), [[0, 0]]), (N("IsInf", ["s"], ["y"]), [[0, 1]]),
    (N("QuantizeLinear", ["s", "scale", "zero"], ["y"], domain="com.microsoft"), [[32, 32]]),
]  # fmt: skip


@pytest.mark.parametrize(("node", "want"), JUMPS, ids=[node.op_type for node, _ in JUMPS])
def test_bfloat16_is_rounded_before_what_jumps(node: onnx.NodeProto, want: Sequence[Any], tmp_path: Path) -> None:
    """256 + 1 is 256 in bfloat16, 1.9996 * 2^127 is infinite, half of the least number is 0; 260 + 1 is 260, a tie
    of a scale of 8: operators of other domains jump, too."""
    others = {"NonZero": ([0, 2.0**-133], 0.5), "IsInf": ([0, 181 * 2.0**120], 181 / 128)}
    others["QuantizeLinear"] = [260, 260], 1
    x, one = others.get(node.op_type, ([256, 256], 1))
    bits = [np.array(v, np.float32).view(np.uint32).astype(np.uint32) + 0x7FFF >> 16 for v in (x, [1, one])]
    ports = [helper.make_tensor_value_info(v, TensorProto.BFLOAT16, [1, 1, 2]) for v in ("x", "by")]
    by = "Mul" if node.op_type in ("NonZero", "IsInf") else "Add"
    minus = helper.make_tensor("minus", TensorProto.BFLOAT16, [], [-1.0])
    scale = helper.make_tensor("scale", TensorProto.BFLOAT16, [], [8.0])
    zero = helper.make_tensor("zero", TensorProto.UINT8, [], [0])
    outputs = [onnx.ValueInfoProto(name="y")]
    graph = helper.make_graph([N(by, ["x", "by"], ["s"]), node], "g", ports, outputs, [minus, scale, zero])
    domains = [helper.make_opsetid("", 22), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic")
    given = {n: b.astype(np.uint16).reshape(1, 1, 2) for n, b in zip(("x", "by"), bits, strict=True)}
    if by == "Add":
        given["by"][0, 0, 0] = 0
    got = mccompile.load(tmp_path / "out").run(given)["y"]
    value = got.astype(np.uint32) << 16 if got.dtype == np.uint16 else got
    value = value.view(np.float32) if got.dtype == np.uint16 else value
    np.testing.assert_array_equal(value.reshape(np.shape(want)), want)


def test_bfloat16_behind_a_branch(tmp_path: Path) -> None:
    """What a branch captures and gives is rounded in and behind it: 256 + 1 is 256, and no larger."""
    ports = [helper.make_tensor_value_info(v, TensorProto.BFLOAT16, [1]) for v in ("x", "by")]
    ports.append(helper.make_tensor_value_info("go", TensorProto.BOOL, [1]))
    bodies = [
        helper.make_graph([N("Add", ["x", by], [o]), N("Greater", [in_, "x"], [f"{o}_inside"])], o, [],
                          [onnx.ValueInfoProto(name=v) for v in (o, f"{o}_inside")])
        for o, by, in_ in (("a", "by", "s"), ("b", "x", "s"))
    ]  # fmt: skip
    nodes = [N("Add", ["x", "by"], ["s"]), N("If", ["go"], ["t", "inside"], then_branch=bodies[0],
             else_branch=bodies[1]), N("Greater", ["t", "x"], ["behind"])]  # fmt: skip
    outputs = [onnx.ValueInfoProto(name=v) for v in ("inside", "behind")]
    graph = helper.make_graph(nodes, "g", ports, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
    mccompile.compile(model, tmp_path / "out", target="generic")
    given = {"x": np.array([0x4380], np.uint16), "by": np.array([0x3F80], np.uint16)}
    for go in (True, False):
        got = mccompile.load(tmp_path / "out").run({**given, "go": np.array([go])})
        assert not got["inside"][0]
        assert got["behind"][0] == (not go)


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_empty_parts_of_a_split(target: str, level: str, tmp_path: Path) -> None:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    nodes = [N("Split", ["x"], ["a", "b", ""], axis=1, num_outputs=3), N("Split", ["x", "s"], ["c", "", "d"], axis=1)]
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"s": np.array([1, 0, 3])})
    for name, part in (("a", x[:, :2]), ("b", x[:, 2:]), ("c", x[:, :1]), ("d", x[:, 1:])):
        np.testing.assert_array_equal(got[name], part)


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_roots_of_whole_numbers_are_cut_off(target: str, level: str, tmp_path: Path) -> None:
    x = np.array([[3, 4, 0], [1, 2, 3], [2**20, 1, 2]], np.int64)
    node = N("ReduceL2", ["x", "axes"], ["y"], keepdims=0)
    got = answers(tmp_path, [node], {"x": x}, target, level, {"axes": np.array([1])})["y"]
    np.testing.assert_array_equal(got, [5, 3, 2**20])


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_places_outside_of_a_region_have_no_tap(target: str, level: str, tmp_path: Path) -> None:
    """Of a cubic sample far outside, no tap is inside, so that there is nothing to divide by."""
    x = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    constants = {"roi": np.array([0, 0, 0, -3, 1, 1, 1, 1], np.float32), "sizes": np.array([1, 1, 2, 5])}
    how = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 70.0}
    nodes = [N("Resize", ["x", "roi", "", "sizes"], ["y"], mode="cubic", exclude_outside=1, **how)]
    got = answers(tmp_path, nodes, {"x": x}, target, level, constants)["y"]
    np.testing.assert_allclose(got[0, 0, :, [0, 1, 2]], np.full((3, 2), 70.0))
    np.testing.assert_allclose(got[0, 0, :, [3, 4]], x[0, 0, :, [0, 3]], atol=1e-6)


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_huge_coefficients_have_no_finite_weights(target: str, level: str, tmp_path: Path) -> None:
    """What a file asks for overflows without a warning of numpy; where the sample is an element, it is that."""
    x = np.arange(4, dtype=np.float32).reshape(1, 1, 1, 4)
    constants = {"sizes": np.array([1, 1, 1, 7])}
    how = {"coordinate_transformation_mode": "align_corners", "cubic_coeff_a": 3e38}
    nodes = [N("Resize", ["x", "", "", "sizes"], ["y"], mode="cubic", **how)]
    got = answers(tmp_path, nodes, {"x": x}, target, level, constants)["y"]
    assert got.shape == (1, 1, 1, 7)
    assert not np.isfinite(got).all()


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_the_mean_of_a_window_of_padding_is_0(target: str, level: str, tmp_path: Path) -> None:
    x = np.arange(1, 13, dtype=np.float32).reshape(1, 3, 2, 2)
    how = {"kernel_shape": [2, 2], "dilations": [3, 2], "pads": [1, 1, 2, 1]}
    nodes = [N("AveragePool", ["x"], ["y"], **how), N("AveragePool", ["x"], ["padded"], count_include_pad=1, **how)]
    volumes = [N("Unsqueeze", ["x", "axis"], ["v"])]
    volumes += [N("AveragePool", ["v"], ["w"], kernel_shape=[1, 2, 2], dilations=[1, 3, 2], pads=[0, 1, 1, 0, 2, 1])]
    got = answers(tmp_path, [*nodes, *volumes], {"x": x}, target, level, {"axis": np.array(2)}, opset=19)
    want = np.zeros((1, 3, 2, 2), np.float32)
    want[:, :, 1] = x[:, :, 0, ::-1]  # the windows of the first row read between the rows that there are
    np.testing.assert_array_equal(got["y"], want)
    np.testing.assert_array_equal(got["w"][:, :, 0], want)
    np.testing.assert_array_equal(got["padded"], want / 4)
    model = helper.make_model(
        helper.make_graph([nodes[0]], "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, "h", 2])],
                          [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]),
        opset_imports=[helper.make_opsetid("", 19)], ir_version=10,
    )  # fmt: skip
    mccompile.compile(model, tmp_path / "out", target=target, opt_level=level, dims={"h": "1..9"})
    np.testing.assert_array_equal(mccompile.load(tmp_path / "out").run(x)["y"], want)


FRACTIONS = [("int8", -1.0), ("uint8", 0.5), ("int32", 1.7), ("uint32", 0.5), ("int64", 0.5), ("int64", 0.0)]


@pytest.mark.parametrize(("dtype", "bias"), FRACTIONS)
@pytest.mark.parametrize("lambd", [0.0, 0.5, 1.0, 300.0])
def test_fractions_that_shrink_whole_numbers(dtype: str, bias: float, lambd: float, tmp_path: Path) -> None:
    """Neither `lambd` nor `bias` is of the operand's type: no u8 is below -1, and 2 - 0.5 is 1."""
    x = np.array([0, 1, 2, 3, 126, -2, -3, -90]).astype(dtype)
    got = answers(tmp_path, [N("Shrink", ["x"], ["y"], lambd=lambd, bias=bias)], {"x": x}, "generic", "O2")["y"]
    real = x.astype(np.float64)
    want = np.where(real < -lambd, real + bias, np.where(real > lambd, real - bias, 0))
    np.testing.assert_array_equal(got, want.astype(np.int64).astype(dtype))


@pytest.mark.parametrize(
    ("alpha", "beta"), [(0.5, 1.0), (1.0, 0.5), (1.5, -1.0), (2.0, 3.0), (-1.0, 0.25), (0.5, 0.0)]
)
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32"])
@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_fractions_of_whole_products(
    alpha: float, beta: float, dtype: str, target: str, level: str, tmp_path: Path
) -> None:
    """`alpha` and `beta` of Gemm are floats, whatever its matrices are of: 0.5 is not 0."""
    a, b, c = (np.arange(m * n).reshape(m, n).astype(dtype) for m, n in ((5, 3), (3, 9), (1, 9)))
    node = N("Gemm", ["a", "b", "c"], ["y"], alpha=alpha, beta=beta)
    got = answers(tmp_path, [node], {"a": a, "b": b, "c": c}, target, level)["y"]
    want = alpha * (a.astype(np.float64) @ b) + beta * c
    np.testing.assert_array_equal(got, np.trunc(want).astype(np.int64).astype(dtype))


@pytest.mark.parametrize(("target", "level"), [*TARGETS, ("x86-64-v3", "O2"), ("x86-64-v2", "O2")])
def test_the_whole_number_0_has_no_sign(target: str, level: str, tmp_path: Path) -> None:
    """What is rounded to it from below is 0 when it comes back from bytes, and not -0."""
    nodes = [
        N("MatMulInteger", ["x", "w"], ["sum"]), N("Cast", ["sum"], ["float"], to=TensorProto.FLOAT),
        N("Mul", ["float", "factor"], ["small"]), N("QuantizeLinear", ["small", "scale", "zero"], ["q"]),
        N("DequantizeLinear", ["q", "scale", "zero"], ["d"]), N("Reciprocal", ["d"], ["y"]),
    ]  # fmt: skip
    constants = {
        "w": np.ones((8, 20), np.int8), "factor": np.array(0.0002, np.float32), "scale": np.array(0.1, np.float32),
        "zero": np.array(0, np.int8),
    }  # fmt: skip
    x = {"x": np.full((4, 8), -1, np.int8)}
    assert (answers(tmp_path, nodes, x, needs_target(target), level, constants)["y"] == np.inf).all()


@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_rows_far_from_0_less_their_means(target: str, level: str, tmp_path: Path) -> None:
    """What scalers of tables leave of places in one town, years, pressures: exact in f32, before the first layer."""
    r = np.random.default_rng(0)
    deviation, w = np.full(16, 0.03, np.float32), r.standard_normal((16, 5)).astype(np.float32)
    mean = r.uniform(-90, 90, 16).astype(np.float32)
    x = (mean + r.standard_normal((6, 16)) * deviation).astype(np.float32)
    nodes = [N("Sub", ["x", "m"], ["c"]), N("Div", ["c", "d"], ["s"]), N("Gemm", ["s", "w"], ["y"])]
    got = answers(tmp_path, nodes, {"x": x}, target, level, {"m": mean, "d": deviation, "w": w})["y"]
    want = ((x.astype(np.float64) - mean) / deviation) @ w
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("columns", [3, 5, 300])
@pytest.mark.parametrize(("target", "level"), TARGETS)
def test_no_part_of_a_vector_is_longer_than_it(target: str, level: str, columns: int, tmp_path: Path) -> None:
    """Vectors along an axis, of length 1: of more the angle would be no number."""
    x = np.zeros((900, columns), np.float32)
    x[np.arange(900), np.arange(900) % columns] = np.arange(1, 901) * np.float32(0.01)
    given = {"axes": np.array([1]), "least": np.float32(1e-12)}
    nodes = [N("ReduceL2", ["x", "axes"], ["n"]), N("Max", ["n", "least"], ["m"]), N("Div", ["x", "m"], ["y"])]
    y = answers(tmp_path, nodes, {"x": x}, target, level, given)["y"]
    assert np.isfinite(y).all()
    np.testing.assert_array_equal(np.abs(y).max(1), 1)


def test_a_row_with_nan_has_no_largest_whether_it_is_constant_or_not(tmp_path: Path) -> None:
    rows = np.array([[1, np.nan, 2], [np.nan, np.nan, np.nan], [3, 5, 5]], np.float32)
    nodes = [N("Hardmax", ["x"], ["y"]), N("Hardmax", ["c"], ["z"])]
    got = answers(tmp_path, nodes, {"x": rows}, "generic", "O2", {"c": rows})
    for name in "yz":
        np.testing.assert_array_equal(got[name], [[0, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_regions_that_are_no_numbers_have_no_samples(tmp_path: Path) -> None:
    """As constants, too."""
    regions = np.array([[0, 0, np.nan, 2], [0, 0, 3, 3]], np.float32)
    image, places = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4), np.zeros(2, np.int64)
    attrs: dict[str, Any] = {"output_height": 2, "output_width": 2, "coordinate_transformation_mode": "half_pixel"}
    nodes = [N("RoiAlign", ["x", "r", "p"], ["y"], **attrs), N("RoiAlign", ["i", "c", "p"], ["z"], **attrs)]
    constants = {"i": image, "c": regions, "p": places}
    got = answers(tmp_path, nodes, {"x": image, "r": regions}, "generic", "O2", constants)
    np.testing.assert_array_equal(got["y"][0], 0)
    np.testing.assert_array_equal(got["y"], got["z"])
