"""The check for functions in functions that call themselves (``tools/lint_closures.py``)."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def lint() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lint_closures", ROOT / "tools" / "lint_closures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
def test_functions_that_hold_themselves_are_found(lint: ModuleType, text: str, found: set[str]) -> None:
    assert {name for _, name in lint.closures(ast.parse(text))} == found


def test_there_is_none(lint: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        lint.main()
    assert ended.value.code == 0, capsys.readouterr().out
