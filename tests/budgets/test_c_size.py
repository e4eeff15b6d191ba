"""Generated C stays short enough to be read: loops over the registers of a tile are loops in C as well."""

from __future__ import annotations

import re
from pathlib import Path

import onnx
import pytest

from mccompile.codegen.files import source_files
from mccompile.driver import Options, compile_program, import_graph
from tests._skips import needs_shared
from tests.support.small_models import Maker

MOST_FILE = 400_000
"""Bytes of a network's C file; with the taps of its windows written out, the first of these had 1,289,000."""
MOST_FUNCTION = 10_000
"""Bytes of a function of a kernel; a tile of a 5x5 window had 60,000."""
NETWORKS = ["yolox_nano", "nanotrack_backbone", "blazeface_back", "shufflenetv2_int8"]


@pytest.mark.parametrize("target", ["x86-64-v4", pytest.param("x86-64-v3", marks=pytest.mark.slow), "aarch64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_generated_c_is_short(name: str, target: str) -> None:
    path: Path = next(iter(sorted(needs_shared(f"models/{name}").glob("*.onnx"))))
    assert_short(path, target)


def vocoder() -> onnx.ModelProto:
    """Residual blocks of 1-D convolutions of three windows at three dilations in each of four stages that double a
    signal (J. Kong et al., HiFi-GAN, 2020): nearly every convolution has a form of its own."""
    m = Maker()
    x, channels = m.input("x", [1, 64, 20]), 64
    for _ in range(4):
        grown = m.node("LeakyRelu", [x], alpha=0.1)
        half = channels // 2
        x = m.node("ConvTranspose", [grown, m.weight((channels, half, 4))], strides=[2], pads=[1, 1])
        channels = half
        sums = []
        for window in (3, 7, 11):
            y = x
            for dilation in (1, 3, 5):
                z = y
                for d in (dilation, 1):
                    z = m.node("LeakyRelu", [z], alpha=0.1)
                    pad = (window - 1) // 2 * d
                    z = m.node("Conv", [z, m.weight((channels, channels, window))], pads=[pad, pad], dilations=[d])
                y = m.node("Add", [y, z])
            sums.append(y)
        x = m.node("Add", [m.node("Add", sums[:2]), sums[2]])
    return m.model([x])


@pytest.mark.parametrize("target", ["x86-64-v4", "x86-64-v3", "aarch64", "cortex-m7"])
def test_c_of_many_windows_is_short(target: str, tmp_path: Path) -> None:
    onnx.save(vocoder(), tmp_path / "net.onnx")
    assert_short(tmp_path / "net.onnx", target)


def assert_short(path: Path, target: str) -> None:
    made = compile_program(import_graph(path, Options(target=target, name="net")))
    text = source_files(made)["net.c"].decode()
    assert len(text) <= MOST_FILE
    pattern = re.compile(r"^(?:static|MCC_INLINE) [^\n]*\b(net_k\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
    functions = {m[1]: len(m[0]) for m in pattern.finditer(text)}
    assert functions
    assert max(functions.values()) <= MOST_FUNCTION, max(functions, key=lambda f: functions[f])
