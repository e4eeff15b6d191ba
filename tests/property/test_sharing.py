"""Code shared between calls at -Os: fewer kernels, equal results, and templates that leave no number out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

import mccompile.kernel_passes.share_code as sharing
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.printed import kernel_text
from mccompile.driver import Options
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ir.kernel import Call, Fill, number_names
from mccompile.ir.views import View
from mccompile.kernels.registry import variant
from mccompile.ops.registry import FrontEnd, front_ends, lookup
from mccompile.targets.target import STRICT_WARNINGS, resolve
from tests._skips import REPOSITORY
from tests.support.compiled import compiled_graph
from tests.support.draw import SeededDraw
from tests.support.graphs import difference
from tests.support.opcases import Built, CaseLibrary, case_inputs, compile_case, mismatch

SEEDS = range(3)
MORE_SEEDS = {"ScatterND": range(8, 30)}
"""Operators one of whose kernels is drawn rarely: `insert` needs constant indices along a line."""

CHUNK = 10
FRONT_ENDS = [f for f in front_ends().values() if f.sample is not None and not f.composed]
CHUNKS = [FRONT_ENDS[i : i + CHUNK] for i in range(0, len(FRONT_ENDS), CHUNK)]

Steps = Sequence[Call | Fill]


def _all_numbers(steps: Steps, may_share: Callable[[str], bool]) -> list[Call | Fill]:
    """Every number of every call as a C parameter: what sharing may ask for at most."""
    return [
        replace(s, args=tuple(number_names(s))) if isinstance(s, Call) and may_share(s.kernel) else s for s in steps
    ]


# -- whole models ------------------------------------------------------------------------------------------
def _two_convolutions(draw: SeededDraw) -> Graph:
    text = """graph @two(%x: f32[1,3,9,9]) {
      %w = const [0.0] : f32[1]
      %a = map(%x, %w) {expr={(x0 + x1)}} : f32[1,3,9,9]
      return %a
    }"""
    graph = parse_graph(text, lookup)
    conv = lookup("conv")((1, 1), (1, 1, 1, 1), (1, 1))
    pool = lookup("pool")("max", (2, 2), (2, 2), (0, 0, 0, 0), (1, 1))
    value = graph.inputs[0]
    graph.nodes.clear()
    graph.constants.clear()
    for cin, cout in ((3, 4), (4, 6), (6, 5)):
        w = graph.constant("w", draw.array((cout, cin, 3, 3)))
        (value,) = graph.emit(conv, [value, w], ["c"])
        if value.shape[2] > 3:
            (value,) = graph.emit(pool, [value], ["p"])
    graph.outputs = [value]
    return graph


def test_convolutions_of_different_sizes_share_a_kernel(tmp_path: Path) -> None:
    draws = {level: SeededDraw(1) for level in ("O2", "Os")}
    built = {level: compiled_graph(_two_convolutions(d), level, f"n{level.lower()}") for level, d in draws.items()}
    kernels = {level: [k.kernel for k in b.facts.kernels] for level, b in built.items()}
    # The planner may store a plane pixel by pixel, which takes another loop order: at most two kernels stay.
    assert kernels["O2"].count("conv.generic") == 3
    assert kernels["Os"].count("conv.generic") <= 2
    assert len(kernels["Os"]) < len(kernels["O2"])
    library = CaseLibrary(tmp_path, list(built.values()), [*resolve("generic").c_flags, *STRICT_WARNINGS]).build()
    inputs = {"x": SeededDraw(2).array((1, 3, 9, 9))}
    want = _two_convolutions(SeededDraw(1)).evaluate(inputs, wide=True)
    outputs = {level: library.run(b, inputs) for level, b in built.items()}
    assert np.array_equal(outputs["O2"][0], outputs["Os"][0])
    (exact,), (got,) = want.values(), outputs["Os"]
    assert difference({"y": exact.astype(np.float32)}, {"y": got}) < 1e-5


# -- every operator with every number as a parameter -------------------------------------------------------
CompileAll = Callable[[Sequence[FrontEnd]], list[tuple[str, Built]]]


@pytest.fixture
def shared_cases(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> CompileAll:
    """Compiles cases of front ends with all numbers forced to be parameters."""
    monkeypatch.setattr(sharing, "share_code", _all_numbers)

    def compile_all(chunk: Sequence[FrontEnd]) -> list[tuple[str, Built]]:
        options = Options(target="generic", opt_level="Os")
        built = []
        for f in chunk:
            first = 1000 * crc32(f.op_type.encode())  # the same whatever other operators there are
            for seed in (*SEEDS, *MORE_SEEDS.get(f.op_type, ())):
                # onnxruntime lacks a kernel for some element types (Where of bools); the case is left out.
                with contextlib.suppress(NotImplemented):
                    built.append((f.op_type, compile_case(f, first + seed, tmp_path, options)))
        assert {op_type for op_type, _ in built} == {f.op_type for f in chunk}
        return built

    return compile_all


@pytest.mark.parametrize("chunk", CHUNKS, ids=lambda c: f"{c[0].op_type}-{c[-1].op_type}")
def test_operators_are_right_when_every_number_is_a_parameter(
    chunk: Sequence[FrontEnd], shared_cases: CompileAll, tmp_path: Path
) -> None:
    built = shared_cases(chunk)
    flags = [f for f in resolve("generic").c_flags if not f.startswith("-O")]
    library = CaseLibrary(tmp_path, [b for _, b in built], [*flags, "-O1", *STRICT_WARNINGS]).build()
    tolerances = {f.op_type: f.tolerance for f in chunk}
    for op_type, b in built:
        for got, want in zip(library.run(b, case_inputs(b.case)), b.expected, strict=True):
            dtype = {"float32": "f32", "float16": "f16"}.get(want.dtype.name, "")
            bound = tolerances[op_type].get(dtype, 0.0) if b.case.tolerance is None else b.case.tolerance
            assert not mismatch(got, want, bound), f"{op_type} {b.label}: {mismatch(got, want, bound)}"


DECIDING = {"gather_nd.generic", "resize.generic", "scatter_nd.generic"}
"""Kernels whose operands behind the first have last extents that decide on the text: how many axes are indexed, how
many taps a result has."""


def _stretched(view: View | None, kept: int | None = None) -> View | None:
    """A view with other extents and strides, where they are not what a template may rely on (1, 0). By one: sums of
    1,000 terms and more are computed in parts, by other text."""
    if view is None:
        return None
    shape = tuple(e + 1 if e > 1 and a != kept else e for a, e in enumerate(view.shape))
    return replace(view, shape=shape, strides=tuple(2 * s + 5 if s not in (0, 1) else s for s in view.strides))


def _stretched_call(call: Call) -> Call:
    """Where channels are groups of their own, as many groups as there are channels then."""
    op, w = call.op, _stretched(call.reads[1]) if len(call.reads) > 1 else None
    if w is not None and variant(call.kernel).shared(call) != op:
        op = replace(op, groups=w.shape[0])  # type: ignore[type-var]
    return replace(
        call,
        op=op,
        reads=tuple(
            _stretched(v, v.rank - 1 if v is not None and i > 0 and call.kernel in DECIDING else None)
            for i, v in enumerate(call.reads)
        ),
        results=tuple(v for r in call.results if (v := _stretched(r)) is not None),
        extras=tuple(v for e in call.extras if (v := _stretched(e)) is not None),
    )


UNSAMPLED = {
    "arg_pool.generic", "extents.generic", "fill.generic", "iota.generic", "nms.generic",
    "nonzero.generic", "number.generic", "pairwise_coupling.generic", "refuse.generic", "text_concat.generic",
    "text_find.generic", "text_keep.generic", "text_match.generic", "text_split.generic", "unique.generic",
}  # fmt: skip
"""Kernels of extents and branches that are decided at run time (tests/run), of text and of probabilities of support
vectors (tests/ops), the indices of MaxPool (its sample has one output), and what is no operator."""


def test_a_shared_kernel_has_one_text_whatever_the_shape(shared_cases: CompileAll) -> None:
    """Rendered with all numbers as parameters, a call and the same one on other extents give equal text."""
    target = resolve("generic")
    checked, different = set(), {}
    for _, b in shared_cases(FRONT_ENDS):
        assert b.compilation.program is not None
        for step in b.compilation.program.body.linear():
            if isinstance(step, Fill) or not variant(step.kernel).may_share or step.kernel in different:
                continue
            calls = map(sharing.by_strides, (step, _stretched_call(step)))
            texts = [kernel_text(KernelContext(s), target) for s in calls]
            checked.add(step.kernel)
            if texts[0] != texts[1]:
                lines = [ab for ab in zip(*(t.splitlines() for t in texts), strict=False) if ab[0] != ab[1]]
                different[step.kernel] = f"{b.label}: {lines[:2]}"
    assert not different, "\n".join(f"{k}: {v}" for k, v in different.items())
    templates = {f"{p.parent.name}.generic" for p in (REPOSITORY / "kernels_templates").glob("*/generic.c.j2")}
    shared = {t for t in templates - UNSAMPLED if variant(t).may_share}
    assert shared <= checked, "no case of an operator calls these"
