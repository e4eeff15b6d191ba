"""The check for functions in functions that call themselves (``tools/lint_closures.py``)."""

from __future__ import annotations

import ast

import lint_closures
import pytest


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f():\n def g(): return g()\n return g", {"g"}),
        ("def f():\n def g(): return h\n def h(): return map(g, ())\n return g", {"g", "h"}),
        ("class A:\n def f(self):\n  def g(): return [g for _ in ()]\n  return g", {"g"}),
        ("def f():\n def g(): return f()\n return g", set()),  # of the module
        ("def f():\n def g(e, of): return of(e)\n def h(): return g\n return h", set()),
    ],
)
def test_functions_that_hold_themselves_are_found(text: str, found: set[str]) -> None:
    assert {name for _, name in lint_closures.closures(ast.parse(text))} == found


def test_there_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        lint_closures.main()
    assert ended.value.code == 0, capsys.readouterr().out
