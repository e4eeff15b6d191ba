"""Networks that keep outputs as inputs of the next run: beside onnxruntime that is fed by hand."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import mccompile
from mccompile import driver
from mccompile.check.check import check
from mccompile.driver import Options
from mccompile.ir import files
from mccompile.ir.errors import CompileError, InternalError, UsageError
from mccompile.ir.files import text_of
from mccompile.kernels.registry import params_of
from mccompile.ops.registry import lookup
from mccompile.plan.check import check_program
from mccompile.run.network import Network
from mccompile.targets.target import STRICT_WARNINGS
from tests.support.judge import plain_session
from tests.support.small_models import Array, Maker

STATE = {"hn": "h0", "window_out": "window_in", "sum_out": "sum_in"}


def _cell() -> onnx.ModelProto:
    """A recurrent cell, a window that is shifted, and a sum that is read once more when it has been added to."""
    m = Maker()
    x, h, window = m.input("x", [1, 4]), m.input("h0", [1, 4]), m.input("window_in", [1, 2, 6])
    total = m.input("sum_in", [1, 4])
    both = m.node("Concat", [x, h], axis=1)
    new = m.node("Tanh", [m.node("Add", [m.node("MatMul", [both, m.weight((8, 4))]), m.weight((4,))])], "hn")
    m.node("MatMul", [new, m.weight((4, 3))], "y")
    row = m.node("Reshape", [m.node("MatMul", [new, m.weight((4, 4))]), m.const(np.array([1, 2, 2]))])
    ends = [m.const(np.array([n])) for n in (2, 6, 2)]
    m.node("Concat", [m.node("Slice", [window, *ends]), row], "window_out", axis=2)
    m.node("ReduceSum", [window, m.const(np.array([2]))], "seen", keepdims=0)
    m.node("Add", [m.node("Abs", [x]), total], "sum_out")
    m.node("Sub", [m.node("Exp", ["sum_out"]), total], "grown")
    return m.model(["y", "hn", "window_out", "seen", "sum_out", "grown"])


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("state") / "cell.onnx"
    onnx.save(_cell(), path)
    return path


class _ByHand:
    """onnxruntime, fed what it gave in the run before."""

    def __init__(self, path: Path, state: dict[str, str]) -> None:
        self.session = ort.InferenceSession(path.read_bytes())
        self.state = state
        self.names = [v.name for v in self.session.get_outputs()]
        given = [v for v in self.session.get_inputs() if v.name in state.values()]
        self.held = {v.name: np.zeros(v.shape, np.float32) for v in given}

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        found = dict(zip(self.names, self.session.run(None, {**inputs, **self.held}), strict=True))
        self.held = {given: found.pop(kept) for kept, given in self.state.items()}
        return found


@pytest.mark.thorough
def test_two_streams_keep_what_is_theirs(cell: Path, tmp_path: Path) -> None:
    """Each network has its own state, in the memory of its arena; what the caller stores and writes back goes on."""
    made = mccompile.compile(cell, tmp_path, target="generic", state=STATE)
    assert [p["name"] for p in made.report["inputs"]] == ["x"]
    assert [p["name"] for p in made.report["outputs"]] == ["y", "seen", "grown"]
    assert made.report["memory"]["state_bytes"] == 4 * (4 + 12 + 4)
    rng = np.random.default_rng(0)
    ours, theirs = [mccompile.load(tmp_path) for _ in range(2)], [_ByHand(cell, STATE) for _ in range(2)]
    stored: dict[str, Array] = {}
    for step in range(6):
        which = step % 3 % 2
        x = rng.standard_normal((1, 4)).astype(np.float32)
        got, want = ours[which].run({"x": x}), theirs[which].run({"x": x})
        for name, array in {**want, **theirs[which].held}.items():
            found = got[name] if name in got else ours[which].state[name]
            np.testing.assert_allclose(found, array, rtol=1e-5, atol=1e-6, err_msg=f"{name} in step {step}")
        stored = stored or {name: a.copy() for name, a in ours[0].state.items()}
    for name, array in stored.items():
        ours[1].state[name][...] = array
    ours[0].reset()
    again = _ByHand(cell, STATE)
    x = np.ones((1, 4), np.float32)
    np.testing.assert_allclose(ours[0].run({"x": x})["y"], again.run({"x": x})["y"], rtol=1e-5)
    again.held = stored
    np.testing.assert_allclose(ours[1].run({"x": x})["y"], again.run({"x": x})["y"], rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        Options(target="generic", opt_level="O0", stepwise=True),
        Options(target="native", keep_inputs=True),
        Options(target="generic", io="caller", memory=(("tcm", 96), ("sram", 4096)), opt_level="Os"),
        Options(target="cortex-m4"),
    ],
    ids=["stepwise", "native", "memories", "board"],
)
def test_what_is_kept_is_right_however_it_is_compiled(cell: Path, options: Options) -> None:
    found = check(cell, Options(**{**options.__dict__, "state": STATE}), golden=True)
    assert found.ok, found.lines()
    assert len(found.runs) == 3
    assert {c.name for c in found.runs[2].comparisons} >= set(STATE)


def test_a_window_may_be_shifted_by_a_pad(tmp_path: Path) -> None:
    """All of the padded is filled first, so that it cannot lie over what is shifted into it."""
    m = Maker()
    window = m.input("window", [2, 6])
    m.node("Add", [m.input("x", [2, 1]), window], "y")
    m.node("Pad", [m.node("Add", [window, m.weight((2, 6))]), m.const(np.array([0, -1, 0, 1]))], "made")
    m.node("Pad", [window, m.const(np.array([0, -2, 0, 2]))], "next")
    onnx.save(m.model(["y", "made", "next"]), tmp_path / "window.onnx")
    for kept in ("made", "next"):
        found = check(tmp_path / "window.onnx", Options(target="generic", state={kept: "window"}), golden=True)
        assert found.ok, found.lines()


def test_the_text_of_every_stage_keeps_it(cell: Path, tmp_path: Path) -> None:
    c = driver.open_model(cell, Options(target="generic", state=STATE))
    texts = {}
    driver.compile_program(c, lambda stage, ir: texts.setdefault(stage, text_of(ir)))
    for stage in ("import", "fuse-groups", "lower", "plan"):
        path = tmp_path / f"{stage}.mcir"
        path.write_text(texts[stage])
        again = text_of(files.load(path, lookup, params_of))
        assert again == re.sub(r"(?<=align=16) sha256=\w+", "", texts[stage])
    assert "state %h0 = %hn" in texts["import"]
    assert "role=output state=h0" in texts["plan"]


def test_a_plan_that_loses_state_is_refused(cell: Path) -> None:
    """The next value lies elsewhere; or something else lies where it is kept; or it comes too early."""
    c = driver.open_model(cell, Options(target="generic", state=STATE))
    driver.compile_program(c)
    program = c.program
    assert program is not None
    named = {b.name: b for b in program.module.buffers}
    at = dict(program.offsets)
    program.offsets[named["hn"]] = at[named["h0"]] + 64
    with pytest.raises(InternalError, match=r"is not where the next run has h0|overlap"):
        check_program(program)
    program.offsets.update(at)
    steps = list(program.body.linear())
    first = next(i for i, s in enumerate(steps) if named["hn"] in s.buffers())
    program.module.body = type(program.body)((steps[first], *steps[:first], *steps[first + 1 :]))
    with pytest.raises(InternalError, match="overlap"):
        check_program(program)


def test_what_each_run_may_say_anew_is_no_state(tmp_path: Path) -> None:
    """Both have one type: what is wrong is that its extent has a range, and the hint fixes that."""
    node = helper.make_node("Tanh", ["h"], ["hn"])
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, "m"]) for n in ("h", "hn")]
    other = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("x", "y")]
    nodes = [node, helper.make_node("Neg", ["x"], ["y"])]
    graph = helper.make_graph(nodes, "g", [ports[0], other[0]], [ports[1], other[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UsageError, match=r"both are f32\[2,m\], which each run may say anew") as found:
        driver.open_model(tmp_path / "m.onnx", Options(state={"hn": "h"}, dims={"m": "1..6"}))
    assert found.value.hint == "one extent for all runs: --dim m=6"
    assert check(tmp_path / "m.onnx", Options(target="generic", state={"hn": "h"}, dims={"m": 6})).ok


@pytest.mark.parametrize(
    ("state", "more", "why"),
    [
        ({"h": "h0"}, {}, "no output 'h'"),
        ({"hn": "h"}, {}, "no input 'h'"),
        ({"hn": "window_in"}, {}, r"it is f32\[1,4\], and the input is f32\[1,2,6\]"),
        ({"hn": "h0", "sum_out": "h0"}, {}, "another output is that input already"),
        ({"hn": "h0"}, {"input_formats": {"h0": "u8"}}, "--input says"),
    ],
)
def test_errors(cell: Path, state: dict[str, str], more: dict[str, dict[str, str]], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        driver.open_model(cell, Options(state=state, **more))  # type: ignore[arg-type]


def test_pairs_are_offered_by_name(cell: Path) -> None:
    offered = [n for n in driver.open_model(cell, Options()).notes if "--state" in n]
    assert len(offered) == 1
    assert "--state hn=h0 --state window_out=window_in --state sum_out=sum_in" in offered[0]
    assert not [n for n in driver.open_model(cell, Options(state=STATE)).notes if "--state" in n]


@pytest.mark.parametrize(
    ("batch", "tokens", "window", "turned"), [(1, 1, -1, False), (2, 1, -1, True), (1, 3, 3, True)]
)
def test_a_buffer_of_keys_is_written_in_place(
    batch: int, tokens: int, window: int, turned: bool, tmp_path: Path
) -> None:
    """Past and present of GroupQueryAttention in one buffer: each sample says where its last key is."""
    length, heads, shared, size = 8, 4, 2, 16
    shapes = {n: [batch, tokens, h * size] for n, h in (("q", heads), ("k", shared), ("v", shared))}
    caches = {name: [batch, shared, length, size] for name in ("past_k", "past_v")}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (shapes | caches).items()]
    inputs.append(helper.make_tensor_value_info("last", TensorProto.INT32, [batch]))
    angles = np.random.default_rng(0).uniform(-3, 3, (length, size // 2)).astype(np.float32)
    stored = {"total": np.array(length, np.int32)}
    if turned:
        stored |= {"cos": np.cos(angles), "sin": np.sin(angles)}
    node = helper.make_node(
        "GroupQueryAttention", [*shapes, *caches, "last", *stored], ["y", "new_k", "new_v"], domain="com.microsoft",
        num_heads=heads, kv_num_heads=shared, local_window_size=window, do_rotary=int(turned),
    )  # fmt: skip
    outputs = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s)
        for n, s in (("y", shapes["q"]), ("new_k", caches["past_k"]), ("new_v", caches["past_v"]))
    ]
    weights = [numpy_helper.from_array(a, n) for n, a in stored.items()]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, outputs, weights)
    path = tmp_path / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    state = {"new_k": "past_k", "new_v": "past_v"}
    report = mccompile.compile(path, tmp_path / "out", state=state).report
    copies = [step for step in report["steps"] if step["kernel"].startswith("copy")]
    assert not copies or tokens > 1  # several queries want keys for each of their heads
    net, session = Network(tmp_path / "out", ("-O1",)), plain_session(path.read_bytes())
    net.fill_arenas(0xFF)
    net.reset()
    rng = np.random.default_rng(1)
    held = {n: np.zeros(s, np.float32) for n, s in caches.items()}
    at = np.arange(batch) * (tokens == 1)
    for _ in range(2):
        given = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}
        given["last"] = (at + tokens - 1).astype(np.int32)
        y, held["past_k"], held["past_v"] = session.run(None, given | held)
        np.testing.assert_allclose(net.run(given)["y"], y, atol=1e-5)
        for name, cache in held.items():
            for b, last in enumerate(given["last"]):
                np.testing.assert_allclose(net.state[name][b, :, : last + 1], cache[b, :, : last + 1], atol=1e-5)
        at = at + tokens
    given["last"][:] = length
    with pytest.raises(CompileError, match="index"):
        net.run(given)


def test_outputs_are_as_long_as_the_cache_was_in_the_run(tmp_path: Path) -> None:
    """The next run's cache is longer already when this one's outputs are read."""
    m = Maker()
    now = m.node("Concat", [m.input("past", [2, "n", 3]), m.input("new", [2, 1, 3])], "present", axis=1)
    onnx.save(m.model([m.node("Neg", [now], "y"), "present"]), tmp_path / "cache.onnx")
    mccompile.compile(
        tmp_path / "cache.onnx", tmp_path / "out", target="generic", dims={"n": "0..4"}, state={"present": "past"}
    )
    network = Network(tmp_path / "out")
    rows = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
    for i in range(5):
        got = network.run({"new": rows[:, i : i + 1]})["y"]
        np.testing.assert_array_equal(got, -rows[:, : i + 1])
    network.set_extents({"n": 1})
    got = network.run({"new": rows[:, 4:]})["y"]
    np.testing.assert_array_equal(got, -rows[:, [0, 4]])


def test_a_program_that_has_nothing_to_do(tmp_path: Path) -> None:
    """What is kept is what it was: a step names it, and nothing else names the arena."""
    m = Maker()
    kept = m.input("kept", [4, 1])
    ends = [m.const(np.array([i])) for i in (1, 2, 1)]
    m.node("Slice", [m.node("Concat", [kept, kept], axis=1), *ends], "again")
    onnx.save(m.model(["again"]), tmp_path / "same.onnx")
    out = tmp_path / "out"
    mccompile.compile(tmp_path / "same.onnx", out, target="generic", io="caller", state={"again": "kept"})
    network = Network(out, STRICT_WARNINGS)
    network.run({})
    np.testing.assert_array_equal(network.state["kept"], np.zeros((4, 1)))


def test_a_number_that_is_kept_is_a_view(tmp_path: Path) -> None:
    """Also of a network that an emulator runs, which begins with zeros that are written here."""
    nodes = [helper.make_node("Add", ["kept", "x"], ["next"])]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, []) for n in ("kept", "x", "next")]
    graph = helper.make_graph(nodes, "sum", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "m.onnx")
    mccompile.compile(tmp_path / "m.onnx", tmp_path / "out", target="generic", state={"next": "kept"})
    network = mccompile.load(tmp_path / "out")
    network.run({"x": np.array(2, np.float32)})
    network.run({"x": np.array(3, np.float32)})
    assert network.state["kept"] == 5
    network.state["kept"][...] = 1
    network.run({"x": np.array(3, np.float32)})
    assert network.state["kept"] == 4
