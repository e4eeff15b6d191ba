"""Sums that lie in the mantissas of floats: what they are rounded to, by the tie rule, and when there are none."""

from __future__ import annotations

import numpy as np
import pytest

from mccompile.kernels.model.mantissas import MIDDLE, REACH, placed

TIE = 0.5 + 2.0**-13


@pytest.mark.parametrize("zero", [0, 3, 128, 255])
def test_sums_are_rounded_right(zero: int) -> None:
    """Scales of networks, drawn, with sums all over their reach and at its ends; products in float64 are exact."""
    rng = np.random.default_rng(zero)
    scales = np.exp(rng.uniform(np.log(2e-5), np.log(0.1), 300)).astype(np.float32)
    reach = np.minimum(20000 / scales.astype(np.float64), REACH // 2).astype(np.int64)
    bias = rng.integers(-1000, 1000, 300)
    found = placed(scales, bias, reach, zero)
    assert found is not None
    total = np.concatenate([rng.integers(-reach, reach, (500, 300)), [reach, -reach]])
    floats = (found.begins + total - bias).astype(np.int32).view(np.float32).astype(np.float64)
    rounded = (floats * found.factors + found.offsets).astype(np.float32)
    got = (rounded.view(np.uint32) & 0xFFFF).astype(np.uint16).view(np.int16)
    real = total * scales.astype(np.float64) + zero
    near = np.abs(real) < 512  # others saturate
    assert near.sum() > 1000
    assert (np.abs(got - real)[near] <= TIE).all()
    assert ((got > 255) == (real > 255.5))[~near].all()
    assert ((got < 0) == (real < -0.5))[~near].all()
    assert ((rounded.view(np.uint32) >> 31) == 1).all()


def test_there_are_none_beyond_16_bits_nor_beyond_a_mantissa() -> None:
    one = np.ones(1, np.int64)
    assert placed(np.array([0.01001]), one, 1000000 * one, 0) is not None
    assert placed(np.array([0.0401]), one, 1000000 * one, 0) is None
    assert placed(np.array([1e-5]), one, REACH * one, 0) is None
    assert placed(np.array([0.0]), one, one, 0) is None
    assert placed(np.array([np.inf]), one, one, 0) is None


def test_ties_are_even_without_the_zero_point() -> None:
    """512 / 1024 is 0 and a zero point of 3; as a sum, 3.5 would be 4."""
    scale, one = np.array([1 / 1024]), np.ones(1, np.int64)
    assert placed(scale, one, 1000 * one, 3) is None
    assert placed(scale, one, 500 * one, 3) is not None
    found = placed(scale, 0 * one, 1000 * one, 2)
    assert found is not None
    sums = np.array([512, -512, 1536 - 1024, 511]) + MIDDLE
    assert ((sums * found.factors + found.offsets).astype(np.float32) + MIDDLE == [-2, -2, -2, -2]).all()
