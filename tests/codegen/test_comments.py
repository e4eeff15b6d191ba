"""Every kernel of generated C says what it is, for which steps, and why a pointer is not restrict."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mccompile
from mccompile.codegen.comments import MAX_BODY, Use, kernel_comment, type_text
from mccompile.codegen.names import MAX_LABEL, label
from mccompile.codegen.wrapping import COLUMNS, wrap_comment
from mccompile.ir import expr as ex
from mccompile.ir.dims import symbol
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, whole
from mccompile.ops.map import Map
from mccompile.ops.registry import lookup
from tests._skips import REPOSITORY
from tests.support.compiled import compiled_graph
from tests.support.graphs import fill_constants
from tests.support.small_models import MODELS, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


def _kernels(text: str, name: str) -> Iterator[tuple[str, str]]:
    """The comment of every kernel, and its declaration up to the body."""
    parts = re.split(r"^(/\*(?:(?!\*/).)* steps? @(?:(?!\*/).)*\*/)$", text, flags=re.MULTILINE | re.DOTALL)
    for about, body in zip(parts[1::2], parts[2::2], strict=True):
        begin = rf"^static (?:MCC_ONCE )?(?:void|mcc_status) {name}_k\d+_[a-z_]+"
        found = re.findall(rf"{begin}\(([^{{]*)\)$", body, re.MULTILINE)
        yield " ".join(about.replace("\n *", " ").split()), found[-1]


@pytest.mark.parametrize("level", ["O2", "Os"])
@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_a_comment_says_overlap_where_restrict_is_missing(target: str, level: str, tmp_path: Path) -> None:
    seen = 0
    for model in [DIGITS, *(write_model(name, tmp_path) for name in MODELS)]:
        out = tmp_path / model.stem
        mccompile.compile(model, out, target=target, opt_level=level)
        text = (out / f"{model.stem}.c").read_text()
        kernels = list(_kernels(text, model.stem))
        assert len(kernels) == len(set(re.findall(rf"\b{model.stem}_k\d+", text)))
        for about, parameters in kernels:
            plain = [p for p in parameters.split(",") if "*" in p and "MCC_RESTRICT" not in p]
            if not about.startswith("/* fill"):
                assert ("hence no restrict" in about) == bool(plain), about
                seen += bool(plain)
    assert seen


def test_the_comment_of_a_convolution(tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path, target="generic")
    text = " ".join((tmp_path / "digits.c").read_text().replace("\n *", " ").split())
    assert (
        "/* conv 3x3 s2 p1 'conv2', step @1 (conv.generic): x0 f32[1,16,8,8] nhwc, x1 weights f32[32,16,3,3], "
        "e0 bias f32[32,1,1] -> y0 f32[1,32,4,4] nhwc = relu((acc + e0)). y0 may lie over x0, hence no restrict: "
        in text
    )


@pytest.mark.parametrize(
    ("before", "node"),
    [
        ("map(%x) {expr={neg(x0)}}", "reduce(%b) {mode='prod', axes=(1,)} : f32[4,1]"),
        ("map(%x) {expr={x0 * 0.5}}", "matmul(%b, %w) : f32[4,8]"),
    ],
)
def test_a_kernel_is_named_after_its_operator(before: str, node: str) -> None:
    """What is computed while an operand is read, or went into the weights, comes behind."""
    graph = parse_graph(
        f"""graph @g(%x: f32[4,8]) {{
          %w = const : f32[8,8] ; sha256=0
          %b = {before} : f32[4,8] ; scale
          %y = {node} ; own
          return %y }}""",
        lookup,
    )
    fill_constants(graph, seed=1)
    (kernel,) = compiled_graph(graph, "O2", "g").facts.kernels
    assert " 'own', step @0" in " ".join(kernel.comment.replace("\n *", " ").split())
    assert graph.nodes[0].origins == ("own", "scale")


def _map(extent: int) -> Call:
    x, y = (Buffer(n, TensorType(F32, (1, extent)), "arena", 16) for n in "xy")
    op = Map(ex.apply("relu", ex.var(0, F32)))
    return Call("map.generic", op, None, (whole(x),), (whole(y),), origins=(f"relu{extent}",))


def test_calls_that_share_a_kernel_are_ranges() -> None:
    uses = [Use("net", n, _map(extent)) for n, extent in ((1, 8), (2, 16), (3, 4), (7, 8))]
    about = " ".join(kernel_comment("map.generic", uses).replace("\n *", " ").split())
    assert about == (
        "/* map 'relu8' and 3 more, steps @1-@3, @7 (map.generic): x0 f32[1,4..16] -> y0 f32[1,4..16] = relu(x0). */"
    )


def test_steps_of_several_models() -> None:
    uses = [Use("a", 0, _map(8)), Use("b", 4, _map(8))]
    assert "a step @0; b step @4 (map.generic)" in kernel_comment("map.generic", uses)


def test_comments_are_wrapped() -> None:
    text = wrap_comment("word " * 100)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert text.startswith("/* word")
    assert text.endswith("word */")
    assert text.count("word") == 100
    assert all(line.startswith(" * ") for line in text.splitlines()[1:])


def test_labels_keep_the_end_of_a_path() -> None:
    assert label("/conv/Conv") == "/conv/Conv"
    assert label("/model/decoder/layers/3/self_attention/projection/keys/MatMul") == (
        ".../decoder/layers/3/self_attention/projection/keys/MatMul"
    )
    assert label("a/Relu;" + "b/" * 40) == "a/Relu"
    assert len(label("x" * 500)) == MAX_LABEL


def test_long_extents_are_cut_short() -> None:
    counts = [symbol(f"count_{i}", 0, 9) for i in range(90)]
    assert type_text(TensorType(F32, (counts[0], 4))) == "f32[count_0,4]"
    text = type_text(TensorType(F32, (sum(counts), 4)))
    assert text.startswith("f32[count_0+count_1+")
    assert text.endswith("...,4]")
    assert len(text) == len("f32[,4]") + MAX_BODY
