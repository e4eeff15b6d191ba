"""Products by weights of few bits whose scales or operands are huge or tiny, of operands that are not finite, and of
such with outliers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from tests.kernels.cases import Net, VariantCase
from tests.kernels.test_variants import Array, kernels_of, library
from tests.support.opcases import Built, CaseLibrary
from tests.support.targets import BYTES, NARROW, WIDE, needs_target

BLOCK, COLUMNS = 32, 20
SCALES = (3e38, 1e-12, 1e-30, 1e-38, 1e-45, -2.0)
LENGTH, OUTLYING = 70, (5, 40, 67)
"""Of rows of two blocks and a short one, and where these are multiplied with nothing but the zero point."""
TARGETS = [WIDE[-1], *(pytest.param(name, marks=pytest.mark.slow) for name in (*WIDE[:-1], *NARROW))]


def _product(bits: int, level: int) -> VariantCase:
    """Two blocks of rows; the first columns have the ``SCALES`` in the second. ``level`` 4 rounds operands."""

    def build(n: Net) -> Sequence[str]:
        weights = n.rng.integers(0, 256, (COLUMNS, 2, BLOCK * bits // 8)).astype(np.uint8)
        scale = n.rng.uniform(0.5, 1, (COLUMNS, 2)).astype(np.float32)
        scale[: len(SCALES), 1] = SCALES
        given = [n.input(1, 2 * BLOCK), n.constant(weights), n.constant(scale.ravel())]
        sizes = {"K": 2 * BLOCK, "N": COLUMNS, "bits": bits, "block_size": BLOCK}
        return [n("MatMulNBits", *given, domain="com.microsoft", accuracy_level=level, **sizes)]

    return VariantCase(f"scales {bits} {level}", "matmul_quantised.words", build)


def _silent(bits: int, level: int, zeros: bool) -> VariantCase:
    """Three blocks of rows: all weights of the first are the zero point, with a scale far above those of the others;
    of the second, those of every other column."""

    def build(n: Net) -> Sequence[str]:
        blocks, few = 3, 8 // bits
        zero = n.rng.integers(0, 2**bits, (COLUMNS, blocks)) if zeros else np.full((COLUMNS, blocks), 2 ** (bits - 1))
        weights = n.rng.integers(0, 2**bits, (COLUMNS, blocks, BLOCK))
        weights[:, 0], weights[::2, 1] = zero[:, 0, None], zero[::2, 1, None]
        scale = n.rng.uniform(1e-4, 2e-4, (COLUMNS, blocks)).astype(np.float32)
        scale[:, 0], scale[::2, 1] = 1, 1e3
        given = [n.input(2, blocks * BLOCK), n.constant(_in_bytes(weights, few)), n.constant(scale.ravel())]
        if zeros:
            given.append(n.constant(_in_bytes(np.pad(zero, ((0, 0), (0, -blocks % few))), few).ravel()))
        sizes = {"K": blocks * BLOCK, "N": COLUMNS, "bits": bits, "block_size": BLOCK}
        return [n("MatMulNBits", *given, domain="com.microsoft", accuracy_level=level, **sizes)]

    return VariantCase(f"silent {bits} {level} {zeros}", "matmul_quantised.words", build)


def _outlying(rows: int, bits: int, block: int, zeros: bool = False) -> VariantCase:
    """Weights of ``bits``, with a scale for each block of rows or each column; `OUTLYING` rows are the zero point."""

    def build(n: Net) -> Sequence[str]:
        axis, low = 0 if block < LENGTH else 1, -(2 ** (bits - 1))
        blocks = -(-LENGTH // block) if axis == 0 else COLUMNS
        scale = n.rng.uniform(0.5, 1, blocks).astype(np.float32)
        zero = (n.rng.integers(low, -low, blocks) if zeros else np.zeros(blocks)).astype(np.int8)
        weights = n.rng.integers(low, -low, (LENGTH, COLUMNS)).astype(np.int8)
        if axis == 0:
            scale, zero = (np.repeat(a, block)[:LENGTH] for a in (scale, zero))
        places = list(OUTLYING)
        weights[places] = zero[places, None] if axis == 0 else zero
        real = n("DequantizeLinear", *(n.constant(a) for a in (weights, scale, zero)), axis=axis)
        return [n("MatMul", n.input(rows, LENGTH), real)]

    return VariantCase(f"outlying {rows} {bits} {block} {zeros}", "matmul_quantised.words", build)


def _few_bits(rows: int, low: int, high: int, zero: int = 0) -> VariantCase:
    """Weights from ``low`` to ``high`` of an odd number of rows, stored as bytes, around a zero point, if any."""
    dtype = np.uint8 if high > 127 else np.int8

    def build(n: Net) -> Sequence[str]:
        weights = n.rng.integers(low, high + 1, (BLOCK - 1, COLUMNS)).astype(dtype)
        given = [n.constant(dtype(zero))] if zero else []
        real = n("DequantizeLinear", n.constant(weights), n.constant(np.float32(0.01)), *given)
        return [n("MatMul", n.input(rows, BLOCK - 1), real)]

    return VariantCase(f"bits {rows} {low} {high} {zero}", "matmul_quantised.words", build)


def _in_bytes(whole: Array, few: int) -> Array:
    """Whole numbers, so ``few`` to a byte, the first lowest."""
    by_byte = whole.reshape(*whole.shape[:-1], -1, few).astype(np.uint8)
    return np.asarray(sum(by_byte[..., i] << (8 // few * i) for i in range(few)), np.uint8)


def _operands() -> list[Array]:
    plain = np.random.default_rng(5).uniform(-2, 2, (1, 2 * BLOCK)).astype(np.float32)
    found = [plain, plain * np.float32(1e-25), plain * np.float32(1e30), np.zeros_like(plain)]
    found[1][:, :BLOCK] = 0  # what is tiny is seen beside nothing else
    for special in (np.inf, -np.inf, np.nan):
        found.append(plain.copy())
        found[-1][0, 3] = special
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_not_finite_is_so_in_the_generic_kernel(target: str, tmp_path: Path) -> None:
    """Results are as in the generic kernel; of infinite operands they may be NaN there or here."""
    needs_target(target)
    cases = [_product(bits, level) for bits in (4, 8) for level in (0, 4)]
    forced = library(cases, target, tmp_path / "forced", flags=["-O1"])
    generic = library(cases, target, tmp_path / "generic", generic=True)
    for case, ours, theirs in zip(cases, forced.built, generic.built, strict=True):
        assert case.kernel in kernels_of(ours)
        for number, x in enumerate(_operands()):
            inputs = {case.model().graph.input[0].name: x}
            (got,), (want,) = forced.run(ours, inputs), generic.run(theirs, inputs)
            where = f"{case.name}, operand {number}"
            np.testing.assert_array_equal(np.isfinite(got), np.isfinite(want), where)
            numbers = ~np.isnan(got) if np.isinf(x).any() else np.full(got.shape, True)
            np.testing.assert_allclose(got[numbers], want[numbers], rtol=1e-4, atol=1e-43, err_msg=where)


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_at_the_zero_point_add_nothing(target: str, tmp_path: Path) -> None:
    """Whatever their scale: results are as near as those of the other blocks allow."""
    needs_target(target)
    cases = [_silent(4, 0, zeros=False), _silent(8, 0, zeros=True), _silent(4, 4, zeros=True)]
    forced = library(cases, target, tmp_path / "forced", flags=["-O1"])
    x = np.random.default_rng(6).uniform(-2, 2, (2, 3 * BLOCK)).astype(np.float32)
    for case, ours in zip(cases, forced.built, strict=True):
        assert case.kernel in kernels_of(ours)
        inputs = {case.model().graph.input[0].name: x}
        (got,), (want,) = forced.run(ours, inputs), ours.compilation.graph.evaluate(inputs, wide=True).values()
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=case.name)


@pytest.mark.parametrize("target", [*TARGETS, *(pytest.param(name, marks=pytest.mark.slow) for name in BYTES)])
def test_outliers_that_meet_the_zero_point_add_nothing(target: str, tmp_path: Path) -> None:
    """However large they are: results are as near as the other elements allow, be these many or few."""
    needs_target(target)
    forms = [(1, 4, 32, True), (1, 4, 32, False), (1, 4, LENGTH, True), (3, 4, 32, True), (2, 8, 32, True)]
    cases = [*(_outlying(*form) for form in forms), _outlying(1, 8, LENGTH)]
    forced = library(cases, target, tmp_path / "forced", flags=["-O1"])
    rng = np.random.default_rng(7)
    for case, ours in zip(cases, forced.built, strict=True):
        assert case.kernel in kernels_of(ours)
        (x,) = ours.compilation.graph.inputs
        for outlier in (1e3, 1e5, 1e7):
            plain = rng.normal(size=x.shape).astype(np.float32)
            few = np.where(np.arange(LENGTH) % 3 == 0, plain, np.float32(0))
            for number, operand in enumerate((plain, few)):
                operand[:, OUTLYING] = np.float32(outlier) * np.float32([1, -1, 0.7])
                _is_near(forced, ours, operand, f"{case.name}, outliers of {outlier}, operand {number}")


@pytest.mark.parametrize("target", TARGETS)
def test_few_bits_in_bytes_leave_sums_their_digits(target: str, tmp_path: Path) -> None:
    """What is taken off sums is no larger than these are: results are as near as a sum of floats."""
    needs_target(target)
    signed = [(-7, 7, 0), (5, 9, 0), (-128, 127, 0), (0, 0, 0), (-100, 100, 9), (-100, 100, -128)]
    forms = [(rows, *numbers) for rows in (1, 3) for numbers in [*signed, (2, 255, 0), (3, 255, 1)]]
    cases = [_few_bits(*form) for form in forms]
    forced = library(cases, target, tmp_path / "forced", flags=["-O1"])
    rng = np.random.default_rng(9)
    for (_, low, high, zero), case, ours in zip(forms, cases, forced.built, strict=True):
        assert case.kernel in kernels_of(ours)
        graph = ours.compilation.graph
        operand = (60 + rng.normal(size=graph.inputs[0].shape)).astype(np.float32)
        inputs = {graph.inputs[0].name: operand}
        (got,), (want,) = forced.run(ours, inputs), graph.evaluate(inputs, wide=True).values()
        largest = 0.01 * np.abs(operand).sum() * max(zero - low, high - zero)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * largest, err_msg=case.name)


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_have_any_number_of_outliers(target: str, tmp_path: Path) -> None:
    """None of a block, as many as can be found there, and more."""
    needs_target(target)
    cases = [_outlying(1, 4, 32, zeros=True), _outlying(2, 8, 32, zeros=True)]
    forced = library(cases, target, tmp_path / "forced", flags=["-O1"])
    rng = np.random.default_rng(8)
    for case, ours in zip(cases, forced.built, strict=True):
        (x,) = ours.compilation.graph.inputs
        for count in (1, 2, 7, 8, 9, BLOCK - 1):
            large = np.arange(LENGTH) % BLOCK >= BLOCK - count
            for others in (0, 1):
                operand = np.where(large, 1e6, others) * rng.uniform(1, 1.1, x.shape)
                _is_near(forced, ours, operand.astype(np.float32), f"{case.name}, {count} beside {others}")


def _is_near(forced: CaseLibrary, built: Built, operand: Array, where: str) -> None:
    """The result is that of doubles but for a 100,000th of the largest."""
    inputs = {built.compilation.graph.inputs[0].name: operand}
    (got,), (want,) = forced.run(built, inputs), built.compilation.graph.evaluate(inputs, wide=True).values()
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-5 * np.abs(want).max(), err_msg=where)
