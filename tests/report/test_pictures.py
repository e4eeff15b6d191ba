"""Pictures of each IR: every node and edge is in the DOT text and in the ONNX file, under names that survive."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import numpy_helper

from mccompile.cli.main import cli
from mccompile.driver import Options, compile_program, import_graph
from mccompile.ir.files import IR, text_of
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.kernel_parse import parse_module, parse_program
from mccompile.ir.program import Program
from mccompile.kernels.registry import params_of
from mccompile.onnxio import model_to_bytes
from mccompile.ops.registry import lookup, operators
from mccompile.report.dot import dot_text
from mccompile.report.netron import DOMAIN, netron_model
from mccompile.report.picture import Picture, picture
from tests.support.small_models import Maker

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"

GRAPH = r"""graph @g(%x: f32[1,4,6,6], %"a \"b\"\\n&amp;\n": f32[4,1,1]) {
  %w = const : f32[32,4,3,3] ; sha256=000000000000
  %b = const [1.0, 2.0, 3.0, 4.0] : f32[4]
  %c = conv(%x, %w) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)} : f32[1,32,6,6] ; one+two
  %m = map(%x, %"a \"b\"\\n&amp;\n") {expr={(x0 * x1)}} post0{ relu(acc) } : f32[1,4,6,6]
  %s0, %s1 = split(%m) {axis=3, sizes=(2, 4)} : f32[1,4,6,2], f32[1,4,6,4]
  return %c, %s0, %s1, %x
}
"""

PARTS = """program @p target=generic arena=256 blob=0 peak=256 bound=256 naive=320 algorithm="a" {
  buffer x : f32[1,16] arena @0 align=4 role=input
  buffer both : f32[2,16] arena @64 align=4
  buffer both.2 : f32[1,16] arena @64 align=4
  buffer y : f32[1,16] arena @0 align=4 role=output
  fill both[1,16]{16,1} 0.5
  call map.generic map {expr={relu(x0)}} (x) -> both+16[1,16]{16,1} ; first
  fill both[1,16]{16,1} 1.5
  call map.generic map {expr={(x0 + x1)}} (both[1,16]{16,1}, both+16[1,16]{16,1}) -> y inplace(0) ; sum
}
"""


def _compiled() -> dict[str, IR]:
    c = import_graph(DIGITS, Options(target="x86-64-v3"))
    stages: dict[str, IR] = {"import": parse_graph(text_of(c.graph), lookup)}

    def keep(stage: str, ir: IR) -> None:
        if stage == "lower":
            stages[stage] = parse_module(text_of(ir), lookup, params_of)
        if stage == "plan":
            stages[stage] = ir

    compile_program(c, keep)
    stages["optimized"] = c.graph
    return stages


NAMES = ("import", "optimized", "lower", "plan", "graph text", "parts")


@cache
def _all() -> dict[str, IR]:
    found = _compiled()
    found["graph text"] = parse_graph(GRAPH, lookup)
    found["parts"] = parse_program(PARTS, lookup, params_of)
    assert set(found) == set(NAMES)
    return found


def _steps(ir: IR) -> list[str]:
    """The operator of each node or step, by the IR itself."""
    if isinstance(ir, Graph):
        return [n.op.name for n in ir.nodes]
    return ["fill" if isinstance(s, Fill) else s.op.name for s in ir.body.linear()]


STRING = r'"((?:[^"\\]|\\.)*)"'


def _parse_dot(text: str) -> tuple[dict[str, str], list[tuple[str, str, str]]]:
    """Labels by node, and edges; every line has to be one of the forms of the language that are used."""
    head, node_style, edge_style, *lines = text.splitlines()
    assert re.fullmatch(f"digraph {STRING} {{", head)
    assert node_style.startswith('  node [fontname="monospace"')
    assert edge_style.startswith('  edge [fontname="monospace"')
    assert lines.pop() == "}"
    nodes: dict[str, str] = {}
    edges = []
    for line in lines:
        if node := re.fullmatch(rf"  (\w+) \[label={STRING}(?:, \w+=(?:\w+|{STRING}))*\];", line):
            nodes[node[1]] = node[2]
        else:
            edge = re.fullmatch(rf"  (\w+) -> (\w+) \[label={STRING}, edgetooltip={STRING}\];", line)
            assert edge, line
            edges.append((edge[1], edge[2], edge[3]))
    return nodes, edges


def _edges(p: Picture) -> list[tuple[str, str]]:
    makers = {name: f"n{i}" for i, box in enumerate(p.boxes) for name in box.outputs}
    makers.update({name: f"i{i}" for i, name in enumerate(p.inputs)})
    ends = [(name, f"n{i}") for i, box in enumerate(p.boxes) for name in box.inputs if name not in p.constants]
    ends += [(name, f"o{i}") for i, name in enumerate(p.outputs)]
    return sorted((makers[name], end) for name, end in ends if name)


@pytest.mark.parametrize("name", NAMES)
def test_dot_has_every_node_and_edge(name: str) -> None:
    ir = _all()[name]
    nodes, edges = _parse_dot(dot_text(ir))
    boxes = [nodes[f"n{i}"].split("\\n")[0] for i in range(len(_steps(ir)))]
    assert boxes == _steps(ir)
    p = picture(ir)
    assert len(nodes) == len(boxes) + len(p.inputs) + len(p.outputs)
    assert sorted((a, b) for a, b, _ in edges) == _edges(p)
    assert dot_text(ir) == dot_text(ir)
    for i, box in enumerate(p.boxes):
        assert all(str(p.types[name]) in nodes[f"n{i}"] for name in box.inputs if name in p.constants)


def test_dot_of_long_names_is_narrow() -> None:
    """Names as exporters make them leave no line longer than others have."""
    long = "model/" + "/".join(["a_block;of_fused;nodes"] * 20) + "/Conv2D1"
    text = GRAPH.replace("%x", f'%"{long}"').replace("%w", f'%"{long}/w"')
    text = text.replace("one+two", "+".join([f'"{long}"'] * 5))
    found = dot_text(parse_graph(text, lookup))
    nodes, edges = _parse_dot(found)
    lines = [line for label in [*nodes.values(), *(e[2] for e in edges)] for line in label.split("\\n")]
    assert max(map(len, lines)) <= 60
    assert long in found  # in the tips
    assert "and 3 more" in nodes["n0"]


def test_edges_of_a_graph() -> None:
    """Against the text above, written out by hand."""
    _, edges = _parse_dot(dot_text(_all()["graph text"]))
    assert [(a, b) for a, b, _ in edges] == [
        ("i0", "n0"), ("i0", "n1"), ("i1", "n1"), ("n1", "n2"),
        ("n0", "o0"), ("n2", "o1"), ("n2", "o2"), ("i0", "o3"),
    ]  # fmt: skip
    assert edges[0][2] == "x\\nf32[1,4,6,6]"


def test_dot_escapes_names() -> None:
    """Quotes, backslashes, ampersands and line ends of a name are shown, not read."""
    nodes, _ = _parse_dot(dot_text(_all()["graph text"]))
    assert nodes["i1"] == r"a \"b\"\\n&amp;amp;\\n\nf32[4,1,1]"


def test_readers_read_every_part() -> None:
    """A part that was written again is hidden, and a view reads only the parts it touches."""
    p = picture(_all()["parts"])
    assert [(b.inputs, b.outputs) for b in p.boxes] == [
        ((), ("both.fill",)),
        (("x",), ("both",)),
        ((), ("both.fill.2",)),
        (("both.fill.2", "both"), ("y",)),
    ]
    facts = p.boxes[-1].facts
    assert facts["result_offsets"] == (0,)
    assert facts["inplace"] == ("both[1,16]{16,1} in arena @64",)
    assert "shares_memory" not in facts


def test_results_over_their_operands_are_shown() -> None:
    over = parse_program(PARTS.replace("y : f32[1,16] arena @0", "y : f32[1,16] arena @64"), lookup, params_of)
    first, *_, last = (b.facts for b in picture(over).boxes)
    assert last["result_offsets"] == (64,)
    assert "both[1,16]{16,1} in arena @64" in last["shares_memory"]  # type: ignore[operator]
    assert "shares_memory" not in first


@pytest.mark.parametrize("name", ["lower", "plan"])
def test_nothing_a_program_writes_is_left_unread(name: str) -> None:
    """Halos included, which lie outside of what a view says it reads; and values are made before they are read."""
    p = picture(_all()[name])
    assert any(b.kind == "fill" for b in p.boxes)
    known = {*p.inputs, *p.constants}
    for b in p.boxes:
        assert known >= {n for n in b.inputs if n}
        known |= set(b.outputs)
    assert {n for b in p.boxes for n in b.outputs} == {n for b in p.boxes for n in b.inputs if n} - {
        *p.inputs, *p.constants} | set(p.outputs)  # fmt: skip


def _load(ir: IR, path: Path) -> onnx.ModelProto:
    path.write_bytes(model_to_bytes(netron_model(ir), value_info=True))
    return onnx.load(path)


def _attributes(node: onnx.NodeProto) -> dict[str, object]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


@pytest.mark.parametrize("name", NAMES)
def test_onnx_has_every_node(name: str, tmp_path: Path) -> None:
    ir = _all()[name]
    model = _load(ir, tmp_path / "m.onnx")
    g = model.graph
    assert [n.op_type for n in g.node] == _steps(ir)
    assert {n.domain for n in g.node} == {DOMAIN} == {o.domain for o in model.opset_import}
    assert len({n.name for n in g.node}) == len(g.node)
    typed = {v.name for v in [*g.input, *g.output, *g.value_info]} | {t.name for t in g.initializer}
    made = [name for n in g.node for name in n.output]
    assert len(set(made)) == len(made)
    assert {name for n in g.node for name in [*n.input, *n.output] if name} <= typed
    assert {v.name for v in g.output} <= {*made, *(v.name for v in g.input)}
    assert (tmp_path / "m.onnx").read_bytes() == model_to_bytes(netron_model(ir), value_info=True)
    onnx.checker.check_model(model)


def test_onnx_of_a_graph(tmp_path: Path) -> None:
    g = _load(_all()["graph text"], tmp_path / "m.onnx").graph
    (b,) = g.initializer
    assert b.name == "b"
    assert numpy_helper.to_array(b).tolist() == [1, 2, 3, 4]
    (w,) = [v for v in g.input if v.name == "w"]
    assert [d.dim_value for d in w.type.tensor_type.shape.dim] == [32, 4, 3, 3]
    conv, scaled, split = map(_attributes, g.node)
    assert conv["pads"] == [1, 1, 1, 1]
    assert conv["origins"] == b"one + two"
    assert scaled["expr"] == b"{(x0 * x1)}"
    assert scaled["post0"] == b"relu(acc)"
    assert split["axis"] == 3
    assert list(g.node[2].output) == ["s0", "s1"]
    assert g.node[1].input[1] == 'a "b"\\n&amp;\n'


def test_onnx_of_a_program(tmp_path: Path) -> None:
    """Each call carries its kernel, where its results lie, and the ONNX nodes it came from."""
    program = _all()["plan"]
    assert isinstance(program, Program)
    model = _load(program, tmp_path / "m.onnx")
    origins = set()
    calls = 0
    for node, step in zip(model.graph.node, program.body.linear(), strict=True):
        facts = _attributes(node)
        views = step.results if isinstance(step, Call) else (step.view,)
        assert facts["result_offsets"] == [program.offsets[v.buffer] for v in views]
        if isinstance(step, Call):
            calls += 1
            assert facts["kernel_name"] == step.kernel.encode()
            assert len(node.output) == len(step.results)
            origins |= set(str(facts["origins"], "utf-8").split(" + "))  # type: ignore[call-overload]
    assert calls >= 4
    assert {"conv1", "conv2", "pool", "linear"} <= origins
    assert {p.key: p.value for p in model.metadata_props}["ir"] == "program"


def test_facts_of_calls_do_not_hide_attributes() -> None:
    own = {f.name for op in operators().values() for f in op.__dataclass_fields__.values()}
    drawn = {key for ir in _all().values() if not isinstance(ir, Graph) for b in picture(ir).boxes for key in b.facts}
    ours = {"step", "kernel_name", "params", "reads", "extras", "results", "result_offsets", "scratch", "inplace"}
    ours |= {"shares_memory", "args", "origins", "pre0", "post0"}
    assert not own & ours
    assert drawn <= own | ours


def _opt(*args: object) -> Result:
    return CliRunner().invoke(cli, ["opt", *map(str, args)])


def test_opt_writes_pictures(tmp_path: Path) -> None:
    dot, drawn = tmp_path / "a.dot", tmp_path / "a.onnx"
    result = _opt(DIGITS, "-p", "fold-constants,fuse-groups", "--dot", dot, "--onnx", drawn)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == _opt(DIGITS, "-p", "fold-constants,fuse-groups").stdout
    nodes, _ = _parse_dot(dot.read_text())
    names = [n.op_type for n in onnx.load(drawn).graph.node]
    assert names == [nodes[f"n{i}"].split("\\n")[0] for i in range(len(names))]
    assert result.stdout.count("post0{") == sum(label.count("post0: ") for label in nodes.values()) > 0


def test_opt_draws_extents_of_the_run(tmp_path: Path) -> None:
    """An extent is an int, but to ask whether a range has it would be to count."""
    m = Maker()
    m.node("Tile", [m.input("x", ["n", 4]), m.const(np.array([2, 1]))], "y")  # type: ignore[list-item]
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    words = (tmp_path / "net.onnx", "--dim", "n=1..3", "-p", "fold-constants")
    result = _opt(*words, "--dot", tmp_path / "net.dot", "--onnx", tmp_path / "drawn.onnx")
    assert result.exit_code == 0, result.stderr


def test_opt_draws_programs(tmp_path: Path) -> None:
    source = tmp_path / "p.mcir"
    source.write_text(PARTS)
    result = _opt(source, "--onnx", tmp_path / "p.onnx", "--dot", tmp_path / "p.gv")
    assert result.exit_code == 0, result.stderr
    assert [n.op_type for n in onnx.load(tmp_path / "p.onnx").graph.node] == ["fill", "map", "fill", "map"]
    assert len(_parse_dot((tmp_path / "p.gv").read_text())[0]) == 6


def test_opt_refuses_what_would_be_lost(tmp_path: Path) -> None:
    model = tmp_path / "m.onnx"
    model.write_bytes(DIGITS.read_bytes())
    for args, expected in (
        (["--onnx", tmp_path / "." / "m.onnx"], "is the model itself"),
        (["--onnx", tmp_path / "m.dot"], ".onnx"),
        (["--dot", model], ".dot or .gv"),
    ):
        result = _opt(model, *args)
        assert result.exit_code == 2
        assert expected in result.stderr
    assert model.read_bytes() == DIGITS.read_bytes()
    result = _opt(model, "--dot", tmp_path / "none" / "m.dot")
    assert result.exit_code == 1
    assert "cannot write" in result.stderr
