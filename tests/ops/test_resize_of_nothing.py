"""Resize along an axis of no elements: to none, by a factor of 1, and an error to some, as onnxruntime has it."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.importer.fold_values import computed
from mccompile.ir.errors import CompileError
from mccompile.onnxio.model import AttrValue, OnnxNode

X = np.zeros((2, 3, 0, 7), np.float32)


@pytest.mark.parametrize(
    ("policy", "sizes", "wanted"),
    [
        ("stretch", (2, 3, 0, 14), (2, 3, 0, 14)),
        ("not_larger", (2, 3, 0, 14), (2, 3, 0, 7)),
        ("not_smaller", (2, 3, 0, 14), (4, 6, 0, 14)),
    ],
)
def test_nothing_stays_nothing(policy: str, sizes: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    (y,) = computed(_resize(policy), [X, None, None, np.array(sizes)])
    assert y.shape == wanted


def test_nothing_is_not_stretched_to_some() -> None:
    with pytest.raises(CompileError, match="Resize"):
        computed(_resize("stretch"), [X, None, None, np.array([2, 3, 4, 14])])


def _resize(policy: str) -> OnnxNode:
    attributes: dict[str, AttrValue] = {"mode": "nearest", "keep_aspect_ratio_policy": policy}
    return OnnxNode("Resize", ("x", "", "", "sizes"), ("y",), attrs=attributes)
