"""MemorySanitizer: no network does what depends on bytes that nobody wrote, and one that does is found."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest

import mccompile
from mccompile.ir.errors import CompileError
from tests._skips import needs_sanitizers
from tests.support.sanitized import MEMORY_SANITIZER, sanitized_network
from tests.support.small_models import Maker

X = np.linspace(-3, 3, 60, dtype=np.float32).reshape(1, 3, 4, 5)


def _network(folder: Path) -> None:
    """A convolution, whose operand has a halo, and a softmax of what it answers."""
    m = Maker()
    first = m.node("Conv", [m.input("x", [1, 3, 4, 5]), m.weight((3, 3, 3, 3))], pads=[1, 1, 1, 1])
    second = m.node("Conv", [m.node("Relu", [first]), m.weight((3, 3, 3, 3))], pads=[1, 1, 1, 1])
    m.node("Softmax", [second], "y")
    onnx.save(m.model(["y"]), folder / "net.onnx")
    mccompile.compile(folder / "net.onnx", folder / "out", target="generic")


def test_what_is_written_is_read(tmp_path: Path) -> None:
    needs_sanitizers("clang")
    _network(tmp_path)
    wanted = mccompile.load(tmp_path / "out").run({"x": X})["y"]
    network = sanitized_network(tmp_path / "out", MEMORY_SANITIZER, "clang")
    for _ in range(2):
        np.testing.assert_allclose(network.run({"x": X})["y"], wanted, rtol=1e-5)


def test_what_is_not_written_is_found(tmp_path: Path) -> None:
    """The first step is left out: the softmax takes exponentials of sums of what it did not write."""
    needs_sanitizers("clang")
    _network(tmp_path)
    source = tmp_path / "out" / "net.c"
    first = re.compile(r" *MCC_STEP\(0, .*;\n")
    assert first.search(source.read_text())
    source.write_text(first.sub("", source.read_text()))
    network = sanitized_network(tmp_path / "out", MEMORY_SANITIZER, "clang")
    with pytest.raises(CompileError, match="MemorySanitizer: use-of-uninitialized-value"):
        network.run({"x": X})
