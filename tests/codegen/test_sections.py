"""MCC_CODE_SECTION, MCC_BLOB_SECTION, MCC_ARENA_SECTION: what lies where the macros say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

import mccompile
from mccompile.targets.target import resolve, strict_warnings
from tests._skips import REPOSITORY, needs_tool
from tests.support.small_models import write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
PLACES = ('-DMCC_CODE_SECTION=".itcm"', '-DMCC_BLOB_SECTION=".qspi"', '-DMCC_ARENA_SECTION=".bss.dtcm"')
ARM = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
TOOLS = [
    ("gcc", "", "generic"),
    ("gcc", "", "native"),
    ("clang", "", "generic"),
    ("arm-none-eabi-gcc", "arm-none-eabi-", "generic"),
]


def compiled(folder: Path, compiler: str, flags: Sequence[str], *sources: str) -> None:
    machine = ARM if compiler.startswith("arm") else ()
    command = [needs_tool(compiler), *flags, *machine, *strict_warnings(compiler), "-c", *sources]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]


def sections(path: Path, prefix: str = "") -> dict[str, str]:
    """The section of each function and object that an object file defines."""
    done = subprocess.run([needs_tool(f"{prefix}objdump"), "-t", path], capture_output=True, text=True, check=True)
    found = re.findall(r"^[0-9a-f]+ .{6}[FO ] (\S+)\t[0-9a-f]+(?: \.hidden)? (\S+)$", done.stdout, re.MULTILINE)
    return {name: section for section, name in found if section not in ("*UND*", "*ABS*") and name != section}


@pytest.mark.thorough
@pytest.mark.parametrize(("compiler", "prefix", "target"), TOOLS)
def test_what_lies_where_the_macros_say(compiler: str, prefix: str, target: str, tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path, target=target, embed=True)
    flags = [*resolve(target).c_flags, "-fno-inline", "-fno-pic", *PLACES]
    compiled(tmp_path, compiler, flags, "digits.c", "digits_blob.c", "mcc.c", "example_main.c")
    code = sections(tmp_path / "digits.o", prefix)
    functions = {name: at for name, at in code.items() if not at.startswith((".rodata", ".data"))}
    assert functions.pop("digits_init") == ".text"
    assert functions.pop("digits_run") == ".itcm"
    assert len(functions) > 3
    assert any(name.startswith("mcc_") for name in functions), "no helper was compiled"
    assert {at for name, at in functions.items() if not name.startswith("$")} == {".itcm"}
    assert sections(tmp_path / "digits_blob.o", prefix)["digits_blob"] == ".qspi"
    assert sections(tmp_path / "example_main.o", prefix)["arena_of_digits"] == ".bss.dtcm"
    assert ".itcm" not in sections(tmp_path / "mcc.o", prefix).values()
    listed = subprocess.run([f"{prefix}objdump", "-h", tmp_path / "example_main.o"], capture_output=True, text=True)
    assert re.search(r"\.bss\.dtcm .*\n\s+ALLOC\n", listed.stdout), "the arena would be filled with zeros in flash"


@pytest.mark.thorough
def test_an_arena_in_several_memories_has_a_section_for_each(tmp_path: Path) -> None:
    memory = {"dtcm": 3000, "sram": 64 * 1024}
    mccompile.compile(DIGITS, tmp_path / "out", target="generic", memory=memory)
    out = tmp_path / "out"
    flags = ["-std=c99", '-DMCC_ARENA_DTCM_SECTION=".bss.fast"']
    compiled(out, "gcc", flags, "example_main.c")
    found = sections(out / "example_main.o")
    assert found["arena_dtcm_of_digits"] == ".bss.fast"
    assert found["arena_sram_of_digits"] == ".bss"


def test_iar_gets_a_pragma_and_unknown_compilers_are_asked(tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text('#include "mcc.h"\nMCC_PLACE_CODE\nvoid f(void);\n')
    command = [needs_tool("gcc"), "-E", "-P", f"-I{REPOSITORY / 'runtime_c'}", PLACES[0], "a.c"]
    done = subprocess.run(
        [*command, "-D__IAR_SYSTEMS_ICC__"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert re.search(r'^ *#pragma location ?= ?"\.itcm"\n+void f\(void\);$', done.stdout, re.MULTILINE)
    done = subprocess.run([*command, "-U__GNUC__"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "Define MCC_IN_SECTION(name)" in done.stderr
    (tmp_path / "b.c").write_text('#include "mcc.h"\nMCC_IN_SECTION(".fast") static int arena;\n')
    command = [needs_tool("gcc"), "-c", f"-I{REPOSITORY / 'runtime_c'}", "-U__GNUC__", "b.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "define_MCC_IN_SECTION_for_this_compiler" in done.stderr


@pytest.mark.parametrize("target", ["generic", "x86-64-v3"])
def test_every_function_but_init_has_the_macro(target: str, tmp_path: Path) -> None:
    for name in ("residual", "conv_padding"):
        mccompile.compile(write_model(name, tmp_path), tmp_path / name, target=target)
        text = (tmp_path / name / f"{name}.c").read_text()
        functions = re.findall(r"^(.*)\n\w[^\n;={]*\w\([^;={]*\)\n\{$", text, re.MULTILINE)
        assert len(functions) > 2
        assert [line for line in functions if line != "MCC_PLACE_CODE"] == [""], "init alone stands without"
