"""Transposed convolutions by phases: what a phase does not meet is no part of it, infinite or not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mccompile
from tests.support.judge import plain_session
from tests.support.small_models import Maker
from tests.support.targets import needs_target


@pytest.mark.parametrize("target", ["x86-64-v3", "native"])
@pytest.mark.parametrize(
    ("stride", "kernel", "dilation"), [(8, 16, 1), (8, 17, 1), (20, 40, 1), (7, 9, 2), (4, 6, 3)]
)
def test_an_infinite_element_reaches_the_results_of_its_window(
    stride: int, kernel: int, dilation: int, target: str, tmp_path: Path
) -> None:
    """Phases whose taps begin at different pixels share a window, of which some have no weights."""
    m, rng = Maker(stride), np.random.default_rng(kernel)
    window = (kernel - 1) * dilation + 1
    attrs = {"strides": [stride] * 2, "pads": [window // 4] * 4, "dilations": [dilation] * 2}
    m.node("ConvTranspose", [m.input("x", [1, 8, 11, 12]), m.weight((8, 1, kernel, kernel))], "y", **attrs)
    model = m.model(["y"])
    x = rng.standard_normal((1, 8, 11, 12)).astype(np.float32)
    x[0, 3, 5, 6] = np.inf
    mccompile.compile(model, tmp_path / "out", target=needs_target(target))
    got = mccompile.load(tmp_path / "out").run({"x": x})["y"]
    (want,) = plain_session(model.SerializeToString()).run(None, {"x": x})
    assert np.array_equal(np.isfinite(got), np.isfinite(want))
    finite = np.isfinite(want)
    np.testing.assert_allclose(got[finite], want[finite], rtol=2e-4, atol=2e-4)
