"""How far a layer may be off for what it rounds on its way: by the steps that floats reach there, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.check.inner import OF_FUNCTION, Inner
from mccompile.check.reals import real_results
from mccompile.check.reference import Expected
from mccompile.check.rounding import TIE
from mccompile.check.ties import Ties, _in_floats, judge_layers
from mccompile.ir.graph import Graph
from mccompile.ir.graph_text import parse_graph
from mccompile.ops.registry import lookup

IMPORTED = parse_graph(
    """graph @g(%x: f32[2,4]) {
  %q = map(%x) {expr={u16(rne((x0 / 0.5)))}} : u16[2,4] ; coarse
  %f = map(%q) {expr={(f32(x0) * 0.5)}} : f32[2,4] ; floats
  %t = transpose(%f) {perm=(1,0)} : f32[4,2] ; turned
  %y = map(%t) {expr={u16(rne((x0 / 0.125)))}} : u16[4,2] ; fine
  return %y
}""",
    lookup,
)
FUSED = """graph @g(%x: f32[2,4]) {
  %turned = transpose(%x) {perm=(1,0)} : f32[4,2] ; turned
  %y = map(%turned) {expr={u16(rne((f32(u16(rne((x0 / STEP)))) * 4.0)))}} : u16[4,2] ; coarse+floats+fine
  return %y
}"""
X = np.array([[0.5, 1.0, 1.3, 3.0], [1.25, 2.6, 0.7, 9.7]], np.float32)  # 1.25 / 0.5 is a tie
COARSE = np.array([[1, 2, 3, 6], [2, 5, 1, 19]], np.uint16)
THEIRS = {"q": COARSE, "y": (COARSE.T * 4).astype(np.uint16)}


class _Reference:
    def run(self, inputs: object) -> Expected:
        return Expected(dict(THEIRS), {})


def _inner(graph: Graph, theirs: dict[str, np.ndarray], inputs: dict[str, np.ndarray]) -> Inner:
    """As layers are judged: what is unsure is what floats of the graph's own types move."""
    unsure, _ = _in_floats(graph, theirs, inputs, real_results(graph, theirs, inputs).numbers)
    return Inner(graph, theirs, inputs, TIE, unsure)


def _judged(step: float, x: np.ndarray = X) -> Ties:
    return judge_layers(IMPORTED, parse_graph(FUSED.replace("STEP", str(step)), lookup), _Reference(), {"x": x})


def test_a_step_that_floats_reach_is_as_many_of_a_finer_scale() -> None:
    inner = _inner(IMPORTED, THEIRS, {"x": X})
    assert inner.moves("y", ["coarse", "floats", "fine"]).tolist() == [[0, 4], [0, 0], [0, 0], [0, 0]]
    assert not inner.moves("y", ["floats", "fine"]).any()  # q is another layer's, and known


def test_large_numbers_of_16_bits_may_be_several_steps_off() -> None:
    """Floats have 2^-8 between numbers of 30,000, and a sum of them is off by more: two coarse steps are eight."""
    x = X + np.array([[0], [30000]], np.float32)
    coarse = np.rint(x / 0.5).astype(np.uint16)
    theirs = {"q": coarse, "y": np.minimum(coarse.T * 4, 65535).astype(np.uint16)}
    off = _inner(IMPORTED, theirs, {"x": x}).moves("y", ["coarse", "floats", "fine"])
    assert (off[:, 1] >= 8).all()
    assert (off % 4 == 0).all()


@pytest.mark.parametrize(("step", "ok"), [(0.5, True), (0.4999, True), (0.51, True), (0.47, False)])
def test_a_layer_is_right_on_either_side_of_what_it_rounds_before(step: float, ok: bool) -> None:
    """With steps of 0.4999 the tie is 3; with 0.47, 9.7 is 21, and no tie says so."""
    assert _judged(step).ok == ok


def test_a_function_of_floats_has_no_more_digits_near_zero() -> None:
    graph = parse_graph(
        """graph @g(%x: f32[2]) {
  %s = map(%x) {expr={sigmoid(x0)}} : f32[2] ; s
  %y = map(%s) {expr={u16(rne((x0 / 1e-08)))}} : u16[2] ; y
  return %y
}""",
        lookup,
    )
    x = np.array([-9.0, -12.0], np.float32)
    off = _inner(graph, {"y": np.array([12339, 614], np.uint16)}, {"x": x}).moves("y", ["y"])
    np.testing.assert_allclose(off, OF_FUNCTION / 1e-8, rtol=1e-3)


def test_floats_of_f16_reach_a_step_from_further_away() -> None:
    """10.4972 is 10.5 in f16, a tie."""
    graph = parse_graph(
        """graph @g(%x: f16[1,2], %w: f16[2,1]) {
  %p = matmul(%x, %w) : f16[1,1] ; p
  %q = map(%p) {expr={u8(rne(f32(x0)))}} : u8[1,1] ; q
  %y = map(%q) {expr={u8(rne((f32(x0) * 4.0)))}} : u8[1,1] ; y
  return %y
}""",
        lookup,
    )
    inputs = {"x": np.ones((1, 2), np.float16), "w": np.array([[10.492], [0.005]], np.float16)}
    theirs = {"q": np.array([[10]], np.uint8), "y": np.array([[40]], np.uint8)}
    assert _inner(graph, theirs, inputs).moves("y", ["q", "y"]).tolist() == [[4]]
