"""Constant arrays with NaN and infinities: constants to every compiler, tcc among them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import mccompile
from mccompile.codegen.initialisers import special
from mccompile.codegen.uses import Uses
from mccompile.run.network import Network
from mccompile.targets.target import strict_warnings
from tests._skips import needs_tool
from tests.support.small_models import Maker

COMPILERS = ["gcc", "clang", "tcc"]
SPECIAL = [1.5, -0.0, np.inf, -np.inf, np.nan, 1e-45]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_tables_hold_what_they_are_made_of(compiler: str, tmp_path: Path) -> None:
    """Printed by the program, in tables of floats and of doubles."""
    tool, uses = needs_tool(compiler), Uses()
    kinds = [(SPECIAL, np.float32), (SPECIAL, np.float64), ([-128, 127], np.int8)]
    tables: list[np.ndarray] = [np.array(values, kind) for values, kind in kinds]
    names = [uses.table(t) for t in tables]
    prints = [
        f'for (int i = 0; i < {len(t)}; i++) printf("%.17g\\n", (double){n}[i]);'
        for t, n in zip(tables, names, strict=True)
    ]
    declared = "\n".join(uses.tables.values())
    headers = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\n"
    text = f"{headers}{declared}\nint main(void)\n{{\n{chr(10).join(prints)}\nreturn 0;\n}}\n"
    (tmp_path / "t.c").write_text(text)
    command = [tool, "-std=c99", *strict_warnings(compiler), "t.c", "-o", "t"]
    subprocess.run(command, cwd=tmp_path, check=True)
    said = subprocess.run(["./t"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split()
    wanted = np.concatenate([t.astype(np.float64) for t in tables])
    np.testing.assert_array_equal(np.array([float(x) for x in said]), wanted)
    assert np.signbit(float(said[1]))
    assert uses.names == {"NAN", "INFINITY"}


@pytest.mark.parametrize("compiler", COMPILERS)
def test_networks_with_infinities_of_all_kinds(
    compiler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Floats of 8 bits, which are read from a table; where a maximum begins; what doubles are compared with."""
    monkeypatch.setenv("CC", needs_tool(compiler))
    m = Maker(opset=20)
    x = m.input("x", [1, 2, 3, 4])
    small = m.node("Cast", [x], to=TensorProto.FLOAT8E5M2, saturate=0)
    m.node("Cast", [small], "narrow", to=TensorProto.FLOAT)
    m.node("MaxPool", [x], "pooled", kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    m.node("ReduceMin", [m.node("Cast", [x], to=TensorProto.DOUBLE)], "least", keepdims=0)
    ends = m.const(np.array([-np.inf, np.inf]))
    pairs = m.node("Reshape", [x, m.const(np.array([12, 2]))])
    m.node("Add", [m.node("Cast", [pairs], to=TensorProto.DOUBLE), ends], "far")
    negative = m.node("Less", [x, m.const(np.float32(0))])
    masked = m.node("Where", [negative, m.const(np.float32(-np.inf)), x])
    m.node("Cast", [masked], "half", to=TensorProto.FLOAT16)
    model = tmp_path / "net.onnx"
    onnx.save(m.model(["narrow", "pooled", "least", "far", "half"]), model)
    mccompile.compile(model, tmp_path / "out", target="generic")
    network = Network(tmp_path / "out", strict_warnings(compiler))
    given = np.linspace(-9, 9, 24, dtype=np.float32).reshape(1, 2, 3, 4)
    given.reshape(-1)[[0, 1, 5]] = -np.inf, 1e30, np.inf
    got = network.run({"x": given})
    assert got["narrow"].reshape(-1)[[0, 1, 5]].tolist() == [-np.inf, np.inf, np.inf]
    assert got["pooled"][0, 0, 0, 0] == -np.inf
    assert got["least"] == -np.inf
    assert np.all(np.isinf(got["far"][2:]) & (np.sign(got["far"][2:]) == [-1, 1]))
    assert np.isneginf(got["half"]).sum() == (given < 0).sum()


def test_elements_say_which_type_they_are_of() -> None:
    assert [special(x, double=False) for x in (np.inf, -np.inf, np.nan)] == ["INFINITY", "(float)-1e39", "NAN"]
    assert special(-np.inf, double=True) == "(double)(float)-1e39"
    assert special(np.nan, double=True) == "(double)NAN"
