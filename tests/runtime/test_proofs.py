"""The runtime is proved, by `make prove`'s means, and what it means by an alarm is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests._skips import needs_tool
from tests.support.prove import kernels
from tests.support.prove.__main__ import BY_EVA
from tests.support.prove.frama_c import HERE, alarms, proved

pytestmark = pytest.mark.slow


def test_the_runtime_is_proved() -> None:
    needs_tool("frama-c")
    goals, left = proved(BY_EVA)
    assert goals > 200
    assert not left
    assert not alarms(HERE, ["interpreted.c"], 300, 11)


@pytest.mark.parametrize("operator", ["Concat", "MaxPool", "MatMul", "Conv", "Div", "GridSample", "QLinearConv"])
def test_generic_kernels_are_proved(operator: str) -> None:
    needs_tool("frama-c")
    proof = kernels.prove(("", operator), 1)
    assert proof is not None
    assert proof.good, proof


def test_an_alarm_is_found(tmp_path: Path) -> None:
    needs_tool("frama-c")
    (tmp_path / "f.c").write_text("static int a[4];\nint main(int n) { return (n < 5) ? a[(n < 0) ? 0 : n] : 0; }\n")
    assert dict(alarms(tmp_path, ["f.c"], 60)) == {"accessing out of bounds index": 1}
