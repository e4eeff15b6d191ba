"""Graphs inside of a node read and write memory of the graph around, which may have gaps between rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from onnx import TensorProto, helper

import mccompile
from mccompile.ir.dims import symbol
from mccompile.ir.types import F32, TensorType
from mccompile.ir.views import Buffer, View, held
from tests.kernels.cases import Net, VariantCase
from tests.kernels.halos import HALOS
from tests.kernels.test_variants import inputs_of, kernels_of, library, ort_run
from tests.support.opcases import mismatch
from tests.support.targets import WIDE, needs_target


@pytest.mark.parametrize("case", [c for c in HALOS if "reshaped_" in c.name], ids=lambda c: c.name)
def test_values_with_a_halo_are_reshaped_inside(case: VariantCase, tmp_path: Path) -> None:
    target = needs_target(WIDE[-1])
    built = library([case], target, tmp_path / "net", flags=["-O1"])
    assert case.kernel in kernels_of(built.built[0])
    model = case.model()
    inputs = inputs_of(model, 1)
    for got, want in zip(built.run(built.built[0], inputs), ort_run(model, inputs), strict=True):
        assert not mismatch(got, want, case.tolerance)


def test_a_state_that_grows_is_reshaped_inside() -> None:
    """Rows of [1, 4, past, 8] lie as those of [1, 4, 12, 8]."""
    n = Net(1)
    x, condition = n.input(1, 4, 1, 8), n.input(dtype=TensorProto.BOOL)
    n.inputs.append(helper.make_tensor_value_info("past", TensorProto.FLOAT, [1, 4, "past", 8]))
    n.nodes.append(helper.make_node("Concat", ["past", x], ["present"], axis=2))

    def of_all(inner: Net) -> Sequence[str]:
        return [inner("ReduceSum", inner("Reshape", "past", inner.ints(-1, 8)), inner.ints(0), keepdims=0)]

    def of_last(inner: Net) -> Sequence[str]:
        return [inner("ReduceMax", inner("Reshape", x, inner.ints(4, 8)), axes=[0], keepdims=0)]

    made = n("If", condition, then_branch=n.graph(of_all), else_branch=n.graph(of_last))
    options = {"dims": {"past": "0..11"}, "state": {"present": "past"}}
    assert mccompile.check(n.model("present", made), target="generic", **options).ok


def test_a_case_of_a_tensor_lies_where_the_tensor_does() -> None:
    n = symbol("n", 0, 11)
    roomy = Buffer("k", TensorType(F32, (4, n, 8)), "arena", 4, room=(4, 12, 8))
    edged = Buffer("x", TensorType(F32, (4, n, 8)), "arena", 4, halo=((0, 0), (1, 1), (0, 0)))
    found = [held(b, TensorType(F32, (4, 3, 8))) for b in (roomy, edged)]
    assert [(v.shape, v.strides, v.offset) for v in found if isinstance(v, View)] == [
        ((4, 3, 8), (96, 8, 1), 0), ((4, 3, 8), (40, 8, 1), 8),
    ]  # fmt: skip
    assert isinstance(held(roomy, TensorType(F32, (12, 8))), str)
