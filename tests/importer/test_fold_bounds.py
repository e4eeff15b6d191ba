"""What front ends say that folding takes at most is never less than it takes."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.importer.fold_values import computed
from mccompile.onnxio import OnnxNode
from mccompile.ops.draw import SeededDraw
from mccompile.ops.registry import FrontEnd, folding, front_ends

SAMPLED = [row for row in front_ends().values() if row.sample is not None and not row.domain]
"""Nodes of other domains are never folded."""


@pytest.mark.parametrize("row", SAMPLED, ids=lambda row: row.op_type)
def test_results_stay_below_the_bound(row: FrontEnd) -> None:
    assert row.sample is not None
    for seed in range(3):
        case = row.sample(SeededDraw(seed))
        names = tuple("" if a is None else f"x{i}" for i, a in enumerate(case.inputs))
        outputs = tuple(f"y{i}" for i in range(case.outputs))
        node = OnnxNode(row.op_type, names, outputs, row.domain, "node", dict(case.attrs), 0)
        bound = folding(row.domain, row.op_type).bound(node.attrs, case.inputs)
        made = computed(node, case.inputs)
        assert max(int(np.asarray(a).nbytes) for a in made) <= bound
