"""The attack of `make fuzz`: what it draws, that it finds planted errors and makes them small, and a seed of each."""

from __future__ import annotations

import os
import random
import re
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from mccompile.check.compare import tolerances
from mccompile.codegen.folder import write_folder
from mccompile.driver import Options, compile_files
from mccompile.ir.files import resealed
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import KernelModule
from mccompile.ir.program import Program
from mccompile.ir.small_floats import bf16_values
from mccompile.targets.target import runs_here
from tests.support.children import SLOW
from tests.support.compose.definite import Refused
from tests.support.compose.network import Step
from tests.support.fuzz import (
    arguments,
    blobs,
    checks,
    files,
    hostile,
    kept,
    networks,
    numbers,
    texts,
    tooled,
    trial,
    written,
)
from tests.support.fuzz.__main__ import attacks
from tests.support.fuzz.attempt import FAULTS, _bits, _meant_by, attempt, expectations
from tests.support.fuzz.family import MAIN, SECOND, WIDE, FamilyComposer, _loses_matrices
from tests.support.fuzz.forms.file_only import random_numbers
from tests.support.fuzz.guarded import outcomes
from tests.support.fuzz.isolated import Say, each_isolated, isolated
from tests.support.fuzz.ledger import Ledger
from tests.support.fuzz.profiles import PROFILES, family
from tests.support.fuzz.programs import compiled
from tests.support.fuzz.setting import VECTORS, Setting
from tests.support.fuzz.shrink import shrunk

KEPT = Path(__file__).parent / "kept"
PLAIN = Setting("generic", "O1", "gcc", ("-O1",), f"1..{MAIN}")


def _chain() -> networks.Family:
    """Five nodes, of which Softmax is the third."""
    c = FamilyComposer(0, (1, 4))
    v = c.input(np.linspace(-1, 1, 2 * MAIN, dtype=np.float32).reshape(2, MAIN))
    for op in ("Neg", "Tanh", "Softmax", "Abs", "Sigmoid"):
        v = c.one(op, v)
    c.net.outputs = [v]
    return c.net


def test_a_seed_is_a_network_a_setting_and_its_data() -> None:
    for profile in ("ints", "quant"):
        (a, one), (b, other) = (networks.network_of(3, profile) for _ in range(2))
        assert a.model().SerializeToString() == b.model().SerializeToString()
        assert one == other
        assert all(np.array_equal(a.inputs[n], b.inputs[n], equal_nan=True) for n in a.inputs)


def test_an_extent_of_the_run_is_a_family_of_networks() -> None:
    net = _chain()
    assert net.axes == {"x1": (1,)}
    assert [run["x1"].shape for run in net.runs().values()] == [(2, 7), (2, 1), (2, 4)]
    (made,) = net.steps[2].outputs
    assert net.as_inputs([made]) == {made: (1,)}
    assert net.model().graph.input[0].type.tensor_type.shape.dim[1].dim_param == "n"


def test_a_planted_error_is_found_and_made_small(tmp_path: Path) -> None:
    """Where C has Softmax, another number is expected: what fails is that node alone, in the plainest setting."""
    net, odd = _chain(), replace(PLAIN, target="native", level="O2", options={"stepwise": True, "exact": True})
    expected = expectations(net, PLAIN, 0)
    assert attempt(net, PLAIN, expected, tmp_path / "right").kind == "ok"
    spoiled = [[replace(e, values={n: a * 1.1 for n, a in e.values.items()}) for e in row] for row in expected]
    assert attempt(net, PLAIN, spoiled, tmp_path / "wrong").kind == "wrong"
    small, plain = shrunk(net, odd, lambda n, s: any(step.op_type == "Softmax" for step in n.steps))
    assert [step.op_type for step in small.steps] == ["Softmax"]
    assert small.axes[next(iter(small.inputs))] == (1,)
    assert (plain.target, plain.level, plain.options) == ("generic", "O0", {})


def test_texts_are_of_all_three_forms(tmp_path: Path) -> None:
    """An error of the drawing itself that passed for a refused sample kept kernels and programs away."""
    forms = {type(texts.drawn(random.Random(seed), tmp_path)[0]) for seed in range(12)}
    assert forms == {Graph, KernelModule, Program}


def test_a_read_beside_an_operand_is_found_in_text(tmp_path: Path) -> None:
    """Sealed, for else it would be refused: the attack has to see what the seal prevents."""
    path = tmp_path / "t.mcir"
    gather = "%i = const [1, 3000] : i32[2] %y = gather(%x, %i) {axis=0, inside=True} : f32[2]"
    trusting = f"graph @m(%x: f32[4]) {{ {gather} return %y }}"
    path.write_text(resealed(trusting))
    write_folder(tmp_path / "out", compile_files(path, Options(target="generic"))[1])
    assert "Sanitizer" in trial.fault(tmp_path / "out", random.Random(0))
    path.write_text(trusting.replace("3000", "3").replace("inside=True", "inside=False"))
    write_folder(tmp_path / "out", compile_files(path, Options(target="generic"))[1])
    assert trial.fault(tmp_path / "out", random.Random(0)) == ""


SEVERAL = (
    replace(PLAIN, project="shared"),
    replace(PLAIN, targets=("generic", "x86-64-v2")),
    replace(PLAIN, options={"threads": 3}),
)


@pytest.mark.thorough
@pytest.mark.parametrize("setting", SEVERAL, ids=lambda s: s.label)
def test_all_programs_of_a_setting_are_run(setting: Setting, tmp_path: Path) -> None:
    if setting.targets and not runs_here("x86-64-v2"):
        pytest.skip("no x86-64")
    net = _chain()
    expected = expectations(net, setting, 0)[:1]
    (tmp_path / "net.onnx").write_bytes(net.model().SerializeToString())
    made = compiled(tmp_path / "net.onnx", tmp_path / "out", setting, {}, {})
    assert sum(1 + (p.single is not None) for p in made) == 2
    assert attempt(net, setting, expected, tmp_path / "run").kind == "ok"


def test_what_onnxruntime_computes_wrongly_is_not_drawn() -> None:
    """Its sums of whole numbers saturate, and lose places beyond 2^53; text is the same wherever it lies."""
    ends = np.array([[2**31 - 1, 5], [3, 4]], np.int32)
    c = FamilyComposer(0, ())
    with pytest.raises(Refused, match="doubles"):
        c.one("ReduceSum", c.input(ends), c.ints(1))
    c.one("ReduceSum", c.input(ends % 100), c.ints(1))
    with pytest.raises(Refused, match="more than 32"):
        c.one("Sign", c.input(np.array([2**31], np.int64)))
    base = c.input(np.array([-2], np.int32))
    c.one("Pow", base, c.input(np.array([2], np.float32)))
    with pytest.raises(Refused, match="ncompatible"):  # onnxruntime itself says so
        c.one("Pow", c.input(np.ones(3, np.int32)), c.input(np.ones(2, np.float32)))
    with pytest.raises(Refused, match="do not fit"):
        c.one("Pow", base, c.input(np.array([0.5], np.float32)))
    nothing, step = {"a": np.ones((1, 2, 0)), "b": np.ones((3, 0, 2))}, Step("MatMul", ("a", "b"), ("y",))
    assert _loses_matrices(step, nothing, [np.zeros((1, 2, 2))])  # by onnxruntime up to 1.31
    assert not _loses_matrices(step, nothing, [np.zeros((3, 2, 2))])
    query, key = (c.input(np.ones((1, 1, n, 2), np.float32)) for n in (1, 2))
    with pytest.raises(Refused, match="behind it"):
        c.one("Attention", query, key, key, "", key, key, is_causal=1)
    assert _bits(np.array(["a" * 50], object)) == _bits(np.array(["a" * 49 + "a"], object))
    assert _bits(np.array(["a"], object)) != _bits(np.array(["b"], object))


@pytest.mark.thorough
def test_weights_in_fewer_bits_are_judged_by_the_graph(tmp_path: Path) -> None:
    c = FamilyComposer(0, ())
    x = c.input(np.linspace(-1, 1, 14, dtype=np.float32).reshape(7, 2))
    c.net.outputs = [c.one("MatMul", x, c.constant(np.linspace(-3, 2, 32, dtype=np.float32).reshape(2, 16) ** 3))]
    narrow = Setting("generic", "O2", "gcc", ("-O1",), options={"weights": "i8"})
    ((run,),) = expectations(c.net, narrow, 0)
    other = [[replace(run, values={n: a + 0.01 for n, a in run.values.items()})]]
    assert attempt(c.net, narrow, other, tmp_path / "narrow").kind == "ok"
    assert attempt(c.net, replace(narrow, options={}), other, tmp_path / "f32").kind == "wrong"


@pytest.mark.thorough
def test_products_in_fewer_bits_are_judged_by_the_graph(tmp_path: Path) -> None:
    """Of 16 products one that is missing is found: what rounding to the other side carries is less."""
    c = FamilyComposer(0, ())
    x = c.input(np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16))
    c.net.outputs = [c.one("MatMul", x, c.constant(np.linspace(-3, 2, 80, dtype=np.float32).reshape(16, 5)))]
    narrow = Setting("generic", "O2", "gcc", ("-O1",), options={"precision": "bf16"})
    ((run,),) = expectations(c.net, narrow, 0)
    other = [[replace(run, values={n: a + 0.01 for n, a in run.values.items()})]]
    assert attempt(c.net, narrow, other, tmp_path / "narrow").kind == "ok"
    assert attempt(c.net, replace(narrow, options={}), other, tmp_path / "f32").kind == "wrong"
    (program,) = compiled(tmp_path / "narrow" / "drawn.onnx", tmp_path / "graph", narrow, {}, {})
    assert program.graph is not None
    meant = _meant_by(program.graph, run, {})
    ((name, want),) = meant.values.items()
    allowed = tolerances(want, meant.noise[name])
    assert (allowed < 0.03 * np.abs(want).max(axis=0)).all()
    assert (allowed > 2.0**-10 * np.abs(want).max(axis=0)).all()


def test_wide_networks_fill_vectors_of_this_machine() -> None:
    nets = [networks.network_of(seed, profile) for seed in range(6) for profile in ("wide", "wide_quant")]
    widths = [max(a.shape, default=0) for net, _ in nets for a in net.inputs.values()]
    assert sum(width >= min(WIDE) for width in widths) > len(widths) / 3
    assert {setting.target for _, setting in nets if not setting.targets} <= set(VECTORS)
    assert any(MAIN in a.shape and max(a.shape) > MAIN for net, _ in nets for a in net.inputs.values())


def test_two_extents_and_a_cache_that_grows() -> None:
    c = FamilyComposer(0, (1, 4), two=True)
    v = c.one("Abs", c.input(np.ones((MAIN, SECOND), np.float32)))
    assert [run["x1"].shape for run in c.net.runs().values()] == [(7, 6), (1, 2), (4, 3)]
    past = c.input(np.ones((1, MAIN), np.float32))
    now = c.one("Concat", past, c.constant(np.full((1, 2), 3, np.float32)), axis=1)
    c.net.states, c.net.grown, c.net.outputs = {now: past}, {now: 2}, [v, c.one("Neg", now), now]
    (turns,) = expectations(c.net, replace(PLAIN, state={now: past}, second=f"1..{SECOND}"), 0)
    rows = [t.values[c.net.outputs[1]].tolist() for t in turns]
    assert rows == [[[0, *[-3] * count]] for count in (2, 4, 6)]


def test_what_only_the_file_has() -> None:
    """Random numbers are an input beside onnxruntime, f32 that bfloat16 has are bfloat16."""
    c = FamilyComposer(1, ())
    (made,) = random_numbers(c)
    c.net.outputs = [made]
    c.net.prune()
    (node,) = c.net.model().graph.node
    assert node.op_type.startswith(("Random", "Bernoulli"))
    assert set(c.net.drawn.values()) <= {f"{made}.normal", f"{made}.uniform"}
    c = FamilyComposer(1, (), halves=True)
    x = c.input(np.array([1 + 2**-12, 3], np.float32))
    c.net.outputs = [c.one("Abs", x)]
    assert c.net.inputs[x][0] == 1
    assert c.net.model().graph.input[0].type.tensor_type.elem_type == TensorProto.BFLOAT16


def test_what_ends_a_process_is_told() -> None:
    def aborts(say: object) -> None:
        say("begun")  # type: ignore[operator]
        os.kill(os.getpid(), signal.SIGKILL)

    assert isolated(aborts, 9).by == "SIGKILL"
    assert isolated(aborts, 9).last == "begun"
    assert isolated(lambda _: 7, 9).answer == 7
    assert "ZeroDivisionError" in isolated(lambda _: 1 // 0, 9).by
    ends = [ended.answer or ended.by for ended in each_isolated([lambda _: 1, aborts, lambda _: 3], 9)]
    assert ends == [1, "SIGKILL", 3]
    hung = isolated(lambda _: [None for _ in iter(int, 1)], 1)
    assert hung.answer is None
    assert hung.by in SLOW  # on a busy machine, a second of its own may take longer than it may wait


def test_memory_counts_from_the_last_word() -> None:
    def grows(say: Say) -> int:
        drawn = np.ones(64 << 20, np.uint8)
        say("judged")
        return int(drawn[0])

    assert isolated(grows, 9).mib < 32
    assert isolated(lambda _: int(np.ones(64 << 20, np.uint8)[0]), 9).mib >= 60


def test_every_form_is_drawn() -> None:
    for name in ("text", "floats"):
        ops = {step.op_type for seed in range(6) for step in family(seed, name, ()).steps}
        assert len(ops) > 8, (name, ops)
    assert all(form for profile in PROFILES.values() for form in profile.choices)


def test_what_is_kept_is_tried_again(tmp_path: Path) -> None:
    kept.write(tmp_path, _chain(), PLAIN, "planted", "nothing is wrong")
    assert kept.again(tmp_path).kind == "ok"
    assert all(kept.again(folder).kind == "ok" for folder in KEPT.glob("*/"))


def test_a_ledger_goes_on_where_it_ended_and_is_written_down(tmp_path: Path) -> None:
    ledger = Ledger.read(tmp_path / "ledger_5.json")
    assert ledger.seed("ints", 5) == 5
    for kind in ("ok", "wrong", "none"):
        ledger.note("ints", kind, 60)
    ledger.write()
    again = Ledger.read(ledger.path)
    assert again.seed("ints", 5) == 8
    told = "<!-- fuzz -->\n| `ints` | 96 | 92 | 4 |  |  | 4 |\n<!-- end fuzz -->\n"
    told = written.record(told, [again])
    assert "\n| `ints` | 99 | 93 | 4 | 1 | 1 | 7 |\n" in told
    assert written.record(told, [Ledger.read(ledger.path)]) == told
    assert Ledger.read(ledger.path).seed("ints", 5) == 8
    attacks_told = re.findall(r"`(\w+)`", written.DOCUMENT.read_text())
    assert set(attacks()) <= set(attacks_told)


def test_what_tools_leave_is_a_network_of_steps(tmp_path: Path) -> None:
    """Fused by the optimiser, quantised by ranges, in f16: the same answers where nothing is rounded."""
    c = FamilyComposer(0, ())
    x = c.input(np.linspace(-1, 1, 2 * 3 * 5 * 5, dtype=np.float32).reshape(2, 3, 5, 5))
    w = c.constant(np.linspace(-0.5, 0.5, 4 * 3 * 3 * 3, dtype=np.float32).reshape(4, 3, 3, 3))
    c.net.outputs = [c.one("Relu", c.one("Conv", x, w))]
    job = tooled.Job(random.Random(1), tmp_path / "0.onnx", tmp_path / "1.onnx", c.net.inputs)
    found = {}
    for tool in (tooled.optimise, tooled.quantise, tooled.quantise_operators, tooled.halve):
        made = tooled.read(0, tooled.through([tool], job, c.net.model()), c.net.inputs)
        found[tool] = {step.op_type for step in made.steps}
        want, got = (net.values[net.outputs[0]] for net in (c.net, made))
        np.testing.assert_allclose(got, want, atol=1e-5 if tool is tooled.optimise else 0.05 * np.abs(want).max())
    assert found[tooled.optimise] == {"FusedConv"}
    assert "QuantizeLinear" in found[tooled.quantise]
    assert "QLinearConv" in found[tooled.quantise_operators]
    assert "Cast" in found[tooled.halve]
    with pytest.raises(Refused, match="_no_tool"):
        tooled.through([_no_tool], job, c.net.model())


def _no_tool(job: tooled.Job) -> None:
    raise ValueError(job.path)


def test_damage_of_each_kind_changes_a_file() -> None:
    data = _chain().model().SerializeToString()
    for change in (files.message_changed, files.bytes_changed):
        assert sum(change(data, random.Random(seed)) != data for seed in range(20)) > 15
    assert {files.mutant(seed)[1].split(": ")[-1] for seed in range(12)} >= {"message", "bytes"}


def test_networks_of_bfloat16_are_checked_by_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "NAMES", ("halves",))
    assert list(outcomes([checks.attack(10)])) == [("ok", "")]


def test_what_is_expected_of_bfloat16_is_bits_that_are_nothing_like_it() -> None:
    c = FamilyComposer(0, (), halves=True)
    wrong = checks._wrong(c.net, {"y": np.array([1, -3], np.float32), "i": np.array([1], np.int32)})
    assert {n: bf16_values(a).tolist() for n, a in wrong.items()} == {"y": [29.0, 25.0]}


DAMAGE = [files, numbers, texts, blobs, arguments]


@pytest.mark.parametrize("attack", DAMAGE, ids=lambda m: m.__name__.rsplit(".", 1)[-1])
def test_damaged_input_ends_in_one_error(attack: object) -> None:
    found = list(outcomes([attack.attack(seed) for seed in range(2)]))  # type: ignore[attr-defined]
    assert not [text for kind, text in found if kind in FAULTS], found


@pytest.mark.slow
@pytest.mark.parametrize("profile", PROFILES)
def test_drawn_networks_agree_with_onnxruntime(profile: str) -> None:
    found = list(outcomes([networks.attack(seed, profile) for seed in range(4)], networks.SECONDS))
    assert not [text for kind, text in found if kind in FAULTS], found
    assert sum(kind == "ok" for kind, _ in found) >= 2


def test_what_c_leaves_undefined_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A quotient without the question whether the divisor is 0 or -1; with it, nothing is found."""
    ports = [helper.make_tensor_value_info(name, TensorProto.INT32, [4]) for name in ("a", "b", "y")]
    graph = helper.make_graph([helper.make_node("Div", ["a", "b"], ["y"])], "quotient", ports[:2], ports[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    monkeypatch.setattr(hostile, "base", lambda *_: model)
    monkeypatch.setattr(hostile, "TARGETS", ("generic",))
    compiled = hostile._compiled

    def spoiled(model: onnx.ModelProto, folder: Path, target: str, level: str) -> bool:
        made = compiled(model, folder, target, level)
        text = (folder / "out" / "net.c").read_text()
        plain = text.replace("if (b > 0 || b < -1) {", "{")
        assert plain != text
        (folder / "out" / "net.c").write_text(plain)
        return made

    assert next(outcomes([hostile.attack(1)])) == ("ok", "")
    monkeypatch.setattr(hostile, "_compiled", spoiled)
    assert next(outcomes([hostile.attack(1)]))[0] == "crash"
