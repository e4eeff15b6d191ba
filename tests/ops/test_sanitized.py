"""Every operator's generated C under AddressSanitizer and UndefinedBehaviorSanitizer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests._skips import REPOSITORY, needs_sanitizers

PARTS = 6


def sanitized(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Python with gcc's AddressSanitizer preloaded, as a library that was built with it needs.

    The C++ library comes first as well: the sanitizer looks for its exceptions when it is loaded.
    """
    gcc = needs_sanitizers("gcc")
    names = ("libasan.so", "libstdc++.so")
    found = [subprocess.check_output([gcc, f"-print-file-name={n}"], text=True).strip() for n in names]
    environment = {**os.environ, "LD_PRELOAD": ":".join(found), "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_no_operator_leaves_its_memory_or_the_language(part: int, tmp_path: Path) -> None:
    done = sanitized(["-m", "tests.support.sanitized", str(tmp_path), str(part), str(PARTS)])
    assert done.returncode == 0, done.stderr[-4000:]
    assert "cases agree" in done.stdout
