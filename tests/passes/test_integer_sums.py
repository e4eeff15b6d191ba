"""Sums of integers in windows: how many elements each has, in and beside padding."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from mccompile.ir.graph_text import parse_graph, print_graph
from mccompile.ir.types import F32, TensorType
from mccompile.ops.pool import Pool
from mccompile.ops.registry import lookup
from mccompile.passes.manager import run_passes


def test_sums_of_windows_are_counted_without_their_elements() -> None:
    text = (
        "graph @g(%q: i8[1,32,128,128]) {\n"
        "  %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.3)}} : f32[1,32,128,128]\n"
        "  %y = pool(%x) {mode='average', kernel=(3, 3), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
        " : f32[1,32,126,126]\n"
        "  return %y\n}"
    )
    graph = parse_graph(text, lookup)
    tracemalloc.start()
    run_passes(graph, ("integer-sums",))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6
    assert "post0{ (f32((acc - i32(27))) *" in print_graph(graph)


@pytest.mark.parametrize(
    ("kernel", "stride", "pads", "ceil", "offset"),
    [
        (3, 1, (0, 0), False, 9), (3, 1, (1, 1), False, 0), (3, 2, (0, 1), False, 9), (2, 2, (0, 0), True, 0),
        (7, 7, (0, 0), False, 21),
    ],
)  # fmt: skip
def test_windows_that_leave_the_image_count_what_they_have(
    kernel: int, stride: int, pads: tuple[int, int], ceil: bool, offset: int
) -> None:
    """``offset`` is the zero point of all elements; 0 where each has its own."""
    op = Pool("sum", (kernel,), (stride,), pads, (1,), ceil)
    shape = op.infer(TensorType(F32, (1, 2, 7)))[0]
    text = (
        "graph @g(%q: i8[1,2,7]) {\n  %x = map(%q) {expr={(f32((i32(x0) - i32(3))) * 0.5)}} : f32[1,2,7]\n"
        f"  %y = pool(%x) {{mode='sum', kernel=({kernel},), strides=({stride},), pads={pads}, dilations=(1,), "
        f"ceil={ceil}}} : {shape}\n  return %y\n}}"
    )
    graph, q = parse_graph(text, lookup), np.random.default_rng(5).integers(-128, 128, (1, 2, 7)).astype(np.int8)
    wanted = graph.evaluate({"q": q})["y"]
    run_passes(graph, ("integer-sums",))
    zero = f"post0{{ (f32((acc - i32({offset}))) *" if offset else "pre0{ (i32(acc) - i32(3)) }"
    assert zero in print_graph(graph)
    assert np.array_equal(graph.evaluate({"q": q})["y"], wanted)
