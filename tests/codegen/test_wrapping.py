"""No line of a generated file is too long, and lines are broken where a reader would break them."""

from __future__ import annotations

from pathlib import Path

import pytest

import mccompile
from mccompile.codegen.templates import indent_c
from mccompile.codegen.wrapping import COLUMNS, wrapped_line, wrapped_text
from tests._skips import REPOSITORY
from tests.support.small_models import MODELS, write_model

DIGITS = REPOSITORY / "examples" / "digits" / "digits.onnx"


@pytest.mark.parametrize("level", ["O2", "Os"])
@pytest.mark.parametrize("target", ["generic", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_no_line_is_too_long(target: str, level: str, tmp_path: Path) -> None:
    for model in [DIGITS, *(write_model(name, tmp_path) for name in MODELS)]:
        for split in (False, True):
            out = tmp_path / "out" / f"{model.stem}{split}"
            mccompile.compile(model, out, target=target, opt_level=level, embed=True, split_kernels=split)
            for path in out.glob("*.[ch]"):
                long = [line for line in path.read_text().splitlines() if len(line) > COLUMNS]
                assert not long, f"{path.name}: {long[0]}"


def _joined(lines: list[str]) -> str:
    return "".join(" ".join(lines).split())


@pytest.mark.parametrize(
    "line",
    [
        "    static void k0(" + ", ".join(f"const float *MCC_RESTRICT x{i}" for i in range(9)) + ")",
        "        y0[i0] = " + " + ".join(f"(x0[i0 * 128 + {i}] * x1[i1 * 64 + {i}])" for i in range(9)) + ";",
        "if (" + " || ".join(f"(coordinate{i} >= extent_of_axis_{i})" for i in range(6)) + ") {",
    ],
)
def test_code_is_broken_between_tokens(line: str) -> None:
    lines = wrapped_line(line)
    indent = len(line) - len(line.lstrip())
    assert _joined(lines) == _joined([line])
    assert max(map(len, lines)) <= COLUMNS
    assert all(len(t) - len(t.lstrip()) == indent + 4 for t in lines[1:])


def test_commas_of_the_outermost_call_come_first() -> None:
    inner = "inner_function(" + ", ".join(["argument"] * 6) + ")"
    first, second = wrapped_line(f"MCC_STEP(12, {inner}, result_of_the_step, another_argument_of_it, last_of_them);")
    assert first.endswith("result_of_the_step,") or first.endswith("another_argument_of_it,")
    assert second.startswith("    ")


def test_strings_are_broken_between_literals_only() -> None:
    line = "    { " + " ".join(['"' + "a, b = (c" * 8 + '"'] * 3) + ", NULL },"
    lines = wrapped_line(line)
    assert len(lines) == 3
    assert all(t.count('"') == 2 for t in lines)


def test_comments_behind_code() -> None:
    lines = wrapped_line("    } name; /* " + "word " * 40 + "*/")
    assert lines[0].startswith("    } name; /* word")
    assert all(t.startswith("             * word") for t in lines[1:])
    assert lines[-1].endswith("*/")


def test_the_inside_of_comments() -> None:
    lines = wrapped_text(" *     " + "word " * 40)
    assert max(map(len, lines)) <= COLUMNS
    assert lines[0].startswith(" *     word")
    assert all(t.startswith(" *         word") for t in lines[1:])


def test_directives_go_on_behind_a_backslash() -> None:
    text = indent_c('#error "' + "word " * 40 + '"')
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert all(t.endswith("\\") for t in text.splitlines()[:-1])


def test_a_comment_that_begins_in_a_string_is_none() -> None:
    """Behind it lines are wrapped as code, whose strings stay whole."""
    long = '"' + "word " * 40 + '",'
    text = indent_c('static const char *const names[] = {\n"a/*b",\n' + long + '\n};\n/* more\nof this */\nint x;')
    assert text.splitlines()[1:3] == ['    "a/*b",', f"    {long}"]
    assert text.endswith("/* more\n of this */\nint x;\n")
