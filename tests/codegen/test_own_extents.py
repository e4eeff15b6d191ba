"""Kernels are given extents as they are: those that compute theirs of other ones are the same function."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from mccompile.codegen.own_extents import OwnExtents, varies_within
from mccompile.ir.dims import chosen, maximum, minimum, span, symbol
from mccompile.ir.dims_text import parse
from mccompile.kernels.model.tiles import segments
from tests.support.runs import compare
from tests.support.targets import needs_target

N, M, W = symbol("n", 1, 500), symbol("m", 1, 500), symbol("w", 32, 320, 32)


@pytest.mark.parametrize(
    ("numbers", "kept"),
    [
        ([(N + 1) // 2, 3 * ((N + 1) // 2) * M], 1),
        ([(N + 1) // 2, (M + 1) // 2], 2),
        ([minimum(N, 9), maximum(M, 9)], 2),
        ([(N + 1) // 2, (N + 3) // 4, (N + 7) // 8], 1),  # each is made of the one before
        ([(N + 1) // 2, (N + 2) // 4], 0),  # half of (n + 1) // 2, but not the other way
        ([(N + 1) // 2, N // 3], 0),
        ([minimum(N, 9), N // 2], 0),
        ([minimum(N, 9), minimum(N, 8)], 0),
        ([N, 2 * M + 1], 0),
        ([W // 2, W // 4], 0),  # all of w's steps: they are said by it
        ([maximum(N * N - 5_000_000_000, 0)], 0),  # no int32_t
        ([(chosen("c", (1, 4, 7)) + 1) // 2], 0),  # 1, 2 or 4, not 3
    ],
)
def test_an_extent_is_kept_where_all_is_made_of_it(numbers: list[int], kept: int) -> None:
    own = OwnExtents(numbers)
    assert len(own.kept) == kept
    if not kept:
        assert [own.short(n) for n in numbers] == numbers


def test_numbers_are_what_they_were() -> None:
    numbers = [(N + 1) // 2 * M, (N + 3) // 4 + 1, minimum(M, 7) * ((N + 1) // 2)]
    own = OwnExtents(numbers)
    known = {"n": N, "m": M, **own.kept}
    for n in numbers:
        text = str(own.short(n))
        assert parse(text, known) == n
        assert span(own.short(n)) == span(n)


def test_names_are_those_of_nothing_else() -> None:
    own = OwnExtents([(symbol("extent_1", 1, 9) + 1) // 2, (M + 1) // 2], {"extent_0", "extent_1"})
    assert list(own.kept) == ["extent_2", "extent_3"]


def test_what_a_kernel_is_chosen_with_may_vary() -> None:
    assert varies_within(segments(N, 4))
    assert not varies_within((segments(12, 4), "n", None))


def pyramid() -> ModelProto:
    """Convolutions of one form at three scales."""
    random = np.random.default_rng(0)
    values = [random.normal(0, 0.2, (8, 8, 3, 3)).astype(np.float32) for _ in range(3)]
    weights = [numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(values)]
    nodes, x = [], "x"
    halved = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
    for i in range(3):
        nodes.append(helper.make_node("Conv", [x, f"w{i}"], [f"c{i}"], pads=[1] * 4))
        nodes.append(helper.make_node("MaxPool", [f"c{i}"], [f"p{i}"], **halved))
        x = f"p{i}"
    graph = helper.make_graph(
        nodes, "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, "h", "w"])],
        [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
        weights,
    )  # fmt: skip
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("target", ["generic", "native"])
def test_layers_at_several_scales_share_a_kernel(target: str, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    sizes = [(64, 64), (33, 47), (8, 64), (9, 9)]
    feeds = [{"x": random.normal(size=(1, 8, *size)).astype(np.float32)} for size in sizes]
    dims = {"h": "8..64", "w": "8..64"}
    compare(pyramid(), tmp_path, feeds, 1e-4, 1e-4, target=needs_target(target), dims=dims)
    if target == "generic":  # with vectors tiles depend on how long lines may be
        text = (tmp_path / "out" / "net.c").read_text()
        called = re.findall(r"MCC_STEP\(\d+, net_k\d+_(\w+)\(", text)
        made = re.findall(r"^static void net_k\d+_(\w+)\(", text, re.MULTILINE)
        assert sorted(called) == ["conv"] * 3 + ["pool"] * 3
        assert sorted(made) == ["conv", "pool"]


def test_what_is_made_of_a_count_is_computed_once(tmp_path: Path) -> None:
    """By the kernel: a loop over steps that have a count each looks counts up, not what is made of them."""
    nodes = [
        helper.make_node("NonZero", ["x"], ["places"]),
        helper.make_node("Slice", ["places", "zero", "five", "one"], ["few"]),
        helper.make_node("Mul", ["few", "few"], ["y"]),
    ]
    constants = [numpy_helper.from_array(np.array([n]), name) for n, name in ((0, "zero"), (5, "five"), (1, "one"))]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [40])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "few"])], constants,
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    feeds = [{"x": (np.random.default_rng(n).random(40) < n / 40).astype(np.float32)} for n in (1, 5, 20)]
    compare(model, tmp_path, feeds, 0, 0, target="generic")
    text = (tmp_path / "out" / "net.c").read_text()
    computed = re.findall(r"const int32_t dim_extent_0 = \(*(\w+) < 5\) \? \1 : 5\)*;", text)
    assert computed
    assert len(computed) == text.count(f"int32_t {computed[0]})")
    assert not re.findall(r"MCC_STEP\([^;]*\? [^;]*;", text)
