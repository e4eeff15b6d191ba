"""examples/kws-firmware as its README says: built by CMake, run on an emulated board."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests._skips import REPOSITORY, needs_tool

FOLDER = REPOSITORY / "examples" / "kws-firmware"


@pytest.mark.thorough
def test_the_firmware_hears_the_words(tmp_path: Path) -> None:
    cmake = needs_tool("cmake")
    needs_tool("arm-none-eabi-gcc")
    needs_tool("qemu-system-arm")
    program = Path(sys.executable).with_name("mccompile")
    there = subprocess.run([program, "--cmake-dir"], capture_output=True, text=True, check=True).stdout.strip()
    options = [f"-Dmccompile_DIR={there}", f"-DMCCOMPILE_EXECUTABLE={program}"]
    command = [cmake, "-S", FOLDER, "-B", tmp_path, "--toolchain", FOLDER / "arm.cmake", *options]
    subprocess.run(command, check=True, capture_output=True)
    build = [cmake, "--build", tmp_path, "--target", "run"]
    done = subprocess.run(build, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr
    shown = re.findall(r"^heard: .*$", (FOLDER / "README.md").read_text(), re.M)
    assert re.findall(r"^heard: .*?$", done.stdout, re.M) == shown
    (image,) = tmp_path.glob("firmware.elf")
    floats = subprocess.run(["arm-none-eabi-nm", image], capture_output=True, text=True, check=True).stdout
    assert "expf" not in floats  # what comes out is scores: the network ends in integers
