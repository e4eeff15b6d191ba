"""No pointer is formed before its object (C99 6.5.6p8): what lies in the padding is an index."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from tests._skips import REPOSITORY, needs_sanitizers
from tests.support.sanitized import SANITIZERS, sanitized_network
from tests.support.small_models import Maker, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
def test_convolutions_form_pointers_below_the_loop_over_lines(target: str, tmp_path: Path) -> None:
    formed = 0
    for model in (DIGITS, write_model("conv_padding", tmp_path)):
        out = tmp_path / f"{model.stem}_out"
        mccompile.compile(model, out, target=target, kernels={"conv": "conv.channels"})
        for function in re.split(r"\n}\n", (out / f"{model.stem}.c").read_text()):
            if "conv_" not in function or "const int32_t top" not in function:
                continue
            before, _, inside = function.partition("for (int32_t kh")
            assert not re.search(r"= &?x0\b", before)
            formed += len(re.findall(r"\*a = &x0\[", inside))
    assert formed


def test_what_has_no_element_begins_within_its_object(tmp_path: Path) -> None:
    """Read backwards, y[n - 3] begins at n - 4: where n is 2 it has no element, and that would be before it."""
    needs_sanitizers("clang")
    m = Maker()
    ends = [m.const(np.array([end])) for end in (-2, 1, 1, -1)]
    m.node("Slice", [m.input("x", [4, "n"]), *ends], "y")
    onnx.save(m.model(["y"]), tmp_path / "net.onnx")
    mccompile.compile(tmp_path / "net.onnx", tmp_path / "out", target="generic", dims={"n": "1..7"})
    network = sanitized_network(tmp_path / "out", SANITIZERS, "clang")
    for n in (7, 2, 1, 4):
        x = np.arange(4 * n, dtype=np.float32).reshape(4, n)
        np.testing.assert_array_equal(network.run({"x": x})["y"], x[:, -2:1:-1])
