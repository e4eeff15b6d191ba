"""The template lint: every rule catches a planted fault, and correct text passes."""

from __future__ import annotations

from pathlib import Path

import pytest
from indent_templates import indented
from lint_templates import lint_tree

GOOD = """\
/* y = max(x, 0); never calls malloc() */
static const float zero = 0.0f;
static void {{ name }}(const float *x, float *y)
{
    //% for i in range(n)
    y[{{ i }}] = x[{{ i }}] > zero ? x[{{ i }}] : zero;
    //% endfor
}
"""


def make_tree(root: Path, templates: dict[str, str]) -> Path:
    (root / "runtime_c").mkdir()
    (root / "runtime_c" / "mcc.h").write_text("/* SPDX-License-Identifier: 0BSD */\n")
    for name, text in templates.items():
        path = root / "kernels_templates" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_correct_tree_passes(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"relu/generic.c.j2": GOOD, "_lib/avx2.h.j2": GOOD})
    assert list(lint_tree(tree)) == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("    float *t = malloc(4);", "allocates"),
        ('    printf("%d", 1);', "hosted library"),
        ("#include <stdio.h>", "firmware lacks"),
        ("    goto end;", "jumps"),
        ("static int counter;", "writable static"),
        ("    static float cache[4] = {0};", "writable static"),
        ("\tint i;", "a tab"),
        ("int i; ", "ends in blanks"),
        ("int " + 120 * "i" + ";", "longer than"),
        ("{% if fast %}", "control line"),
        ("//% if fast", "not a template"),
        ("  int i;", "not indented"),
    ],
)
def test_each_planted_fault_is_found(tmp_path: Path, line: str, message: str) -> None:
    tree = make_tree(tmp_path, {"relu/generic.c.j2": GOOD + line + "\n"})
    problems = list(lint_tree(tree))
    planted = f"kernels_templates/relu/generic.c.j2:{len(GOOD.splitlines()) + 1}: "
    assert any(p.startswith(planted) and message in p for p in problems), problems


def test_templates_are_indented_by_the_depth_of_their_c() -> None:
    flat = "f()|{|//% for i in kept|for (;;) {|//% endfor|a(b,|c);|//% if x|}|//% endif|}".split("|")
    deep = [0, 0, 1, 1, 1, 2, 3, 1, 1, 1, 0]
    wanted = "".join("    " * n + line + "\n" for n, line in zip(deep, flat, strict=True))
    assert indented("\n".join(flat)) == wanted
    assert indented(wanted) == wanted


@pytest.mark.parametrize(
    ("name", "message"), [("relu/avx2.c.j2", "no generic.c.j2"), ("relu/Generic-2.c.j2", "not called")]
)
def test_wrong_names_are_found(tmp_path: Path, name: str, message: str) -> None:
    assert any(message in p for p in lint_tree(make_tree(tmp_path, {name: GOOD})))


def test_runtime_without_licence_is_found(tmp_path: Path) -> None:
    tree = make_tree(tmp_path, {"relu/generic.c.j2": GOOD})
    (tree / "runtime_c" / "mcc.c").write_text("int mcc_x;\n")
    assert any("mcc.c:1: does not say" in p for p in lint_tree(tree))
