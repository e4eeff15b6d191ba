"""Notes on outputs of which it says little that they agree."""

from __future__ import annotations

import numpy as np

from mccompile.check.cautions import unmoved, unsure
from mccompile.check.compare import compare
from mccompile.check.reference import Expected
from mccompile.check.result import Run


def test_outputs_that_nothing_moves() -> None:
    one, other = np.float32([1.0, 2.0]), np.float32([1.0, 2.5])
    first, second = Expected({"y": one, "z": one}, {}), Expected({"y": one, "z": other}, {})
    assert unmoved(["y", "z"], [first]) == ()
    (note,) = unmoved(["y", "z"], [first, second])
    assert note == "random inputs do not move 'y': what agrees says little; give real ones (--inputs)"
    many = dict.fromkeys("abcde", one)
    assert "'a', 'b', 'c' and 2 more:" in unmoved(list(many), [Expected(many, {})] * 2)[0]
    assert unmoved(["z"], [first, second]) == ()


def test_outputs_of_which_the_reference_says_nothing() -> None:
    y = np.float32([4.0, 2.0])
    runs = [
        Run("", (compare("sure", y, y, np.float64([0.1, 0.0])), compare("unsure", y, y, np.float64([0.0, 0.6]))))
        for _ in range(2)
    ]
    (note,) = unsure(runs)
    assert "'unsure', for small changes" in note
    assert "'sure'" not in note
    assert unsure([Run("", (compare("sure", y, y),))]) == ()
