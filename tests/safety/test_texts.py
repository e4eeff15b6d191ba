"""Operators on text under AddressSanitizer, in memory that is full of something else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest

import mccompile
from mccompile.ops.text import decoded, encoded
from tests._skips import needs_sanitizers
from tests.support.judge import plain_session
from tests.support.sanitized import sanitized_network

RUNS = [
    ["a-b c", "wörter", "the", "off", "", "日本", "x", "12345678"],
    ["12345678", "", "abcdefgh", "-", "a", "--", "x y z", "c-d"],
    ["the"] * 8,
    [""] * 8,
]
"""Eight texts of up to eight bytes: so many that no tensor has room behind it."""


@pytest.mark.thorough
def test_texts_stay_in_their_memory_and_all_of_their_bytes_are_written(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 20, "ai.onnx.ml": 4]> texts (string[8] x, string[8] z)
            => (string[8] joined, string[n, m] parts, int64[8] counts, string[k, p] words, int64[8] many,
                string[q] kept, bool[8] fits, int64[8] labels)
        {
            joined = StringConcat (x, z)
            parts, counts = StringSplit <delimiter = "-"> (x)
            words, many = StringSplit (x)
            kept = StringNormalizer <is_case_sensitive = 1, locale = "C", stopwords = ["the", "off"]> (x)
            fits = RegexFullMatch <pattern = "[a-z]+"> (x)
            labels = ai.onnx.ml.LabelEncoder <keys_strings = ["the", "12345678", ""], values_int64s = [3, 4, 5]> (x)
        }"""
    )
    onnx.save(model, tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", string_bytes=8)
    needs_sanitizers("gcc")
    network, session = sanitized_network(tmp_path / "out"), plain_session(model.SerializeToString())
    for x, z in zip(RUNS, reversed(RUNS), strict=True):
        feeds = {"x": np.array(x, dtype=object), "z": np.array(z, dtype=object)}
        got = network.run({name: encoded(a, 8) for name, a in feeds.items()})
        # Of an empty text onnxruntime makes no part, the operator's text one, as Python does.
        splits = [[text.split(by) for text in x] for by in ("-", None)]
        wanted = dict(zip(got, session.run(None, feeds), strict=True))
        for rows, parts, counts in zip(splits, ("parts", "words"), ("counts", "many"), strict=True):
            longest = max(map(len, rows))
            filled = [part for row in rows for part in row + [""] * (longest - len(row))]
            wanted[parts] = np.array(filled, dtype=object).reshape(8, longest)
            wanted[counts] = np.array(list(map(len, rows)))
        for name, want in wanted.items():
            found = got[name]
            found = decoded(found) if want.dtype == object else found
            assert found.shape == want.shape
            assert found.tolist() == want.tolist(), name
