"""Rows of equal scores may stand in any order; nothing else may."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.check.order import MOST_EQUAL, orders

SCORES = np.array([0.9, 0.7, 0.7, 0.7 - 1e-8, 0.2], np.float32)
BOXES = np.arange(20, dtype=np.float32).reshape(5, 4)
LABELS = np.array([1, 2, 3, 4, 5])


@pytest.mark.parametrize("together", [False, True])
def test_rows_of_equal_scores_are_found_again(together: bool) -> None:
    """Scores of their own, or a column of the boxes; the outputs are permuted alike."""
    want = {"boxes": BOXES, "labels": LABELS, "scores": SCORES}
    if together:
        want = {"boxes": np.concatenate([BOXES, SCORES[:, None]], axis=1), "labels": LABELS}
    permuted = [0, 3, 1, 2, 4]
    got = {n: a[permuted] for n, a in want.items()}
    (order,) = orders(got, want, {})
    assert all((got[n][order] == a).all() for n, a in want.items())


@pytest.mark.parametrize(
    ("scores", "permuted"),
    [
        (SCORES, [1, 0, 2, 3, 4]),  # of scores that differ
        (SCORES[::-1].copy(), [0, 2, 1, 3, 4]),  # of what is not sorted
        (np.zeros(5, np.float32), [1, 0, 2, 3, 4]),  # of what is no score
        (np.r_[1.0, np.zeros(MOST_EQUAL + 1)].astype(np.float32), None),  # of too many
    ],
)
def test_other_rows_stay(scores: np.ndarray, permuted: list[int] | None) -> None:
    want = {"scores": scores, "labels": np.arange(len(scores))}
    at = permuted if permuted is not None else [0, *range(len(scores) - 1, 0, -1)]
    assert not list(orders({n: a[at] for n, a in want.items()}, want, {}))


def test_noise_says_what_is_equal() -> None:
    want = {"scores": np.array([0.9, 0.5, 0.499], np.float32), "labels": np.arange(3)}
    got = {"scores": want["scores"], "labels": np.array([0, 2, 1])}
    assert not list(orders(got, want, {}))
    (order,) = orders(got, want, {"scores": np.full(3, 2e-4)})
    assert order.tolist() == [0, 2, 1]


def test_no_rows_are_in_no_order() -> None:
    """Beside an output of no row, and of rows of no element, those of others are found."""
    want = {"none": np.zeros((0, 4)), "flat": np.zeros((5, 0)), "scores": SCORES, "boxes": BOXES}
    got = {"none": np.zeros((0, 4)), "flat": np.zeros((5, 0)), "scores": SCORES, "boxes": BOXES[[0, 2, 1, 3, 4]]}
    (order,) = orders(got, want, {})
    assert order.tolist() == [0, 2, 1, 3, 4]


def test_many_rows_take_no_more_memory_than_they_have() -> None:
    """Distances are those of rows that may have changed places, not of each row to each: 75 GiB of 100,000."""
    scores = np.linspace(1, 0, 100_000)
    scores[501] = scores[500]
    rows = np.arange(100_000.0)
    got = rows.copy()
    got[[500, 501]] = got[[501, 500]]
    (order,) = orders({"s": scores, "b": got}, {"s": scores, "b": rows}, {})
    assert (got[order] == rows).all()
