"""Tuning: what is measured, when it is measured again, and what becomes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.cli.main import cli
from mccompile.driver import Compilation, Options
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ir.graph import Graph, Node
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.matmul.packed import MatMulGeneric
from mccompile.kernels.registry import candidates as real
from mccompile.kernels.variant import Offer
from mccompile.lower import select
from mccompile.lower.cost_table import signature
from mccompile.ops.registry import lookup
from mccompile.targets.target import resolve, runs_here, targets
from mccompile.tune import tune as tuning
from mccompile.tune.alone import BESIDE, alone
from mccompile.tune.table import Conditions, Measurement, TuningFile, load, load_cached, load_for, save_cached
from mccompile.tune.timer import MachineTimer
from tests.support.graphs import difference, random_inputs

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
CONDITIONS = Conditions("cpu", "cc", "x86-64-v3", ("-O3",), "O2", "cached")
EMPTY = TuningFile(CONDITIONS)


class PlantedTimer:
    """Answers cycles by kernel instead of measuring; remembers what it was asked, and looks into the folders."""

    def __init__(self, **cycles: float) -> None:
        self.cycles = {name.replace("_", "."): c for name, c in cycles.items()}
        self.asked: list[list[str]] = []

    def measure(self, folders: Mapping[str, Path]) -> dict[str, float]:
        self.asked.append(list(folders))
        for label, folder in folders.items():
            report = json.loads((folder / "report.json").read_text())
            kernels = {s["kernel"] for s in report["steps"] if BESIDE not in s["onnx"]}
            assert label.partition(" ")[0] in kernels
        return {label: self.cycles.get(label.partition(" ")[0], 1000.0) for label in folders}


def products(*rows: int, size: int = 16) -> Compilation:
    """Products [m, size] x [size, size], one for each number of rows."""
    lines, results = [], []
    for i, m in enumerate(rows):
        lines.append(f"%w{i} = const : f32[{size},{size}] ; sha256=0")
        lines.append(f"%y{i} = matmul(%x{i}, %w{i}) {{}} post0{{ relu(acc) }} : f32[{m},{size}] ; node{i}")
        results.append(f"%y{i}")
    inputs = ", ".join(f"%x{i}: f32[{m},{size}]" for i, m in enumerate(rows))
    text = f"graph @g({inputs}) {{\n" + "\n".join(lines) + f"\nreturn {', '.join(results)} }}"
    graph = parse_graph(text, lookup)
    rng = np.random.default_rng(0)
    for v in list(graph.constants):
        graph.constants[v] = rng.standard_normal(v.shape).astype(np.float32)
    return Compilation("g", "0" * 64, Options(target="x86-64-v3"), resolve("x86-64-v3"), graph, [])


def test_each_distinct_node_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "HOPELESS", 1e9)
    c = products(4, 4, 5)
    timer = PlantedTimer(matmul_generic=10.0)
    ticks: list[str] = []
    file = tuning.tune(c, EMPTY, timer, ticks.append)
    assert len(timer.asked) == 2
    assert all("matmul.generic" in labels and len(labels) > 1 for labels in timer.asked)
    assert [t.split(":")[0] for t in ticks] == ["measure node 1 of 2", "measure node 2 of 2"]
    assert set(file.nodes) == {signature(n, c.graph.constants) for n in c.graph.nodes}
    assert file.nodes[signature(c.graph.nodes[0], c.graph.constants)]["matmul.generic"].cycles == 10.0
    c.options = replace(c.options, costs=file.costs(), passes=())
    driver.finish(c)
    assert c.lowered is not None
    assert {choice.variant.kernel for choice in c.lowered.choices.values()} == {"matmul.generic"}


def test_what_was_measured_is_not_measured_again() -> None:
    file = tuning.tune(products(4), EMPTY, PlantedTimer())
    again = PlantedTimer()
    assert tuning.tune(products(4), file, again) == file
    assert again.asked == []
    more = PlantedTimer()
    tuning.tune(products(4, 6), file, more)
    assert len(more.asked) == 1


def test_other_code_is_measured_again() -> None:
    file = tuning.tune(products(4), EMPTY, PlantedTimer())
    ((name, found),) = file.nodes.items()
    first = next(iter(found))
    old = {label: replace(m, code="0" * 16) if label == first else m for label, m in found.items()}
    timer = PlantedTimer(**{first: 3.0})
    fresh = tuning.tune(products(4), file.plus(name, old), timer)
    assert timer.asked == [list(found)]  # all of them: what was measured together can be compared
    assert fresh.nodes[name][first].cycles == 3.0


@pytest.mark.parametrize(
    "given",
    [{"package": "zephyr"}, {"package": "cargo", "threads": 2, "pthread_pool": True},
     {"weights": {"*": "i8", "node1": "f32"}}, {"precision": {"*": "f32", "node1": "f32"}}],
)  # fmt: skip
def test_what_is_said_of_the_network_is_not_said_of_a_node(given: dict[str, Any]) -> None:
    """Sources in a folder, names of other nodes."""
    c = products(4, 5)
    c.options = replace(c.options, **given)
    timer = PlantedTimer()
    file = tuning.tune(c, EMPTY, timer)
    assert len(timer.asked) == 2
    assert set(file.nodes) == {signature(n, c.graph.constants) for n in c.graph.nodes}


def test_hopeless_kernels_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    timer = PlantedTimer()
    tuning.tune(products(64), EMPTY, timer)
    assert timer.asked
    assert "matmul.generic" not in timer.asked[0]
    monkeypatch.setattr(tuning, "HOPELESS", 1e9)
    timer = PlantedTimer()
    tuning.tune(products(64), EMPTY, timer)
    assert "matmul.generic" in timer.asked[0]


def test_other_parameters_of_a_kernel_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sized(MatMulGeneric):
        def offer(self, node: Node, target: object, constants: object) -> Offer:
            return Offer(f"{self.kernel} size=1", 1.0)

        def offers(self, node: Node, target: object, constants: object) -> Iterator[Offer]:
            for size in (1, 2):
                yield Offer(f"{self.kernel} size={size}", float(size))

    for module in (tuning, select):
        monkeypatch.setattr(module, "candidates", lambda op: (Sized(),) if op == "matmul" else real(op))
    timer = PlantedTimer()
    tuning.tune(products(4), EMPTY, timer)
    assert timer.asked == [["matmul.generic size=1", "matmul.generic size=2"]]


def test_a_node_by_itself_is_the_same_node() -> None:
    """Layouts, constants, extras that are used twice, f16 and integers go with it."""
    graph = parse_graph(
        """graph @g(%x: f32[1,4,6,6], %e: f32[4,1,1], %i: i64[2], %h: f16[2,3]) {
        %w = const : f32[4,4,3,3] ; sha256=0
        %a = map(%x) {expr={x0}} : f32[1,4,6,6]:nhwc
        %c = conv(%a, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} with(%e, %a)
             post0{ relu(acc * x0 + x1 + x0) } : f32[1,4,6,6]:nhwc
        %d = map(%h) {expr={x0 * 2}, storage='f16'} : f16[2,3]
        %p = map(%i) {expr={x0 + i64(1)}} : i64[2]
        %y = map(%c) {expr={x0}} : f32[1,4,6,6]
        return %y, %d, %p }""",
        lookup,
    )
    (w,) = graph.constants
    graph.constants[w] = np.random.default_rng(0).standard_normal(w.shape).astype(np.float32)
    inputs = random_inputs(graph, 1)
    values = graph.evaluate(inputs, keep=True)
    for node in graph.nodes[1:4]:
        single = alone(node, graph)
        assert [n.origins for n in single.nodes if n.op == node.op] == [node.origins]
        assert all(v.type.layout is None for v in (*single.inputs, *single.outputs))
        sources = [v for v in dict.fromkeys(node.inputs) if v not in graph.constants]
        given = {mine.name: values[v.name] for mine, v in zip(single.inputs, sources, strict=True)}
        (got,) = single.evaluate(given).values()
        want = values[node.result.name]
        assert got.dtype == want.dtype
        assert difference({"y": want}, {"y": got}) < 1e-6
        assert signature(next(n for n in single.nodes if n.op == node.op), single.constants) == signature(
            node, graph.constants
        )


def test_measured_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of many rows: packed tiles take a fraction of the time of plain loops."""
    if not resolve("native").lanes:
        pytest.skip("needs a target with vectors")
    c = products(40, size=128)
    c.target, c.options = resolve("native"), Options()
    node = c.graph.nodes[0]
    timer = MachineTimer(c.target, streamed=True)
    seen: list[dict[str, float]] = []

    class Both:
        def measure(self, folders: Mapping[str, Path]) -> dict[str, float]:
            seen.append(timer.measure(folders))
            return seen[-1]

    monkeypatch.setattr(tuning, "HOPELESS", 1e9)
    tuning.tune(c, EMPTY, Both())
    (cycles,) = seen
    macs = node.op.macs(node.operand_types(), [node.result.type])
    assert min(cycles.values()) < 0.7 * cycles["matmul.generic"]
    assert all(macs / 64 < n < macs * 100 for n in cycles.values())


# ---- the file ---------------------------------------------------------------------------------------


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    file = EMPTY.plus("node", {"a.b": Measurement(12.5, "c0de")})
    file.save(tmp_path / "new" / "t.json")
    assert load(tmp_path / "new" / "t.json") == file
    assert file.costs().cycles == {"node": {"a.b": 12.5}}
    assert file.costs().origin["cpu"] == "cpu"
    other = EMPTY.plus("node", {"a.b": Measurement(12.6, "c0de")})
    assert file.costs().origin["sha256"] != other.costs().origin["sha256"]
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "t.json"]


def _damaged() -> dict[str, str]:
    good = EMPTY.plus("node", {"a.b": Measurement(12.5, "c0de")}).to_json()

    def but(**changes: object) -> str:
        return json.dumps({**good, **changes})

    return {
        "no json": "{", "no object": "[]", "another format": but(format=99), "no nodes": but(nodes=None),
        "no conditions": but(conditions={}), "unknown condition": but(conditions={**good["conditions"], "x": 1}),
        "negative": but(nodes={"n": {"a": {"cycles": -1, "code": ""}}}),
        "not a number": but(nodes={"n": {"a": {"cycles": "fast", "code": ""}}}),
        "endless": but(nodes={"n": {"a": {"cycles": float("inf"), "code": ""}}}),
        "no float": but(nodes={"n": {"a": {"cycles": 10**400, "code": ""}}}),
    }  # fmt: skip


@pytest.mark.parametrize("kind", _damaged())
def test_a_damaged_file_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(_damaged()[kind])
    with pytest.raises(UsageError, match="is no tuning file"):
        load(path)


def test_a_file_of_another_target_is_refused(tmp_path: Path) -> None:
    EMPTY.save(tmp_path / "t.json")
    with pytest.raises(UsageError, match="was measured for target x86-64-v3, not generic"):
        load_for(tmp_path / "t.json", "generic")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CompileError, match="cannot be written"):
        EMPTY.save(tmp_path / "file" / "t.json")


def test_two_processes_keep_what_both_measured() -> None:
    """Each read the cache before the other wrote it."""
    one, other = (EMPTY.plus(name, {"matmul.packed": Measurement(1.0, "c")}) for name in ("one", "other"))
    save_cached(one)
    save_cached(other)
    assert sorted(load_cached(CONDITIONS).nodes) == ["one", "other"]


def test_measurements_of_other_conditions_have_files_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MCC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    changes = ({"cpu": "b"}, {"compiler": "b"}, {"target": "b"}, {"mccompile": "b"}, {"weights": "streamed"}, {})
    paths = {replace(CONDITIONS, **change).path() for change in changes}
    assert len(paths) == len(changes)
    assert all(p.parent == Path("/cache/mccompile") and p.name.startswith("tune-") for p in paths)


# ---- the command ------------------------------------------------------------------------------------


def run(*args: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in args])


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> PlantedTimer:
    timer = PlantedTimer(matmul_generic=1.0)
    monkeypatch.setattr(tuning, "HOPELESS", 1e9)
    monkeypatch.setattr(tuning, "MachineTimer", lambda target, streamed: timer)
    monkeypatch.setattr(tuning, "runs_here", lambda name: True)
    return timer


def _files(out: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in out.iterdir()}


def test_tune_then_reproduce(planted: PlantedTimer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    words = (DIGITS, "--target", "x86-64-v3", "-q", "-o")
    table = tmp_path / "t.json"
    done = run(*words, tmp_path / "plain", "--no-cache")
    assert done.exit_code == 0, done.output
    done = run(*words, tmp_path / "tuned", "--tune", "--tuning", table)
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "cache").exists()
    asked = len(planted.asked)
    assert asked >= 1
    for name in ("again", "once_more"):
        assert run(*words, tmp_path / name, "--tuning", table).exit_code == 0
    assert len(planted.asked) == asked
    assert _files(tmp_path / "again") == _files(tmp_path / "once_more") == _files(tmp_path / "tuned")
    assert _files(tmp_path / "again")["digits.c"] != _files(tmp_path / "plain")["digits.c"]
    report = json.loads((tmp_path / "tuned" / "report.json").read_text())
    assert any(c["kernel"] == "matmul.generic" and c["from"] == "tuned" for c in report["choices"].values())
    assert report["tuning"]["target"] == "x86-64-v3"
    assert str(tmp_path) not in json.dumps(report)


def test_the_cache_keeps_measurements(planted: PlantedTimer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCC_CACHE", str(tmp_path / "cache"))
    for name in ("a", "b"):
        mccompile.compile(DIGITS, tmp_path / name, target="x86-64-v3", tune=True)
        asked, planted.asked = planted.asked, []
        assert bool(asked) == (name == "a")
    assert _files(tmp_path / "a") == _files(tmp_path / "b")
    (file,) = (tmp_path / "cache").glob("tune-*.json")
    file.write_text("{")  # damaged: measured again
    mccompile.compile(DIGITS, tmp_path / "c", target="x86-64-v3", tune=True)
    assert planted.asked


def test_a_tuning_file_of_another_machine_is_begun_anew(planted: PlantedTimer, tmp_path: Path) -> None:
    table = tmp_path / "t.json"
    mccompile.compile(DIGITS, tmp_path / "a", target="x86-64-v3", tune=True, tuning=table)
    asked = len(planted.asked)
    data = json.loads(table.read_text())
    table.write_text(json.dumps({**data, "conditions": {**data["conditions"], "cpu": "another"}}))
    mccompile.compile(DIGITS, tmp_path / "b", target="x86-64-v3", tune=True, tuning=table)
    assert len(planted.asked) == 2 * asked
    assert load(table).conditions.cpu != "another"


def test_extents_of_the_run_are_measured_at_the_largest(planted: PlantedTimer, tmp_path: Path) -> None:
    """Of few rows there are kernels that many have not: x [n, 64] by z [32, 64], turned."""
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", ["n", 64]), ("z", [32, 64]))]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 32])
    nodes = [
        helper.make_node("Transpose", ["z"], ["turned"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "turned"], ["a"]),
        helper.make_node("Relu", ["a"], ["y"]),
    ]
    path = tmp_path / "net.onnx"
    graph = helper.make_graph(nodes, "g", ports, [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    table = tmp_path / "t.json"
    options = ("--target", "x86-64-v3", "--dim", "n=1..7", "--tune", "--tuning", table)
    done = run(path, "-q", "-o", tmp_path / "out", *options)
    assert done.exit_code == 0, done.output
    assert any("matmul.generic" in labels for labels in planted.asked)
    assert not any("matmul.dot" in labels for labels in planted.asked)
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert "matmul.generic" in {c["kernel"] for c in report["choices"].values() if c["from"] == "tuned"}


def test_wrong_usage(tmp_path: Path) -> None:
    done = run(DIGITS, "-o", tmp_path / "out", "--tuning", tmp_path / "none.json")
    assert done.exit_code == 2
    assert "--tune makes one" in done.output
    foreign = [name for name in targets() if not runs_here(name)]
    if foreign:
        done = run(DIGITS, "-o", tmp_path / "out", "--tune", "--target", foreign[0])
        assert done.exit_code == 2
        assert "does not run code for target" in done.output
        assert "--tuning" in done.output
    assert not (tmp_path / "out").exists()


def test_chosen_kernels_cannot_be_tuned(tmp_path: Path) -> None:
    done = run(DIGITS, "-o", tmp_path / "a", "-q", "--target", "generic", "--dump-dir", tmp_path / "ir")
    assert done.exit_code == 0, done.output
    (lowered,) = (tmp_path / "ir").glob("*-lower.mcir")
    done = run(lowered, "-o", tmp_path / "b", "--tune", "--target", "generic")
    assert done.exit_code == 2
    assert "are chosen already" in done.output


def test_several_models_are_tuned_together(planted: PlantedTimer, tmp_path: Path) -> None:
    copy = tmp_path / "second.onnx"
    copy.write_bytes(DIGITS.read_bytes())
    table = tmp_path / "t.json"
    done = run(DIGITS, copy, "-o", tmp_path / "out", "--project", "both", "--target", "x86-64-v3", "-q", "--tune",
               "--tuning", table)  # fmt: skip
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    for model in report["models"].values():
        assert any(c["from"] == "tuned" for c in model["choices"].values())


def test_a_graph_without_rivals_is_quick() -> None:
    graph = Graph("g")
    c = Compilation("g", "0" * 64, Options(target="generic"), resolve("generic"), graph, [])
    assert tuning.tune(c, EMPTY, PlantedTimer()) == EMPTY
