"""What a drawn setting has beside its options: each is compiled, run and judged, and what is wrong is found."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import mccompile
from mccompile.driver import has_products
from mccompile.targets.target import resolve
from tests.support.compose.definite import Refused
from tests.support.fuzz import further, kept, networks
from tests.support.fuzz.attempt import attempt, expectations
from tests.support.fuzz.family import MAIN, Family, FamilyComposer
from tests.support.fuzz.further import Further, as_elements, snapped
from tests.support.fuzz.setting import Setting

FORMAT = "u8,nhwc,mean=128:126.5,scale=0.0125"
EACH = {
    "formats": Further(formats={"x1": FORMAT, "x2": "i16,scale=0.001"}),
    "fixed": Further(fixed=("x2",)),
    "shapes": Further(shapes={"x1": (1, 2, "rows", 3)}),
    "tuned": Further(tuned=5),
    "hooked": Further(hooked=True),
}
PLAIN = Setting("generic", "O2", "gcc", ("-O1",), f"1..{MAIN}")


def _net() -> Family:
    """Images of n rows by a matrix, and a number added."""
    c = FamilyComposer(0, (1, 4))
    x = c.input(np.linspace(-1, 1, 6 * MAIN, dtype=np.float32).reshape(1, 2, MAIN, 3))
    number = c.input(np.array(0.25, np.float32))
    v = c.one("MatMul", x, c.constant(np.linspace(-2, 3, 15, dtype=np.float32).reshape(3, 5)))
    c.net.outputs = [c.one("Tanh", c.one("Add", v, number))]
    return c.net


@pytest.mark.parametrize("which", EACH)
def test_each_is_run_and_judged(which: str, tmp_path: Path) -> None:
    net, setting = _net(), replace(PLAIN, further=EACH[which])
    expected = expectations(net, setting, 0)
    found = attempt(net, setting, expected, tmp_path / "right")
    assert found.kind == "ok", found.text
    spoiled = [[replace(e, values={n: a + 0.01 for n, a in e.values.items()}) for e in row] for row in expected]
    assert attempt(net, setting, spoiled, tmp_path / "wrong").kind == "wrong"
    assert PLAIN in setting.plainer()
    kept.write(tmp_path / "kept", net, setting, "kept", "kept")
    assert kept.again(tmp_path / "kept").kind == "ok"


def test_the_script_of_a_failure_fixes_what_was_fixed(tmp_path: Path) -> None:
    net, setting = _net(), replace(PLAIN, further=EACH["fixed"])
    kept.write(tmp_path, net, setting, "kept", "kept")
    done = subprocess.run([sys.executable, tmp_path / "reproduce.py"], capture_output=True, text=True, check=True)
    assert "onnxruntime" in done.stdout
    assert list(mccompile.load(tmp_path / "out").inputs) == ["x1"]


def test_elements_are_what_formats_can_say() -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 2, 3, 2)
    near = snapped({"x": FORMAT}, {"x": x})["x"]
    assert as_elements(FORMAT, x).shape == (1, 3, 2, 2)
    assert np.array_equal(as_elements(FORMAT, x), as_elements(FORMAT, near))
    assert 0 < np.abs(near - x).max() <= 0.0063


def test_each_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORMATS", "FIXED", "TUNED", "HOOKED", "MIXED", "UNNAMED"):
        monkeypatch.setattr(further, name, 50)
    drawn: Counter[str] = Counter()
    for seed in range(30):
        try:
            _, setting = networks.network_of(seed, "wide")
        except Refused:
            continue
        drawn.update(name for name in EACH if getattr(setting.further, name))
        drawn.update(name for name in ("weights", "precision") if isinstance(setting.options.get(name), dict))
    by_few_bits = any(has_products(resolve("native"), form) for form in ("bf16", "f16"))
    drawn["precision"] += not by_few_bits  # where this machine has none, generic code alone may have it
    assert set(drawn) == {*EACH, "weights", "precision"}


def test_ties_that_all_fall_to_one_side_are_unsure() -> None:
    """-24 times 25/16 is -37.5 in each of 4096 elements: drawn noise moves a half of them, and their mean to -37.5,
    which less 0.25 is the same whole number as -38; that of -37 is another."""
    c = FamilyComposer(0, ())
    x = c.input(np.full((1, 4096), -24, np.int8))
    one, other, zero = (c.constant(np.array(a)) for a in (np.float32(25 / 16), np.float32(1), np.int8(0)))
    v = c.one("QuantizeLinear", c.one("DequantizeLinear", x, one, zero), other, zero)
    mean = c.one("ReduceMean", c.one("DequantizeLinear", v, other, zero), c.ints(1))
    lower = c.one("Sub", mean, c.constant(np.array([[0.25]], np.float32)))
    c.net.outputs = [c.one("QuantizeLinear", lower, other, zero)]
    ((found,),) = expectations(c.net, Setting("generic", "O2", "gcc", ("-O1",)), 0)
    assert not found.certain[c.net.outputs[0]].any()
