"""The flags that headers and CMake lists ask for: those that results depend on; the level is the user's."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

import mccompile
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_tool

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flags") / "digits"
    mccompile.compile(DIGITS, folder, target="generic")
    return folder


def configured(source: Path, build: Path, *options: str) -> list[str]:
    """The command by which CMake compiles digits.c."""
    needs_tool("gcc")
    command = [needs_tool("cmake"), "-S", str(source), "-B", str(build), "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"]
    done = subprocess.run([*command, "-DCMAKE_C_COMPILER=gcc", *options], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    entries = json.loads((build / "compile_commands.json").read_text())
    return next(shlex.split(e["command"]) for e in entries if e["file"].endswith("/digits.c"))


def levels(command: list[str]) -> list[str]:
    return [word for word in command if word.startswith("-O")]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "found"),
    [
        ((), ["-O2"]),
        (("-DCMAKE_BUILD_TYPE=Release",), ["-O3"]),
        (("-DCMAKE_BUILD_TYPE=Debug",), []),
        (("-DCMAKE_C_FLAGS=-g -Os",), ["-Os"]),
    ],
)
def test_the_level_is_the_users(options: tuple[str, ...], found: list[str], out: Path, tmp_path: Path) -> None:
    command = configured(out, tmp_path, *options)
    assert levels(command) == found
    assert set(resolve("generic").required_flags) <= set(command)


@pytest.mark.thorough
def test_flags_of_the_project_around_it_are_seen_and_its_own_can_be_replaced(out: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(app C)\n"
        f"add_compile_options(-O1)\nadd_subdirectory({out} net)\n"
    )
    command = configured(tmp_path, tmp_path / "build", "-DDIGITS_C_FLAGS=-std=c11;-ffp-contract=fast")
    assert levels(command) == ["-O1"]
    assert "-ffp-contract=fast" in command
    assert "-ffp-contract=off" not in command


@pytest.mark.parametrize(("opt_level", "level"), [("O2", "-O2"), ("Os", "-Os")])
def test_header_and_list_recommend_a_level_apart_from_what_is_needed(
    opt_level: str, level: str, tmp_path: Path
) -> None:
    report = mccompile.compile(DIGITS, tmp_path, target="generic", opt_level=opt_level).report
    header = (tmp_path / "digits.h").read_text()
    assert f" * Compile with: {' '.join(resolve('generic').required_flags)}\n * and {level}," in header
    assert report["target"]["required_flags"] == list(resolve("generic").required_flags)
    lines = (tmp_path / "CMakeLists.txt").read_text().splitlines()
    assert [line.strip() for line in lines if "-O" in line and "options" in line] == [
        f"target_compile_options(digits PRIVATE {level})"
    ]
