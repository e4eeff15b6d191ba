"""Operators on text, against onnxruntime and Python: drawn texts, with what UTF-8 and capacity make hard."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import backend
from mccompile.ir.errors import CompileError, UsageError
from mccompile.ops.regex import RegexError, automaton
from mccompile.ops.text import decoded, encoded
from tests.support.judge import plain_session

WORDS = ["", "a", "on", "off", "On", "OFF", "wörter", "日本", "the", "The", " a  b ", "x-y--z", "-", "a b c", "𝄞"]


def _draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array(WORDS, dtype=object)[rng.integers(0, len(WORDS), shape)]


def _both(node: Any, inputs: list[Any], **options: Any) -> tuple[list[Any], list[Any]]:
    """What the generated C gives, and onnxruntime."""
    opset = {"": 20, "ai.onnx.ml": options.pop("ml", 4)}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in zip(node.input, inputs, strict=True)
    ]
    outputs = [helper.make_tensor_value_info(n, t, None) for n, t in options.pop("outputs")]
    model = helper.make_model(
        helper.make_graph([node], "g", infos, outputs),
        opset_imports=[helper.make_opsetid(d, v) for d, v in opset.items()], ir_version=9,
    )  # fmt: skip
    wanted = plain_session(model.SerializeToString()).run(None, dict(zip(node.input, inputs, strict=True)))
    return list(backend.run_model(model, inputs, target="generic", **options)), wanted


def _agree(node: Any, inputs: list[Any], *outputs: tuple[str, int], **options: Any) -> None:
    got, wanted = _both(node, inputs, outputs=outputs, **options)
    for mine, theirs in zip(got, wanted, strict=True):
        assert mine.shape == theirs.shape
        assert mine.tolist() == theirs.tolist()


def test_text_is_stored_and_read_back() -> None:
    x = np.array([["", "on"], ["日本", "wörter"]], dtype=object)
    assert encoded(x).shape == (2, 2, 7)
    assert decoded(encoded(x, 9)).tolist() == x.tolist()
    with pytest.raises(UsageError, match="--string-bytes 7"):
        encoded(x, 6)
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(UsageError, match="is not supported"):
            encoded([bad])


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_texts_are_joined_and_compared(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = _draw(rng, (3, 4)), _draw(rng, [(3, 4), (4,), (3, 1)][seed])
    _agree(helper.make_node("StringConcat", ["a", "b"], ["y"]), [a, b], ("y", TensorProto.STRING))
    _agree(helper.make_node("Equal", ["a", "b"], ["y"]), [a, b], ("y", TensorProto.BOOL))


@pytest.mark.thorough
@pytest.mark.parametrize(("delimiter", "splits"), [("-", None), ("--", None), ("", None), ("-", 1), ("", 2), ("", 0)])
def test_texts_are_split(delimiter: str, splits: int | None) -> None:
    x = _draw(np.random.default_rng(5), (2, 6))
    attrs = {} if splits is None else {"maxsplit": splits}
    node = helper.make_node("StringSplit", ["x"], ["y", "z"], delimiter=delimiter, **attrs)
    got, _ = backend.run_model(_model(node, x), [x], target="generic", string_bytes=12), None
    texts = [s if delimiter else s.rstrip() for s in x.reshape(-1)]
    rows = [s.split(delimiter or None, -1 if splits is None else splits) for s in texts]
    longest = max(map(len, rows))
    wanted = np.array([row + [""] * (longest - len(row)) for row in rows], dtype=object).reshape(2, 6, longest)
    assert got[0].tolist() == wanted.tolist()
    assert got[1].tolist() == np.array(list(map(len, rows))).reshape(2, 6).tolist()


@pytest.mark.parametrize("splits", [0, 1, 2, 9])
def test_no_white_space_is_left_behind_the_last_part(splits: int) -> None:
    """As the operator's text has it, and onnxruntime; Python leaves it where `maxsplit` ends the splitting."""
    node = helper.make_node("StringSplit", ["x"], ["y", "z"], maxsplit=splits)
    x = np.array([" a  b  c  ", "d ", "", "  ", "e"], dtype=object)
    _agree(node, [x], ("y", TensorProto.STRING), ("z", TensorProto.INT64), string_bytes=10)


def test_white_space_is_that_of_ascii_and_parts_of_a_run_before_are_gone(tmp_path: Path) -> None:
    """As bytes of Python are split; a later run has fewer parts, and the last one none."""
    node = helper.make_node("StringSplit", ["x"], ["y", "z"])
    every = [f"a{chr(i)}b" for i in range(1, 128)]
    runs = [every, ["abc  d e"] + ["f"] * 126, ["g h"] + [""] * 126, [""] * 127]
    onnx.save(_model(node, np.array(every, dtype=object)), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", string_bytes=9)
    network = mccompile.load(tmp_path / "out")
    for x in runs:
        rows = [[part.decode() for part in text.encode().split()] for text in x]
        longest = max(map(len, rows))
        got = network.run({"x": encoded(np.array(x, dtype=object), 9)})
        assert got["z"].tolist() == list(map(len, rows))
        assert decoded(got["y"]).tolist() == [row + [""] * (longest - len(row)) for row in rows]


def test_what_has_no_texts_is_text() -> None:
    none, kind = np.empty((0, 2), dtype=object), ("y", TensorProto.STRING)
    _agree(helper.make_node("StringConcat", ["x", "z"], ["y"]), [none, none], kind)
    _agree(helper.make_node("Transpose", ["x"], ["y"]), [none], kind)
    _agree(helper.make_node("Concat", ["x", "z"], ["y"], axis=0), [none, np.array([["a", "b"]], dtype=object)], kind)


@pytest.mark.parametrize("op", ["Shape", "Size"])
def test_extents_of_texts_are_without_their_bytes(op: str) -> None:
    x = np.array([["a", "b", "c"]], dtype=object)
    _agree(helper.make_node(op, ["x"], ["y"]), [x], ("y", TensorProto.INT64))


@pytest.mark.parametrize("zeros", [0, 1])
@pytest.mark.parametrize("kind", ["cats_strings", "cats_int64s"])
def test_of_equal_categories_the_last_is_hot(zeros: int, kind: str) -> None:
    cats: list[Any] = ["a", "b", "a"] if kind == "cats_strings" else [5, -1, 5]
    node = helper.make_node("OneHotEncoder", ["x"], ["y"], domain="ai.onnx.ml", zeros=zeros, **{kind: cats})
    x = np.array([cats[0], cats[1]], dtype=object if kind == "cats_strings" else np.int64)
    _agree(node, [x], ("y", TensorProto.FLOAT))


def test_first_label_encoders_have_classes() -> None:
    classes = {"classes_strings": ["a", "b", "a"], "default_int64": 7, "default_string": "none"}
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **classes)
    for x, kind in (([0, 1, 2, 3, -1], TensorProto.STRING), (["a", "b", "x"], TensorProto.INT64)):
        given = np.array(x, dtype=np.int64 if kind == TensorProto.STRING else object)
        _agree(node, [given], ("y", kind), ml=1)


def test_numbers_of_many_classes_become_text() -> None:
    attrs = {"keys_int64s": range(500), "values_strings": [f"class {i}" for i in range(500)]}
    node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", **attrs)
    x = np.array([0, 499, 500, -1, -2, 2**63 - 1, -(2**63), 77])
    _agree(node, [x], ("y", TensorProto.STRING))


def _model(node: Any, x: np.ndarray[Any, Any]) -> Any:
    info = helper.make_tensor_value_info("x", TensorProto.STRING, x.shape)
    outputs = [helper.make_tensor_value_info("y", TensorProto.STRING, None)]
    outputs += [helper.make_tensor_value_info("z", TensorProto.INT64, None)] * (len(node.output) - 1)
    graph = helper.make_graph([node], "g", [info], outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


@pytest.mark.thorough
@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
@pytest.mark.parametrize("sensitive", [0, 1])
def test_stop_words_are_left_out(action: str, sensitive: int) -> None:
    rng = np.random.default_rng(sensitive)
    node = helper.make_node(
        "StringNormalizer", ["x"], ["y"], case_change_action=action, is_case_sensitive=sensitive,
        stopwords=["the", "off"], locale="C",
    )  # fmt: skip
    ascii_only = np.array([w for w in WORDS if w.isascii()], dtype=object)
    for x in (ascii_only[rng.integers(0, len(ascii_only), (1, 7))], np.array(["the", "off"], dtype=object)):
        _agree(node, [x], ("y", TensorProto.STRING))


@pytest.mark.parametrize("action", ["NONE", "LOWER", "UPPER"])
def test_cases_of_stop_words_are_those_of_texts(action: str) -> None:
    """Of ASCII: not those of other letters, some of which are the case of letters of ASCII (the sign of Kelvin)."""
    node = helper.make_node(
        "StringNormalizer", ["x"], ["y"], case_change_action=action, is_case_sensitive=0,
        stopwords=["Äpfel", "\u212a", "straße"], locale="C",
    )  # fmt: skip
    x = np.array(["Äpfel", "äpfel", "ÄPFEL", "k", "K", "\u212a", "STRASSE", "straße"], dtype=object)
    _agree(node, [x], ("y", TensorProto.STRING))


@pytest.mark.thorough
def test_labels_are_found_and_taken() -> None:
    x = np.array([["b", "x"], ["a", ""]], dtype=object)
    for values, kind in (
        ({"values_int64s": [5, 6, 7], "default_int64": 9}, TensorProto.INT64),
        ({"values_strings": ["five", "six", "日"], "default_string": "none"}, TensorProto.STRING),
        ({"values_floats": [0.5, 0.25, 1.0]}, TensorProto.FLOAT),
    ):
        node = helper.make_node(
            "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_strings=["b", "a", "c"], **values
        )
        _agree(node, [x], ("y", kind))
    node = helper.make_node(
        "LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_int64s=[3, 1], values_strings=["three", "one"]
    )
    _agree(node, [np.array([1, 2, 3])], ("y", TensorProto.STRING))


def test_of_equal_categories_the_last_counts() -> None:
    """As onnxruntime has it; and more categories than can be compared are refused."""
    node = helper.make_node("CategoryMapper", ["x"], ["y"], domain="ai.onnx.ml",
                            cats_strings=["a", "b", "a", "c"], cats_int64s=[1, 2, 3, 2])  # fmt: skip
    _agree(node, [np.array(["a", "b", "c", "x"], dtype=object)], ("y", TensorProto.INT64))
    _agree(node, [np.array([1, 2, 3, 9])], ("y", TensorProto.STRING))
    many = {"cats_strings": [str(i) for i in range(999)], "cats_int64s": range(1, 1000)}
    node = helper.make_node("CategoryMapper", ["x"], ["y"], domain="ai.onnx.ml", **many)
    with pytest.raises(CompileError, match="CategoryMapper of 999 keys"):
        _both(node, [np.array([1])], outputs=[("y", TensorProto.STRING)])


@pytest.mark.thorough
def test_grams_of_text_are_counted() -> None:
    x = np.array(["a", "b", "a", "b", "日", "a", "x"], dtype=object)
    node = helper.make_node(
        "TfIdfVectorizer", ["x"], ["y"], min_gram_length=1, max_gram_length=2, max_skip_count=1, mode="TFIDF",
        ngram_counts=[0, 3], ngram_indexes=[2, 0, 1, 3, 4], pool_strings=["b", "a", "日", "a", "b", "b", "日"],
        weights=[1.0, 2.0, 3.0, 4.0, 5.0],
    )  # fmt: skip
    _agree(node, [x], ("y", TensorProto.FLOAT))


PATTERNS = (
    r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)", r"(a|b)*?c{2,3}", r"[^a-c]+",
    r".*é.", r"\d+(\.\d+)?", r"[ä-ü]*", r"", r"(?s).",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_automata_match_what_python_does(pattern: str) -> None:
    rng = np.random.default_rng(1)
    machine, wanted = automaton(pattern), re.compile(pattern, re.ASCII)
    texts = ["".join(rng.choice(list("abc.@éü日𝄞 1-_\n"), rng.integers(0, 7))) for _ in range(300)]
    for text in [*texts, "www.google.com", "www.bbc.co.uk", ".a@yahoo.com ", "ccc", "3.14", "日é𝄞"]:
        assert machine.matches(text.encode()) == bool(wanted.fullmatch(text)), text


@pytest.mark.parametrize(("pattern", "yes", "no"), [
    ("[[:alpha:]]+", ["ab", "Z"], ["a]", "1", ""]), ("[[:^alpha:]x]", ["1", "é", "x"], ["a", "x]"]),
    ("[^[:digit:]-]", ["a", "["], ["1", "-", "a]"]), ("[[a]", ["[", "a"], ["a]"]), ("[]a]", ["]", "a"], ["a]"]),
    ("a{,3}", ["a{,3}"], ["", "a", "aaa"]), (r"\s", [" ", "\t"], ["\v"]), ("[[:space:]]", [" ", "\v"], ["a"]),
    (r"[\[:alpha:]+", ["[:", "pha"], ["b"]), ("(a{0}){3}b", ["b"], ["ab"]), (r"a\z", ["a"], ["az", "a\n"]),
    (r"\Qa+[\E+", ["a+[", "a+[["], ["aa["]), (r"\Qx.y", ["x.y"], ["xay"]),
    (r"[\x{61}-\x{63}]\x{65e5}", ["b日"], ["d日"]), ("(?i)k", ["k", "K", "\u212a"], ["c"]),
    ("(?i)[^s]", ["a", "é"], ["s", "S", "ſ"]), (r"(?i)\w", ["K", "\u212a"], ["-"]), (r"(?i)\W", ["-"], ["\u212a"]),
    ("(?i:a)b", ["Ab", "ab"], ["AB"]), ("(?i)a(?-i:b)", ["Ab"], ["AB"]), ("(?i)ß", ["ß", "ẞ"], ["ss", "SS"]),
    ("(?i)[i]", ["i", "I"], ["ı", "İ"]), ("(?is)A.", ["a\n"], ["b\n"]),
])  # fmt: skip
def test_what_re2_reads_otherwise_than_python(pattern: str, yes: list[str], no: list[str]) -> None:
    """Words of RE2, which ONNX asks for. Python's of the same characters are others."""
    machine = automaton(pattern)
    assert all(machine.matches(text.encode()) for text in yes)
    assert not any(machine.matches(text.encode()) for text in no)
    texts = np.array(yes + no, dtype=object)
    model = _model(helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern), texts)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.BOOL
    (wanted,) = plain_session(model.SerializeToString()).run(None, {"x": texts})
    assert wanted.tolist() == [True] * len(yes) + [False] * len(no)


@pytest.mark.parametrize("pattern", [
    "(){1000000000}", "(" * 300 + "a" + ")*" * 300, "((a{0,100}){0,100})", "(?u)a", "[[:letters:]]", "a{1001}",
    "(?i)[[:^upper:]]",
    "(" + "|".join(f"{chr(256 + i)}*" for i in range(800)) + ")*",
])  # fmt: skip
def test_what_takes_too_long_or_too_deep_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        automaton(pattern)


@pytest.mark.parametrize("pattern", [r"(a)\1", r"a(?=b)", r"(", r"(?m)^a", r"(?m:^)a", r"[ab]*a[ab]{12}c"])
def test_what_is_no_automaton_is_refused(pattern: str) -> None:
    with pytest.raises(RegexError):
        automaton(pattern)


@pytest.mark.thorough
def test_generated_automata_match() -> None:
    x = np.array(["", "caé.", "é", "a\nb", "日é𝄞", "é" * 10], dtype=object)
    for pattern in PATTERNS[4:]:
        node = helper.make_node("RegexFullMatch", ["x"], ["y"], pattern=pattern)
        (y,) = backend.run_node(node, [x], target="generic", string_bytes=20, opset_version=20)
        assert y.tolist() == [bool(re.fullmatch(pattern, text, re.ASCII)) for text in x]


@pytest.mark.parametrize(("domain", "says"), [
    ("ai.onnx.ml", "a scalar has no features"), ("mccompile.text", "mccompile.text:ArrayFeatureExtractor is not"),
])  # fmt: skip
def test_scalars_and_domains_of_our_own_are_refused(domain: str, says: str) -> None:
    """Front ends of text are asked for by types, not by files."""
    node = helper.make_node("ArrayFeatureExtractor", ["x", "i"], ["y"], domain=domain)
    kind = TensorProto.STRING if domain == "ai.onnx.ml" else TensorProto.INT32
    x, i = (helper.make_tensor_value_info(n, t, ()) for n, t in (("x", kind), ("i", TensorProto.INT64)))
    graph = helper.make_graph([node], "g", [x, i], [helper.make_tensor_value_info("y", kind, None)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)]
    with pytest.raises(CompileError, match=says):
        backend.prepare(helper.make_model(graph, opset_imports=opsets, ir_version=9), target="generic")


def test_what_does_not_take_text_is_refused() -> None:
    x = np.array(["a"], dtype=object)
    with pytest.raises(CompileError, match="Unique of string"):
        backend.run_node(helper.make_node("Unique", ["x"], ["y"]), [x], target="generic")


MOVES = """
    a = Where (c, x, z)  b = Where (c, w, x)  d = Slice (x, first, last, axis)  e = Slice (x, last, far, axis, back)
    f = Slice (x, first, last)  g, h = Split <axis = -1> (x, parts)  k = Expand (e, shape)  l = Tile (x, twice)
    m = Compress <axis = -1> (x, kept)  o = ReverseSequence <batch_axis = 0, time_axis = 1> (x, lengths)"""
OF_TWO_ROWS = """
    i, j = Split <axis = 0, num_outputs = 2> (x)  n = Compress (x, mask)  p = GatherElements <axis = -1> (x, at)
    q = GatherElements <axis = 0> (x, rows)  r = GatherND (x, pairs)  s = GatherND <batch_dims = 1> (x, last2)
    t = ScatterElements <axis = 1> (x, rows, w)  u = ScatterND (x, pairs, v)"""


@pytest.mark.parametrize(("rows", "nodes"), [
    pytest.param("2", MOVES, marks=pytest.mark.thorough), ("2", OF_TWO_ROWS), ("n", MOVES),
], ids=["moves", "places", "rows of the run"])  # fmt: skip
def test_text_is_moved_as_numbers_are(rows: str, nodes: str, tmp_path: Path) -> None:
    """Also where texts of two rooms meet, and where the run says how many there are."""
    model = onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 18]> moves (string[{rows}, 3] x, string[{rows}, 1] z,
            string[{rows}, 1] w, bool[3] c, bool[6] mask, int64[{rows}, 1] rows, int64[{rows}] lengths, string[2] v)
            => (string[2] y)
        <int64[1] first = {{0}}, int64[1] last = {{-1}}, int64[1] far = {{-9}}, int64[1] axis = {{-1}},
         int64[1] back = {{-1}}, int64[2] parts = {{1, 2}}, int64[3] shape = {{2, 1, 1}}, int64[2] twice = {{1, 2}},
         bool[3] kept = {{0, 1, 1}}, int64[2, 2] at = {{0, -1, 2, 2}}, int64[2, 2] pairs = {{0, -1, 1, 0}},
         int64[2, 1] last2 = {{-1, 0}}> {{ y = Identity (v) {nodes} }}"""
    )
    names = [name for node in model.graph.node[1:] for name in node.output]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.STRING, None) for name in names)
    read = {name for node in model.graph.node for name in node.input}
    unread = [given for given in model.graph.input if given.name not in read]
    for given in unread:
        model.graph.input.remove(given)
    onnx.save(model, tmp_path / "net.onnx")
    options: dict[str, Any] = {"dims": {"n": "1..3"}} if rows == "n" else {}
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", string_bytes=9, **options)
    network, session = mccompile.load(tmp_path / "out"), plain_session(model.SerializeToString())
    rng = np.random.default_rng(7)
    for many in (2,) if rows == "2" else (1, 3, 2):
        drawn = {
            "x": _draw(rng, (many, 3)), "z": _draw(rng, (many, 1)), "w": _draw(rng, (many, 1)),
            "c": np.array([True, False, True]), "mask": np.array([1, 0, 1, 1, 0, 0], bool),
            "rows": rng.integers(0, many, (many, 1)), "lengths": rng.integers(1, 4, many), "v": _draw(rng, (2,)),
        }  # fmt: skip
        feeds = {given.name: drawn[given.name] for given in model.graph.input}
        got = network.run({name: encoded(a, 9) if a.dtype == object else a for name, a in feeds.items()})
        for output, wanted in zip(model.graph.output, session.run(None, feeds), strict=True):
            found = decoded(got[output.name])
            assert found.shape == wanted.shape, output.name
            assert found.tolist() == wanted.tolist(), output.name


def test_python_does_not_speak_of_expressions() -> None:
    """Of what a class may mean one day, which it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert automaton("[a&&b]+").matches(b"a&b")
