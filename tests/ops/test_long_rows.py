"""Rows and windows of thousands of elements."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import onnx
import pytest

from mccompile.ir.types import F32, TensorType
from mccompile.ops.pool import Pool
from tests.support.runs import compare

BYTES = """<ir_version: 8, opset_import: ["": 17]>
rows (int8[n] x) => (int8[n] y)
<float fine = {%.9f}, int8 zero = {0}, float share = {0.00390625}, int8 low = {-128}>
{
    d = DequantizeLinear(x, fine, zero)
    s = Softmax<axis=-1>(d)
    y = QuantizeLinear(s, share, low)
}
"""


@pytest.mark.parametrize(("bits", "most"), [(12.1, 1_000_000), (16.1, 65536), (20.1, 2048)])
def test_small_powers_of_many_bytes_count(bits: float, most: int, tmp_path: Path) -> None:
    """All but one of the bytes have a power so small that few bits do not hold it; together they are many."""
    model = onnx.parser.parse_model(BYTES % (bits * np.log(2) / 255))
    rows = [np.full(n, -128, np.int8) for n in (1, 2, 256, most)]
    for row in rows:
        row[0] = 127
    compare(model, tmp_path, [{"x": row} for row in rows], 0, 1.01, target="generic", dims={"n": f"1..{most}"})


def test_factors_of_large_windows_take_no_time() -> None:
    attrs = {"kernel": (128, 129), "strides": (1, 1), "dilations": (1, 1), "pads": (64, 0, 0, 0)}
    pool = Pool(mode="average", count_pad=False, ceil=False, **attrs)
    begin = time.process_time()
    found = pool.as_sum((TensorType(F32, (1, 3, 300, 300)),))
    assert found is not None
    assert np.allclose(found[1][0, 0, :65, 0], 1 / (129 * np.arange(64, 129)))
    assert time.process_time() - begin < 1
