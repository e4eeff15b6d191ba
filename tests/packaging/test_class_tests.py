"""How often passes ask an operator for its class: the count finds every form of asking, and does not grow."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def _tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("count_class_tests", ROOT / "tools" / "count_class_tests.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _tool()


def test_passes_ask_no_more_often_than_allowed() -> None:
    assert len(TOOL.places()) <= TOOL.MOST


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("isinstance(node.op, Conv)", 1),
        ("assert isinstance(op, conv.Conv | Pool)", 1),
        ("isinstance(value, np.ndarray)", 0),
        ("match op:\n    case Slice(starts=s): pass\n    case Concat() | Pad(): pass", 3),
        ("RULES = {Conv: 1, Map: 2}", 2),
        ("type(op) is Reshape", 1),
        ("Lstm(('y',), False)", 0),
    ],
)
def test_each_form_of_asking_is_counted(text: str, count: int) -> None:
    found = list(TOOL.class_tests(ast.parse(text), TOOL.operator_classes()))
    assert len(found) == count


def test_operators_below_other_operators_are_known() -> None:
    assert {"Conv", "Slice", "Lstm"} <= TOOL.operator_classes()
