"""How often passes ask an operator for its class: the count finds every form of asking, and does not grow."""

from __future__ import annotations

import ast

import count_class_tests
import pytest


def test_passes_ask_no_more_often_than_allowed() -> None:
    assert len(count_class_tests.places()) <= count_class_tests.MOST


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
    found = list(count_class_tests.class_tests(ast.parse(text), count_class_tests.operator_classes()))
    assert len(found) == count


def test_operators_below_other_operators_are_known() -> None:
    assert {"Conv", "Slice", "Lstm"} <= count_class_tests.operator_classes()
