"""Windows of pools that lie altogether outside of what they read: told before the run, of any extents."""

from __future__ import annotations

import itertools

import numpy as np

from mccompile.ir.dims import symbol
from mccompile.ops.pool import Pool

EXTENTS = range(1, 8)


def _misses(pool: Pool, extent: int) -> bool:
    """Whether some window of an axis has no tap in it, one by one."""
    (out,) = pool.window.output((extent,), pool.ceil)
    taps = np.arange(pool.kernel[0]) * pool.dilations[0] - pool.pads[0]
    places = np.arange(out)[:, None] * pool.strides[0] + taps
    return bool((~((places >= 0) & (places < extent)).any(axis=1)).any())


def test_windows_outside_are_told_of_numbers_and_of_extents_of_the_run() -> None:
    """Of numbers exactly; of an extent that varies wherever one of its values has such a window."""
    told = 0
    forms = itertools.product(range(1, 4), range(1, 4), range(1, 4), range(3), range(3))
    for kernel, stride, dilation, before, behind in forms:
        pool = Pool("max", (kernel,), (stride,), (before, behind), (dilation,))
        reach = (kernel - 1) * dilation + 1
        fit = [e for e in EXTENTS if e + before + behind >= reach]
        missing = {e: _misses(pool, e) for e in fit}
        assert {e: pool._may_miss((e,)) for e in fit} == missing, pool
        low = min(fit)
        varying = pool._may_miss((symbol("n", low, EXTENTS[-1]),))
        assert varying or not any(missing.values()), pool
        told += not varying
    assert told > 100  # most pools have none, of which nothing need be supposed
