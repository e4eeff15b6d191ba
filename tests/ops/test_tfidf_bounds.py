"""TfIdfVectorizer: skips and lengths that no row of tokens has cost nothing; places below 0 are none."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from mccompile.importer.fold_values import computed
from mccompile.ir.errors import CompileError
from mccompile.onnxio.model import AttrValue, OnnxNode

ATTRIBUTES: dict[str, AttrValue] = {
    "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 3, "ngram_counts": (0, 1),
    "ngram_indexes": (0, 1), "pool_int64s": (5, 5, 6), "mode": "TF",
}  # fmt: skip


@pytest.mark.parametrize("huge", ["max_skip_count", "max_gram_length"])
def test_what_no_row_has_takes_no_time(huge: str) -> None:
    tokens = np.array([5, 7, 6, 8, 6], np.int64)
    wanted = computed(OnnxNode("TfIdfVectorizer", ("x",), ("y",), attrs=ATTRIBUTES), [tokens])[0]
    assert wanted.tolist() == [1, 2]
    began = time.process_time()
    node = OnnxNode("TfIdfVectorizer", ("x",), ("y",), attrs=ATTRIBUTES | {huge: 2**31 - 1})
    np.testing.assert_array_equal(computed(node, [tokens])[0], wanted)
    assert time.process_time() - began < 1


@pytest.mark.parametrize("far", [{"ngram_counts": (-(2**31), 1)}, {"ngram_indexes": (0, -1)}])
def test_numbers_below_zero_are_refused(far: dict[str, AttrValue], tmp_path: Path) -> None:
    """A place below 0 would be written in front of the result."""
    node = helper.make_node("TfIdfVectorizer", ["x"], ["y"], **(ATTRIBUTES | far))
    x = helper.make_tensor_value_info("x", onnx.TensorProto.INT64, [5])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    onnx.save(helper.make_model(helper.make_graph([node], "g", [x], [y])), tmp_path / "far.onnx")
    with pytest.raises(CompileError, match="n-grams"):
        mccompile.compile(tmp_path / "far.onnx", tmp_path / "out")


def test_weights_are_those_of_n_grams_that_count() -> None:
    """Those of other lengths say nothing of a place that they share; of two that count, one would have to be lost."""
    shared = ATTRIBUTES | {"max_gram_length": 1, "ngram_counts": (0, 2), "pool_int64s": (5, 6, 5, 6), "mode": "TFIDF"}
    tokens = np.array([5, 6, 6], np.int64)

    def found(places: tuple[int, ...], weights: tuple[float, ...]) -> list[float]:
        attrs = shared | {"ngram_indexes": places, "weights": weights}
        return computed(OnnxNode("TfIdfVectorizer", ("x",), ("y",), attrs=attrs), [tokens])[0].tolist()

    assert found((0, 1, 0), (0.25, 0.5, 8.0)) == [0.25, 1.0]
    assert found((0, 0, 1), (0.5, 0.5, 8.0))[0] == 1.5
