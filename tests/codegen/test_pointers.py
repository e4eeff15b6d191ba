"""No pointer is formed before its object (C99 6.5.6p8): what lies in the padding is an index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mccompile
from tests._skips import REPOSITORY
from tests.support.small_models import write_model

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
