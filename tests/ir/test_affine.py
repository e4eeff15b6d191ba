"""Coordinate maps in numpy: index arrays, and slices where they address the same elements."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.ir.affine import Affine, fixed, loop, places, positions

SOURCE = np.arange(11 * 13).reshape(11, 13)
MAPS: dict[str, tuple[tuple[Affine, ...], bool]] = {
    "along": ((loop(0, 2, const=2), loop(1, 2)), True),
    "steps": ((loop(0, 2, 3), loop(1, 2, 2, 1)), True),
    "swapped": ((loop(1, 2), loop(0, 2)), False),
    "backwards": ((loop(0, 2, -1, 3), loop(1, 2)), False),
    "fixed": ((fixed(4, 2), loop(1, 2)), False),
    "diagonal": ((loop(0, 2), Affine(1, (1, 1))), False),
}


@pytest.mark.parametrize("case", MAPS)
def test_places_are_where_the_map_says(case: str) -> None:
    maps, sliced = MAPS[case]
    loops = (3, 5)
    want = np.empty(loops, dtype=np.int64)
    for i, j in np.ndindex(loops):
        row, column = (m.const + m.coefs[0] * i + m.coefs[1] * j for m in maps)
        want[i, j] = SOURCE[row, column]
    for index in (positions(maps, loops), places(maps, loops)):
        np.testing.assert_array_equal(np.broadcast_to(SOURCE[index], loops), want)
    assert all(isinstance(i, slice) for i in places(maps, loops)) == sliced


def test_a_scalar_has_no_positions() -> None:
    assert positions((), ()) == ()
    assert np.array(7)[places((), ())] == 7
