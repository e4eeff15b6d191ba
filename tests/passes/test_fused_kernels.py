"""Generated C of fused nodes: every anchor with epilogues of other types, prologues with operands, moved maps."""

from __future__ import annotations

from pathlib import Path

import pytest

from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes
from mccompile.passes.pipeline import PIPELINES
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests.support.compiled import compiled_graph
from tests.support.graphs import difference, random_inputs
from tests.support.opcases import CaseLibrary

W = "%w = const [1.0, -2.0, 0.5, 3.0, 1.0, -1.0, 2.0, 0.25, 1.0, 1.0, -3.0, 2.0] : f32"

ANCHORS = {
    "conv": (W + "[2,2,3]", "f32[1,2,9]", "conv(%x, %w) {strides=(1,), pads=(1, 1), dilations=(1,)}", "f32[1,2,9]"),
    "pointwise": (W + "[6,2,1]", "f32[1,2,9]", "conv(%x, %w) {strides=(1,), pads=(0, 0), dilations=(1,)}",
                  "f32[1,6,9]"),
    "matmul": (W + "[3,4]", "f32[5,3]", "matmul(%x, %w)", "f32[5,4]"),
    "variable": ("", "f32[5,5]", "matmul(%x, %x)", "f32[5,5]"),
    "pool": ("", "f32[1,2,9]", "pool(%x) {mode='max', kernel=(2,), strides=(2,), pads=(0, 0), dilations=(1,)}",
             "f32[1,2,4]"),
    "reduce": ("", "f32[4,5]", "reduce(%x) {mode='sum', axes=(1,)}", "f32[4,1]"),
    "softmax": ("", "f32[4,5]", "softmax(%x) {axis=1}", "f32[4,5]"),
    "normalize": ("", "f32[4,5]", "normalize(%x) {axes=(1,), epsilon=1e-05}", "f32[4,5]"),
    "attention": ("", "f32[2,4,5]", "attention(%x, %x, %x) {score={x0}, trans_k=True}", "f32[2,4,5]"),
    "average": ("", "f32[1,2,9]", "pool(%x) {mode='average', kernel=(2,), strides=(2,), pads=(0, 0), dilations=(1,)}",
                "f32[1,2,4]"),
    "conv_transpose": (W + "[2,2,3]", "f32[1,2,9]",
                       "conv_transpose(%x, %w) {strides=(2,), pads=(1, 1), dilations=(1,), output_padding=(0,)}",
                       "f32[1,2,17]"),
    "product": ("", "f32[4,5]", "reduce(%x) {mode='prod', axes=(0,)}", "f32[1,5]"),
    "trees": ("%n = const [0, 8, 1061158912, 5, -1090519040, 5] : i32[3,2]\n  %t = const [0, 1] : i32[1,2]\n"
              "  %g = const [0, 1] : i32[2]", "f32[4,5]",
              "tree_ensemble(%x, %n, %t, %g, _, _) {mode='sum', targets=1, bits=3, slots=6}", "f32[4,1]"),
    "arg_reduce": ("", "f32[4,5]", "arg_reduce(%x) {mode='max', axis=1}", "i64[4,1]"),
}  # fmt: skip

EPILOGUES = {
    "mask": "{v} = map(%a) {{expr={{gt(x0, {zero})}}}} : bool{s}",
    "cast": "{v} = map(%a) {{expr={{i32((x0 + x0))}}}} : i32{s}",
    "diamond": "%b = map(%a) {{expr={{lt(x0, {zero})}}}} : bool{s}\n"
    "  {v} = map(%b, %a) {{expr={{select(x0, x1, (x1 + x1))}}}} : {t}{s}",
}

PROLOGUES = {
    "rows": """graph @g(%x: f32[4,5], %r: f32[4,1], %c: f32[5], %s: f32[4,1]) {
      %a = map(%x, %r, %c) {expr={((x0 - x1) * x2)}} : f32[4,5]
      %b = reduce(%a) {mode='sum', axes=(1,)} : f32[4,1]
      %y = map(%b, %s) {expr={(x0 * x1)}} : f32[4,1]
      return %y
    }""",
    "outer": """graph @g(%x: f32[4,5,3], %r: f32[4,1,3], %c: f32[5,1]) {
      %a = map(%x, %r, %c) {expr={((x0 - x1) * x2)}} : f32[4,5,3]
      %y = reduce(%a) {mode='max', axes=(0, 2)} : f32[1,5,1]
      return %y
    }""",
    "two": """graph @g(%x: f32[4,5], %z: f32[4,5]) {
      %a = map(%x, %z) {expr={((x0 - x1) * (x0 - x1))}} : f32[4,5]
      %y = reduce(%a) {mode='sum', axes=(0,)} : f32[1,5]
      return %y
    }""",
    "attention": """graph @g(%x: f32[4,5], %m: f32[5]) {
      %a = map(%x, %m) {expr={((x0 * 0.5) + x1)}} : f32[4,5]
      %y = softmax(%a) {axis=1} : f32[4,5]
      return %y
    }""",
}


def _graphs() -> dict[str, str]:
    found = dict(PROLOGUES)
    for anchor, (weights, operand, call, result) in ANCHORS.items():
        dtype, shape = result.split("[")
        for name, text in EPILOGUES.items():
            zero = "0.0" if dtype == "f32" else f"{dtype}(0)"
            body = text.format(v="%y", s=f"[{shape}", t=dtype, zero=zero)
            found[f"{anchor}_{name}"] = (
                f"graph @g(%x: {operand}) {{\n  {weights}\n  %a = {call} : {result}\n  {body}\n  return %y\n}}"
            )
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_fused_nodes_mean_the_same_in_c(target: str, tmp_path: Path) -> None:
    graphs = _graphs()
    if "avx2" not in Path("/proc/cpuinfo").read_text() and target != "generic":
        pytest.skip("this machine does not run AVX2")
    built = {n: compiled_graph(parse_graph(t, lookup), "O2", f"g_{n}", target=target) for n, t in graphs.items()}
    library = CaseLibrary(tmp_path, list(built.values()), [*resolve(target).c_flags, *STRICT_WARNINGS]).build()
    for name, text in graphs.items():
        graph = parse_graph(text, lookup)
        for seed in (1, 2):
            inputs = random_inputs(graph, seed)
            want = graph.evaluate(inputs)
            got = dict(zip(want, library.run(built[name], inputs), strict=True))
            assert difference(want, got, floor=1) < 1e-5, name


@pytest.mark.parametrize("name", _graphs())
def test_each_is_one_node(name: str) -> None:
    graph = parse_graph(_graphs()[name], lookup)
    run_passes(graph, PIPELINES["O2"])
    assert len(graph.nodes) == 1
