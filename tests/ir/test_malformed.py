"""Malformed text of each IR: a CompileError with file and line, never another exception."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from mccompile.ir import files
from mccompile.ir.errors import CompileError
from mccompile.ir.files import IR
from mccompile.kernels.registry import params_of
from mccompile.ops.registry import lookup

GRAPH = """\
graph @g(%x: f32[2,3]) {
  %c = const [1.0, 2.0, 3.0] : f32[3]
  %a = map(%x, %c) {expr={(x0 + x1)}} : f32[2,3] ; first
  %s = reduce(%a) {mode='sum', axes=(1,)} with(%c) pre0{ (acc * x0) } post0{ relu(acc) } : f32[2,1]
  %y = map(%s) {expr={relu(x0)}} : f32[2,1] ; second
  return %y
}
"""

KERNELS = """\
kernels @k target=generic {
  buffer x : f32[4] arena align=4 role=input
  buffer h : f32[4] arena align=4 halo=(1:1) fill=0
  buffer y : f32[4] arena align=4 role=output
  buffer w : f32[4] blob align=4
  fill h 0
  call map.generic map {expr={(x0 + x1)}} (x, w) with(w) post0:f32{ (acc + x0) } -> h inplace(0) ; a
  call map.generic map {expr={relu(x0)}} (h) -> y
}
"""

PROGRAM = """\
program @p target=generic arena=32 blob=16 peak=32 bound=32 naive=32 algorithm=given {
  buffer x : f32[4] arena @0 align=4 role=input
  buffer y : f32[4] arena @16 align=4 role=output
  buffer w : f32[4] blob @0 align=4
  call map.generic map {expr={(x0 + x1)}} (x, w) -> y
}
"""

TEXTS = {"graph": GRAPH, "kernels": KERNELS, "program": PROGRAM}

CASES: list[tuple[str, str, str, int, str]] = [
    # (text, what is replaced, by what, the line of the error, a word of the message)
    ("graph", "graph @g", "graph g", 1, "expected '@'"),
    ("graph", "%x: f32[2,3]", "%x: f33[2,3]", 1, "element type"),
    ("graph", "%x: f32[2,3]", "%x: f32[2,b]", 1, "not a type"),
    ("graph", "%x: f32[2,3]", "%x: f32[(,3]", 1, "'(' is no whole number"),
    ("graph", "%x: f32[2,3]", "%x: f32[2,-3]", 1, "negative extent"),
    ("graph", "%x: f32[2,3]", "%x: f32[2,3]:(0)", 1, "does not cover axis"),
    ("graph", "%x: f32[2,3]", "%x: f32[2,3", 1, "never closed"),
    ("graph", "relu(x0)", "x0 + f32(i64(9223372036854775808))", 5, "is no number of type i64"),
    ("graph", "relu(x0)", "x0 + f32(u8(-1))", 5, "is no number of type u8"),
    ("graph", "2.0, 3.0]", "2.0]", 2, "2 elements"),
    ("graph", "2.0, 3.0]", "2.0, 1e39]", 2, "too large for f32"),
    ("graph", "2.0, 3.0]", "2.0, three]", 2, "no literal"),
    ("graph", "map(%x, %c)", "map(%x, %z)", 3, "%z is not defined"),
    ("graph", "map(%x, %c)", "nap(%x, %c)", 3, "unknown operator"),
    ("graph", "%a = map", "%x = map", 3, "defined twice"),
    ("graph", "%a = map", "%a, %b = map", 3, "expected"),
    ("graph", "{expr={(x0 + x1)}}", "{expr={(x0 + x1}}", 3, ""),
    ("graph", "{expr={(x0 + x1)}}", "{expr={(x0 + x2)}}", 3, "x2"),
    ("graph", "{expr={(x0 + x1)}}", "{expr={frob(x0)}}", 3, "unknown function"),
    ("graph", "{expr={(x0 + x1)}}", "{color='red'}", 3, "no attribute 'color'"),
    ("graph", " {expr={(x0 + x1)}}", "", 3, "needs attribute 'expr'"),
    ("graph", "map(%x, %c) {expr={(x0 + x1)}}", "reshape(%x) {shape=6}", 3, "shape=6 is no list"),
    ("graph", "map(%x, %c) {expr={(x0 + x1)}}", "concat(%x, %c) {axis=(1,)}", 3, "axis=(1,) is no number"),
    ("graph", "map(%x, %c) {expr={(x0 + x1)}}", "reduce(%x) {mode=1, axes=(0,)}", 3, "mode=1 is no text"),
    ("graph", ": f32[2,3] ; first", ": f32[3,3] ; first", 3, "its rule gives"),
    ("graph", "pre0{", "pre7{", 4, "absent"),
    ("graph", "post0{", "post3{", 4, "post3"),
    ("graph", "(acc * x0)", "(acc * x5)", 4, "x5"),
    ("graph", "with(%c)", "with(%c, %x)", 4, "do not match"),
    ("graph", "return %y", "return %z", 6, "not defined"),
    ("graph", "return %y", "return _", 6, "absent"),
    ("kernels", "target=generic", "", 1, "target="),
    ("kernels", "buffer x : f32[4] arena", "buffer x : f32[4] stack", 2, "not a space"),
    ("kernels", "align=4 role=input", "align=0 role=input", 2, "alignment"),
    ("kernels", "role=input", "role=king", 2, "not a role"),
    ("kernels", "halo=(1:1)", "halo=(1:1,0:0)", 3, "halo"),
    ("kernels", "halo=(1:1)", "halo=(one)", 3, ""),
    ("kernels", "buffer w", "buffer y", 5, "declared twice"),
    ("kernels", "blob align=4", "blob align=4 role=output", 5, "role or a halo"),
    ("kernels", "fill h 0", "fill w 0", 6, "not in the arena"),
    ("kernels", "fill h 0", "fill h+1[4]{2} 0", 6, "covers"),
    ("kernels", "fill h 0", "fill h[2,2]{1} 0", 6, "2 axes and 1 strides"),
    ("kernels", "fill h 0", "fill h zero", 6, "a number"),
    ("kernels", "map.generic map {expr={(x0 + x1)}}", "map.fast map {expr={(x0 + x1)}}", 7, "unknown kernel"),
    ("kernels", "map.generic map {expr={(x0 + x1)}}", "map map {expr={(x0 + x1)}}", 7, "a kernel"),
    ("kernels", "(x, w) with", "(x, q) with", 7, "not declared"),
    ("kernels", "(x, w) with", "params{a=1} (x, w) with", 7, "no parameters"),
    ("kernels", "post0:f32{", "post0{", 7, "type of acc"),
    ("kernels", "(acc + x0)", "(acc + x1)", 7, "1 extra operands"),
    ("kernels", "inplace(0)", "inplace(9)", 7, "inplace"),
    ("kernels", "{expr={relu(x0)}} (h)", "{expr={relu(x0)}} (y)", 8, "before it is written"),
    ("graph", "%x: f32[2,3]", "%x: f32[2,1073741824]", 1, "2,147,483,648 elements, the limit"),
    ("graph", "%y = map(%s) {expr={relu(x0)}}", "%y = map(%s) {expr={(0.5.5 * x0)}}", 5, "expression"),
    ("graph", "mode='sum'", "mode='mean'", 4, "its mode is one of sum, prod, max, min"),
    ("graph", "axes=(1,)", "axes=(1, 1)", 4, "cannot be reduced over axes [1, 1]"),
    ("graph", "axes=(1,)", "axes=(1.5,)", 4, "is not whole"),
    ("graph", "axes=(1,)", "axes=(9223372036854775808,)", 4, "is no number of 64 bits"),
    ("kernels", "{expr={relu(x0)}} (h) -> y", "{expr={relu(x0)}} (h[-1]{1}) -> y", 8, "an extent below 0"),
    ("kernels", "h : f32[4] arena align=4", "h : f32[4] arena align=12", 3, "no power of two"),
    ("kernels", "halo=(1:1)", "halo=(1:2147483648)", 3, "elements"),
    ("kernels", "{expr={relu(x0)}} (h) -> y", "{expr={relu(x0)}} (h) -> h", 9, "never written"),
    ("kernels", "(h) -> y\n}", "(h) -> y\n", 10, "expected"),
    ("kernels", "(h) -> y\n}", "(h) -> y\n} more", 9, "after the closing brace"),
    ("program", "arena=32", "arena=many", 1, "number of bytes"),
    ("program", "algorithm=given", "algorithm=given inplace(x y)", 1, "over"),
    ("program", "@16 align=4 role=output", "align=4 role=output", 3, "expected '@'"),
    ("program", "@16", "@18", 3, "misaligned"),
    ("program", "@16", "@32", 3, "outside of the arena"),
    ("program", "blob @0", "blob @4", 4, "outside of the blob"),
]


def load(folder: Path, text: str) -> IR:
    path = folder / "bad.mcir"
    path.write_text(text)
    return files.load(path, lookup, params_of)


@pytest.mark.parametrize("kind", TEXTS)
def test_the_texts_are_right_before_they_are_broken(tmp_path: Path, kind: str) -> None:
    assert files.text_of(load(tmp_path, TEXTS[kind])) == TEXTS[kind]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}:{case[3]}:{case[2][:24]}")
def test_malformed(tmp_path: Path, case: tuple[str, str, str, int, str]) -> None:
    kind, old, new, line, word = case
    source = TEXTS[kind]
    assert source.count(old) == 1
    with pytest.raises(CompileError) as caught:
        load(tmp_path, source.replace(old, new))
    assert caught.value.where.endswith(f"bad.mcir:{line}"), str(caught.value)
    assert word in caught.value.rule


@pytest.mark.parametrize("kind", TEXTS)
def test_random_damage(tmp_path: Path, kind: str) -> None:
    """Texts with a piece deleted, doubled or moved are read or refused with a line, whatever the damage."""
    source = TEXTS[kind]
    tokens = re.findall(r"\w+|\s+|[^\w\s]", source)
    generator = random.Random(1)
    refused = 0
    for _ in range(400):
        damaged = list(tokens)
        for _ in range(generator.randint(1, 3)):
            i, j = generator.randrange(len(damaged)), generator.randrange(len(damaged))
            match generator.randrange(4):
                case 0:
                    del damaged[i]
                case 1:
                    damaged.insert(i, damaged[j])
                case 2:
                    damaged[i], damaged[j] = damaged[j], damaged[i]
                case _:
                    damaged = damaged[: max(i, 1)]
        error = refusal(tmp_path, "".join(damaged))
        assert error is None or re.search(r"bad\.mcir:\d+$", error.where), str(error)
        refused += error is not None
    assert refused > 200


@pytest.mark.parametrize(
    ("maps", "word"),
    [
        ("((0, -1.01, 0), (0, 0, 1))", "is not whole"),
        ("((0, 'a', 0), (0, 0, 1))", "is not whole"),
        ("((0, 0, 0), (9223372036854775808, 0, 1))", "is no number of 64 bits"),
        ("(0, 0, 1)", "is no list of lists"),
        ("0", "is no list"),
    ],
)
def test_what_lists_of_lists_hold(tmp_path: Path, maps: str, word: str) -> None:
    text = "graph @g(%x: f32[2,2]) {\n  %y = take(%x) {shape=(1, 2), maps=MAPS} : f32[1,2]\n  return %y\n}\n"
    load(tmp_path, text.replace("MAPS", "((0, 0, 0), (0, 0, 1))"))
    with pytest.raises(CompileError) as caught:
        load(tmp_path, text.replace("MAPS", maps))
    assert caught.value.where.endswith("bad.mcir:2")
    assert word in caught.value.rule


def refusal(folder: Path, text: str) -> CompileError | None:
    try:
        load(folder, text)
    except CompileError as e:
        return e
    return None


@pytest.mark.parametrize("content", ["", "module @m {}", "// only a comment\n", "\x00\x01"])
def test_not_ir(tmp_path: Path, content: str) -> None:
    with pytest.raises(CompileError, match="begin with 'graph'") as caught:
        load(tmp_path, content)
    assert caught.value.where.endswith("bad.mcir:1")


def test_binary(tmp_path: Path) -> None:
    (tmp_path / "bad.mcir").write_bytes(b"\xff\xfe\x80")
    with pytest.raises(CompileError, match="no text"):
        files.load(tmp_path / "bad.mcir", lookup, params_of)


def test_deep_nesting(tmp_path: Path) -> None:
    deep = "(" * 5000 + "x0" + ")" * 5000
    with pytest.raises(CompileError) as caught:
        load(tmp_path, GRAPH.replace("relu(x0)", deep))
    assert caught.value.where.endswith(":5")
