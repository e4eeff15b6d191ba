"""Templates are compiled once for all processes, where the package's folder can be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mccompile.codegen.templates import environment
from mccompile.ir.dims import symbol

SCRIPT = """
import sys
import jinja2
from mccompile.codegen.templates import environment

compiled = []
compile = jinja2.Environment.compile
jinja2.Environment.compile = lambda self, *a, **k: (compiled.append(a), compile(self, *a, **k))[1]
environment().get_template("copy/generic.c.j2")
print(len(compiled))
"""


def _compiled(prefix: Path, *flags: str) -> str:
    """How many templates a process compiles that keeps its bytecode below ``prefix``."""
    command = [sys.executable, *flags, "-X", f"pycache_prefix={prefix}", "-c", SCRIPT]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.thorough
def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    assert [_compiled(tmp_path, "-B"), _compiled(tmp_path), _compiled(tmp_path)] == ["1", "1", "0"]


def test_where_nothing_can_be_written_each_compiles(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert [_compiled(tmp_path / "file"), _compiled(tmp_path / "file")] == ["1", "1"]


def test_extents_are_c_as_text_too() -> None:
    """A template that puts a place together hands it on as a text: the C of an extent, not its name."""
    made = environment().from_string("{{ n // 4 * 4 }}, {{ (n // 4 * 4) | string }}, {{ 3 | string }}")
    assert made.render(n=symbol("n", 1, 9)) == "(4 * (dim_n / 4)), (4 * (dim_n / 4)), 3"
