"""Generated C stays short enough to be read: loops over the registers of a tile are loops in C as well."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mccompile.codegen.files import source_files
from mccompile.driver import Options, compile_program, import_graph
from tests._skips import needs_shared

MOST_FILE = 400_000
"""Bytes of a network's C file; with the taps of its windows written out, the first of these had 1,289,000."""
MOST_FUNCTION = 10_000
"""Bytes of a function of a kernel; a tile of a 5x5 window had 60,000."""
NETWORKS = ["yolox_nano", "nanotrack_backbone", "blazeface_back", "shufflenetv2_int8"]


@pytest.mark.parametrize("target", ["x86-64-v4", pytest.param("x86-64-v3", marks=pytest.mark.slow), "aarch64"])
@pytest.mark.parametrize("name", NETWORKS)
def test_generated_c_is_short(name: str, target: str) -> None:
    path: Path = next(iter(sorted(needs_shared(f"models/{name}").glob("*.onnx"))))
    made = compile_program(import_graph(path, Options(target=target, name="net")))
    text = source_files(made)["net.c"].decode()
    assert len(text) <= MOST_FILE
    pattern = re.compile(r"^(?:static|MCC_INLINE) [^\n]*\b(net_k\w+)\(.*?^}", re.MULTILINE | re.DOTALL)
    functions = {m[1]: len(m[0]) for m in pattern.finditer(text)}
    assert functions
    assert max(functions.values()) <= MOST_FUNCTION, max(functions, key=lambda f: functions[f])
