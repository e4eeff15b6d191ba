"""Quantised networks are judged layer by layer: ties are told from what is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile import driver
from mccompile.check import own_graph
from mccompile.check.check import CheckResult, check
from mccompile.check.compare import compare
from mccompile.check.drawn import random_inputs
from mccompile.check.own_graph import _alike_unsure
from mccompile.check.parts import part_of
from mccompile.check.reference import Expected, open_judge
from mccompile.check.standing import carried, standing_for
from mccompile.check.ties import Ties, _is_tie, _moved, explained, judge_layers, rounded_names
from mccompile.check.trace import Trace, _as_reference
from mccompile.driver import Compilation, Options
from mccompile.ir import expr as ex
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.types import F32, I64, U8, TensorType
from mccompile.onnxio import tensor_names
from mccompile.ops.frontend import Import
from mccompile.ops.registry import front_ends, lookup
from mccompile.ops.text import TEXT
from tests._skips import needs_shared
from tests.support.quantised import Net, residual
from tests.support.small_models import Maker
from tests.support.targets import needs_target


def _judged(path: Path, spoil: float = 0, wrong_output: str = "") -> Ties:
    options = Options(target="generic")
    compilation = driver.open_model(path, options)
    driver.optimize(compilation)
    graph = compilation.graph
    if spoil:
        value = next(v for v in graph.constants if ".multiplier" in v.name)
        graph.constants[value] = (graph.array(value) * (1 - spoil)).astype(np.int32)
    for node in graph.nodes:
        if node.results[0].name == wrong_output:
            node.post[0] = ex.apply("mul", node.post.get(0, ex.acc(F32)), ex.num(1.01, F32))
    imported = driver.import_graph(path, options).graph
    names = [n for n in rounded_names(imported) if n in set(tensor_names(path))]
    judge = open_judge(path, [v.name for v in graph.outputs], names)
    inputs = random_inputs({v.name: v.type for v in graph.inputs}, 1)
    return judge_layers(imported, graph, judge, inputs)


@pytest.mark.parametrize("seed", range(3))
def test_layers_of_a_quantised_network_round_right(tmp_path: Path, seed: int) -> None:
    found = _judged(residual(tmp_path / "m.onnx", seed))
    assert found.ok, found.text()
    assert found.layers >= 6
    assert found.differing <= found.elements * 1e-3


def test_a_factor_that_is_off_by_a_thousandth_is_found(tmp_path: Path) -> None:
    found = _judged(residual(tmp_path / "m.onnx"), spoil=2**-9)
    assert not found.ok
    assert "is real" in found.text()


@pytest.mark.parametrize("constant", ["x.scale", "q5.scale", "w6"])
def test_a_network_that_was_read_as_another_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, constant: str
) -> None:
    """Both graphs have it, and round it right: the reference's tensors say that it is not in the file."""
    right = driver._imported

    def misread(path: str | Path, options: Options) -> Compilation:
        c = right(path, options)
        value = next(v for v in c.graph.constants if v.name == constant)
        array = c.graph.array(value)
        c.graph.constants[value] = (array * 0.75).astype(array.dtype)
        return c

    monkeypatch.setattr(driver, "_imported", misread)
    result = check(residual(tmp_path / "m.onnx"), Options(target="generic"))
    assert not result.ok
    assert result.ties is not None
    assert "of the reference where" in result.ties.text()


def test_ties_do_not_explain_what_a_user_expects(tmp_path: Path) -> None:
    path = _quantised(tmp_path / "m.onnx", _rounded_to("s", "x", "y"), {"y": [1, 6, 4, 4]})
    given = random_inputs({"x": TensorType(F32, (1, 6, 4, 4)), "w": TensorType(F32, (1, 2, 4, 4))}, 0)
    wrong = np.full((1, 6, 4, 4), 9, np.float32)
    result = check(path, Options(target="generic"), inputs=given, expect={"y": wrong}, per_layer=True)
    assert result.ties is not None
    assert result.ties.ok
    assert not result.ok


@pytest.mark.parametrize("target", ["generic", "native"])
@pytest.mark.parametrize("level", ["O0", "O1", "O2", "Os"])
def test_check_takes_ties_and_says_how_many(tmp_path: Path, target: str, level: str) -> None:
    result = check(residual(tmp_path / "m.onnx", 4), Options(target=target, opt_level=level), per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert any("elements fall to the other side of a tie" in line for line in result.lines())


def _any_batch(folder: Path) -> Path:
    """Two convolutions of bytes whose batch is the dim n."""
    net = Net(1, (1, 3, 9, 7))
    net.conv(8, 3, relu=True)
    net.conv(8, 1)
    model = onnx.load(net.model(folder / "m.onnx"))
    for v in (*model.graph.input, *model.graph.output):
        v.type.tensor_type.shape.dim[0].dim_param = "n"
    del model.graph.value_info[:]
    onnx.save(model, folder / "n.onnx")
    return folder / "n.onnx"


def test_layers_of_any_batch_are_judged(tmp_path: Path) -> None:
    result = check(_any_batch(tmp_path), Options(target="generic", dims={"n": "1..3"}), per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert result.ties is not None
    assert result.ties.layers == 6  # two in each of three runs


def dying(path: Path, seed: int) -> Path:
    """Three convolutions of which two have channels that are always zero: they are not computed."""
    net = Net(seed, (1, 3, 9, 7))
    net.conv(12, 3, relu=True, dead=4)
    net.conv(9, 1, relu=True, dead=2)
    net.conv(4, 3)
    return net.model(path)


def test_layers_whose_constant_channels_are_gone_are_judged_and_fed_too(tmp_path: Path) -> None:
    path = dying(tmp_path / "m.onnx", 0)
    compilation = driver.open_model(path, Options(target="generic"))
    driver.optimize(compilation)
    shapes = [n.result.shape for n in compilation.graph.nodes]
    assert any(s[1] == 8 for s in shapes), shapes
    found = _judged(path)
    assert found.ok, found.text()
    assert found.layers == 3
    assert found.elements == (8 + 7 + 4) * 63
    assert not _judged(path, spoil=2**-9).ok


def test_ties_before_a_join_are_told(tmp_path: Path) -> None:
    """What is resized falls on ties, is rounded to steps of its own, and once more where it is joined."""
    n = helper.make_node
    zero = numpy_helper.from_array(np.int8(-128), "z")
    scales = [numpy_helper.from_array(np.float32(s), name) for name, s in (("s", 0.0372), ("t", 0.0502))]
    sizes = numpy_helper.from_array(np.float32([1, 1, 2, 2]), "sizes")
    nodes = [
        n("DequantizeLinear", ["x", "s", "z"], ["xr"]), n("Resize", ["xr", "", "sizes"], ["big"], mode="linear"),
        n("QuantizeLinear", ["big", "s", "z"], ["bq"], name="bq"), n("DequantizeLinear", ["bq", "s", "z"], ["br"]),
        n("DequantizeLinear", ["w", "t", "z"], ["wr"]), n("Concat", ["wr", "br"], ["joined"], axis=1, name="joined"),
        n("QuantizeLinear", ["joined", "t", "z"], ["y"], name="y"),
    ]  # fmt: skip
    ports = [helper.make_tensor_value_info(name, TensorProto.INT8, [1, c, e, e])
             for name, c, e in (("x", 8, 32), ("w", 2, 64), ("y", 10, 64))]  # fmt: skip
    graph = helper.make_graph(nodes, "joined", ports[:2], ports[2:], [zero, *scales, sizes])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    found = _judged(tmp_path / "m.onnx")
    assert found.ok, found.text()
    assert found.differing > 0


def _rounded(
    name: str, to: str, scale: float, zero: np.generic
) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """QuantizeLinear and DequantizeLinear, and their constants."""
    stored = [numpy_helper.from_array(np.float32(scale), f"{to}.s"), numpy_helper.from_array(zero, f"{to}.z")]
    operands = [f"{to}.s", f"{to}.z"]
    return [helper.make_node("QuantizeLinear", [name, *operands], [f"{to}.q"]),
            helper.make_node("DequantizeLinear", [f"{to}.q", *operands], [to])], stored  # fmt: skip


@pytest.mark.parametrize("bits", [8, 16])
def test_ties_of_what_is_fused_and_turned_are_told(tmp_path: Path, bits: int) -> None:
    """The second rounding is of ties, which f32 puts on either side where factors are one, and the last one shows it.
    Axes are turned between these, and what the program has there has no name in the model."""
    def turned(name: str, to: str, *perm: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
        return [helper.make_node("Transpose", [name], [to], perm=perm)], []

    if bits == 8:
        ports = {"x": [5, 3, 70], "y": [70, 5, 3], "d": [70, 5, 3]}
        parts = [
            _rounded("x", "a", 0.00783857237547636, np.int8(0)), turned("a", "b", 1, 2, 0),
            _rounded("b", "c", 0.010033372789621353, np.int8(0)), turned("c", "d", 1, 2, 0),
            _rounded("d", "y", 0.007900292985141277, np.int8(127)),
        ]  # fmt: skip
    else:
        ports = {"x": [1, 48], "y": [48, 32]}
        weights = numpy_helper.from_array(np.linspace(-1, 1, 32, dtype=np.float32)[None], "w")
        parts = [
            _rounded("x", "a", 0.03042982518672943, np.int8(127)), turned("a", "b", 1, 0),
            _rounded("b", "c", 9.737544314702973e-05, np.int16(32767)),
            _rounded("w", "v", 0.0125, np.int8(0)), ([helper.make_node("MatMul", ["c", "v"], ["d"])], [weights]),
            _rounded("d", "y", 0.00022992432059254497, np.int16(0)),
        ]  # fmt: skip
    given, *made = (helper.make_tensor_value_info(name, TensorProto.FLOAT, e) for name, e in ports.items())
    nodes, stored = ([one for part in parts for one in part[k]] for k in (0, 1))
    graph = helper.make_graph(nodes, "turned", [given], made, stored)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, tmp_path / "m.onnx")
    found = _judged(tmp_path / "m.onnx")
    assert found.ok, found.text()
    assert found.differing


def test_means_of_bytes_in_another_layout_are_judged() -> None:
    """Half of the means of two bytes are ties, a quarter of those of four: more than a hundredth may fall to the
    other side in a tensor that is the reference's."""
    path = needs_shared("models/kws_micro_qdq/model.onnx")
    result = check(path, Options(target="generic"), per_layer=True)
    assert result.ties is not None
    assert result.ties.ok, result.ties.text()
    assert result.ties.layers == 22  # 11 of each run: the second pool, too


def _quantised(path: Path, nodes: list[onnx.NodeProto], outputs: dict[str, list[int]]) -> Path:
    """Floats x f32[1,6,4,4] and w f32[1,2,4,4] with scales s and t of bytes between them."""
    zero = numpy_helper.from_array(np.int8(0), "z")
    scales = [numpy_helper.from_array(np.float32(v), name) for name, v in (("s", 0.0372), ("t", 0.0502))]
    more = [numpy_helper.from_array(np.int64(a), name) for name, a in (("halves", [2, 4]), ("at", [5, 0, 3]))]
    given = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, c, 4, 4]) for n, c in (("x", 6), ("w", 2))]
    made = [helper.make_tensor_value_info(n, TensorProto.FLOAT, e) for n, e in outputs.items()]
    graph = helper.make_graph(nodes, "quantised", given, made, [zero, *scales, *more])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, path)
    return path


def _rounded_to(scale: str, x: str, y: str) -> list[onnx.NodeProto]:
    n = helper.make_node
    return [n("QuantizeLinear", [x, scale, "z"], [f"{y}q"]), n("DequantizeLinear", [f"{y}q", scale, "z"], [y])]


def test_a_join_of_an_input_and_what_is_computed_is_judged(tmp_path: Path) -> None:
    """In float64 both are: an input that was left in f32 beside a result in f64 was no join that ONNX knows."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["c"]), helper.make_node("Concat", ["c", "w"], ["j"], axis=1),
        *_rounded_to("s", "j", "y"),
    ]  # fmt: skip
    path = _quantised(tmp_path / "m.onnx", nodes, {"y": [1, 8, 4, 4]})
    result = check(path, Options(target="generic"), per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert result.ties is not None
    assert result.ties.layers >= 1


@pytest.mark.parametrize("level", ["O0", "O1"])
@pytest.mark.parametrize("kind", ["Split", "Gather", "Slice"])
def test_ties_are_told_behind_what_moves_elements(tmp_path: Path, kind: str, level: str) -> None:
    """By a node of several results, and by indices, which are no ties themselves."""
    n = helper.make_node
    moved = {
        "Split": [n("Split", ["a", "halves"], ["p", "m"], axis=1)],
        "Gather": [n("Gather", ["a", "at"], ["m"], axis=1)],
        "Slice": [n("Slice", ["a", "two", "six", "one"], ["m"])],
    }[kind]
    if kind == "Slice":
        ends = (("two", [2]), ("six", [6]), ("one", [1]))
        moved = [n("Constant", [], [name], value_ints=a) for name, a in ends] + moved
    nodes = [*_rounded_to("s", "x", "a"), *moved, n("Exp", ["m"], ["e"]), *_rounded_to("t", "e", "y")]
    shape = {"Split": [1, 4, 4, 4], "Gather": [1, 3, 4, 4], "Slice": [1, 4, 4, 4]}[kind]
    if kind == "Split":
        nodes += _rounded_to("t", "p", "o")
    path = _quantised(tmp_path / "m.onnx", nodes, {"y": shape} | ({"o": [1, 2, 4, 4]} if kind == "Split" else {}))
    result = check(path, Options(target="generic", opt_level=level), per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert result.ties is not None


@pytest.mark.parametrize("axis", [0, 1])
def test_the_channels_that_are_left_are_found(axis: int) -> None:
    """In order, off by a step here and there; of equal ones any."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        channels = int(rng.integers(2, 30))
        theirs = rng.integers(-128, 128, (channels, 25)).astype(np.int8)
        theirs[rng.random(channels) < 0.3] = -128
        kept = np.sort(rng.permutation(channels)[: rng.integers(1, channels)])
        got = np.where(rng.random((kept.size, 25)) < 0.1, theirs[kept] ^ 1, theirs[kept])
        part = part_of(np.moveaxis(got, 0, axis), np.moveaxis(theirs, 0, axis), moves=False)
        assert part is not None
        found = np.moveaxis(np.moveaxis(theirs, 0, axis)[part], axis, 0)
        assert (np.diff(part[axis]) > 0).all()
        assert (found != got).sum() <= (theirs[kept] != got).sum()
    assert part_of(theirs, theirs, moves=False) == ()
    assert part_of(theirs[:1, :3], theirs, moves=False) is None
    assert part_of(theirs[0], theirs, moves=True) is None


def test_a_channel_of_one_element_that_is_a_tie_is_found_by_what_it_was() -> None:
    """Beside one that is gone, it is as near to that."""
    got, theirs = np.array([[-28, -32]], np.int8), np.array([[-28, -31, -33]], np.int8)
    part = part_of(got, theirs, True, np.array([[-28.2, -31.0, -32.5]]))
    assert part is not None
    assert part[1].tolist() == [0, 2]


def test_channels_in_another_order_are_found() -> None:
    """With the few ties that they may differ in; and only where a value may have them so."""
    rng = np.random.default_rng(1)
    theirs = rng.integers(0, 256, (1, 12, 20)).astype(np.uint8)
    theirs[0, 4] = theirs[0, 7]
    order = rng.permutation(12)
    got = theirs[:, order]
    got[0, 3, 5] ^= 1
    part = part_of(got, theirs, moves=True)
    assert part is not None
    assert (theirs[part] != got).sum() == 1
    assert part_of(got, theirs, moves=False) == ()
    part = part_of(got[:, [8, 1, 5]], theirs, moves=True)  # a few of them, in another order
    assert part is not None
    assert (theirs[part] == theirs[:, order[[8, 1, 5]]]).all()
    got[0, :6] ^= 1  # half of it wrong: no order explains that
    assert part_of(got, theirs, moves=True) == ()


def test_ties_of_what_a_join_took_are_told_by_their_places() -> None:
    """Of two tensors that are joined and quantised again, the second: its ties lie where the join has put them, and
    excuse nothing beside them."""
    text = """graph @g(%p: u8[1,3,2], %q: u8[1,2,2]) {
  %d = map(%p) {expr={(f32(x0) * 0.5)}} : f32[1,3,2]
  %e = map(%q) {expr={(f32(x0) * 0.25)}} : f32[1,2,2]
  %j = concat(%d, %e) {axis=1} : f32[1,5,2]
  %t = transpose(%j) {perm=(0, 2, 1)} : f32[1,2,5]
  %y = map(%t) {expr={u8(rne((x0 / 0.375)))}} : u8[1,2,5]
  %z = softmax(%t) {axis=2} : f32[1,2,5]
  return %y, %z
}"""
    graph = parse_graph(text, lookup)
    mask = np.zeros((1, 2, 2), bool)
    mask[0, 1, 0] = True
    found = carried(mask, graph.inputs[1], "y", graph.nodes, {})
    assert found is not None
    assert np.argwhere(found).tolist() == [[0, 0, 4]]
    assert carried(mask, graph.inputs[1], "z", graph.nodes, {}) is None
    assert carried(mask, graph.inputs[1], "d", graph.nodes, {}) is None


@pytest.mark.parametrize(
    ("tail", "found"), [("transpose(%d) {perm=(0, 2, 1)}", True), ("gather(%d, %i) {axis=2}", False)]
)
def test_floats_stand_for_what_is_moved_by_places_alone(tail: str, found: bool) -> None:
    """Not for what indices choose; nor, through bytes that are judged already, for others in front of them."""
    text = f"""graph @g(%q: u8[1,2,2]) {{
  %i = const [1, 0] : i32[2]
  %d = map(%q) {{expr={{(f32(x0) * 0.5)}}}} : f32[1,2,2]
  %y = {tail} : f32[1,2,2]
  %b = map(%y) {{expr={{u8(rne((x0 / 0.25)))}}}} : u8[1,2,2]
  %z = map(%b) {{expr={{(f32(x0) * 0.25)}}}} : f32[1,2,2]
  return %y, %z
}}"""
    graph = parse_graph(text, lookup)
    y, z = graph.outputs
    theirs = {"q": np.array([[[1, 2], [3, 4]]], np.uint8)}
    got = (theirs["q"] * 0.5).astype(np.float32).transpose(0, 2, 1)
    told = standing_for(y, got, graph, theirs, {"q"}, {})
    assert (told is not None) == found
    assert told is None or np.array_equal(told[1], theirs["q"])
    assert standing_for(z, got, graph, theirs, {"q"}, {}) is None


def test_where_most_elements_are_unsure_all_are() -> None:
    """No draw has moved the first two; the mean is 2, and the C may be 4 times that off."""
    values = {"y": np.zeros(4, np.uint8), "z": np.zeros(4, np.uint8)}
    found = _alike_unsure(Expected(values, {"y": np.array([0.0, 0, 2, 2]) * np.sqrt(2), "z": np.zeros(4)}))
    np.testing.assert_allclose(found.noise["y"], 8)
    assert not found.noise["z"].any()


def test_layers_behind_a_tie_may_differ() -> None:
    """What decides is whether each layer rounds right, not what came of a tie in front of it."""
    diverging = cast(Trace, SimpleNamespace(ok=False))
    found = CheckResult("m", "generic", "judge", (), ties=Ties(1, 10, 1, ()), trace=diverging)
    assert found.ok
    assert not replace(found, ties=Ties(1, 10, 1, ("y: 4 where 3.4 is real",))).ok
    assert not replace(found, ties=None).ok
    assert not replace(found, faults=("the C does not compute its graph",)).ok


def test_a_zero_point_that_is_a_tie_is_the_references(tmp_path: Path) -> None:
    """DynamicQuantizeLinear of what reaches from -1 to 1: 127.5 is 127 or 128, and every byte one more by that."""
    nodes = [
        onnx.helper.make_node("Mul", ["x", "gain"], ["loud"]),
        onnx.helper.make_node("Tanh", ["loud"], ["t"]),
        onnx.helper.make_node("DynamicQuantizeLinear", ["t"], ["q", "scale", "zero"]),
    ]
    x, y = (onnx.helper.make_tensor_value_info(n, kind, [400]) for n, kind in (("x", 1), ("q", 2)))
    gain = onnx.numpy_helper.from_array(np.array(20, np.float32), "gain")
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [gain])
    path = tmp_path / "m.onnx"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10), path)
    found = _judged(path)
    assert found.ok, found.text()
    assert found.layers == 2


@pytest.mark.parametrize("requant", ["exact", "tflite"])
def test_layers_of_a_choice_of_extents_are_judged(tmp_path: Path, requant: str) -> None:
    """Each of the graphs that a network is, where its batch is one of some numbers."""
    options = Options(target="generic", dims={"n": "1,3"}, requant=requant)
    result = check(_any_batch(tmp_path), options, per_layer=True)
    assert result.ok, "\n".join(result.lines())
    assert result.ties is not None
    assert result.ties.layers == 2 * len(result.runs)


def _one_layer(path: Path, groups: int) -> None:
    """A convolution between DequantizeLinear and QuantizeLinear whose results are floats again at once."""
    rng = np.random.default_rng(1)
    scales = {"sx": np.float32(0.0076), "sy": np.float32(0.03125)}
    constants = {
        **{n: np.array(a) for n, a in scales.items()},
        "zero": np.zeros((), np.int8),
        "w": rng.integers(-120, 120, (24, 3 // groups, 3, 3), np.int8),
        "sw": rng.uniform(0.003, 0.02, 24).astype(np.float32),
    }
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zero"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "sw"], ["wf"], axis=0),
        helper.make_node("Conv", ["xf", "wf"], ["c"], group=groups, pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "sy", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "sy", "zero"], ["y"]),
        helper.make_node("Relu", ["xf"], ["z"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.INT8, [6, 3, 8, 8])
    z = helper.make_tensor_value_info("z", TensorProto.FLOAT, [6, 3, 8, 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [6, 24, 8, 8])
    stored = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "g", [x], [y, z], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


@pytest.mark.parametrize("groups", [1, 3])
def test_layers_that_make_floats_at_once_are_judged_by_what_these_stand_for(tmp_path: Path, groups: int) -> None:
    """No tensor of the program holds what TensorFlow Lite's second rounding moves."""
    _one_layer(tmp_path / "m.onnx", groups)
    result = check(tmp_path / "m.onnx", Options(target="generic", requant="tflite"))
    assert result.ok, "\n".join(result.lines())
    assert result.ties is not None
    assert 0 < result.ties.differing < result.ties.elements * 0.01
    found = _judged(tmp_path / "m.onnx", spoil=2**-6)
    assert not found.ok


@pytest.mark.parametrize("name", ["y", "z"])
def test_an_output_that_is_the_references_is_right_whatever_its_graph_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """tanh of numpy and of C may be on two sides of a tie; what is not the reference's either is a fault."""
    _one_layer(tmp_path / "m.onnx", 1)
    monkeypatch.setattr(own_graph, "_apart", lambda c, given, got, _: ([compare(name, got[name], got[name] + 1)], []))
    result = check(tmp_path / "m.onnx", Options(target="generic", requant="tflite"))
    assert result.ok == (name == "z"), "\n".join(result.lines())


@pytest.mark.parametrize(("float_", "says"), [(2.5, 8), (2.0, 7), (2.2, -128), (99.0, -128), (62.0, 127)])
def test_what_a_float_stands_for(tmp_path: Path, float_: float, says: int) -> None:
    """Of y = (q - 3) / 2, where the reference has q = 7, or 127 at the end of the type: what is no step of these is
    as far away as may be."""
    want = 127 if float_ == 62.0 else 7
    nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
             helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"])]  # fmt: skip
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
    stored = [numpy_helper.from_array(np.float32(0.5), "s"), numpy_helper.from_array(np.int8(3), "z")]
    graph = helper.make_graph(nodes, "g", [x], [y], stored)
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    imported = driver.import_graph(path, Options(target="generic")).graph
    (v,) = imported.outputs
    theirs = {"q": np.array([want], np.int8)}
    found = standing_for(v, np.array([float_], np.float32), imported, theirs, {"q"}, {})
    assert found is not None
    name, codes, floats, places = found
    assert (name, codes.tolist(), floats.tolist(), places.tolist()) == ("q", [says], [(want - 3) / 2], [0])


@pytest.mark.parametrize("times", [0, 4])
def test_what_floats_have_magnified_is_as_sure_as_they_are(tmp_path: Path, times: int) -> None:
    """Four sines of 40 times their operand: 1e-7 becomes 0.1, or 15 of the steps that a layer rounds to."""
    nodes = []
    for k in range(times):
        nodes.append(helper.make_node("Mul", [f"h{k}" if k else "x", "forty"], [f"m{k}"]))
        nodes.append(helper.make_node("Sin", [f"m{k}"], [f"h{k + 1}"]))
    nodes.append(helper.make_node("QuantizeLinear", [f"h{times}" if times else "x", "step", "zero"], ["q"]))
    nodes.append(helper.make_node("DequantizeLinear", ["q", "step", "zero"], ["y"]))
    constants = {"forty": np.float32(40), "step": np.float32(1 / 127), "zero": np.int8(0)}
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 64])],
        [numpy_helper.from_array(np.array(a), name) for name, a in constants.items()],
    )  # fmt: skip
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    options = Options(target="generic")
    imported = driver.import_graph(path, options).graph
    judge = open_judge(path, ["y"], ["q"])
    inputs = random_inputs({v.name: v.type for v in imported.inputs}, 0)
    name, moved = ("forty", np.nextafter(np.float32(40), np.float32(41))) if times else ("step", 1.01 / 127)
    made = driver.import_graph(path, options).graph
    value = next(v for v in made.constants if v.name == name)
    made.constants[value] = np.array(moved, np.float32)
    assert judge_layers(imported, made, judge, inputs).ok == (times > 0)


def test_floats_behind_the_last_layer_are_judged_too(tmp_path: Path) -> None:
    """A tie in a layer is no excuse for a softmax along another axis, nor for what lies beside all layers."""
    net = Net(1, (1, 3, 9, 7))
    net.conv(8, 3, relu=True)
    model = onnx.load(net.model(tmp_path / "m.onnx"))
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "x.scale", "x.zero"], ["first"]),
        helper.make_node("DequantizeLinear", [net.last, f"{net.last}.scale", f"{net.last}.zero"], ["last"]),
        helper.make_node("Softmax", ["last"], ["probabilities"], axis=1),
        helper.make_node("Exp", ["first"], ["beside"]),
    ]
    model.graph.node.extend(nodes)
    for name, shape in (("probabilities", [1, 8, 9, 7]), ("beside", [1, 3, 9, 7])):
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    onnx.save(model, tmp_path / "m.onnx")
    assert _judged(tmp_path / "m.onnx").ok
    for name in ("probabilities", "beside"):
        found = _judged(tmp_path / "m.onnx", wrong_output=name)
        assert not found.ok
        assert found.wrong[0].startswith(f"{name}: "), found.wrong


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("tail", ["Reshape", "Transpose", "Relu"])
def test_a_last_layer_whose_floats_are_moved_is_judged(
    tmp_path: Path, tail: str, wrong: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sums of powers of two are ties in steps of a larger one: half of the elements fall to the other side. Of other
    constants, which a pass may have made, they are wrong."""
    scales = {"fine": 2.0**-5, "coarse": 2.0**-3}
    constants = {name: np.array(value, np.float32) for name, value in scales.items()} | {
        "zero": np.array(3, np.int8), "shape": np.array([1, -1, 6]),
        "c": np.random.default_rng(1).integers(-128, 128, (6, 6)).astype(np.int8),
    }  # fmt: skip
    last = [helper.make_node("Reshape", ["d", "shape"], ["y"]), helper.make_node("Transpose", ["d"], ["y"])]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "fine", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "fine", "zero"], ["xd"]),
        helper.make_node("DequantizeLinear", ["c", "fine", "zero"], ["cd"]),
        helper.make_node("Add", ["xd", "cd"], ["s"]),
        helper.make_node("QuantizeLinear", ["s", "coarse", "zero"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "coarse", "zero"], ["d"]),
        next((n for n in last if n.op_type == tail), helper.make_node(tail, ["d"], ["y"])),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 6])]
    stored = [numpy_helper.from_array(a, name) for name, a in constants.items()]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs, stored),
        opset_imports=[helper.make_opsetid("", 18)], ir_version=9,
    )  # fmt: skip
    onnx.save(model, tmp_path / "m.onnx")
    plain = driver.optimize

    def optimize(c: driver.Compilation, *more: Any) -> None:
        plain(c, *more)
        for v in [v for v in c.graph.constants if v.shape[-2:] == (6, 6)] if wrong else ():
            c.graph.constants[v] = -c.graph.array(v)

    monkeypatch.setattr(driver, "optimize", optimize)
    found = check(tmp_path / "m.onnx", Options(target=needs_target("x86-64-v2")))
    assert found.ties is not None
    assert found.ties.differing > 20
    assert found.ok != wrong, found.lines()


def test_what_is_no_number_before_it_is_rounded_has_no_right_answer(tmp_path: Path) -> None:
    """0 / 0 of bytes: onnxruntime has the least number on some processors, 0 on others, and the C has 0."""
    net = Net(0, (1, 2, 3, 4))
    net.binary("Div", "x", 0.05, 3)
    net.clip(-1.0, 1.0, 0.02, 1)
    path = net.model(tmp_path / "m.onnx")
    x = np.full((1, 2, 3, 4), 20, np.int8)
    x[0, 0, 0] = -7  # its zero point
    compilation = driver.open_model(path, Options(target="generic"))
    driver.optimize(compilation)
    found = explained(path, compilation, [{"x": x}])
    assert found is not None
    assert found.ok, found.text()
    assert found.no_numbers == 4
    assert "4 are NaN before that" in found.text()


@pytest.mark.parametrize(
    ("node", "moved"),
    [
        ("normalize(%x) {axes=(1,), epsilon=1e-05}", [[True] * 3, [False] * 3]),
        ("softmax(%x) {axis=0}", [[False, True, False]] * 2),
        ("matmul(%x, %w) with(%b) post0{ (acc + x0) }", [[False, True, False]] * 2),
    ],
)
def test_what_a_tie_before_moves(node: str, moved: list[list[bool]]) -> None:
    """All of its row or column, of a normalisation; of a column that an epilogue adds, each row."""
    text = f"graph @g(%x: f32[2,3], %w: f32[3,3], %b: f32[3]) {{ %y = {node} : f32[2,3] return %y }}"
    graph = parse_graph(text, lookup)
    x, w, b = graph.inputs
    hidden = {b: np.array([False, True, False])} if "acc" in node else {x: np.eye(2, 3, 1, dtype=bool)}
    if "acc" not in node:
        hidden[x][1] = False
    values = {v: np.ones(v.shape, np.float32) for v in (x, w, b)}
    (found,) = _moved(graph.nodes[0], hidden, values, {})
    assert found.tolist() == moved


def test_nothing_is_said_of_what_is_infinite() -> None:
    """Numbers that masks have made so before they are rounded; and floats of the C that halves do not hold."""
    assert _is_tie(np.array([np.inf, -np.inf, 0.5, 0.3, np.nan]), 0.501).tolist() == [False, False, True, False, True]
    halves = _as_reference(np.array([1e6, 1.0], np.float32), np.zeros(2, np.float16))
    assert halves is not None
    assert halves.tolist() == [np.inf, 1.0]


@pytest.mark.parametrize(("off", "ok"), [(5e-5, True), (3e-4, False)])
def test_floats_rounded_to_16_bits_may_be_off_as_floats_may_be(tmp_path: Path, off: float, ok: bool) -> None:
    """A step of 16 bits is less than what the rule for floats allows, and transforms of convolutions need."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=(8, 8, 3, 3)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("QuantizeLinear", ["c", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 12, 12]) for n in "xy")
    stored = [numpy_helper.from_array(np.float32(2e-3), "s"), numpy_helper.from_array(np.int16(99), "z")]
    graph = helper.make_graph(nodes, "g", [x], [y], [*stored, numpy_helper.from_array(w, "w")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    compilation = driver.open_model(path, Options(target="generic"))
    driver.optimize(compilation)
    weights = next(v for v in compilation.graph.constants if v.type.rank == 4)
    compilation.graph.constants[weights] = compilation.graph.array(weights) * np.float32(1 + off)
    found = explained(path, compilation, [{"x": 10 * rng.normal(size=(1, 8, 12, 12)).astype(np.float32)}])
    assert found is not None
    assert found.ok == ok, found.text()
    assert found.differing > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_ties_of_floats_whose_channels_nothing_reads(seed: int, tmp_path: Path) -> None:
    """Twelve products by halves and tenths, nearly all sums of which are ties: layers compute the columns that the
    next one multiplies by more than zero."""
    r = np.random.default_rng(seed)
    constants: dict[str, np.ndarray] = {"s": np.array(0.1, np.float32), "z": np.array(128, np.uint8)}
    nodes, y = [], "x"
    for i in range(12):
        w = np.zeros((16, 16), np.float32)
        for column in range(16):
            w[r.choice(16, 4, False), column] = r.choice([-0.3, 0.7, 0.1, 0.5], 4)
        constants[f"w{i}"] = w
        nodes += [
            helper.make_node("DequantizeLinear", [y, "s", "z"], [f"d{i}"]),
            helper.make_node("MatMul", [f"d{i}", f"w{i}"], [f"p{i}"]),
            helper.make_node("QuantizeLinear", [f"p{i}", "s", "z"], [y := f"q{i}"]),
        ]
    ports = [helper.make_tensor_value_info(n, TensorProto.UINT8, [8, 16]) for n in ("x", y)]
    weights = [numpy_helper.from_array(a, n) for n, a in constants.items()]
    graph = helper.make_graph(nodes, "deep", ports[:1], ports[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    result = check(tmp_path / "m.onnx", Options(target="generic"))
    assert result.ok, "\n".join(result.lines())


@pytest.mark.parametrize("product", ["MatMul", "Conv"])
def test_a_tie_before_axes_are_cut_and_turned_is_one_of_sums_behind_it(product: str, tmp_path: Path) -> None:
    """An image in patches that are quantised: the quotient of one element is next to a tie, and here it falls to the
    other side. It is quantised before the patches are made, where the reference has no such tensor. What is made of
    it is read twice, the second time beside a product."""
    scale = np.float32(0.031678412)
    halves = ((np.arange(-100, 100) + 0.5) * np.float64(scale)).astype(np.float32)
    near = np.concatenate([halves, np.nextafter(halves, np.float32(9)), np.nextafter(halves, np.float32(-9))])
    next_to = near[np.rint(near / scale) != np.rint(near * (np.float32(1) / scale))]
    assert next_to.size
    x = np.random.default_rng(1).normal(size=(1, 3, 8, 8)).astype(np.float32)
    x[0, 1, 5, 2] = next_to[0]
    rng, m = np.random.default_rng(2), Maker()
    zero, scales = m.const(np.int8(0)), [m.const(np.float32(s)) for s in (scale, 0.01, 0.07)]
    v = m.node("Reshape", [m.input("x", x.shape), m.const(np.array([1, 3, 2, 4, 2, 4]))])
    v = m.node("Transpose", [v], perm=[0, 2, 4, 3, 5, 1])
    v = m.node("Reshape", [v, m.const(np.array([1, 4, 48] if product == "MatMul" else [4, 48, 1, 1]))])
    v = m.node("DequantizeLinear", [m.node("QuantizeLinear", [v, scales[0], zero]), scales[0], zero])
    made = []
    for depth in (48, 16):
        weights = rng.integers(-127, 128, (depth, 16) if product == "MatMul" else (16, depth, 1, 1)).astype(np.int8)
        v = m.node(product, [v, m.node("DequantizeLinear", [m.const(weights), scales[1], zero])])
        v = m.node("DequantizeLinear", [m.node("QuantizeLinear", [v, scales[2], zero]), scales[2], zero])
        made.append(v)
        v = m.node("Relu", [v])
        v = m.node("DequantizeLinear", [m.node("QuantizeLinear", [v, scales[2], zero]), scales[2], zero])
    v = m.node("Add", made)
    v = m.node("DequantizeLinear", [m.node("QuantizeLinear", [v, scales[2], zero]), scales[2], zero])
    onnx.save(m.model([v]), tmp_path / "m.onnx")
    found = check(tmp_path / "m.onnx", Options(target="generic"), inputs={"x": x}, per_layer=True)
    assert found.ok, "\n".join(found.lines())


def _misread(monkeypatch: pytest.MonkeyPatch, name: tuple[str, str], output: int, body: ex.Expr) -> None:
    """Let an output of the operator of a name, domain first, be what ``body`` makes of it."""
    own = front_ends()[name]

    def misread(n: Import) -> None:
        own.convert(n)
        value = n.outputs[output]
        assert value is not None
        n.bind(output, n.map(body, [value], "misread"))

    monkeypatch.setitem(front_ends(), name, replace(own, convert=misread))


@pytest.mark.parametrize("wrong", [False, True])
def test_places_beside_bytes_are_judged(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TopK of bytes gives bytes, and where they were: 5 too many are a fault."""
    kinds = {"x": (TensorProto.UINT8, [3, 8]), "y": (TensorProto.UINT8, [3, 2]), "at": (TensorProto.INT64, [3, 2])}
    ports = [helper.make_tensor_value_info(n, *kind) for n, kind in kinds.items()]
    node = helper.make_node("TopK", ["x", "k"], ["y", "at"])
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [numpy_helper.from_array(np.array([2]), "k")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    if wrong:
        _misread(monkeypatch, ("", "TopK"), 1, ex.apply("add", ex.var(0, I64), ex.num(5, I64)))
    x = np.array([[7, 1, 9, 3, 5, 2, 4, 8]] * 3, np.uint8)
    found = check(tmp_path / "m.onnx", Options(target="generic"), inputs={"x": x})
    assert found.ok != wrong, "\n".join(found.lines())


@pytest.mark.parametrize("wrong", [False, True])
def test_the_next_letter_is_no_tie(wrong: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Text is bytes, and none of it is rounded."""
    ports = [helper.make_tensor_value_info(n, TensorProto.STRING, [2]) for n in "xy"]
    node = helper.make_node("StringConcat", ["x", "end"], ["y"])
    end = helper.make_tensor("end", TensorProto.STRING, [1], [b"!"])
    graph = helper.make_graph([node], "g", ports[:1], ports[1:], [end])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    if wrong:
        byte = ex.var(0, U8)
        following = ex.apply("add", byte, ex.num(1, U8))
        body = ex.apply("select", ex.apply("gt", byte, ex.num(64, U8)), following, byte)
        _misread(monkeypatch, (TEXT, "StringConcat"), 0, body)
    found = check(tmp_path / "m.onnx", Options(target="generic"), inputs={"x": np.array(["a", "-"], object)})
    assert found.ok != wrong, "\n".join(found.lines())
