"""`backend.run_node` makes a model of a node, whatever the node reads."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from mccompile import backend
from mccompile.ir.errors import UsageError


def test_a_node_may_read_one_value_twice() -> None:
    x = np.float32([1, 2])
    node = helper.make_node("Add", ["a", "a"], ["y"])
    for inputs in ([x, x], {"a": x}):
        (y,) = backend.run_node(node, inputs, target="generic")
        assert y.tolist() == [2, 4]
    with pytest.raises(UsageError, match="1 inputs given, the node has 2"):
        backend.run_node(node, [x])
