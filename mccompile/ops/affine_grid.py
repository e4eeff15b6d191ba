"""AffineGrid: the coordinates that GridSample reads for an image that is turned, moved and scaled.

    AffineGrid(theta[N, 2, 3], size)  is  Reshape(MatMul(places[H * W, 3], Transpose(theta)), [N, H, W, 2])

where a row of ``places`` is x, y, 1 of a pixel.

>>> places((1, 2), True).tolist()
[[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0]]
>>> places((1, 2), False).tolist()
[[-0.5, 0.0, 1.0], [0.5, 0.0, 1.0]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile.ir.dims import varies
from mccompile.ir.dims_hints import FIX
from mccompile.ir.scalar import Array
from mccompile.ops.expansion import Expansion
from mccompile.ops.folding import Folding, shaped_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def places(spatial: Sequence[int], corners: bool) -> Array:
    """For each element in row-major order its coordinates from -1 to 1, that of the last axis first, and one."""
    lines = []
    for extent in spatial:
        at = np.arange(extent, dtype=np.float64)
        if corners:
            lines.append(2 * at / (extent - 1) - 1 if extent > 1 else np.zeros(1))
        else:
            lines.append((2 * at + 1) / extent - 1)
    axes = np.meshgrid(*lines, indexing="ij")[::-1]
    return np.stack([a.reshape(-1) for a in (*axes, np.ones(tuple(spatial)))], -1).astype(np.float32)


def _sample(d: Draw) -> Case:
    spatial = d.choice([2, 2, 3])
    size = np.array([d.int(1, 3), d.int(1, 3), *d.shape(spatial, 2, 5)])
    theta = d.array((int(size[0]), spatial, spatial + 1))
    return Case([theta, size], {"align_corners": d.int(0, 1)}, frozenset({1}))


@onnx_op(
    "AffineGrid", sample=_sample, tolerance={"f32": 2e-6, "f16": 4e-3}, folding=Folding(shaped_bytes), composed=True
)
def import_affine_grid(n: Import) -> None:
    theta, e = n.input(0), Expansion(n)
    batch, _, *spatial = n.ints(1, "size")
    rank = len(spatial)
    if varies(spatial):
        wanted = ", ".join(str(extent) for extent in spatial)
        rule = f"a grid of {wanted} is a table, and its extents are known at run time only"
        raise n.error(rule, f"{FIX}: --dim NAME=N; the batch may vary")
    if rank not in (2, 3) or theta.shape != (batch, rank, rank + 1) or min(spatial) < 1:
        raise n.error(f"theta {theta.type} does not fit size {[batch, _, *spatial]}")
    n.require_foldable(4 * (rank + 1) * math.prod(spatial), "places")
    at = e.constant(places(spatial, n.flag("align_corners")).astype(theta.dtype.compute.numpy), "places")
    turned = e.add("Transpose", [e.wide(0)], "turned", perm=(0, 2, 1))
    product = e.add("MatMul", [at, turned], "product")
    e.bind_stored(0, e.reshaped(product, [batch, *spatial, rank], "grid"))
    e.finish()
