"""examples/linux: C++ and Python on several threads give the labels that one thread gives."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests._skips import REPOSITORY, needs_tool

FOLDER = REPOSITORY / "examples" / "linux"
DIGITS = REPOSITORY / "examples" / "digits"


def run(*command: str | Path, given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.mark.thorough
def test_threads_share_weights_and_nothing_else(tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    needs_tool("g++")
    program = Path(sys.executable).with_name("mccompile")
    there = run(program, "--cmake-dir").decode().strip()
    run(cmake, "-S", FOLDER, "-B", tmp_path, f"-Dmccompile_DIR={there}", f"-DMCCOMPILE_EXECUTABLE={program}")
    run(cmake, "--build", tmp_path)
    pictures = np.load(DIGITS / "test_images.npy").tobytes()
    said = run(tmp_path / "classify", tmp_path / "digits" / "digits.mcb", "4", given=pictures)
    right = np.array(said.split(), int) == np.load(DIGITS / "test_labels.npy")
    assert right.mean() > 0.99
    assert said == run(tmp_path / "classify", tmp_path / "digits" / "digits.mcb", "1", given=pictures)
    assert said == run(sys.executable, FOLDER / "classify.py", "3", given=pictures)
