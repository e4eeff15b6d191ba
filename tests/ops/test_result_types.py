"""Each operator's sample with the inputs of a type parameter of another type: results have those that ONNX infers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import mccompile
from mccompile.driver import Options, import_graph
from mccompile.ir.errors import CompileError
from mccompile.ir.types import DTYPES
from mccompile.onnxio import dtype_name, dtype_of_array, formals, numpy_dtype
from mccompile.ops.registry import FrontEnd, front_ends
from mccompile.ops.sampling import Case
from tests.support.draw import SeededDraw
from tests.support.opcases import OTHER_OPSETS, case_model
from tests.support.small_models import ort_run

OPSET = 23
STORED = {**dict.fromkeys(DTYPES), "bf16": "u16"}
"""The types that inputs are given here, and what an output of it is in a graph where that is another: bits."""
BY_SCHEMA = {"RMSNormalization"}
"""The schema says that the result has the scale's type, inference that of x; both are one but for bfloat16, which f32
holds: then it is the schema's."""
SAMPLED = [
    f for f in front_ends().values()
    if f.sample is not None and (not f.domain or f.domain in OTHER_OPSETS)
    and onnx.defs.has(f.op_type, OTHER_OPSETS.get(f.domain, OPSET), f.domain)
]  # fmt: skip


def _retyped(front_end: FrontEnd, case: Case) -> Iterator[Case]:
    """The case with all inputs of a type parameter of each other type that it may have."""
    alike: dict[str, list[int]] = defaultdict(list)
    known = formals(front_end.op_type, front_end.domain, len(case.inputs))
    assert known is not None
    for i, formal in enumerate(known):
        if case.inputs[i] is not None:
            alike[formal.variable].append(i)
    for places in alike.values():
        for name in sorted(known[places[0]].types & {*STORED}):
            inputs = list(case.inputs)
            with np.errstate(all="ignore"):
                for i in places:
                    inputs[i] = np.asarray(inputs[i]).astype(numpy_dtype(name))
            yield replace(case, inputs=inputs)


@pytest.mark.parametrize("front_end", SAMPLED, ids=lambda f: f.op_type)
def test_results_have_the_types_that_onnx_infers(front_end: FrontEnd, tmp_path: Path) -> None:
    """What is refused is refused; where ONNX's inference knows no type, or has none for the inputs, there is nothing
    to compare with."""
    assert front_end.sample is not None
    path = tmp_path / "m.onnx"
    for case in _retyped(front_end, front_end.sample(SeededDraw(0))):
        try:
            model = case_model(front_end, case)
            path.write_bytes(model.SerializeToString())
            graph = import_graph(path, Options(target="generic")).graph
        except (CompileError, onnx.shape_inference.InferenceError):
            continue
        numbers = [o.type.tensor_type.elem_type for o in model.graph.output]
        inferred = [dtype_name(n) if n else "" for n in numbers]
        halves = any(a is not None and dtype_of_array(a) == "bf16" for a in case.inputs)
        if halves and front_end.op_type in BY_SCHEMA:
            continue
        for value, want in zip(graph.outputs, inferred, strict=False):
            where = f"{case.attrs} {[str(v) for v in graph.inputs]}"
            assert want not in STORED or value.dtype.name == (STORED[want] or want), where


@pytest.mark.parametrize("op", ["Pow", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize("kinds", [("float32", "float16"), ("float16", "float32")], ids="-".join)
def test_two_types_of_floats(op: str, kinds: tuple[str, str], tmp_path: Path) -> None:
    """A power has the type of its base, what is normalised that of its scale."""
    x = np.random.default_rng(3).uniform(0.5, 2, (3, 8)).astype(kinds[0])
    scale = np.linspace(-1, 1, 8).astype(kinds[1])
    ports = [helper.make_tensor_value_info("x", helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", "scale"], ["y"])], "two", ports, [helper.make_empty_tensor_value_info("y")],
        [onnx.numpy_helper.from_array(scale, "scale")],
    )  # fmt: skip
    path = tmp_path / "two.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    (want,) = ort_run(path, {"x": x}).values()
    mccompile.compile(path, tmp_path / "out", target="generic")
    (got,) = mccompile.load(tmp_path / "out").run({"x": x}).values()
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2e-3, atol=1e-3)


def test_a_scale_of_another_type_is_not_defined(tmp_path: Path) -> None:
    front_end = next(f for f in SAMPLED if f.op_type == "RMSNormalization")
    given = Case([np.ones((2, 4)), np.ones(4, np.float32)], {})
    (tmp_path / "m.onnx").write_bytes(case_model(front_end, given).SerializeToString())
    with pytest.raises(CompileError, match="a scale of f32 for an X of f64 is not defined"):
        import_graph(tmp_path / "m.onnx", Options(target="generic"))
