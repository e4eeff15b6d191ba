"""Measured cycles decide between kernels, for the nodes that they were measured for."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from pathlib import Path

import pytest

from mccompile.driver import Options, compile_files
from mccompile.ir.graph import Graph, Node, Value
from mccompile.ir.graph_text import parse_graph
from mccompile.kernels.matmul.packed import MatMulGeneric
from mccompile.kernels.variant import Offer
from mccompile.lower import select
from mccompile.lower.cost_table import UNMEASURED, CostTable, signature
from mccompile.lower.select import choose
from mccompile.ops.registry import lookup
from mccompile.targets.target import Target, resolve

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits" / "digits.onnx"
TARGET = resolve("x86-64-v3")


def product(
    m: int = 4, w: str = "w", extra: str = "f32[6]", post: str = "relu(acc + x0)", trans: bool = False
) -> Graph:
    shape = "6,8" if trans else "8,6"
    return parse_graph(
        f"""graph @g(%x: f32[{m},8], %e: {extra}) {{
        %{w} = const : f32[{shape}] ; sha256=0
        %y = matmul(%x, %{w}) {{trans_b={trans}}} with(%e) post0{{ {post} }} : f32[{m},6]
        return %y }}""",
        lookup,
    )


def sign(graph: Graph) -> str:
    return signature(graph.nodes[-1], graph.constants)


def test_names_are_no_part_of_a_signature() -> None:
    assert sign(product(w="w")) == sign(product(w="other"))


def test_everything_that_decides_on_the_code_is() -> None:
    variable = product()
    del variable.constants[next(iter(variable.constants))]
    forms = [
        product(), product(m=5), product(extra="f32[4,6]"), product(post="acc * x0"), product(trans=True), variable,
    ]  # fmt: skip
    assert len({sign(g) for g in forms}) == len(forms)


def test_layouts_and_repeated_operands_are_part_of_a_signature() -> None:
    def text(operands: str, layout: str) -> str:
        return f"""graph @g(%x: f32[1,2,3,4]{layout}, %z: f32[1,2,3,4]{layout}) {{
        %y = map({operands}) {{expr={{x0 * x1}}}} : f32[1,2,3,4]
        return %y }}"""

    graphs = [parse_graph(text(*f), lookup) for f in itertools.product(("%x, %x", "%x, %z"), ("", ":nhwc"))]
    assert len({sign(g) for g in graphs}) == 4


def measured(node: Node, graph: Graph, **cycles: float) -> CostTable:
    return CostTable({signature(node, graph.constants): cycles})


def test_a_measurement_is_worth_more_than_an_estimate() -> None:
    graph = product()
    (node,) = graph.nodes
    plain = choose(node, TARGET, {}, graph.constants)
    favourite = plain.offer.label
    assert favourite != "matmul.generic"
    assert plain.best.measured is None
    slow = choose(node, TARGET, {}, graph.constants, costs=measured(node, graph, **{favourite: 1e9}))
    assert slow.offer.label == plain.others[0].offer.label
    last = slow.others[-1]
    assert last.offer.label == favourite
    assert (last.cycles, last.measured, last.offer.cycles) == (1e9, 1e9, plain.offer.cycles)
    fast = choose(node, TARGET, {}, graph.constants, costs=measured(node, graph, **{"matmul.generic": 1}))
    assert fast.variant.kernel == "matmul.generic"
    assert [c.cycles for c in fast.others] == sorted(c.cycles for c in fast.others)


def test_a_measurement_of_another_shape_does_not_count() -> None:
    graph, other = product(), product(m=5)
    table = measured(other.nodes[0], other, **{"matmul.generic": 1})
    assert choose(other.nodes[0], TARGET, {}, other.constants, costs=table).variant.kernel == "matmul.generic"
    assert choose(graph.nodes[0], TARGET, {}, graph.constants, costs=table).variant.kernel != "matmul.generic"


def test_a_forced_kernel_is_taken_whatever_was_measured() -> None:
    graph = product()
    (node,) = graph.nodes
    table = measured(node, graph, **{choose(node, TARGET, {}, graph.constants).offer.label: 1})
    forced = choose(node, TARGET, {"matmul": "matmul.generic"}, graph.constants, costs=table)
    assert forced.variant.kernel == "matmul.generic"


class Sized(MatMulGeneric):
    """A kernel with a parameter; its model prefers 1."""

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer:
        return Offer(f"{self.kernel} size=1", 100.0)

    def offers(self, node: Node, target: Target, constants: Container[Value]) -> Iterator[Offer]:
        for size in (1, 2, 3):
            yield Offer(f"{self.kernel} size={size}", 100.0 * size)


def test_other_parameters_need_a_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "candidates", lambda op: (Sized(),))
    graph = product()
    (node,) = graph.nodes

    def chosen(cycles: dict[str, float], force: str = "") -> str:
        table = CostTable({signature(node, graph.constants): cycles})
        return choose(node, TARGET, {"matmul": force}, graph.constants, costs=table).offer.label

    assert chosen({}) == "matmul.generic size=1"
    assert chosen({"matmul.generic size=2": 90}) == "matmul.generic size=2"
    assert chosen({"matmul.generic size=2": 110}) == "matmul.generic size=1"
    assert chosen({"matmul.generic size=1": 500, "matmul.generic size=3": 200}) == "matmul.generic size=3"
    assert chosen({}, "matmul.generic size=3") == "matmul.generic size=3"
    assert chosen({"matmul.generic size=2": 1}, "matmul.generic") == "matmul.generic size=2"


def test_the_report_says_what_was_chosen_and_why() -> None:
    options = Options(target="x86-64-v3")
    c, files = compile_files(DIGITS, options)
    assert c.lowered is not None
    node = next(n for n in c.graph.nodes if n.op.name == "matmul")
    name = node.results[0].name
    from mccompile.report.report import make_report

    plain = make_report(c, files)
    assert plain["tuning"] is None
    row = plain["choices"][name]
    assert (row["kernel"], row["from"]) == (c.lowered.choices[name].offer.label, "model")
    assert row["kernel"] != "matmul.generic"
    assert row["onnx"] == list(node.origins)
    assert row["macs"] == 1280
    assert row["flop_per_cycle"] == pytest.approx(2 * row["macs"] / row["cycles"], rel=0.01)
    peak = resolve("x86-64-v3").machine.multiply_adds
    assert row["of_peak"] == pytest.approx(row["macs"] / row["cycles"] / peak, rel=0.01)
    assert "matmul.generic" in [o["kernel"] for o in row["others"]]
    assert [o["cycles"] for o in row["others"]] == sorted(o["cycles"] for o in row["others"])
    assert all(len(r) == 2 and r[1] for choice in plain["choices"].values() for r in choice["rejected"])

    table = CostTable({signature(node, c.graph.constants): {"matmul.generic": 7}}, {"cpu": "mine"})
    tuned, changed = compile_files(DIGITS, Options(target="x86-64-v3", costs=table))
    report = make_report(tuned, changed)
    row = report["choices"][name]
    assert (row["kernel"], row["cycles"], row["from"]) == ("matmul.generic", 7, "tuned")
    assert row["estimate"] > 7
    assert report["tuning"] == {"cpu": "mine"}
    assert changed["digits.c"] != files["digits.c"]


def test_no_table_is_no_change() -> None:
    assert UNMEASURED.of(product().nodes[0], {}) == {}


@pytest.mark.parametrize(("cycles", "taken"), [(270, "matmul.dot"), (1, "matmul.variable")])
def test_more_memory_has_to_gain_something(cycles: int, taken: str) -> None:
    """`matmul.variable` takes more of the arena: for a thousandth of the network's time it is not worth that."""
    plain, _ = compile_files(DIGITS, Options(target="x86-64-v3"))
    assert plain.lowered is not None
    node = next(n for n in plain.graph.nodes if n.op.name == "matmul")
    name = node.results[0].name
    assert plain.lowered.choices[name].offer.label == "matmul.dot"
    measured = {signature(node, plain.graph.constants): {"matmul.variable": cycles, "matmul.dot": 280}}
    tuned, _ = compile_files(DIGITS, Options(target="x86-64-v3", costs=CostTable(measured)))
    assert tuned.lowered is not None
    assert tuned.program is not None
    assert plain.program is not None
    assert tuned.lowered.choices[name].offer.label == taken
    assert (tuned.program.arena_bytes > plain.program.arena_bytes) == (taken == "matmul.variable")
    assert any("are taken" in note for note in tuned.notes) == (taken == "matmul.dot")
    assert tuned.lowered.choices[name].best.measured == (280 if taken == "matmul.dot" else 1)
