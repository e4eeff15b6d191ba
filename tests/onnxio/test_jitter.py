"""Weights that are moved by one unit in the last place stay what they are for."""

from __future__ import annotations

import warnings

import numpy as np
from onnx import ModelProto, numpy_helper

from mccompile.onnxio.variants import jitter_weights
from tests.support.small_models import Maker


def test_the_largest_float_of_a_mask_does_not_become_infinite() -> None:
    largest = np.finfo(np.float32).max
    mask = np.tile(np.float32([largest, -largest, 0, 1, np.inf, 2, 3, 4]), 4)
    m = Maker()
    y = m.node("Add", [m.input("x", (32,)), m.const(mask)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proto = ModelProto.FromString(jitter_weights(m.model([y]).SerializeToString()))
    moved = numpy_helper.to_array(proto.graph.initializer[0])
    assert np.isfinite(moved[:4]).all()
    assert (moved[4::8] == np.inf).all()
    assert (moved[2::8] == 0).all()
    assert (moved[3::8] != 1).all()
