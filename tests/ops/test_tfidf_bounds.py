"""TfIdfVectorizer: skips and lengths that no row of tokens has cost nothing."""

from __future__ import annotations

import time

import numpy as np
import pytest

from mccompile.importer.fold_values import computed
from mccompile.onnxio.model import AttrValue, OnnxNode


@pytest.mark.parametrize("huge", ["max_skip_count", "max_gram_length"])
def test_what_no_row_has_takes_no_time(huge: str) -> None:
    attributes: dict[str, AttrValue] = {
        "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 3, "ngram_counts": (0, 1),
        "ngram_indexes": (0, 1), "pool_int64s": (5, 5, 6), "mode": "TF",
    }  # fmt: skip
    tokens = np.array([5, 7, 6, 8, 6], np.int64)
    wanted = computed(OnnxNode("TfIdfVectorizer", ("x",), ("y",), attrs=attributes), [tokens])[0]
    assert wanted.tolist() == [1, 2]
    began = time.process_time()
    node = OnnxNode("TfIdfVectorizer", ("x",), ("y",), attrs=attributes | {huge: 2**31 - 1})
    np.testing.assert_array_equal(computed(node, [tokens])[0], wanted)
    assert time.process_time() - began < 1
