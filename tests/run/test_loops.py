"""Loop and Scan that stay loops in C: against onnxruntime, with trip counts and conditions of the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import driver
from mccompile.ir.errors import CompileError, UsageError
from tests.support import harness
from tests.support.read_again import is_read_again
from tests.support.small_models import Array

N = helper.make_node
SHAPE = (2, 5)
LONG = 200
"""Turns that are too many to be unrolled."""


def _value(name: str, shape: Sequence[int] | None = SHAPE, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _const(name: str, array: object, dtype: str = "float32") -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array, dtype)))


def _body(nodes: list[onnx.NodeProto], given: list[onnx.ValueInfoProto], made: list[str]) -> onnx.GraphProto:
    """A body of Loop: the turn i and the condition c are given, the condition ``made[0]`` is made."""
    begin = [_value("i", (), TensorProto.INT64), _value("c", (), TensorProto.BOOL)]
    infos = [helper.make_empty_tensor_value_info(name) for name in made]
    return helper.make_graph(nodes, "body", [*begin, *given], infos)


def _save(
    folder: Path, nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], outputs: Mapping[str, int]
) -> Path:
    infos = [helper.make_tensor_value_info(name, dtype, None) for name, dtype in outputs.items()]
    graph = helper.make_graph(nodes, "loops", inputs, infos)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(onnx.shape_inference.infer_shapes(model), folder / "net.onnx")
    return folder / "net.onnx"


def _compare(
    path: Path, drawn: Sequence[Mapping[str, Array]], target: str, level: str = "O2", **options: object
) -> None:
    """Run on arenas of all kinds of bytes, one input after the other."""
    mccompile.compile(path, path.parent / target, target=target, opt_level=level, **options)  # type: ignore[arg-type]
    network = mccompile.load(path.parent / target)
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for feed in drawn:
        network.fill_arenas(0xFF)
        got = network.run(feed)
        for name, wanted in zip(names, session.run(None, dict(feed)), strict=True):
            assert got[name].shape == wanted.shape
            np.testing.assert_allclose(got[name], wanted, rtol=2e-4, atol=2e-5, err_msg=name)


def _decoder(folder: Path, most: int, first: str = "none") -> Path:
    """Rows that are written one after the other until ``most`` of them are, or one is above a limit, as Paddle writes
    ``while``: assignments add zeros, a branch gives bool[] or bool[1], and ``u`` is not read before it is written."""
    yes = helper.make_graph([_const("yes1", True, "bool")], "yes", [], [_value("yes1", None, TensorProto.BOOL)])
    no_nodes = [
        N("Cast", ["found"], ["f1"], to=TensorProto.INT64), N("Add", ["f1", "zero"], ["f2"]),
        N("Cast", ["f2"], ["no1"], to=TensorProto.BOOL),
    ]  # fmt: skip
    no = helper.make_graph(no_nodes, "no", [], [_value("no1", None, TensorProto.BOOL)])
    nodes = [
        N("Cast", ["k"], ["kf"], to=TensorProto.FLOAT), N("Add", ["kf", "one"], ["kf1"]),
        N("Cast", ["kf1"], ["next"], to=TensorProto.INT64),
        N("Reshape", ["k", "flat"], ["begin"]), N("Reshape", ["next", "flat"], ["next1"]),
        N("Min", ["length", "next1"], ["end"]),
        N("Slice", ["rows", "begin", "end", "zero"], ["part"]), N("Shape", ["part"], ["form"]),
        N("Mul", ["s", "half"], ["h"]), N("Gather", ["x", "k"], ["row"]), N("Add", ["h", "row"], ["s2"]),
        N("Expand", ["s2", "form"], ["wide"]),
        N("Squeeze", ["begin"], ["b0"]), N("Squeeze", ["end"], ["e0"]), N("Range", ["b0", "e0", "step"], ["places"]),
        N("Reshape", ["places", "column"], ["at"]), N("Tile", ["at", "times"], ["index"]),
        N("ScatterElements", ["rows", "index", "wide"], ["written"], axis=0),
        N("ReduceMax", ["s2"], ["top"], keepdims=0), N("Greater", ["top", "limit"], ["high"]),
        N("If", ["high"], ["stop"], then_branch=yes, else_branch=no),
        N("Less", ["next", "most"], ["c1"]), N("Not", ["stop"], ["c2"]), N("And", ["c1", "c2"], ["c3"]),
        N("Cast", ["c3"], ["c4"], to=TensorProto.INT64), N("Add", ["zero", "c4"], ["c5"]),
        N("Cast", ["c5"], ["more"], to=TensorProto.BOOL),
        N("Unsqueeze", ["next", "zero"], ["k1"]), N("Add", ["k1", "zero"], ["k2"]), N("Squeeze", ["k2"], ["k3"]),
        N("Identity", ["stop"], ["found2"]), N("Identity", ["s2"], ["u2"]),
    ]  # fmt: skip
    given = [
        _value("k", None, TensorProto.INT64), _value("found", None, TensorProto.BOOL), _value("s", None),
        _value("rows", None), _value("u", None),
    ]  # fmt: skip
    outer = [
        _const("one", 1.0), _const("half", 0.5), _const("flat", [1], "int64"), _const("length", [most], "int64"),
        _const("zero", [0], "int64"), _const("step", 1, "int64"), _const("column", [-1, 1], "int64"),
        _const("times", [1, 3], "int64"), _const("most", most, "int64"), _const("turns", 1 << 20, "int64"),
        _const("yes0", True, "bool"), _const("k0", 0, "int64"), _const("found0", False, "bool"),
        _const("s0", [0, 0, 0]), _const("rows0", np.zeros((most, 3))), _const("u0", 7.0),
        N("Loop", ["turns", "going" if first == "given" else "yes0", "k0", "found0", "s0", "rows0", "u0"],
          ["k_end", "found_end", "s_end", "rows_end", "u_end"],
          body=_body(nodes, given, ["more", "k3", "found2", "s2", "written", "u2"])),
        N("Reshape", ["k_end", "flat"], ["used"]), N("Slice", ["rows_end", "zero", "used", "zero"], ["y"]),
    ]  # fmt: skip
    outputs = {"y": TensorProto.FLOAT, "k_end": TensorProto.INT64, "u_end": TensorProto.FLOAT}
    inputs = [_value("x", (most, 3)), _value("limit", ())]
    inputs += [_value("going", (), TensorProto.BOOL)] if first == "given" else []
    return _save(folder, outer, inputs, outputs)


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_data_may_end_what_a_number_ends_at_last(target: str, tmp_path: Path) -> None:
    """The number says how large it may become, and where in its rows a turn is."""
    path = _decoder(tmp_path, 40)
    x = np.random.default_rng(1).random((40, 3)).astype(np.float32)
    _compare(path, [{"x": x, "limit": np.array(at, np.float32)} for at in (9, 1.5, -1, 1.7, 1.6)], target)


@pytest.mark.parametrize("level", ["O1", "O2"])
def test_the_number_of_turns_of_a_loop_that_is_folded(level: str, tmp_path: Path) -> None:
    """What the loop reads is known: so is how many turns it makes, of which a counter is made at run time."""
    path = _decoder(tmp_path, 40)
    x = np.random.default_rng(1).random((40, 3)).astype(np.float32)
    given = {"x": x, "limit": np.array(1.6, np.float32)}
    (want,) = ort.InferenceSession(path).run(["k_end"], given)
    model = onnx.load(path)
    kept = [o for o in model.graph.output if o.name == "k_end"]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, path)
    mccompile.compile(path, tmp_path / "out", opt_level=level, constants=given)
    assert mccompile.load(tmp_path / "out").run({})["k_end"] == want


def test_what_is_not_read_is_seen_where_there_may_be_no_turn(tmp_path: Path) -> None:
    """Then it may not become another tensor."""
    path = _decoder(tmp_path, 40, first="given")
    with pytest.raises(CompileError, match=r"'u' is f32\[\] before, and f32\[3\] after a turn"):
        mccompile.compile(path, tmp_path / "out")


class _Drawn:
    """A random Loop: values carried, given back as they are and exchanged; branches and loops inside."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.count = 0

    def _pick(self, of: Sequence[str]) -> str:
        return of[int(self.random.integers(len(of)))]

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _steps(self, known: list[str], number: str, depth: int) -> list[onnx.NodeProto]:
        nodes = [N("Cast", [number], [at := self._name()], to=TensorProto.FLOAT)]
        for _ in range(int(self.random.integers(2, 6))):
            kind = self.random.random()
            new = self._name()
            if kind < 0.15 and depth < 2:
                nodes += self._branch(known, new, depth)
            elif kind < 0.35 and depth < 2:
                trips = int(self.random.integers(1, 4)) * (60 if depth else 1)
                nodes += self.loop(known, new, trips, depth + 1)
            elif kind < 0.5:
                nodes.append(N(self._pick(("Tanh", "Neg", "Softsign")), [self._pick(known)], [new]))
            elif kind < 0.6:
                nodes += [N("Transpose", [self._pick(known)], [new + "t"], perm=[1, 0]),
                          N("MatMul", [new + "t", self._pick(known)], [new + "m"]),
                          N("MatMul", [self._pick(known), new + "m"], [new + "n"]), N("Tanh", [new + "n"], [new])]
            else:
                other = self._pick([*known, at])
                nodes.append(N(self._pick(("Add", "Sub", "Max", "Min")), [self._pick(known), other], [new + "s"]))
                nodes.append(N("Tanh", [new + "s"], [new]))
            known.append(new)
        return nodes

    def _branch(self, known: Sequence[str], new: str, depth: int) -> list[onnx.NodeProto]:
        sides = {}
        for side in ("then_branch", "else_branch"):
            out = self._name()
            nodes = [N(self._pick(("Sigmoid", "Abs", "Identity")), [self._pick(known)], [out])]
            sides[side] = helper.make_graph(nodes, side, [], [helper.make_empty_tensor_value_info(out)])
        total, zero, positive = (f"{new}{k}" for k in "szp")
        branch = N("If", [positive], [new], name=f"if_{new}", **sides)
        return [N("ReduceSum", [self._pick(known)], [total], keepdims=0), _const(zero, 0.3),
                N("Greater", [total, zero], [positive]), branch]  # fmt: skip

    def loop(
        self, known: Sequence[str], new: str, trips: int, depth: int = 0, scans: bool = False
    ) -> list[onnx.NodeProto]:
        """A Loop of so many turns, or fewer where its condition says so; its first result is called ``new``."""
        carried = [self._name() for _ in range(int(self.random.integers(1, 4)))]
        number, going = self._name(), self._name()
        inside = [*carried, *known]
        nodes = self._steps(inside, number, depth)
        made = inside[len(carried) + len(known) :] + carried
        outs = [self._pick(made) for _ in carried]
        rows = [self._pick(made) for _ in range(2 if scans else 0)]
        following = self._name()
        if self.random.random() < 0.5:
            nodes += [_const(f"{following}k", int(self.random.integers(1, 2 * trips)), "int64"),
                      N("Less", [number, f"{following}k"], [following])]
        else:
            nodes.append(N("Identity", [going], [following]))
        results = [self._name() for _ in (*outs, *rows)]
        nodes += [N("Identity", [o], [r]) for o, r in zip([*outs, *rows], results, strict=True)]
        body = helper.make_graph(
            nodes, "body",
            [_value(number, (), TensorProto.INT64), _value(going, (), TensorProto.BOOL), *map(_value, carried)],
            [helper.make_empty_tensor_value_info(o) for o in (following, *results)],
        )  # fmt: skip
        begin = [self._pick(known) for _ in carried]
        outputs = [new, *(f"{new}_{i}" for i in range(1, len(results)))]
        return [_const(f"{new}trips", trips, "int64"),
                N("Loop", [f"{new}trips", "", *begin], outputs, body=body, name=f"loop_{new}")]  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("target", "level"), [("generic", "O0"), ("native", "O2")])
def test_drawn_loops(seed: int, target: str, level: str, tmp_path: Path) -> None:
    drawn = _Drawn(seed)
    nodes = [N("Softsign", ["x"], ["b"]), *drawn.loop(["x", "b"], "y", LONG, scans=True)]
    outputs = nodes[-1].output
    path = _save(tmp_path, nodes, [_value("x")], dict.fromkeys(outputs, TensorProto.FLOAT))
    random = np.random.default_rng(seed)
    _compare(path, [{"x": random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(2)], target, level)


def _accumulating(rows: bool = True) -> onnx.GraphProto:
    """Adds x and the turn to a; ends where the sum of a is not below ``limit``. Rows: a, as it was."""
    nodes = [
        N("Cast", ["i"], ["f"], to=TensorProto.FLOAT), N("Add", ["a", "x"], ["s"]), N("Add", ["s", "f"], ["a2"]),
        N("ReduceSum", ["a2"], ["total"], keepdims=0), N("Less", ["total", "limit"], ["on"]),
        N("Identity", ["a"], ["row"]),
    ]  # fmt: skip
    return _body(nodes, [_value("a")], ["on", "a2", *(["row"] if rows else [])])


def _feed(trips: int, limit: float, going: bool = True) -> dict[str, Array]:
    x = np.linspace(-0.5, 1, 10, dtype=np.float32).reshape(SHAPE)
    return {"x": x, "limit": np.array(limit, np.float32), "trips": np.array(trips), "going": np.array(going)}


GIVEN = [
    _value("x"), _value("limit", ()), _value("trips", (), TensorProto.INT64), _value("going", (), TensorProto.BOOL),
]  # fmt: skip


@pytest.mark.parametrize("target", ["generic", "native"])
def test_what_the_run_says_of_turns(target: str, tmp_path: Path) -> None:
    """Trip count and condition are inputs; no turn, some, and all that there may be."""
    nodes = [N("Loop", ["trips", "going", "x"], ["last", "rows"], body=_accumulating(), name="sum"),
             N("ReduceSum", ["rows", "axes"], ["y"], keepdims=0), N("Neg", ["last"], ["z"])]  # fmt: skip
    path = _save(tmp_path, [_const("axes", [0], "int64"), *nodes], GIVEN, dict.fromkeys(("y", "z", "rows"), 1))
    drawn = [_feed(7, 1e9), _feed(0, 1e9), _feed(5, 1e9, False), _feed(7, 20.0), _feed(-3, 1e9), _feed(1 << 40, 9.0)]
    _compare(path, drawn, target, bounds={"sum": 7})
    network = mccompile.load(tmp_path / target)
    with pytest.raises(CompileError, match="status 14"):
        network.run(_feed(8, 1e9))
    assert network.run(_feed(8, 20.0))["rows"].shape[0] < 7


def test_the_graph_of_a_loop_without_a_turn_has_no_rows(tmp_path: Path) -> None:
    """As `check` evaluates it where weights are in fewer bits."""
    nodes = [N("Loop", ["trips", "going", "x"], ["last", "rows"], body=_accumulating(), name="sum")]
    path = _save(tmp_path, nodes, GIVEN, dict.fromkeys(("last", "rows"), 1))
    graph = driver.import_graph(path, driver.Options(target="generic", bounds={"sum": 7})).graph
    found = graph.evaluate(_feed(0, 1e9))
    assert found["rows"].shape == (0, *SHAPE)
    np.testing.assert_array_equal(found["last"], _feed(0, 1e9)["x"])
    assert graph.evaluate(_feed(3, 1e9))["rows"].shape == (3, *SHAPE)


def test_rows_that_nobody_reads(tmp_path: Path) -> None:
    nodes = [N("Loop", ["trips", "going", "x"], ["last", "rows"], body=_accumulating(), name="sum")]
    path = _save(tmp_path, nodes, GIVEN, {"last": 1})
    _compare(path, [_feed(5, 1e9), _feed(0, 1e9)], "generic", bounds={"sum": 9})


def test_loops_and_counts_of_several_fixed_extents(tmp_path: Path) -> None:
    """Each of the graphs has numbers of turns and counts of its own."""
    nodes = [
        N("Loop", ["trips", "", "x"], ["last", "rows"], body=_accumulating(), name="sum"),
        N("NonZero", ["last"], ["places"]), N("Cast", ["places"], ["numbers"], to=TensorProto.FLOAT),
        N("ReduceSum", ["numbers"], ["first"], keepdims=0), N("ReduceSum", ["rows"], ["second"], keepdims=0),
    ]  # fmt: skip
    given = [_value("x", ("n", 5)), *GIVEN[1:3]]  # type: ignore[arg-type]
    path = _save(tmp_path, nodes, given, {"first": 1, "second": 1})
    random = np.random.default_rng(2)
    feeds = [{**_feed(5, 1e9), "x": random.normal(0, 1, (n, 5)).astype(np.float32)} for n in (4, 2)]
    for feed in feeds:
        del feed["going"]
    _compare(path, feeds, "generic", dims={"n": "2,4"}, bounds={"sum": 9})


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("turns", [LONG, "n"])
def test_rows_that_are_appended_to_none(turns: int | str, before: bool, tmp_path: Path) -> None:
    """What has no row at first is in no node of the body, but it is what the turns begin with."""
    joined = ["row", "a"] if before else ["a", "row"]
    body = _body(
        [N("Unsqueeze", ["i", "zero"], ["at"]), N("Gather", ["x", "at"], ["row"]), N("Concat", joined, ["b"], axis=0),
         N("Identity", ["c"], ["on"])],
        [_value("a", ("k", 3))], ["on", "b"],  # type: ignore[arg-type]
    )  # fmt: skip
    nodes = [
        _const("zero", [0], "int64"), N("Shape", ["x"], ["counts"], end=1), N("Squeeze", ["counts"], ["trips"]),
        N("Slice", ["x", "zero", "zero", "zero"], ["none"]), N("Loop", ["trips", "", "none"], ["y"], body=body),
    ]  # fmt: skip
    path = _save(tmp_path, nodes, [_value("x", (turns, 3))], {"y": 1})  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    counts = [turns] if isinstance(turns, int) else [1, 2, 7]
    feeds = [{"x": rng.normal(size=(n, 3)).astype(np.float32)} for n in counts]
    _compare(path, feeds, "generic", dims={} if isinstance(turns, int) else {"n": "1..9"})


def test_a_tensor_that_is_read_for_its_extents_grows(tmp_path: Path) -> None:
    body = _body(
        [N("Shape", ["a"], ["s"]), N("Add", ["s", "more"], ["t"]), N("Expand", ["row", "t"], ["b"]),
         N("Identity", ["c"], ["on"])],
        [_value("a", ("k", 3))], ["on", "b"],  # type: ignore[arg-type]
    )  # fmt: skip
    nodes = [
        _const("more", [1, 0], "int64"), _const("trips", LONG, "int64"), N("Relu", ["x"], ["row"]),
        N("Loop", ["trips", "", "x"], ["y"], body=body),
    ]  # fmt: skip
    path = _save(tmp_path, nodes, [_value("x", (1, 3))], {"y": 1})
    _compare(path, [{"x": np.array([[1, -2, 3]], np.float32)}], "generic")


def test_a_loop_that_only_its_condition_ends(tmp_path: Path) -> None:
    nodes = [N("Loop", ["", "", "x"], ["y"], body=_accumulating(rows=False), name="while")]
    path = _save(tmp_path, nodes, GIVEN[:2], {"y": 1})
    with pytest.raises(CompileError, match=r"bounds={'while': N}"):
        mccompile.compile(path, tmp_path / "refused")
    some = [{"x": f["x"], "limit": f["limit"]} for f in (_feed(0, 20.0), _feed(0, -9.0))]
    _compare(path, some, "native", bounds={"while": 50})
    assert "MCC_E_LIMIT " in (tmp_path / "native" / "net.h").read_text()
    with pytest.raises(CompileError, match="status 14"):
        mccompile.load(tmp_path / "native").run(some[0] | {"limit": np.array(1e9, np.float32)})


@pytest.mark.parametrize(("target", "options"), [("native", {"stepwise": True}), ("generic", {"io": "caller"})])
def test_a_loop_in_a_branch_and_one_in_a_loop(target: str, options: dict[str, object], tmp_path: Path) -> None:
    """The inner loop makes as many turns as the number of the outer one says; around both is a branch."""
    inner = helper.make_graph(
        [N("Add", ["b", "s"], ["b2"]), N("Identity", ["c2"], ["on2"]), N("Identity", ["b2"], ["row"])], "inner",
        [_value("j", (), TensorProto.INT64), _value("c2", (), TensorProto.BOOL), _value("b")],
        [helper.make_empty_tensor_value_info(o) for o in ("on2", "b2", "row")],
    )  # fmt: skip
    outer = _body(
        [
            N("Loop", ["i", "", "x"], ["t", "some"], body=inner, name="inner"), _const("axes", [0], "int64"),
            N("ReduceMean", ["t"], ["m"], axes=[1], keepdims=1),
            N("ReduceSum", ["some", "axes"], ["all"], keepdims=0),
            N("Sub", ["all", "m"], ["u"]), N("Tanh", ["u"], ["s2"]), N("Identity", ["c"], ["on"]),
        ],
        [_value("s")], ["on", "s2"],
    )  # fmt: skip
    looped = helper.make_graph(
        [N("Loop", ["trips", "", "x"], ["looped"], body=outer, name="outer")], "yes", [],
        [helper.make_empty_tensor_value_info("looped")],
    )  # fmt: skip
    other = helper.make_graph([N("Abs", ["x"], ["o"])], "no", [], [helper.make_empty_tensor_value_info("o")])
    branch = N("If", ["going"], ["y"], then_branch=looped, else_branch=other)
    path = _save(tmp_path, [branch], [GIVEN[0], *GIVEN[2:]], {"y": 1})
    feeds = (_feed(6, 0), _feed(1, 0), _feed(0, 0), _feed(6, 0, False))
    drawn = [{k: v for k, v in f.items() if k != "limit"} for f in feeds]
    _compare(path, drawn, target, bounds={"outer": 6, "inner": 5}, **options)


@pytest.mark.parametrize(("target", "length"), [("generic", 90), ("native", 90), ("native", "1..90")])
def test_scans_along_any_axes_forwards_and_backwards(target: str, length: int | str, tmp_path: Path) -> None:
    body = helper.make_graph(
        [
            N("Add", ["s", "p"], ["s1"]), N("Tanh", ["s1"], ["s2"]), N("Mul", ["s2", "q"], ["r"]),
            N("Neg", ["p"], ["r2"]),
        ],
        "body", [_value("s", (3,)), _value("p", (3,)), _value("q", (3,))],
        [helper.make_empty_tensor_value_info(o) for o in ("s2", "r", "r2")],
    )  # fmt: skip
    scan = N("Scan", ["s0", "a", "b"], ["last", "rows", "turned"], body=body, name="scan", num_scan_inputs=2,
             scan_input_axes=[0, 1], scan_input_directions=[0, 1], scan_output_directions=[0, 1],
             scan_output_axes=[0, 0 if isinstance(length, str) else 1])  # fmt: skip
    given = [_value("s0", (3,)), _value("a", ("n", 3)), _value("b", (3, "n"))]  # type: ignore[arg-type]
    path = _save(tmp_path, [scan], given, dict.fromkeys(("last", "rows", "turned"), 1))
    random = np.random.default_rng(1)
    lengths = (90, 1, 17) if isinstance(length, str) else (90,)
    shapes = [{"s0": (3,), "a": (n, 3), "b": (3, n)} for n in lengths]
    feeds = [{k: random.normal(0, 1, s).astype(np.float32) for k, s in of.items()} for of in shapes]
    _compare(path, feeds, target, dims={"n": length})
    steps = mccompile.load(tmp_path / target).report["steps"]
    assert len(steps) < 30, "it was unrolled"


def test_every_form_is_a_text_that_is_read_again(tmp_path: Path) -> None:
    nodes = [N("Loop", ["trips", "going", "x"], ["last", "rows"], body=_accumulating(), name="sum")]
    path = _save(tmp_path, nodes, GIVEN, dict.fromkeys(("last", "rows"), 1))
    compilation = driver.import_graph(path, driver.Options(target="generic", bounds={"sum": 9}))
    meant = compilation.graph.evaluate(_feed(5, 1e9))

    driver.compile_program(compilation, is_read_again(tmp_path))
    for name, array in compilation.graph.evaluate(_feed(5, 1e9)).items():
        np.testing.assert_allclose(array, meant[name], rtol=1e-5, atol=1e-6)


def test_a_bound_of_what_the_model_has_not_is_refused_and_one_in_vain_noted(tmp_path: Path) -> None:
    nodes = [N("Loop", ["trips", "", "x"], ["y"], body=_accumulating(rows=False), name="sum")]
    path = _save(tmp_path, nodes, GIVEN[:3], {"y": 1})
    with pytest.raises(UsageError, match="no loop and no extent is named 'some'"):
        mccompile.compile(path, tmp_path / "out", bounds={"some": 3, "sum": 3})
    made = mccompile.compile(path, tmp_path / "out", bounds={"y_0": 3, "sum": 3})
    assert "nothing asks for the bound 'y_0'" in made.notes


@pytest.mark.parametrize("target", ["generic", "native"])
def test_slices_and_comparisons_of_the_number_of_the_turn(target: str, tmp_path: Path) -> None:
    """Rows of a table one after the other; the first turn, and the second, are told from the others."""
    nodes = [
        N("Add", ["i", "one"], ["j"]), N("Slice", ["table", "i", "j"], ["item"]), N("Add", ["a", "item"], ["s"]),
        N("Greater", ["i", "zero"], ["later"]), N("Equal", ["i", "one"], ["second"]), N("Neg", ["s"], ["minus"]),
        N("Where", ["later", "s", "minus"], ["t"]), N("Abs", ["t"], ["u"]), N("Where", ["second", "u", "t"], ["a2"]),
        N("Identity", ["c"], ["on"]),
    ]  # fmt: skip
    body = _body(nodes, [_value("a", (1, 5))], ["on", "a2"])
    body.input[0].type.tensor_type.shape.dim.add().dim_value = 1
    random = np.random.default_rng(3)
    around = [
        _const("one", [1], "int64"), _const("zero", [0], "int64"), _const("first", np.zeros((1, 5))),
        _const("table", random.normal(0, 1, (LONG, 5))), N("Add", ["x", "first"], ["begin"]),
        _const("n", LONG, "int64"), N("Loop", ["n", "", "begin"], ["y"], body=body, name="table"),
    ]  # fmt: skip
    path = _save(tmp_path, around, [_value("x", (1, 5))], {"y": 1})
    _compare(path, [{"x": random.normal(0, 1, (1, 5)).astype(np.float32)} for _ in range(2)], target)


def test_nothing_is_touched_outside_of_the_arena(tmp_path: Path) -> None:
    drawn = _Drawn(3)
    nodes = [N("Softsign", ["x"], ["b"]), *drawn.loop(["x", "b"], "y", LONG, scans=True)]
    path = _save(tmp_path, nodes, [_value("x")], dict.fromkeys(nodes[-1].output, TensorProto.FLOAT))
    x = np.random.default_rng(3).normal(0, 1, SHAPE).astype(np.float32)
    mccompile.compile(path, tmp_path / "out", target="generic", name="turning")
    (got,) = harness.build(tmp_path / "out", harness.SANITIZERS).run("low", [{"x": x}])
    (wanted, *_) = ort.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_allclose(got["y"].reshape(wanted.shape), wanted, rtol=2e-4, atol=2e-5)
