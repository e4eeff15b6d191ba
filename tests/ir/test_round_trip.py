"""Printing and parsing are inverses at every stage, and a parsed program generates the same files."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mccompile.codegen.files import source_files
from mccompile.codegen.model import model_facts
from mccompile.driver import Compilation, Options, import_graph, optimize
from mccompile.ir import files
from mccompile.ir.errors import CompileError
from mccompile.ir.expr import parse, text
from mccompile.ir.files import arrays_of, text_of
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import content_name, digest, parse_graph
from mccompile.ir.kernel_parse import parse_module, parse_program
from mccompile.ir.scalar import Array
from mccompile.ir.types import F16, F32, I16, I32, TensorType
from mccompile.kernel_passes.share_code import share_modules
from mccompile.kernels.registry import params_of
from mccompile.lower.lower import lower
from mccompile.ops.draw import SeededDraw
from mccompile.ops.registry import front_ends, lookup
from mccompile.plan.plan import plan
from tests._fast import share
from tests.support.opcases import case_model

SHARED = Path(os.environ.get("MCC_SHARED", Path(__file__).parents[2] / ".." / "shared"))
MODELS = [*sorted(SHARED.glob("models/*/model.onnx")), *sorted(SHARED.glob("mlperf_tiny/*.onnx"))]
EXAMPLE = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"


def imported(path: Path, options: Options) -> Compilation:
    """The graph of a model; a model with operators that are not supported is skipped."""
    try:
        return import_graph(path, options)
    except CompileError as e:
        pytest.skip(str(e).splitlines()[0][:80])


def graph_round_trip(c: Compilation) -> None:
    printed = text_of(c.graph)
    assert text_of(parse_graph(printed, lookup, arrays_of(c.graph))) == printed
    assert text_of(parse_graph(printed, lookup)) == printed  # arrays are not needed to parse


def round_trip(c: Compilation) -> None:
    """Every stage of a compilation, to the files."""
    graph_round_trip(c)
    optimize(c)
    graph_round_trip(c)
    c.lowered = lower(c.graph, c.target)
    if c.options.opt_level == "Os":
        share_modules([c.lowered.module])
    printed = text_of(c.lowered.module)
    assert text_of(parse_module(printed, lookup, params_of, arrays_of(c.lowered.module))) == printed
    assert text_of(parse_module(printed, lookup, params_of)).count(" means ") == printed.count(" means ")
    c.program = plan(c.lowered.module)
    printed = text_of(c.program)
    parsed = parse_program(printed, lookup, params_of, arrays_of(c.program))
    assert text_of(parsed) == printed
    assert parsed.facts == c.program.facts
    made, again = (source_files(model_facts(p, c.target, c.source, c.sha256, False)) for p in (c.program, parsed))
    assert made == again


@pytest.mark.thorough
@pytest.mark.skipif(not MODELS, reason="no real networks: set MCC_SHARED")
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=pytest.mark.slow) if i % 2 else p for i, p in enumerate(MODELS)],
    ids=lambda p: p.parent.name if p.stem == "model" else p.stem,
)
def test_real_networks(path: Path) -> None:
    stated = path.parent / "io.json"
    shapes = {i["name"]: i["shape"] for i in json.loads(stated.read_text())["inputs"]} if stated.exists() else {}
    level = ("O0", "O2", "Os")[len(path.parent.name) % 3]
    target = ("generic", "x86-64-v3")[len(path.stem + path.parent.name) % 2]
    round_trip(imported(path, Options(target=target, opt_level=level, input_shapes=shapes)))


@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("level", ["O0", "O2", "Os"])
def test_example(level: str, target: str) -> None:
    round_trip(import_graph(EXAMPLE, Options(target=target, opt_level=level)))


SAMPLED = [key for key, row in front_ends().items() if row.sample is not None]


@pytest.mark.parametrize("key", share(SAMPLED, 4), ids=lambda key: key[1])
def test_operators(key: tuple[str, str], tmp_path: Path) -> None:
    """One case of every operator, so that every kernel family and its parameters have a text."""
    row = front_ends()[key]
    assert row.sample is not None
    for seed in range(2):
        case = row.sample(SeededDraw(seed))
        path = tmp_path / f"case{seed}.onnx"
        path.write_bytes(case_model(row, case).SerializeToString())
        c = import_graph(path, Options(target=("x86-64-v3", "generic")[seed]))
        round_trip(c)


def test_files_hold_everything(tmp_path: Path) -> None:
    c = import_graph(EXAMPLE, Options(target="generic"))
    saved: Mapping[str, Array] = arrays_of(c.graph)
    files.save(tmp_path / "g.mcir", c.graph)
    loaded = files.load(tmp_path / "g.mcir", lookup, params_of)
    assert text_of(loaded) == text_of(c.graph)
    assert arrays_of(loaded).keys() == saved.keys()
    assert all(np.array_equal(arrays_of(loaded)[n], saved[n]) for n in saved)
    first = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    files.save(tmp_path / "g.mcir", c.graph)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == first
    assert sorted(first) == ["g.mcir", "g.npz"]


REGIONS = """\
graph @g(%c: bool[], %x: f32[40]) {
  %w = const : f32[40] ; sha256=SHA0
  %y = if(%c, %x) regions {
    graph @then(%x: f32[40]) {
      %w = const : f32[40] ; sha256=SHA1
      %y = map(%x, %w) {expr={(x0 + x1)}} : f32[40]
      return %y
    }
    graph @else(%x: f32[40]) {
      %w = const : f32[40] ; sha256=SHA2
      %zero = const : f32[40] ; sha256=SHA3
      %i = const : i32[40] ; sha256=SHA3
      %y = map(%x, %w, %zero, %i) {expr={(((x0 + x1) + x2) + f32(x3))}} : f32[40]
      return %y
    }
  } : f32[40]
  %z = map(%y, %w) {expr={(x0 * x1)}} : f32[40]
  return %z
}
"""


def test_graphs_inside_have_arrays_of_their_own(tmp_path: Path) -> None:
    """Whose names are those of others, and whose bytes those of another type."""
    arrays = [np.full(40, n, np.float32) for n in (3, 1, 2, 0)]
    source = REGIONS
    for i, array in enumerate(arrays):
        source = source.replace(f"SHA{i}", digest(array))
    beside = {content_name(TensorType(F32, (40,)), digest(a)): a for a in arrays}
    beside[content_name(TensorType(I32, (40,)), digest(arrays[3]))] = np.zeros(40, np.int32)
    files.save(tmp_path / "g.mcir", parse_graph(source, lookup, {**beside, "w": arrays[0]}))
    graph = files.load(tmp_path / "g.mcir", lookup, params_of)
    assert isinstance(graph, Graph)
    assert text_of(graph) == source
    assert arrays_of(graph).keys() == {"w", *beside} - {content_name(TensorType(F32, (40,)), digest(arrays[0]))}
    for c, factor in ((True, 1), (False, 2)):
        inputs = {"c": np.array(c), "x": np.ones(40, np.float32)}
        assert graph.evaluate(inputs)["z"].tolist() == [3 * (1 + factor)] * 40


def test_branches_whose_weights_are_called_alike_are_read_back(tmp_path: Path) -> None:
    """Two branches of the same nodes, whose weights passes call alike."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.normal(size=(8, 8)), "two": rng.normal(size=8), "three": rng.normal(size=8)}
    held = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in weights.items()]
    c = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in "xy")

    def branch(by: str) -> onnx.GraphProto:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["a"]), helper.make_node("Mul", ["a", by], ["b"])]
        return helper.make_graph(nodes, by, [], [helper.make_tensor_value_info("b", TensorProto.FLOAT, [4, 8])])

    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch("two"), else_branch=branch("three"))
    graph = helper.make_graph([choice], "g", [c, x], [y], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    (tmp_path / "net.onnx").write_bytes(made.SerializeToString())
    compilation = import_graph(tmp_path / "net.onnx", Options(target="generic"))
    optimize(compilation)
    graph_round_trip(compilation)
    files.save(tmp_path / "g.mcir", compilation.graph)
    loaded = files.load(tmp_path / "g.mcir", lookup, params_of)
    assert isinstance(loaded, Graph)
    inputs = {"x": rng.normal(size=(4, 8)).astype(np.float32)}
    for chosen in (True, False):
        results = [g.evaluate({**inputs, "c": np.array(chosen)})["y"] for g in (compilation.graph, loaded)]
        np.testing.assert_array_equal(*results)


def test_records_of_equal_bytes_are_told_apart_by_their_type() -> None:
    halves, bits = np.zeros(64, np.float16), np.zeros(64, np.int16)
    assert digest(halves) == digest(bits)
    known = {content_name(TensorType(t, (64,)), digest(a)): a for t, a in ((F16, halves), (I16, bits))}
    first, second = known
    source = f"""\
kernels @hand target=generic {{
  buffer x : f32[64] arena align=4 role=input
  buffer y : f32[64] arena align=4 role=output
  call map.generic map {{expr={{(x0 + 1.0)}}}} (x) -> y means (x, {first}, {second}) -> y
}}
"""
    module = parse_module(source, lookup, params_of, known)
    assert text_of(module) == source
    assert {name: a.dtype for name, a in arrays_of(module).items()} == {name: a.dtype for name, a in known.items()}


MODULE = """\
kernels @hand target=generic {
  buffer x : f32[2,3] arena align=4 role=input
  buffer "two words" : f32[2,3] arena align=4 role=output
  buffer "_" : f32[2,3]:(1,0) arena align=4
  buffer t : f16[1,2,4,4]:nhwc arena align=16 halo=(0:0,1:1,2:0,0:0) fill=-inf
  buffer s : i32[8] arena align=4 role=scratch
  buffer w : f32[3] blob align=4
  fill t -inf
  fill t+4[1,2,2,4]{0,32,8,1} -1.5
  {
    call map.generic map {expr={(x0 + 1.0)}} (x) -> "_" inplace(0) ; a+"b c"
    {
      call map.generic map {expr={select(lt(x0, 1e-05), i32(f32(1.5)), i32(-2))}} ("_") -> "two words"
    }
  }
  call reduce.generic reduce {mode='sum', axes=(1,)} params{kept=1} (x, _, x+1[2,2]{3,1}) \
with(w[2,3]{0,1}, x) pre0{ (acc * x0) } \
post0:i32{ (f32(acc) * x1) } -> "two words", t+2[2,2]{1,2}:(1,0) \
scratch s inplace(1,3) args(x0_e0,y0_s1)
}
"""

PROGRAM = """\
program @hand target=x86-64-v3 arena=64 blob=0 peak=48 bound=48 naive=72 algorithm="push-down" \
inplace(y over m, m over x) {
  buffer x : f32[4] arena @0 align=16 role=input
  buffer m : f32[4] arena @0 align=16
  buffer y : f32[4] arena @16 align=16 role=output
  call map.generic map {expr={relu(x0)}} (x) -> m
  call map.generic map {expr={(x0 + x1)}} (m, m) -> y
}
"""


def test_hand_written_kernels() -> None:
    module = parse_module(MODULE, lookup, params_of)
    assert text_of(module) == MODULE
    with_comments = MODULE.replace("{\n", "{ // here\n", 1) + "// and there\n"
    assert text_of(parse_module(with_comments, lookup, params_of)) == MODULE


def test_hand_written_program() -> None:
    program = parse_program(PROGRAM, lookup, params_of)
    assert text_of(program) == PROGRAM
    assert program.facts.inplace == (("y", "m"), ("m", "x"))
    short = PROGRAM.replace(PROGRAM[PROGRAM.index(" peak=") : PROGRAM.index(" {")], "")
    assert parse_program(short, lookup, params_of).facts.peak == 64


@pytest.mark.parametrize(
    "source",
    ["i32(f32(1.5))", "i32(7)", "f32(i32(7))", "(x0 - -1.0)", "i64(f32(inf))", "f32(true)", "select(true, x0, nan)"],
)
def test_numbers_in_expressions(source: str) -> None:
    """A conversion of a number and a number of that type are different things."""
    assert text(parse(source, lambda i: F32)) == source
    assert parse("i32(7)", [I32]) != parse("i32(f32(7))", [I32])
