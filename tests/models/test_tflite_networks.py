"""``--requant tflite`` on MLPerf Tiny: the outputs that LiteRT's reference kernels gave, with their softmax behind.

The softmax of these kernels is one of fixed-point numbers, which is not ours: it is computed here, by its
definition (`tflite/kernels/internal/reference/softmax.h`, `gemmlowp/fixedpoint/fixedpoint.h`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mccompile import driver
from mccompile.driver import Options
from mccompile.passes.analysis.quantised import quantised
from tests.passes.test_tflite import divide_by_pot, doubling_high_mul, quantize_multiplier
from tests.support.real_models import SHARED

Array = np.ndarray[Any, np.dtype[Any]]
TINY = ("ic_resnet8", "kws_dscnn", "vww_mobilenetv1", "ad_autoencoder", "sww_dscnn1d")
ONE = 2**31 - 1
POWERS = (1672461947, 1302514674, 790015084, 290630308, 39332535, 720401, 242)
"""exp(-2^k) for k from -2 to 4, in units of 2^-31."""

pytestmark = pytest.mark.skipif(not (SHARED / "mlperf_tiny").exists(), reason="needs mlperf_tiny under MCC_SHARED")


def shifted(x: int, by: int) -> int:
    return max(-(2**31), min(ONE, x << by))


def exp_of_quarter(a: int) -> int:
    """exp of -1/4..0 in units of 2^-31: a polynomial around -1/8."""
    at, third = 1895147668, 715827883
    x = a + (1 << 28)
    x2 = doubling_high_mul(x, x)
    x3, x4 = doubling_high_mul(x2, x), doubling_high_mul(x2, x2)
    rest = divide_by_pot(doubling_high_mul(divide_by_pot(x4, 2) + x3, third) + x2, 1)
    return at + doubling_high_mul(at, x + rest)


def exp_of_negative(a: int) -> int:
    """exp of numbers in units of 2^-26, up to 0."""
    quarter = 1 << 24
    part = (a & (quarter - 1)) - quarter
    result, rest = exp_of_quarter(shifted(part, 5)), part - a
    for k, power in enumerate(POWERS):
        if rest & (quarter << k):
            result = doubling_high_mul(result, power)
    return ONE if a == 0 else result


def reciprocal(x: int) -> tuple[int, int]:
    """1 / x of numbers in units of 2^-19, and the bits that x is over one."""
    zeros = 32 - x.bit_length()
    total = (x << zeros) - 2**31 + ONE
    half = (total + 1) // 2 if total >= 0 else -((1 - total) // 2)
    found = 1515870810 + doubling_high_mul(half, -1010580540)
    for _ in range(3):
        error = (1 << 29) - doubling_high_mul(half, found)
        found += shifted(doubling_high_mul(found, error), 2)
    return shifted(found, 1), 12 - zeros


def softmax(row: Array, scale: float) -> list[int]:
    m, shift = quantize_multiplier(min(scale * 2**26, float(ONE)))
    radius = math.floor(31 * 2**26 / 2**shift)
    apart = [int(v) - int(row.max()) for v in row]
    powers = [exp_of_negative(doubling_high_mul(d << shift, m)) if d >= -radius else None for d in apart]
    inverse, over = reciprocal(sum(divide_by_pot(p, 12) for p in powers if p is not None))
    parts = [0 if p is None else divide_by_pot(doubling_high_mul(inverse, p), over + 23) for p in powers]
    return [max(-128, min(127, p - 128)) for p in parts]


@pytest.mark.slow
@pytest.mark.parametrize("name", TINY)
def test_the_outputs_are_those_of_litert(name: str) -> None:
    path = SHARED / "mlperf_tiny" / f"{name}_int8.onnx"
    given, wanted = (np.load(path.with_suffix(f".{kind}.npy")) for kind in ("input", "output_tflite_ref"))
    imported = driver.import_graph(path, Options(target="generic")).graph
    c = driver.import_graph(path, Options(target="generic", requant="tflite"))
    driver.optimize(c)
    (x,), (y,) = c.graph.inputs, c.graph.outputs
    last = [n for n in imported.nodes if n.op.name == "softmax"]
    for sample, output in zip(given, wanted, strict=True):
        values = c.graph.evaluate({x.name: sample.reshape(x.shape)}, keep=True)
        got = values[y.name].reshape(-1).tolist()
        if last:
            before = quantised(imported, imported.producers()[last[0].operands[0]])  # type: ignore[index]
            assert before is not None
            scores = values[c.graph.producers()[y].operands[0].name]  # type: ignore[union-attr]
            got = softmax(scores.reshape(-1), float(before.scale))
        assert got == output.reshape(-1).tolist()
