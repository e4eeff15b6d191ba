"""If, Loop, Scan and sequences whose course is known: against onnxruntime, and the errors where it is not."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.driver import Options, import_graph
from mccompile.importer.control import SHORT_NODES
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph import Graph
from mccompile.ir.limits import limit
from tests.support.small_models import ort_run

Array = np.ndarray[Any, np.dtype[Any]]
N = helper.make_node
SHAPE = (2, 3)
SEEDS = range(24)


def _value(name: str, shape: tuple[int, ...] | None = SHAPE, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, value: Any, dtype: str = "float32") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value, dtype)))


def _graph(
    nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[Any], name: str = "inner"
) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, inputs, outputs)


def _save(folder: Path, nodes: list[onnx.NodeProto], inputs: list[Any], outputs: list[str], opset: int = 17) -> Path:
    infos = [helper.make_empty_tensor_value_info(o) for o in outputs]
    model = helper.make_model(
        _graph(nodes, inputs, infos, "main"), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    model = onnx.shape_inference.infer_shapes(model)
    for output in model.graph.output:
        if output.type.tensor_type.elem_type == 0:
            output.type.tensor_type.elem_type = TensorProto.FLOAT
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def _same(path: Path, inputs: dict[str, Array], constants: dict[str, Array] | None = None) -> Graph:
    """The graph of a model; it must compute what onnxruntime computes."""
    fixed = constants or {}
    graph = import_graph(path, Options(target="generic", constants=fixed)).graph
    want = ort_run(path, {**inputs, **fixed})
    got = graph.evaluate({v.name: inputs[v.name] for v in graph.inputs})
    assert set(got) == set(want)
    for name, value in want.items():
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=1e-5, atol=1e-6, err_msg=name)
    return graph


def _x(seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(0, 1, SHAPE).astype(np.float32)


# -- If ----------------------------------------------------------------------------------------------------
class _Branches:
    """Random nested Ifs; the graphs on both sides use the same names and capture what is around them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.count = 0

    def body(self, known: list[str], depth: int, tag: str) -> tuple[list[onnx.NodeProto], str]:
        nodes: list[onnx.NodeProto] = []
        names = list(known)
        for i in range(int(self.random.integers(1, 4))):
            name = f"v{depth}_{i}{tag}"
            if depth < 3 and self.random.random() < 0.4:
                nodes += self.choice(names, depth, name)
            else:
                a, b = (names[int(k)] for k in self.random.integers(0, len(names), 2))
                nodes.append(N(("Add", "Mul", "Sub", "Max")[int(self.random.integers(0, 4))], [a, b], [name]))
            names.append(name)
        return nodes, names[-1]

    def choice(self, known: list[str], depth: int, name: str) -> list[onnx.NodeProto]:
        condition = f"c{self.count}"
        self.count += 1
        branches = {}
        for side in ("then_branch", "else_branch"):
            nodes, last = self.body(known, depth + 1, "")
            nodes.append(N("Identity", [last], [f"r{depth}"]))
            branches[side] = _graph(nodes, [], [_value(f"r{depth}", None)], side)
        chosen = bool(self.random.integers(0, 2))
        return [_const(condition, chosen, "bool"), N("If", [condition], [name], **branches)]


@pytest.mark.parametrize("seed", SEEDS)
def test_random_branches(seed: int, tmp_path: Path) -> None:
    maker = _Branches(seed)
    nodes = [N("Relu", ["x"], ["a"]), *maker.choice(["x", "a"], 0, "b"), N("Add", ["b", "x"], ["y"])]
    graph = _same(_save(tmp_path, nodes, [_value("x")], ["y"]), {"x": _x(seed)})
    assert all(n.op.name in ("map", "fill") for n in graph.nodes)


def test_the_other_branch_is_not_looked_at(tmp_path: Path) -> None:
    """It holds an operator that is not supported, and one whose types are wrong for this input."""
    other = [
        N("NonZero", ["x"], ["n"]),
        N("Cast", ["n"], ["f"], to=TensorProto.FLOAT),
        N("ReduceSum", ["f"], ["r"], keepdims=0),
    ]
    then = _graph([N("Neg", ["x"], ["r2"])], [], [_value("r2", None)])
    nodes = [
        N("Shape", ["x"], ["s"]), _const("two", [2, 3], "int64"), N("Equal", ["s", "two"], ["e"]),
        N("Cast", ["e"], ["i"], to=TensorProto.INT32), N("ReduceMin", ["i"], ["m"], keepdims=0),
        N("Cast", ["m"], ["c"], to=TensorProto.BOOL),
        N("If", ["c"], ["y"], then_branch=then, else_branch=_graph(other, [], [_value("r", None)])),
    ]  # fmt: skip
    graph = _same(_save(tmp_path, nodes, [_value("x")], ["y"]), {"x": _x()})
    assert len(graph.nodes) == 1


def _conditional(folder: Path) -> Path:
    branches = {
        side: _graph([N(op, ["x"], [f"r{op}"])], [], [_value(f"r{op}")])
        for side, op in (("then_branch", "Neg"), ("else_branch", "Abs"))
    }
    nodes = [_const("k", 16000, "int64"), N("Equal", ["sr", "k"], ["c"]), N("If", ["c"], ["y"], **branches)]
    return _save(folder, nodes, [_value("x"), _value("sr", (), TensorProto.INT64)], ["y"])


def test_an_input_fixed_to_a_value_decides(tmp_path: Path) -> None:
    path = _conditional(tmp_path)
    for rate in (16000, 8000):
        graph = _same(path, {"x": _x()}, {"sr": np.array(rate)})
        assert [v.name for v in graph.inputs] == ["x"]


def test_a_condition_that_depends_on_data_is_one_of_the_run(tmp_path: Path) -> None:
    graph = import_graph(_conditional(tmp_path), Options(target="generic")).graph
    assert [len(n.regions) for n in graph.nodes if n.op.name == "if"] == [2]


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"rate": 1}, "no graph input named 'rate'"),
        ({"sr": 1.5}, "element type"),
        ({"sr": np.zeros((2, 2))}, "shape"),
        ({"sr": np.array("x")}, "numbers"),
        ({"x": 3}, "shape"),
    ],
)
def test_constants_that_do_not_fit(constants: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        import_graph(_conditional(tmp_path), Options(target="generic", constants=constants))


# -- Loop --------------------------------------------------------------------------------------------------
def _loop_body(seed: int) -> onnx.GraphProto:
    """Two carried values, one of which captures x; two scan outputs."""
    random = np.random.default_rng(seed)
    first, second = (("Add", "Mul", "Sub", "Max")[int(k)] for k in random.integers(0, 4, 2))
    nodes = [
        N("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
        N(first, ["a", "x"], ["a2"]),
        N(second, ["b", "f"], ["b2"]),
        N("Tanh", ["a2"], ["a3"]),
        N("ReduceSum", ["b2"], ["row"], keepdims=0),
        N("Identity", ["going"], ["on"]),
    ]
    inputs = [_value("i", (), TensorProto.INT64), _value("going", (), TensorProto.BOOL), _value("a"), _value("b")]
    outputs = [_value("on", (), TensorProto.BOOL), _value("a3"), _value("b2"), _value("row", ()), _value("a2")]
    return _graph(nodes, inputs, outputs)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_loops(seed: int, tmp_path: Path) -> None:
    trips = seed % 5 + 1
    nodes = [
        _const("n", trips, "int64"), _const("yes", True, "bool"), N("Neg", ["x"], ["b0"]),
        N("Loop", ["n", "yes" if seed % 2 else "", "x", "b0"], ["p", "q", "rows", "all"], body=_loop_body(seed)),
    ]  # fmt: skip
    _same(_save(tmp_path, nodes, [_value("x")], ["p", "q", "rows", "all"]), {"x": _x(seed)})


def test_a_loop_that_ends_itself_and_one_within(tmp_path: Path) -> None:
    """while i * i < 20, without a trip count; its body loops i times."""
    inner = _graph(
        [N("Add", ["acc", "x"], ["acc2"]), N("Identity", ["g2"], ["o2"])],
        [_value("j", (), TensorProto.INT64), _value("g2", (), TensorProto.BOOL), _value("acc")],
        [_value("o2", (), TensorProto.BOOL), _value("acc2")],
    )
    body = _graph(
        [
            _const("yes", True, "bool"), N("Loop", ["i", "yes", "s"], ["s2"], body=inner),
            N("Mul", ["i", "i"], ["square"]), _const("limit", 20, "int64"), N("Less", ["square", "limit"], ["on"]),
        ],
        [_value("i", (), TensorProto.INT64), _value("g", (), TensorProto.BOOL), _value("s")],
        [_value("on", (), TensorProto.BOOL), _value("s2")],
    )  # fmt: skip
    nodes = [_const("start", True, "bool"), N("Loop", ["", "start", "x"], ["y"], body=body)]
    graph = _same(_save(tmp_path, nodes, [_value("x")], ["y"]), {"x": _x()})
    assert len(graph.nodes) == 0 + 1 + 2 + 3 + 4 + 5


def test_a_loop_without_iterations(tmp_path: Path) -> None:
    nodes = [
        _const("n", 0, "int64"), N("Loop", ["n", "", "x", "x"], ["p", "q", "rows", "all"], body=_loop_body(1)),
        N("Concat", ["rows", "one"], ["r"], axis=0), _const("one", [1.0]),
        N("Add", ["p", "q"], ["y"]), N("Add", ["y", "r"], ["z"]),
    ]  # fmt: skip
    _same(_save(tmp_path, [nodes[3], *nodes[:3], *nodes[4:]], [_value("x")], ["z"]), {"x": _x()})


def test_a_loop_that_never_begins_needs_no_trip_count(tmp_path: Path) -> None:
    """The condition is false, however many turns the run allows."""
    loop = N("Loop", ["n", "no", "x", "x"], ["y", "q", "rows", "all"], body=_loop_body(1))
    inputs = [_value("n", (), TensorProto.INT64), _value("x")]
    path = _save(tmp_path, [_const("no", False, "bool"), loop], inputs, ["y"])
    _same(path, {"x": _x(), "n": np.array(3)})


def _counting(folder: Path, trips: int | None, opset: int = 17, depth: int = 1) -> Path:
    """Loops ``depth`` deep, each of ``trips`` iterations (None: for ever)."""

    def loop(level: int, source: str) -> list[onnx.NodeProto]:
        inner = loop(level + 1, f"s{level}") if level < depth else [N("Add", [f"s{level}", "x"], [f"t{level + 1}"])]
        body = _graph(
            [*inner, N("Identity", [f"g{level}"], [f"o{level}"])],
            [
                _value(f"i{level}", (), TensorProto.INT64), _value(f"g{level}", (), TensorProto.BOOL),
                _value(f"s{level}"),
            ],
            [_value(f"o{level}", (), TensorProto.BOOL), _value(f"t{level + 1}")],
        )  # fmt: skip
        return [N("Loop", ["n" if trips is not None else "", "yes", source], [f"t{level}"], body=body)]

    nodes = [_const("yes", True, "bool"), *([] if trips is None else [_const("n", trips, "int64")])]
    return _save(folder, [*nodes, *loop(1, "x"), N("Neg", ["t1"], ["y"])], [_value("x")], ["y"], opset)


@pytest.mark.parametrize("trips", [10**12, None])
def test_a_loop_without_end_is_refused_fast(trips: int | None, tmp_path: Path) -> None:
    start = time.perf_counter()
    with pytest.raises(CompileError, match="nothing says how many turns it makes at most"):
        import_graph(_counting(tmp_path, trips), Options(target="generic"))
    assert time.perf_counter() - start < 30


@pytest.mark.parametrize(("trips", "depth"), [(100, 6), (SHORT_NODES + 1, 1), (10**6, 1)])
def test_a_long_loop_stays_one(trips: int, depth: int, tmp_path: Path) -> None:
    graph = import_graph(_counting(tmp_path, trips, depth=depth), Options(target="generic")).graph
    assert sum(n.op.name == "loop" for g in (graph, *graph.all_regions()) for n in g.nodes) == depth


def test_a_long_loop_that_cannot_stay_one_is_unrolled_or_refused(tmp_path: Path) -> None:
    """What it carries grows along two axes from turn to turn."""
    body = _graph(
        [N("Pad", ["s", "pads"], ["t"]), N("Identity", ["g"], ["o"])],
        [_value("i", (), TensorProto.INT64), _value("g", (), TensorProto.BOOL), _value("s", None)],
        [_value("o", (), TensorProto.BOOL), _value("t", None)],
    )
    for trips in (SHORT_NODES, limit("unrolled-nodes")):
        pads = _const("pads", [0, 0, 1, 1], "int64")
        nodes = [_const("n", trips, "int64"), pads, N("Loop", ["n", "", "x"], ["y"], body=body)]
        path = _save(tmp_path, nodes, [_value("x")], ["y"])
        if trips == SHORT_NODES:
            assert import_graph(path, Options(target="generic")).graph.outputs[0].shape == (2 + trips, 3 + trips)
        else:
            rule = f"more than {limit('unrolled-nodes')} nodes .* it cannot stay a loop"
            with pytest.raises(CompileError, match=rule):
                import_graph(path, Options(target="generic"))


def test_a_trip_count_that_depends_on_data(tmp_path: Path) -> None:
    path = _counting(tmp_path, 1)
    model = onnx.load(path)
    del model.graph.node[1]
    model.graph.input.append(_value("n", (), TensorProto.INT64))
    onnx.save(model, path)
    with pytest.raises(CompileError, match="trip count is computed at run time") as caught:
        import_graph(path, Options(target="generic"))
    assert "--bound" in caught.value.hint
    _same(path, {"x": _x()}, {"n": np.array(3)})


def test_a_node_of_a_body_that_is_not_supported_is_named_once(tmp_path: Path) -> None:
    body = _graph(
        [N("NoSuch", ["s"], ["z"], name="culprit"), N("Cast", ["z"], ["f"], to=1), N("ReduceSum", ["f"], ["r"]),
         N("Add", ["s", "r"], ["t"]), N("Identity", ["g"], ["o"])],
        [_value("i", (), TensorProto.INT64), _value("g", (), TensorProto.BOOL), _value("s")],
        [_value("o", (), TensorProto.BOOL), _value("t")],
    )  # fmt: skip
    nodes = [_const("n", 5, "int64"), _const("yes", True, "bool"), N("Loop", ["n", "yes", "x"], ["y"], body=body)]
    with pytest.raises(CompileError) as caught:
        import_graph(_save(tmp_path, nodes, [_value("x")], ["y"]), Options(target="generic"))
    assert str(caught.value).count("NoSuch") == 1
    assert "culprit" in str(caught.value)


# -- Scan --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(16))
def test_random_scans(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    axes, back, out_axis, out_back = (int(k) for k in random.integers(0, 2, 4))
    row = (SHAPE[1],) if axes == 0 else (SHAPE[0],)
    body = _graph(
        [N("Add", ["s", "r"], ["s2"]), N("Tanh", ["s2"], ["o"])],
        [_value("s", row), _value("r", row)],
        [_value("s2", row), _value("o", row)],
    )
    attributes = {
        "num_scan_inputs": 1, "scan_input_axes": [axes], "scan_input_directions": [back],
        "scan_output_axes": [out_axis], "scan_output_directions": [out_back],
    }  # fmt: skip
    nodes = [_const("zero", np.zeros(row)), N("Scan", ["zero", "x"], ["last", "y"], body=body, **attributes)]
    _same(_save(tmp_path, nodes, [_value("x")], ["last", "y"]), {"x": _x(seed)})


@pytest.mark.parametrize("back", [0, 1])
def test_scan_8_goes_along_a_batch(back: int, tmp_path: Path) -> None:
    body = _graph(
        [N("Add", ["s", "r"], ["s2"]), N("Tanh", ["s2"], ["o"])],
        [_value("s", (4,)), _value("r", (4,))],
        [_value("s2", (4,)), _value("o", (4,))],
    )
    inputs = [_value("s0", (2, 4)), _value("x", (2, 3, 4))]
    nodes = [N("Scan", ["", "s0", "x"], ["last", "y"], body=body, num_scan_inputs=1, directions=[back])]
    random = np.random.default_rng(back)
    drawn = {"s0": (2, 4), "x": (2, 3, 4)}
    path = _save(tmp_path, nodes, inputs, ["last", "y"], opset=8)
    _same(path, {k: random.normal(0, 1, shape).astype(np.float32) for k, shape in drawn.items()})


@pytest.mark.parametrize("many", [2**62, 3, 0, -1])
def test_a_scan_of_more_than_it_has_is_refused(many: int, tmp_path: Path) -> None:
    body = _graph(
        [N("Add", ["s", "r"], ["s2"])], [_value("s", SHAPE[1:]), _value("r", SHAPE[1:])], [_value("s2", SHAPE[1:])]
    )
    nodes = [_const("zero", np.zeros(SHAPE[1:])), N("Scan", ["zero", "x"], ["y"], body=body, num_scan_inputs=many)]
    with pytest.raises(CompileError, match=f"2 inputs, of which num_scan_inputs = {many} are to be scanned"):
        import_graph(_save(tmp_path, nodes, [_value("x")], ["y"]), Options(target="generic"))


# -- sequences ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", SEEDS)
def test_random_sequences(seed: int, tmp_path: Path) -> None:
    random = np.random.default_rng(seed)
    nodes = [
        N("Neg", ["x"], ["m"]), N("SequenceConstruct", ["x", "m"], ["s0"]), N("SequenceEmpty", [], ["e"]),
        N("SequenceInsert", ["e", "x"], ["t0"]),
    ]  # fmt: skip
    length = 2
    for k in range(4):
        kind, at = int(random.integers(0, 3)), int(random.integers(-length, length))
        nodes += [_const(f"p{k}", at, "int64"), N("SequenceAt", [f"s{k}", f"p{k}"], [f"v{k}"])]
        nodes.append(N("Exp", [f"v{k}"], [f"w{k}"]))
        if kind == 0 and length > 2:
            nodes.append(N("SequenceErase", [f"s{k}", f"p{k}"], [f"s{k + 1}"]))
            length -= 1
        else:
            where = [f"p{k}"] if kind == 1 else []
            nodes.append(N("SequenceInsert", [f"s{k}", f"w{k}", *where], [f"s{k + 1}"]))
            length += 1
    nodes += [
        N("SequenceLength", ["s4"], ["n"]), N("Cast", ["n"], ["nf"], to=TensorProto.FLOAT),
        N("ConcatFromSequence", ["s4"], ["c"], axis=int(random.integers(-2, 2))),
        N("ConcatFromSequence", ["s4"], ["d"], axis=int(random.integers(-3, 3)), new_axis=1),
        N("SequenceAt", ["t0", "z"], ["u"]),
        N("Add", ["u", "nf"], ["y"]),
    ]  # fmt: skip
    _same(_save(tmp_path, [_const("z", 0, "int64"), *nodes], [_value("x")], ["c", "d", "y"]), {"x": _x(seed)})


@pytest.mark.parametrize(("split", "keep"), [(None, 0), (None, 1), (1, 1), (2, 1), ([1, 2], 1), ([2, 0, 1], 1)])
def test_split_to_sequence(split: Any, keep: int, tmp_path: Path) -> None:
    given = [] if split is None else ["k"]
    nodes = [
        *([] if split is None else [_const("k", split, "int64")]), _const("last", -1, "int64"),
        N("SplitToSequence", ["x", *given], ["s"], axis=1, keepdims=keep), N("SequenceAt", ["s", "last"], ["y"]),
    ]  # fmt: skip
    _same(_save(tmp_path, nodes, [_value("x")], ["y"]), {"x": _x()})


def test_a_sequence_grows_in_a_loop(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    grown = helper.make_tensor_sequence_value_info("s2", TensorProto.FLOAT, None)
    body = _graph(
        [N("Cast", ["i"], ["f"], to=1), N("Mul", ["x", "f"], ["v"]), N("SequenceInsert", ["s", "v"], ["s2"]),
         N("Identity", ["g"], ["o"])],
        [_value("i", (), TensorProto.INT64), _value("g", (), TensorProto.BOOL), sequence],
        [_value("o", (), TensorProto.BOOL), grown],
    )  # fmt: skip
    nodes = [
        _const("n", 4, "int64"), _const("yes", True, "bool"), N("SequenceEmpty", [], ["e"]),
        N("Loop", ["n", "yes", "e"], ["all"], body=body), N("ConcatFromSequence", ["all"], ["y"], axis=0, new_axis=1),
    ]  # fmt: skip
    _same(_save(tmp_path, nodes, [_value("x")], ["y"]), {"x": _x()})


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([N("SequenceEmpty", [], ["s"]), N("ConcatFromSequence", ["s"], ["y"], axis=0)], "empty sequence"),
        ([N("SequenceConstruct", ["x"], ["s"]), N("Relu", ["s"], ["y"])], "of 1 tensors, Relu needs a tensor"),
        (
            [N("SequenceConstruct", ["x"], ["s"]), _const("p", 3, "int64"), N("SequenceAt", ["s", "p"], ["y"])],
            "position 3",
        ),
    ],
)
def test_what_a_sequence_cannot_do(nodes: list[onnx.NodeProto], words: str, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=words):
        import_graph(_save(tmp_path, nodes, [_value("x")], ["y"]), Options(target="generic"))


@pytest.mark.parametrize("holds", [False, True])
def test_a_branch_knows_its_condition(holds: bool, tmp_path: Path) -> None:
    """An If in it on the same condition is none: compilers warn of ``c && !c``. There, the condition is known."""
    inner = [
        _graph([N("Neg", ["x"], ["p"])], [], [_value("p")]),
        _graph([N("Exp", ["x"], ["q"])], [], [_value("q")]),
    ]
    sides = []
    for side in "ae":
        nodes = [
            N("If", ["c"], [f"{side}0"], then_branch=inner[0], else_branch=inner[1]),
            N("Cast", ["c"], [f"{side}1"], to=TensorProto.FLOAT), N("Add", [f"{side}0", f"{side}1"], [f"{side}2"]),
        ]  # fmt: skip
        sides.append(_graph(nodes, [], [_value(f"{side}2")]))
    node = N("If", ["c"], ["y"], then_branch=sides[0], else_branch=sides[1])
    path = _save(tmp_path, [node], [_value("x"), _value("c", (), TensorProto.BOOL)], ["y"])
    graph = _same(path, {"x": _x(), "c": np.array(holds)})
    (outer,) = [n for n in graph.nodes if n.op.name == "if"]
    assert not [n for region in outer.regions for n in region.nodes if n.op.name == "if"]
