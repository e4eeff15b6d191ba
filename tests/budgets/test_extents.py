"""What extents cost that are known at run time only: instructions beside those of the same network for one number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest

from tests._skips import needs_tool
from tests.run.test_extents import _attention, _classifier, _images
from tests.support.extent_counts import COMPILER, TARGET, Counted
from tests.support.small_models import Maker
from tests.support.targets import needs_target


def _recurrent() -> onnx.ModelProto:
    m = Maker()
    names = [m.input("x", ["t", "n", 6]), m.weight((1, 64, 6)), m.weight((1, 64, 16))]
    m.node("LSTM", names, "y", hidden_size=16)
    return m.model(["y"])


@pytest.mark.parametrize(
    ("build", "dims", "bound"),
    [
        (_classifier, {"n": "1..64"}, {"n": 64}),
        (lambda: _attention(4, 32), {"n": 1, "s": "1..64"}, {"n": 1, "s": 64}),
        (_recurrent, {"t": "1..24", "n": 2}, {"t": 24, "n": 2}),
        (_images, {"n": "1..8", "h": 16, "w": 16}, {"n": 8, "h": 16, "w": 16}),
    ],
    ids=["rows", "sequence", "time", "batch"],
)
def test_extents_cost_little(
    build: Callable[[], onnx.ModelProto], dims: dict[str, int | str], bound: dict[str, int], tmp_path: Path
) -> None:
    """At the bound at most 5 % more instructions than for that number; at half of it little more than half."""
    needs_target(TARGET)
    needs_tool("valgrind")
    needs_tool(COMPILER)
    path = tmp_path / "net.onnx"
    onnx.save(build(), path)
    half = {n: e // 2 if isinstance(dims[n], str) else e for n, e in bound.items()}
    fixed = Counted(path, tmp_path / "fixed", {"dims": bound}).run(bound)
    ranged = Counted(path, tmp_path / "any", {"dims": dims})
    whole, part = ranged.run(bound), ranged.run(half)
    assert whole < 1.05 * fixed
    assert part < 0.56 * whole
