"""Expressions of C know how they hold together; nobody reads their text to find out."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.code import Bond, bare, bond_of, closed, code, form, opened, wrapped
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, whole
from tests._skips import REPOSITORY

OWN = {
    "loops.py": "leaves out a coordinate that nothing in its block reads",
    "wrapping.py": "breaks long lines",
    "names.py": "makes identifiers and comments of ONNX names",
    "packages.py": "makes a regular expression of what an example prints",
    "uses.py": "reads templates and forms of C, before anything is printed",
    "templates.py": "reads templates, and sets comments and strings apart where it indents",
    "inlined_functions.py": "compares functions that are printed, and keeps one text of those that are alike",
    "common_sums.py": "compares parts of functions that are printed, and keeps one text of those that are alike",
    "shared_functions.py": "compares functions beside kernels that are printed, and keeps one of each",
    "common_extents.py": "compares kernels that are printed, and gives their extents numbers for names",
    "shared_numbers.py": "compares kernels that are printed, and gives their functions the numbers they mention",
}
"""Modules of codegen that search text, and what for. None searches the C that another one has printed for what it
means."""


@pytest.mark.parametrize(
    ("pattern", "bond", "grouped"),
    [
        ("mcc_vmax({0}, {1} - ({2}))", Bond.CLOSED, False),
        ("x0[{0}]", Bond.CLOSED, False),
        ("({0} ? {1} : {2})", Bond.CLOSED, True),
        ("f({0}) + g({1})", Bond.OPEN, False),
        ("({0}) + ({1})", Bond.OPEN, False),
        ("(uint8_t)({0} < {1})", Bond.OPEN, False),
        ("-{0}", Bond.OPEN, False),
        ("INFINITY", Bond.WORD, False),
    ],
)
def test_patterns(pattern: str, bond: Bond, grouped: bool) -> None:
    assert bond_of(pattern) == (bond, grouped)


def test_what_stands_beside_operators() -> None:
    assert wrapped("i") == "i"
    assert wrapped("12") == "12"
    assert wrapped("-12") == "(-12)"
    assert wrapped("a + b") == wrapped(wrapped("a + b")) == "(a + b)"
    assert bare(wrapped("a + b")) == "a + b"
    assert wrapped(closed("x[i]")) == "x[i]"
    assert wrapped("x[i]") == "(x[i])"  # a plain string may be anything
    assert bare(closed("((void)x, 1)")) == "((void)x, 1)"  # these parentheses do more than to close
    choice = form("({0} ? {1} : {2})", "c", "a", "b")
    assert (wrapped(choice), bare(choice)) == ("(c ? a : b)", "c ? a : b")
    assert form("{0}", closed("f(x)")).bond is Bond.CLOSED
    assert code(opened("a + b")).bond is Bond.OPEN


def test_every_scalar_function_is_told_call_from_operator() -> None:
    calls = set()
    for name, row in FUNCTIONS.items():
        filled = [c.format("{0}", "{1}", "{2}", t="t", u="u", s="f32", f="f") for c in row.c.values()]
        if (Bond.CLOSED, False) in map(bond_of, filled):
            calls.add(name)
    assert {"max", "relu", "exp", "sigmoid", "div", "shl"} <= calls
    assert not {"add", "mul", "neg", "eq", "not", "gate", "select", "isnan"} & calls


def test_numbers_are_asked_for_where_they_are_printed() -> None:
    """A C parameter of a shared kernel is what a view printed, not what it decided by."""
    numbers = frozenset({"x0_e0", "x0_e1", "x0_s0", "x0_s1"})
    buffer = Buffer("x", TensorType(F32, (4, 6)), "arena", 16)

    def asked(use: Callable[[BoundView], object]) -> set[str]:
        view = BoundView("x0", whole(buffer), numbers)
        use(view)
        return view.uses.numbers

    assert asked(lambda v: v.index("0", "j")) == {"x0_s1"}
    assert asked(lambda v: (v.coordinate(0, "i"), v.varies(1), v.known(1), v.shape)) == set()
    assert asked(lambda v: (v.e(0), v.load("i", "j"))) == {"x0_e0", "x0_s0", "x0_s1"}
    assert BoundView("x0", whole(buffer), numbers).known(1) is None
    assert BoundView("x0", whole(buffer)).known(1) == 6


def test_no_other_module_of_codegen_searches_text() -> None:
    """What is asked for is recorded where it is asked for: text that was printed is not searched for it."""
    modules = sorted((REPOSITORY / "mccompile" / "codegen").glob("*.py"))
    assert len(modules) > 10
    expressions = re.compile(r"^\s*(import|from) (re|regex)\b", re.MULTILINE)
    assert {p.name for p in modules if expressions.search(p.read_text())} == set(OWN)
