"""What an operator reads: coordinates of shapes that are known at run time only."""

from __future__ import annotations

from mccompile.ir.affine import combine, loop
from mccompile.ir.dims import symbol
from mccompile.ir.structure import Nest, axis_loops, reshaped

N, M = symbol("n", 1, 3), symbol("m", 1, 3)


def test_a_reshape_of_an_extent_that_may_be_one_is_read_by_its_cuts() -> None:
    (nest,) = reshaped((N, 12, 1), (N, 3, 4))
    assert nest.loops == (N, 3, 4)
    assert nest.writes == axis_loops(3, 3)
    assert nest.reads == ((loop(0, 3), combine(3, {1: 4, 2: 1}), combine(3, {})),)


def test_where_the_run_tells_which_cut_is_the_longer_any_element_may_be_read() -> None:
    assert reshaped((2, N, M), (2, M, N)) == (Nest((2, M, N), axis_loops(3, 3), ((None, None, None),)),)
