"""Every operator evaluates operands of no row: what `check` asks of the graph where an extent of the run is 0."""

from __future__ import annotations

from pathlib import Path

import pytest

from mccompile.driver import Options, import_graph
from mccompile.importer.varying import TAKES_EXTENTS
from mccompile.ir.dims import value
from mccompile.ir.errors import CompileError
from mccompile.ops.registry import FrontEnd, front_ends
from tests.support.draw import SeededDraw
from tests.support.opcases import case_model

SEEDS = 6

BY_INDICES = ("Compress", "Gather", "GatherElements", "GatherND", "MaxRoiPool", "ScatterElements", "ScatterND")
"""Operators whose indices are outside of an axis that has no element."""

ENDING = ("Pad", "TopK")
"""Operators that end the run where there are no elements to be repeated, or not so many."""

LEFT_OUT = {*BY_INDICES, *ENDING}
DRAWN = [f for f in front_ends().values() if f.sample and f.op_type in TAKES_EXTENTS - LEFT_OUT]


@pytest.mark.parametrize("front_end", DRAWN, ids=lambda f: f"{f.domain}:{f.op_type}".strip(":"))
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")
def test_operands_of_no_row(front_end: FrontEnd, tmp_path: Path) -> None:
    """The first axis of all inputs is n, and 0. What an import refuses has nothing to evaluate."""
    assert front_end.sample is not None
    path = tmp_path / "m.onnx"
    for seed in range(SEEDS):
        case = front_end.sample(SeededDraw(seed))
        given = {f"x{i}": a for i, a in enumerate(case.inputs) if a is not None and i not in case.constant}
        rows = {a.shape[0] for a in given.values() if a.ndim}
        model = case_model(front_end, case)
        if len(rows) != 1 or 0 in rows:
            continue
        for v in model.graph.input:
            if v.type.tensor_type.shape.dim:
                v.type.tensor_type.shape.dim[0].dim_param = "n"
        for v in model.graph.output:
            v.ClearField("type")
        del model.graph.value_info[:]
        path.write_bytes(model.SerializeToString())
        try:
            graph = import_graph(path, Options(target="generic", dims={"n": f"0..{max(rows)}"})).graph
        except CompileError:
            continue
        fed = {name: a[:0] if a.ndim else a for name, a in given.items()}
        extents = graph.extents_of({v.name: fed[v.name] for v in graph.inputs})
        for wide in (False, True):
            found = graph.evaluate(fed, wide=wide, extents=extents)
            for v in graph.outputs:
                if not graph.counts:
                    assert found[v.name].shape == tuple(value(e, extents) for e in v.shape), f"seed {seed}"
