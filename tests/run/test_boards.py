"""Networks on emulated boards: right answers, planted faults found, and what runs took counted exactly."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile import driver
from mccompile.check import check as check_module
from mccompile.check.check import CheckResult, check, check_folder
from mccompile.driver import Options
from mccompile.ir.errors import CompileError
from mccompile.run import counter
from mccompile.run.boards import BOARDS, RUN_STACK, board_of
from mccompile.run.elf import sections
from mccompile.run.measure import Measured
from mccompile.run.network import Network
from mccompile.run.program import run_program
from mccompile.targets.target import resolve
from tests._skips import REPOSITORY, needs_shared, needs_tool
from tests.check.conftest import compile_to, save, small_net, spoil, step_writing
from tests.support.targets import BARE, needs_target

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"
ARM = "cortex-m4"
THREE = (ARM, "cortex-m0plus", "riscv32imac")
"""A core with floats and one without, and another kind of processor."""


@pytest.mark.parametrize("target", BARE)
def test_the_example_is_right_on_every_board(target: str) -> None:
    result = check(DIGITS, Options(target=needs_target(target)))
    assert result.ok, result.lines()
    found = measured(result)
    assert found.board == resolve(target).board
    assert found.instructions is not None
    assert (found.cycles is not None) == ("-mcpu=cortex-m4" in resolve(target).flags)
    assert 1_000 < found.sections[".text"] < 10_000
    assert (found.sections[".data"], found.sections[".bss"]) == (0, 0)
    assert 40 <= found.stack_bytes < 1_000
    assert len(found.steps) == 5
    assert 0 <= found.instructions - sum(s.instructions for s in found.steps) < 200


@pytest.mark.thorough
@pytest.mark.parametrize("target", THREE)
def test_a_network_of_mlperf_tiny(target: str) -> None:
    folder = needs_shared("mlperf_tiny")
    inputs = np.load(folder / "kws_dscnn_fp32.input.npy")[:1]
    model = folder / "kws_dscnn_fp32.onnx"
    result = check(model, Options(target=needs_target(target), opt_level="Os"))
    assert result.ok, result.lines()
    assert inputs.dtype == np.float32
    assert all(step.instructions > step.macs for step in measured(result).steps)


def test_several_memories_and_elements_of_eight_bytes(tmp_path: Path) -> None:
    """The arena of a target that asks for an alignment of 4 is aligned for int64, too."""
    needs_target(ARM)
    nodes = [
        helper.make_node("Cast", ["small"], ["wide"], to=TensorProto.INT64),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]
    small, wide = (TensorProto.INT8, [3]), (TensorProto.INT64, [3])
    model = save(tmp_path / "wide.onnx", nodes, {"small": small, "x": wide}, {"y": wide})
    for memory in ((), (("fast", 64), ("slow", 1 << 20))):
        result = check(model, Options(target=ARM, memory=memory))
        assert result.ok, result.lines()


@pytest.mark.parametrize("memory", [(), (("fast", 16), ("slow", 1 << 20))], ids=["one", "two"])
def test_elements_of_eight_bytes_in_the_blob_alone(tmp_path: Path, memory: tuple[tuple[str, int], ...]) -> None:
    """The arena, of an odd number of words, is aligned as the blob is, and its size a multiple of that."""
    needs_target(ARM)
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.DOUBLE),
        helper.make_node("Add", ["wide", "more"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=TensorProto.FLOAT),
    ]
    three = (TensorProto.FLOAT, [3])
    more = np.array([0.25, 1.5, 3.0])
    model = save(tmp_path / "odd.onnx", nodes, {"x": three}, {"y": three}, {"more": more})
    result = check(model, Options(target=ARM, memory=memory))
    assert result.ok, result.lines()


# ---- what was planted -------------------------------------------------------------------------------------


def spoiled(tmp_path: Path, statement: str, target: str = ARM) -> CheckResult:
    """Check a small network on a board with a statement put at the end of the step that completes its output."""
    needs_target(target)
    net = small_net(tmp_path / "small.onnx")
    out = tmp_path / "out"
    c = compile_to(net, out, Options(target=target))
    report = json.loads((out / "report.json").read_text())
    spoil(out, "small", statement, step_writing(report, "y"))
    return check_folder(net, c, out)


def measured(result: CheckResult) -> Measured:
    assert result.measured is not None
    return result.measured


@pytest.mark.parametrize("target", THREE)
def test_a_wrong_answer_is_found(tmp_path: Path, target: str) -> None:
    assert spoiled(tmp_path, "", target).ok
    result = spoiled(tmp_path, "RESULT[2] += 0.01f;", target)
    assert not any(run.ok for run in result.runs)
    assert result.runs[0].comparisons[0].index == (0, 2)


def test_wrong_weights_are_found(tmp_path: Path) -> None:
    mccompile.compile(DIGITS, tmp_path, target=needs_target(ARM))
    inputs = {"image": np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)}
    want = Network(tmp_path, emulate=True).run(inputs)["scores"]
    blob = bytearray((tmp_path / "digits.mcb").read_bytes())
    blob[-400:] = bytes(400)
    (tmp_path / "digits.mcb").write_bytes(blob)
    assert not np.allclose(want, Network(tmp_path, emulate=True).run(inputs)["scores"])


@pytest.mark.parametrize("where", ["sizeof(*a) + 100u", "(size_t)0 - 8u"])
def test_a_write_outside_of_the_arena_is_found(tmp_path: Path, where: str) -> None:
    result = spoiled(tmp_path, f"{{ volatile size_t far_ = {where}; ((uint8_t *)a)[far_] = 1u; }}")
    assert all(run.ok for run in result.runs)
    assert result.faults == ("a kernel writes outside of the arena",)


@pytest.mark.parametrize("target", ["cortex-m4", "riscv32imac"])
def test_a_fault_of_the_processor_says_where(tmp_path: Path, target: str) -> None:
    nowhere = "{ volatile uint32_t *volatile p_ = (volatile uint32_t *)0xF0000000u; *p_ = 1u; }"
    with pytest.raises(CompileError, match=r"a fault of the processor at [0-9a-f]{8}"):
        spoiled(tmp_path, nowhere, target)


def test_the_stack_is_what_a_step_uses(tmp_path: Path) -> None:
    before = measured(spoiled(tmp_path, "")).stack_bytes
    use = "{{ volatile uint8_t room_[{0}]; room_[0] = 1u; room_[{0} - 1] = room_[0]; }}"
    after = measured(spoiled(tmp_path, use.format(3000))).stack_bytes
    assert 3000 <= after - before <= 3064
    result = spoiled(tmp_path, use.format(RUN_STACK + 4096))
    assert all(run.ok for run in result.runs)
    assert len(result.faults) == 1
    assert "bytes of stack or more" in result.faults[0]


# ---- what is counted -------------------------------------------------------------------------------------


def test_instructions_are_counted_exactly_and_in_their_step(tmp_path: Path) -> None:
    loop = '__asm__ volatile("movs r3, #200\\n0: subs r3, #1\\nbne 0b" : : : "r3", "cc");'
    nops = '__asm__ volatile(".rept 1000\\nnop\\n.endr");'
    empty = measured(spoiled(tmp_path, '__asm__ volatile("" : : : "r3", "cc");'))
    for statement, instructions, cycles in ((loop, 401, 1 + 400 + 2 * 199), (nops, 1000, 1000)):
        found = measured(spoiled(tmp_path, statement))
        assert found.instructions is not None
        assert empty.instructions is not None
        assert found.instructions - empty.instructions == instructions
        assert found.cycles is not None
        assert empty.cycles is not None
        assert found.cycles - empty.cycles == cycles
        changed = [a.step for a, b in zip(found.steps, empty.steps, strict=True) if a.instructions != b.instructions]
        assert len(changed) == 1


@pytest.mark.parametrize("before", [500, 505, 506, 507, 508, 509, 510, 511])
def test_where_code_lies_changes_nothing(tmp_path: Path, before: int) -> None:
    """An emulator translates page by page, of 1 KiB; here a loop lies across the boundary of two."""
    empty = measured(spoiled(tmp_path, '__asm__ volatile("" : : : "r2", "r3", "cc");'))
    lines = [
        "b 1f", ".balign 1024", f".rept {before}", "nop", ".endr", "1: movs r3, #50",
        "0: mul.w r2, r2, r2", "mul.w r2, r2, r2", "mul.w r2, r2, r2", "subs r3, #1", "bne 0b",
    ]  # fmt: skip
    found = measured(spoiled(tmp_path, '__asm__ volatile("{}" : : : "r2", "r3", "cc");'.format("\\n".join(lines))))
    assert (found.instructions or 0) - (empty.instructions or 0) == 2 + 50 * 5
    assert (found.cycles or 0) - (empty.cycles or 0) == 3 + 1 + 50 * 5 + 49 * 2


def test_two_builds_count_the_same(tmp_path: Path) -> None:
    assert measured(spoiled(tmp_path, "")) == measured(spoiled(tmp_path, ""))


def test_marks_cost_nothing(tmp_path: Path) -> None:
    """The machine code of a network is the same with and without them."""
    needs_tool("arm-none-eabi-gcc")
    compile_to(small_net(tmp_path / "small.onnx"), tmp_path / "out", Options(target=ARM))
    codes = []
    for hooks in ((), ('-DMCC_HOOKS_HEADER="marks.h"', f"-I{Path(counter.__file__).parent / 'bare'}")):
        from mccompile.run.build import build_object

        built = build_object(
            ["arm-none-eabi-gcc"], tmp_path / "out" / "small.c", [*resolve(ARM).c_flags, *hooks], tmp_path / "out"
        )
        codes.append(sections(built)[".text"].data)
    assert len(codes[0]) == len(codes[1])


@pytest.mark.parametrize("target", [ARM, "riscv32imc"])
def test_without_plugins_the_clock_of_the_board_tells_instructions(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = measured(check(DIGITS, Options(target=needs_target(target)))).instructions
    assert counted is not None

    def none(emulator: str) -> int:
        raise CompileError(f"{emulator} was built without plugins")

    monkeypatch.setattr(counter, "plugin_version", none)
    result = check(DIGITS, Options(target=target))
    assert result.ok, result.lines()
    assert measured(result).instructions == pytest.approx(counted, rel=1e-3)
    assert not measured(result).steps
    assert "was built without plugins" in "\n".join(result.lines(profile=True))
    assert measured(result).stack_bytes > 0


def test_the_table_has_a_line_for_each_step_and_json_has_all(tmp_path: Path) -> None:
    result = check(DIGITS, Options(target=needs_target(ARM)))
    plain, profiled = result.lines(), result.lines(profile=True)
    assert len(profiled) == len(plain) + 1 + 5
    assert any("conv2" in line and "conv." in line for line in profiled)
    data: dict[str, Any] = json.loads(json.dumps(result.to_json()))["measured"]
    assert data["instructions"] == measured(result).instructions
    assert [s["step"] for s in data["steps"]] == [0, 1, 2, 3, 4]
    assert data["sections"][".text"] > 0


# ---- programs with a main of their own -------------------------------------------------------------------


@pytest.mark.parametrize("target", [*THREE, "native"])
def test_the_golden_program_runs_where_the_network_runs(tmp_path: Path, target: str) -> None:
    result = check(small_net(tmp_path / "small.onnx"), Options(target=needs_target(target)), golden=True)
    assert result.ok, result.lines()


@pytest.mark.parametrize("target", [ARM, "riscv32imac", "native"])
def test_the_golden_program_judges_by_itself(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right answers, but other ones expected by the program: what it prints is told."""
    needs_target(target)
    right = check_module.golden_files
    other = {"left": 0.0, "y": 5.0}

    def shifted(c: Any, inputs: Any, outputs: Any, *more: Any) -> Any:
        return right(c, inputs, {n: a + np.float32(other[n]) for n, a in outputs.items()}, *more)

    monkeypatch.setattr(check_module, "golden_files", shifted)
    result = check(small_net(tmp_path / "small.onnx"), Options(target=target), golden=True)
    assert all(run.ok for run in result.runs)
    assert len(result.faults) == 1
    assert re.search(r"ended with status 1: FAIL y: \S+ instead of \S+ at element \d", result.faults[0])


@pytest.mark.parametrize("target", [ARM, "riscv32imac"])
def test_programs_have_files_heap_and_numbers(tmp_path: Path, target: str) -> None:
    needs_target(target)
    (tmp_path / "given.txt").write_text("12 -3.5 word\n" + "x" * 5000 + "end")
    (tmp_path / "p.c").write_text(PROGRAM)
    done = run_program(resolve(target), [tmp_path / "p.c"], resolve(target).c_flags, tmp_path)
    assert (done.returncode, done.stdout) == (7, "program 12 -3.500 word 5003 end none\n")
    assert (tmp_path / "made.txt").read_text() == "hello 1e-05\n"


PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
    char word[8];
    char *rest = malloc(6000);
    int i = 0;
    float x = 0.0f;
    FILE *file = fopen("given.txt", "r");
    FILE *made = fopen("made.txt", "w");
    if ((argc != 1) || (rest == NULL) || (fscanf(file, "%d %f %7s", &i, &x, word) != 3)) {
        return 1;
    }
    (void)fgetc(file);
    const size_t length = fread(rest, 1, 6000, file);
    (void)fclose(file);
    (void)fprintf(made, "hello %g\\n", 1e-5);
    (void)fclose(made);
    rest[length] = '\\0';
    printf("%s %d %.3f %s %u %s", argv[0], i, (double)x, word, (unsigned)length, rest + length - 3);
    printf(" %s\\n", (fopen("absent.txt", "r") == NULL) ? "none" : "some");
    return 7;
}
"""


# ---- what is missing or too large -------------------------------------------------------------------------


def test_missing_tools_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    for target in ("cortex-m4", "riscv32imac"):
        board = board_of(resolve(target))
        assert board is not None
        for gone in (board.emulator[0], f"{resolve(target).triple}-gcc"):
            monkeypatch.setattr(shutil, "which", lambda name, gone=gone: None if name == gone else f"/usr/bin/{name}")
            with pytest.raises(CompileError, match=f"{gone} not found") as caught:
                check(DIGITS, Options(target=target))
            assert all(package in str(caught.value) for package in resolve(target).packages)


def test_a_network_that_is_too_large_is_refused_with_figures(tmp_path: Path) -> None:
    needs_target(ARM)
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    shape = [1, 5_000_000]
    model = save(tmp_path / "large.onnx", nodes, {"x": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, shape)})
    with pytest.raises(CompileError, match=r"does not fit on the emulated board mps2-an386: .* 16,777,216 bytes"):
        check(model, Options(target=ARM))


def test_code_that_is_too_large_is_refused_with_figures(tmp_path: Path) -> None:
    needs_target(ARM)
    out = tmp_path / "out"
    driver.compile(DIGITS, out, Options(target=ARM))
    path = out / "mcc.c"
    path.write_text(path.read_text() + "const uint32_t much_[2000000] = { 1u };\n" * 1)
    main = out / "digits.c"
    main.write_text(
        main.read_text().replace(
            "digits_run(const digits_t *net)\n{",
            "digits_run(const digits_t *net)\n{\n    extern const uint32_t much_[2000000];\n"
            "    if (much_[(size_t)(uintptr_t)net & 7u] == 7u) {\n        return MCC_E_NULL;\n    }",
        )
    )
    with pytest.raises(CompileError, match=r"4,194,304 bytes of CODE are exceeded by [\d,]+"):
        Network(out, emulate=True)


def test_boards_have_scripts_of_their_own() -> None:
    texts = {board.linker_script for board in BOARDS.values()}
    assert len(texts) >= 4
    assert all(f"ORIGIN = {board.ram.origin:#x}" in board.linker_script for board in BOARDS.values())


def test_what_is_no_program_of_32_bits_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\x7fELF\x02\x01" + bytes(60))
    with pytest.raises(CompileError, match="no program of 32 bits"):
        sections(tmp_path / "a")
