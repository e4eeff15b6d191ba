"""MaxRoiPool: the largest elements of regions of images, in bins of which each ends where a pixel does.

Worked example: a row of 5 elements, a region from 1 to 3 in two bins. Each is one and a half elements wide: the first
has elements 1 and 2, the second 2 and 3.

>>> op = RoiPool((1, 2), 1.0)
>>> image, region = np.array([[[[10, 20, 50, 40, 30]]]], np.float32), np.array([[1, 0, 3, 0]], np.float32)
>>> op.evaluate(image, region, np.array([0]))[0].tolist()
[[[[50.0, 50.0]]]]
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim
from mccompile.ir.graph import Value
from mccompile.ir.indices import checked
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, TensorType
from mccompile.ops.folding import Arrays, Attributes, Folding, gathered_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.regions import OfRegions
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice


@dataclass(frozen=True)
class RoiPool(OfRegions):
    """The largest element of each bin of a region.

    Coordinates are times ``scale``, and rounded then; halves away from 0. The pixels of a region are shared out to
    bins of equal size, and one that ends in several takes part in these. A bin of no pixel of the image is 0.
    """

    name = "roi_pool"

    bins: tuple[int, int]
    scale: float
    inside: bool = False

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        if not 0 < self.scale < math.inf:
            raise TypeRuleError(f"spatial_scale is {self.scale}, but has to be greater than 0")
        return super().infer(*types)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, regions, images = (np.asarray(a) for a in arrays)
        result = np.zeros((len(regions), x.shape[1], *self.bins), x.dtype)
        wide = np.promote_types(regions.dtype, np.float32)
        for r, image in enumerate(checked(images, x.shape[0])):
            left, top, right, bottom = _nearest(regions[r].astype(wide) * wide.type(self.scale))
            for i, lines in enumerate(_pixels(top, bottom, self.bins[0], x.shape[2])):
                for j, columns in enumerate(_pixels(left, right, self.bins[1], x.shape[3])):
                    within = x[image, :, lines, columns]
                    if within.size:
                        result[r, :, i, j] = within.max(axis=(1, 2))
        return (result,)


def _nearest(a: Array) -> Array:
    """The nearest whole numbers; halves away from 0."""
    whole = np.trunc(a)
    return np.asarray(whole + np.where(np.abs(a - whole) >= 0.5, np.sign(a), 0).astype(a.dtype))


def _pixels(first: float, last: float, bins: int, extent: int) -> Iterator[slice]:
    """The pixels of each bin along an axis: none where its ends are no numbers."""
    each = np.maximum(last - first + 1, np.ones_like(first)) / bins
    for b in range(bins):
        ends = np.clip([np.floor(b * each) + first, np.ceil((b + 1) * each) + first], 0, extent)
        low, high = np.nan_to_num(ends, nan=0).astype(np.int64)
        yield slice(low, high)


def _sample(d: Draw) -> Case:
    images, many = d.int(1, 3), d.int(1, 4)
    x = d.array((images, d.choice([1, 3, 8]), *d.shape(2, 3, 8)))
    begins = d.array((many, 2), "f32", -2, 6)
    of = d.array((many, 1), "i64", 0, images - 1).astype(np.float32)
    regions = np.concatenate([of, begins, begins + d.array((many, 2), "f32", -2, 9)], 1)
    attrs = {"pooled_shape": [d.int(1, 3), d.int(1, 4)], "spatial_scale": d.choice([1.0, 0.5, 0.3])}
    return Case([x, regions], attrs, frozenset({1}) if d.bool() else frozenset(), opset=21)


def _regions_bytes(attrs: Attributes, arrays: Arrays) -> int:
    bins = attrs.get("pooled_shape", [1])
    return gathered_bytes(attrs, arrays[:2]) * int(np.prod(np.maximum(np.array(bins, np.int64), 1)))


@onnx_op("MaxRoiPool", sample=_sample, tolerance={"f32": 0.0, "f16": 0.0}, folding=Folding(_regions_bytes))
def import_max_roi_pool(n: Import) -> None:
    x, regions = n.input(0), n.input(1)
    if len(x.shape) != 4 or len(regions.shape) != 2 or regions.shape[1] != 5:
        raise n.error(f"{regions.type} are no regions [R, 5] of images {x.type}")
    images, corners, inside = _known_parts(n) if n.is_const(1) else (*_parts(n, regions), False)
    n.emit(RoiPool(n.attr("pooled_shape"), n.attr("spatial_scale", 1.0), inside), [x, corners, images])


def _known_parts(n: Import) -> tuple[Value, Value, bool]:
    """The images and the corners of constant regions; whether all of these images exist."""
    known = n.const(1, "regions")
    corners, of = n.constant("corners", known[:, 1:]), np.trunc(known[:, 0].astype(np.float64))
    extent = n.input(0).shape[0]
    inside = bool(np.all((of >= 0) & (of < (extent.low if isinstance(extent, Dim) else extent))))
    if not inside and not isinstance(extent, Dim):
        raise n.error(f"regions are of images {of.tolist()}, but there are {extent}")
    return n.constant("images", of.astype(np.int32)), corners, inside


def _parts(n: Import, regions: Value) -> tuple[Value, Value]:
    """The images and the corners of regions."""
    many = regions.shape[0]
    column = n.reshape(n.inner(Slice((0, 0), (1, 1), (many, 1)), [regions], "of"), (many,), "column")
    images = n.map(ex.convert(ex.var(0, regions.dtype), I32), [column], "images")
    return images, n.inner(Slice((0, 1), (1, 1), (many, 4)), [regions], "corners")
