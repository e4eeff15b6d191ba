"""Preparation: order, names, constants, dead code, and the binding of dims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mccompile.importer.convert import convert
from mccompile.importer.prepare import Prepared, prepare
from mccompile.ir.errors import CompileError, UsageError
from mccompile.onnxio import OnnxGraph, OnnxModel, OnnxNode, OnnxValue, newest_opset, subgraphs

Shape = tuple[int | str | None, ...] | None


def model(
    nodes: list[OnnxNode],
    inputs: dict[str, Shape] | None = None,
    outputs: dict[str, Shape] | None = None,
    consts: dict[str, np.ndarray] | None = None,
) -> OnnxModel:
    graph = OnnxGraph(
        "g",
        [OnnxValue(name, "f32", shape) for name, shape in (inputs or {"x": (2, 3)}).items()],
        [OnnxValue(name, "f32", shape) for name, shape in (outputs or {"y": None}).items()],
        [OnnxNode(n.op_type, n.inputs, n.outputs, n.domain, n.name, n.attrs, i) for i, n in enumerate(nodes)],
        consts or {},
    )
    return OnnxModel(graph, {"": newest_opset()})


def node(op: str, inputs: str, outputs: str, name: str = "", **attrs: Any) -> OnnxNode:
    return OnnxNode(op, tuple(inputs.split()), tuple(outputs.split()), "", name, attrs)


def names(prepared: Prepared) -> list[str]:
    return [n.name for n in prepared.model.graph.nodes]


def test_stable_order() -> None:
    nodes = [
        node("Add", "b c", "y", "last"),
        node("Relu", "x", "b", "first"),
        node("Neg", "x", "d", "dead"),
        node("Abs", "x", "c", "second"),
    ]
    assert names(prepare(model(nodes))) == ["first", "second", "last"]


def test_names() -> None:
    nodes = [
        node("Relu", "x", "a"),
        node("Neg", "a", "b", "n"),
        node("Abs", "b", "c", "n"),
        node("Relu", "c", "y"),
    ]
    assert names(prepare(model(nodes))) == ["Relu_0", "n", "Abs_2", "Relu_3"]


def test_cycle_names_its_nodes() -> None:
    nodes = [
        node("Relu", "x", "s", "start"),
        node("Add", "s c", "a", "one"),
        node("Neg", "a", "b", "two"),
        node("Abs", "b", "c", "three"),
        node("Exp", "c", "y", "after"),
    ]
    with pytest.raises(CompileError) as caught:
        prepare(model(nodes))
    text = str(caught.value)
    assert "cycle" in text
    assert all(f"'{name}'" in text for name in ("one", "two", "three"))
    assert "'start'" not in text
    assert "'after'" not in text
    with pytest.raises(CompileError, match="cycle"):
        prepare(model([node("Add", "x y", "y", "self")]))


@pytest.mark.parametrize(
    ("nodes", "consts", "message"),
    [
        ([node("Relu", "ghost", "y")], {}, "'ghost' is used but not defined"),
        ([node("Relu", "x", "z")], {}, "output 'y' is not defined"),
        ([node("Relu", "x", "y"), node("Neg", "x", "y")], {}, "'y' is defined twice"),
        ([node("Relu", "x", "x")], {}, "'x' is defined twice"),
        ([node("Relu", "x", "y")], {"y": np.zeros(1)}, "'y' is defined twice"),
        ([node("Constant", "", "y")], {}, "exactly one attribute"),
    ],
)
def test_ill_defined_values(nodes: list[OnnxNode], consts: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        prepare(model(nodes, consts=consts))


def test_constants() -> None:
    forms: dict[str, Any] = {
        "value": np.array([[1.5]], np.float16),
        "sparse_value": np.array([0.0, 2.0], np.float32),
        "value_float": 0.5,
        "value_floats": (0.5, 1.5),
        "value_int": 3,
        "value_ints": (3, 4),
        "value_string": "s",
        "value_strings": ("s", "t"),
    }
    nodes = [node("Constant", "", f"c_{form}", **{form: value}) for form, value in forms.items()]
    use = OnnxNode("Use", ("x", *(f"c_{form}" for form in forms)), ("y",), "d")
    prepared = prepare(
        model([*nodes, use], {"x": (2,), "w": (1,)}, consts={"w": np.zeros(1), "unused": np.zeros(1)})
    )
    found = prepared.model.graph.initializers
    assert [n.op_type for n in prepared.model.graph.nodes] == ["Use"]
    assert [v.name for v in prepared.inputs] == ["x"]
    assert set(found) == {f"c_{form}" for form in forms}
    kinds = {
        "value_float": np.float32,
        "value_floats": np.float32,
        "value_int": np.int64,
        "value_ints": np.int64,
    }
    assert all(found[f"c_{form}"].dtype == kind for form, kind in kinds.items())
    assert found["c_value_int"].shape == ()
    assert found["c_value_ints"].tolist() == [3, 4]
    assert found["c_value_strings"].tolist() == ["s", "t"]


def test_constants_that_nothing_can_read() -> None:
    """Without a name there is no value, and none is called ''."""
    unnamed = [OnnxNode("Constant", (), outputs, attrs={"value_float": 1.0}) for outputs in ((), ("",), ("",))]
    clip = OnnxNode("Clip", ("x", "", "c"), ("y",))
    prepared = prepare(model([*unnamed, node("Constant", "", "c", value_float=2.0), clip], {"x": (2,)}))
    assert set(prepared.model.graph.initializers) == {"c"}


def branch(name: str, *nodes: OnnxNode) -> OnnxGraph:
    return OnnxGraph(name, [], [OnnxValue("r", "f32")], list(nodes))


def test_nested_graphs() -> None:
    then = branch(
        "then",
        node("Add", "k late", "r"),
        node("Constant", "", "k", value_float=1.0),
        node("Neg", "x", "dead"),
    )
    nodes = [
        node("If", "c", "y", then_branch=then, else_branch=branch("else", node("Abs", "x", "r"))),
        node("Exp", "x", "late"),
        node("Constant", "", "c", value=np.array(True)),
    ]
    done = prepare(model(nodes)).model.graph
    assert [n.op_type for n in done.nodes] == ["Exp", "If"]
    first, second = subgraphs(done.nodes[1])
    assert [n.op_type for n in first.nodes] == ["Add"]
    assert list(first.initializers) == ["k"]
    assert first.outputs[0].name != second.outputs[0].name
    assert [g.nodes[0].outputs[0] for g in (first, second)] == [g.outputs[0].name for g in (first, second)]
    assert done.value_info["y"] == OnnxValue("y", "f32", (2, 3))


def test_inner_values_that_hide_outer_ones() -> None:
    inner = branch("then", node("Relu", "x", "t"), node("Neg", "t", "r"))
    nodes = [
        node("Abs", "x", "t"),
        node("If", "c", "z", then_branch=inner, else_branch=branch("else", node("Neg", "t", "r"))),
        node("Add", "t z", "y"),
    ]
    done = prepare(model(nodes, consts={"c": np.array(True)})).model.graph
    first, second = subgraphs(done.nodes[1])
    assert first.nodes[0].outputs[0] != "t"
    assert first.nodes[1].inputs == first.nodes[0].outputs
    assert second.nodes[0].inputs == ("t",)


def test_a_cycle_through_a_nested_graph() -> None:
    nodes = [
        node("If", "c", "z", "cond", then_branch=branch("a", node("Neg", "y", "r")), else_branch=branch("b",
        node("Abs", "x", "r"))), node("Relu", "z", "y", "user"),
    ]  # fmt: skip
    with pytest.raises(CompileError, match=r"cycle.*'cond'.*'user'|cycle.*'user'.*'cond'"):
        prepare(model(nodes, consts={"c": np.array(True)}))


RELU = [node("Relu", "x", "y")]


def two(a: Shape, b: Shape, y: Shape = None) -> OnnxModel:
    return model([node("Concat", "a b", "y", axis=1)], {"a": a, "b": b}, {"y": y})


def test_dims_by_name_and_by_shape() -> None:
    done = prepare(model(RELU, {"x": ("n", "t")}, {"y": ("n", "t")}), {"n": 2, "t": 5})
    assert done.inputs == [OnnxValue("x", "f32", (2, 5))]
    assert done.model.graph.outputs[0].shape == (2, 5)
    assert (done.dims, done.notes) == ({"n": 2, "t": 5}, [])
    done = prepare(model(RELU, {"x": ("n", None)}), {"n": 2}, {"x": [2, 7]})
    assert done.inputs[0].shape == (2, 7)
    assert prepare(model(RELU, {"x": None}), {}, {"x": [4]}).inputs[0].shape == (4,)
    done = prepare(two(("n", "t"), ("n", 3)), input_shapes={"a": [2, 7]})
    assert [v.shape for v in done.inputs] == [(2, 7), (2, 3)]


def test_an_axis_that_has_an_extent_takes_no_name_but_that_of_another_axis() -> None:
    with pytest.raises(UsageError, match="axis 1 of input 'a' is 320 in the model, not 'h'"):
        prepare(two((1, 320), ("n", 3)), {"h": "33..200"}, {"a": [1, "h"]})
    done = prepare(two((1, 320), ("n", 3)), {"n": 320}, {"a": [1, "n"]})
    assert [v.shape for v in done.inputs] == [(1, 320), (320, 3)]


def test_default_batch() -> None:
    done = prepare(model(RELU, {"x": ("N", 3)}))
    assert done.inputs[0].shape == (1, 3)
    assert len(done.notes) == 1
    assert "--dim N=" in done.notes[0]
    assert prepare(model(RELU, {"x": (None, 3)})).inputs[0].shape == (1, 3)
    done = prepare(two(("N", 3), (None, 2), ("other", 5)))
    assert [v.shape for v in done.inputs] == [(1, 3), (1, 2)]


def test_first_axes_without_a_name_are_the_batch() -> None:
    done = prepare(two((None, 3), (None, 2)), {"batch": "1..4"})
    assert [str(v.shape) for v in done.inputs] == ["(batch, 3)", "(batch, 2)"]
    assert prepare(two(("batch", 3), (None, 2)), {"batch": 2}, {"b": [5, 2]}).inputs[1].shape == (5, 2)
    with pytest.raises(UsageError, match="no graph input has a dim named 'batch'"):
        prepare(two((None, 3), (4, 2)), {"batch": 4})


def test_made_up_names_are_none() -> None:
    """tf2onnx numbers each axis that nobody named, and equal ones apart."""
    case = two(("unk__1", "unk__2", 3), ("unk__3", 2))
    assert [v.shape for v in prepare(case, {"unk__2": 5}).inputs] == [(1, 5, 3), (1, 2)]
    done = prepare(case, {"batch": "1..4", "unk__2": 5})
    assert [str(v.shape) for v in done.inputs] == ["(batch, 5, 3)", "(batch, 2)"]
    assert done.notes == []
    done = prepare(case, {"n": "1..4", "t": "1..9"}, {"a": ["n", "t", 3], "b": ["n", 2]})
    assert [str(v.shape) for v in done.inputs] == ["(n, t, 3)", "(n, 2)"]
    assert prepare(two(("d0", 3), (None, 2)), {"batch": 2}).inputs[1].shape == (2, 2)
    with pytest.raises(UsageError, match="axis 0 of input 'b' is 's0', which is called 'n' and 'm'"):
        prepare(two(("s0", 3), ("s0", 2)), {"n": 2}, {"a": ["n", 3], "b": ["m", 2]})
    for shapes in ((("d0", 3), ("d1", "d0")), (("n", 3), ("d0", 3)), (("s0", 3), ("s1", 3))):
        with pytest.raises(UsageError, match="no graph input has a dim named 'batch'"):
            prepare(two(*shapes), {"batch": 2})
    with pytest.raises(UsageError, match="no graph input has a dim named 'batch'"):
        prepare(two(("d0", 3), ("d1", 3)), {"batch": 2, "d0": 2})


@pytest.mark.parametrize(
    ("case", "listed"),
    [
        (two(("n", 3), ("m", 2)), ["'n' (axis 0 of input 'a')", "--dim m=N"]),
        (two(("n", 3), (4, 2)), ["'n' (axis 0 of input 'a')"]),
        (two(("n", 3), ("n", "n")), ["axis 0 of input 'a', axis 0 of input 'b', axis 1 of input 'b'"]),
        (two(("n", 3), ("n", 2), (3, "n")), ["'n'"]),
        (two(("n", 3), ("n", 2), (7, 5)), ["'n'"]),
        (two(("n", None), ("n", 2)), ["axis 1 of input 'a' is unknown", "--input-shape a=1,N"]),
        (model(RELU, {"x": None}), ["input 'x' has no shape", "--input-shape x="]),
    ],
)
def test_what_is_not_a_batch_is_asked_for(case: OnnxModel, listed: list[str]) -> None:
    with pytest.raises(CompileError) as caught:
        prepare(case)
    assert not isinstance(caught.value, UsageError)
    assert all(part in str(caught.value) for part in listed), str(caught.value)


@pytest.mark.parametrize(
    ("dims", "shapes", "message"),
    [
        ({"m": 1}, {}, r"named 'm'[^$]*the dims are: n, t"),
        ({"n": -1}, {}, "at least 0"),
        ({"n": "128..1"}, {}, "range .* is empty"),
        ({"n": 2.5}, {}, "whole number"),
        ({}, {"z": [1]}, r"named 'z'[^$]*the inputs are: x"),
        ({}, {"x": [1]}, "2 axes"),
        ({"n": 2}, {"x": [3, 1]}, "'n' = 2"),
        ({}, {"x": [1, -1]}, "at least 0"),
    ],
)
def test_wrong_dims(dims: dict[str, Any], shapes: dict[str, list[int]], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        prepare(model(RELU, {"x": ("n", "t")}), dims, shapes)


def test_fixed_extents_have_to_agree() -> None:
    with pytest.raises(UsageError, match="axis 1 of input 'x' is 3"):
        prepare(model(RELU), {}, {"x": [2, 4]})


def test_only_tensors_of_numbers() -> None:
    for dtype in ("sparse", "map", "opaque"):
        bad = model(RELU)
        bad.graph.outputs[0] = OnnxValue("y", dtype)
        with pytest.raises(CompileError, match=f"output 'y' is of type {dtype}"):
            convert(prepare(bad), "net")
    sequence = OnnxModel(
        OnnxGraph("g", [OnnxValue("x", "f32", (2,))], [OnnxValue("y", "unknown")],
        [node("SequenceConstruct", "x x", "y")]), {"": newest_opset()},
    )  # fmt: skip
    assert [v.name for v in convert(prepare(sequence), "net").outputs] == ["y_0", "y_1"]


def test_an_output_that_is_the_input_of_its_name() -> None:
    both = model([node("Relu", "x", "y")], outputs={"y": None, "x": (2, 3)})
    with pytest.raises(CompileError, match="output 'x' is the input of that name"):
        convert(prepare(both), "net")
    renamed = model([node("Identity", "x", "y")])
    assert [v.name for v in convert(prepare(renamed), "net").outputs] == ["y"]


def test_an_output_that_is_listed_twice_is_one() -> None:
    twice = model([node("Relu", "x", "y"), node("Neg", "x", "z")], outputs={"y": None, "z": None})
    twice.graph.outputs.append(OnnxValue("y", "f32", (2, 3)))
    prepared = prepare(twice)
    assert prepared.notes == ["output 'y' is listed 2 times, and is one output"]
    assert [v.name for v in convert(prepared, "net").outputs] == ["y", "z"]


@pytest.mark.parametrize("other", ["input", "output"])
def test_tensors_of_a_sequence_do_not_take_the_names_of_others(other: str) -> None:
    """Of a sequence s the tensors are s_0 and s_1: an output s_0 was called s_0.1, which no reference knows."""
    x = OnnxValue("s_0" if other == "input" else "x", "f32", (2,))
    nodes = [
        node("SequenceConstruct", f"{x.name} {x.name}", "s"),
        node("Relu", x.name, "r" if other == "input" else "s_0"),
    ]
    outputs = [OnnxValue("s", "unknown"), OnnxValue(nodes[1].outputs[0], "f32", (2,))]
    source = OnnxModel(OnnxGraph("g", [x], outputs, nodes), {"": newest_opset()})
    with pytest.raises(CompileError, match=f"'s_0' is the name of a sequence's tensor and of another {other}"):
        convert(prepare(source), "net")
