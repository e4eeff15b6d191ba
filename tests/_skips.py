"""Skips for missing tools and data, which a continuous-integration run turns into failures.

``tests/conftest.py`` imports the two hooks; tests call ``needs_tool``, ``needs_sanitizers`` and ``needs_shared``.
A tool is missing also where it is there in part: a compiler without its C library, clang without the run-time of its
sanitizers. A skip names what to install. Tests that run the code of a processor which this machine has not
(``needs_target``) are skipped everywhere; how many is said at the end.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
NO_PROCESSOR = "this machine has no processor"
"""How the reason of a skip begins that is none to fail: a processor is nothing one can install."""


@dataclass(frozen=True)
class Tool:
    """What holds a tool on Debian and Ubuntu; the flags a compiler must build `PROBE` with (None: no compiler)."""

    packages: str
    flags: tuple[str, ...] | None = None


TOOLS = {
    "gcc": Tool("gcc libc6-dev", ("-lm",)),
    "g++": Tool("g++", ()),
    "clang": Tool("clang", ("-lm",)),
    "clang++": Tool("clang g++", ()),
    "arm-none-eabi-gcc": Tool("gcc-arm-none-eabi libnewlib-arm-none-eabi", ("-c",)),
    "aarch64-linux-gnu-gcc": Tool("gcc-aarch64-linux-gnu libc6-dev-arm64-cross", ("-static", "-lm")),
    "arm-linux-gnueabihf-gcc": Tool("gcc-arm-linux-gnueabihf libc6-dev-armhf-cross", ("-static", "-lm")),
    "riscv64-unknown-elf-gcc": Tool(
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf", ("--specs=picolibc.specs", "-c")
    ),
    "s390x-linux-gnu-gcc": Tool("gcc-s390x-linux-gnu libc6-dev-s390x-cross", ("-static", "-lm")),
    "qemu-aarch64": Tool("qemu-user"),
    "qemu-arm": Tool("qemu-user"),
    "qemu-s390x": Tool("qemu-user"),
    "qemu-system-arm": Tool("qemu-system-arm"),
    "qemu-system-riscv32": Tool("qemu-system-misc"),
    "chromium": Tool("chromium"),
    "cppcheck": Tool("cppcheck"),
    "frama-c": Tool("frama-c-base"),
    "why3": Tool("why3"),
    "cvc4": Tool("cvc4"),
    "z3": Tool("z3"),
    "tcc": Tool("tcc libc6-dev"),
    "valgrind": Tool("valgrind"),
}
"""Those whose packages a reader could not guess; `.ci/run` installs the same ones."""

PROBE = "#include <math.h>\n#include <stdio.h>\n#include <string.h>\nint main(void) { return 0; }\n"


def needs_tool(name: str, tool: Tool | None = None) -> str:
    """The path of an executable; skips the test where there is none, or a compiler that lacks a part."""
    path, tool = shutil.which(name), tool or TOOLS.get(name, Tool(""))
    wanted = f" (Debian, Ubuntu: apt install {tool.packages})" if tool.packages else ""
    if path is None:
        pytest.skip(f"needs {name}{wanted}")
    if tool.flags is not None and not _builds(path, tool.flags):
        pytest.skip(f"needs the headers and libraries of {name}{wanted}")
    return path


def needs_sanitizers(name: str) -> str:
    """As `needs_tool`, of a compiler with the run-time of AddressSanitizer and UndefinedBehaviorSanitizer."""
    path = needs_tool(name)
    if not _builds(path, ("-fsanitize=address,undefined",)):
        done = subprocess.run([path, "-dumpversion"], capture_output=True, text=True, check=True)
        release = done.stdout.strip().split(".")[0]
        package = f"libclang-rt-{release}-dev" if "clang" in name else f"libgcc-{release}-dev"
        pytest.skip(f"needs the sanitizers of {name} (Debian, Ubuntu: apt install {package})")
    return path


@functools.cache
def _builds(compiler: str, flags: tuple[str, ...]) -> bool:
    """True where a compiler makes a program (or what ``flags`` ask for) of `PROBE`."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp" if "++" in Path(compiler).name else "probe.c")
        source.write_text(PROBE)
        command = [compiler, str(source), *flags, "-o", str(source.with_suffix(".out"))]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def needs_shared(relative: str) -> Path:
    """A file or folder under MCC_SHARED (default: ../shared); skips the test where it is absent."""
    path = Path(os.environ.get("MCC_SHARED", REPOSITORY.parent / "shared")) / relative
    if not path.exists():
        pytest.skip(f"needs {relative} under MCC_SHARED")
    return path


def in_ci() -> bool:
    """True in a continuous-integration run; MCC_CI=0 says no where CI is set."""
    return os.environ.get("MCC_CI", os.environ.get("CI", "")).lower() not in ("", "0", "false")


def _fail_if_something_is_missing(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not (in_ci() and report.skipped and isinstance(report.longrepr, tuple)):
        return
    path, line, message = report.longrepr
    reason = message.removeprefix("Skipped: ")
    if reason.startswith(("needs ", "could not import ")):
        report.outcome = "failed"
        report.longrepr = f"{path}:{line}: skipped in a continuous-integration run: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, Any]:
    report = yield
    _fail_if_something_is_missing(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, Any, Any]:
    report = yield
    _fail_if_something_is_missing(report)
    return report


def say_skips(terminalreporter: Any) -> None:
    """How many tests were skipped for want of a processor."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", ())]
    without = sum(NO_PROCESSOR in reason for reason in skipped)
    if without:
        terminalreporter.write_line(f"{without} skipped for want of a processor that runs their code")
