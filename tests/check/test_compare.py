"""The tolerance rule: what it lets pass, and that it lets nothing else pass."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mccompile.check.compare import compare, tolerances
from mccompile.check.factors import BF16_FACTOR, F16_FACTOR, Factors
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup


def test_small_channels_do_not_hide_behind_large_ones() -> None:
    want = np.ones((1, 2, 4, 4), np.float32)
    want[:, 0] = 100.0
    got = want.copy()
    got[0, 1, 2, 3] += 1e-3
    found = compare("y", got, want)
    assert not found.ok
    assert (found.index, found.channel, found.differing) == ((0, 1, 2, 3), 1, 1)
    assert "[0,1,2,3] (channel 1)" in found.text()
    got = want.copy()
    got[0, 0, 2, 3] += 5e-3
    assert compare("y", got, want).ok


def test_allowed_error_is_the_documented_sum() -> None:
    want = np.array([[2.0, -50.0, 0.0]], np.float32)
    noise = np.array([[0.0, 1e-3, 0.0]])
    base = np.array([2e-4 + 5e-5, 5e-3 + 5e-5, 5e-5])
    np.testing.assert_allclose(tolerances(want), base)
    shown = np.array([1e-3, 8e-3, 1e-3])  # at least the most of the tensor, 8 times the most of the slice
    np.testing.assert_allclose(tolerances(want, noise), base + shown)
    np.testing.assert_allclose(tolerances(want, noise, F16_FACTOR), 50 * base + shown)


def test_rank_one_is_one_slice() -> None:
    assert compare("y", np.array([1e-3, 100], np.float32), np.array([0, 100], np.float32)).ok
    assert not compare("y", np.array([[1e-3, 100]], np.float32), np.array([[0, 100]], np.float32)).ok


@pytest.mark.parametrize(
    ("got", "want", "ok"),
    [
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (np.inf, -np.inf, False),
        (np.inf, 1.0, False),
        (3.4e38, np.inf, False),
    ],
)
def test_special_values_have_to_be_in_the_same_places(got: float, want: float, ok: bool) -> None:
    g, w = np.array([2.0, got], np.float32), np.array([2.0, want], np.float32)
    found = compare("y", g, w)
    assert found.ok is ok
    assert ok or found.index == (1,)
    json.dumps(found.to_json(), allow_nan=False)


def test_a_nan_does_not_hide_another_difference() -> None:
    want = np.array([np.nan, 1.0], np.float32)
    assert not compare("y", np.array([np.nan, 1.5], np.float32), want).ok


def test_what_onnxruntime_rounds_to_nothing_is_no_fault() -> None:
    nothing = np.zeros((1, 2, 3), np.float32)
    assert compare("x", nothing + np.float32(1.5e-8), nothing).ok
    assert not compare("x", nothing + np.float32(3e-8), nothing).ok
    nothing[0, 1, 1] = 0.5
    assert not compare("x", nothing + np.float32([[[1e-6], [0]]]), nothing).ok


def test_integers_and_booleans_are_exact() -> None:
    big = np.array([2**62, -(2**63)], np.int64)
    assert compare("y", big, big).ok
    assert compare("y", big + 1, big).differing == 2
    assert compare("y", np.array([True, False]), np.array([True, True])).differing == 1


def test_other_shapes_and_types_are_no_match() -> None:
    a = np.zeros((2, 3), np.float32)
    assert "float32[3,2] instead of float32[2,3]" in compare("y", a.reshape(3, 2), a).text()
    assert not compare("y", a.astype(np.float64), a).ok


def test_what_is_made_of_16_bits_alone_may_be_off_further() -> None:
    """Casts, f16 itself, and what is kept of either for the next run."""
    text = """graph @g(%x: f32[2], %h: f16[2], %s: f32[2]) {
      %y = map(%x) {expr={exp(x0)}} : f32[2]
      %c = map(%x) {expr={round_f16(x0)}} : f32[2]
      %z = map(%c) {expr={neg(x0)}} : f32[2]
      %u = map(%h) {expr={f32(x0)}} : f32[2]
      %v = map(%s) {expr={neg(x0)}} : f32[2]
      %w = map(%c) {expr={exp(round_bf16(x0))}} : f32[2]
      return %y, %z, %u, %v, %w
    }"""
    graph = parse_graph(text, lookup)
    factors = Factors.of(graph)
    assert [factors(v.name) for v in graph.outputs] == [1, F16_FACTOR, F16_FACTOR, 1, BF16_FACTOR]
    assert factors("y.bytes") == BF16_FACTOR
    graph.state = {"z": "s"}
    assert Factors.of(graph)("v") == F16_FACTOR
    assert Factors()("y") == 1


def test_small_numbers_of_16_bits_are_as_far_apart_as_the_smallest_normal_ones() -> None:
    """Channels of 2.7e-5, whose last place is 2^-24: sums of 30 of them may be some of these off."""
    want = np.full((1, 2, 4), 2.7e-5, np.float16)
    want[:, 0] = 1e-3
    for steps, ok in ((4, True), (6, False)):
        got = want.copy()
        got[0, 1, 2] += np.float16(steps * 2.0**-24)
        assert compare("y", got, want, factor=F16_FACTOR).ok == ok
        assert not compare("y", got.astype(np.float32), want.astype(np.float32), factor=F16_FACTOR).ok


def test_numbers_below_the_smallest_normal_one_have_fewer_bits() -> None:
    want = np.full((1, 2, 4), 1e-41, np.float32)
    for steps, ok in ((1, True), (-1, True), (10_000, False)):
        got = want.copy()
        got[0, 1, 2] += np.float32(steps * 2.0**-149)
        assert compare("y", got, want).ok == ok


def test_a_reference_of_one_number_is_told() -> None:
    """As of a mask that random lengths leave empty: that nothing differs says little."""
    zeros = np.zeros((2, 3), np.float32)
    assert compare("y", zeros, zeros).text() == "error 0, allowed 2e-08; all of it is 0"
    assert compare("y", np.full(4, 7), np.full(4, 7)).text() == "equal; all of it is 7"
    assert compare("y", np.full(1, 7), np.full(1, 7)).text() == "equal"
    assert "all of it" not in compare("y", zeros, np.eye(2, 3, dtype=np.float32) * 1e-9).text()


def test_doubts_of_the_reference_are_told() -> None:
    """What a hundredth of the largest value is allowed for, and what is NaN, says little."""
    want = np.array([4.0, 1.0, np.nan], np.float32)
    got = want + np.float32(0.1)
    found = compare("y", got, want, np.array([0.02, 0.0, 0.0]))
    assert found.ok
    assert found.unsure == pytest.approx(8 * 0.02 / 4)
    told = "1 of 3 elements are NaN in both; small changes of weights move the reference, too: 4.0% of its largest"
    assert told in found.text()
    assert "move the reference" not in compare("y", want, want, np.array([0.004, 0.0, 0.0])).text()
    assert not compare("y", got + np.float32(0.1), want, np.array([0.02, 0.0, 0.0])).ok
