"""RoiAlign: regions of images, each resampled to a grid of bins.

Worked example: a row of 4 elements, a region from 0 to 4 in two bins, two samples each. Half a pixel before, the
samples are at 0, 1, 2, 3: the bins are the means of elements 0, 1 and of 2, 3.

>>> op = RoiAlign("avg", (1, 2), 2, 1.0, True)
>>> image, region = np.array([[[[10.0, 20, 30, 40]]]]), np.array([[0.0, 0, 4, 1]])
>>> op.evaluate(image, region, np.array([0]))[0].tolist()
[[[[15.0, 35.0]]]]
"""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import may_be_none
from mccompile.ir.indices import checked
from mccompile.ir.op import TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Arrays, Attributes, Folding, gathered_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.indices import index_operand
from mccompile.ops.regions import OfRegions
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw

MOST_SAMPLES = 32767
"""Along an axis of a bin: 32 bits count those of both. No region asks for more, however large it is."""


@dataclass(frozen=True)
class RoiAlign(OfRegions):
    """Operands x[N, C, H, W], regions[R, 4] (first column and line, last ones), images[R]; result [R, C, bins...].

    Coordinates are times ``scale``, and with ``half_pixel`` half a pixel less. A bin has ``samples`` along each axis,
    or with 0 one for each pixel that begins in it; the result is their mean, or with ``mode`` "max" the largest
    weighted element of any. ``inside``: the numbers of images are known to be right.
    """

    name = "roi_align"
    wants_channels_last = True

    mode: str
    bins: tuple[int, int]
    samples: int
    scale: float
    half_pixel: bool
    inside: bool = False

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,) if self.mode == "avg" else ()

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, regions, images = types
        if x is not None and may_be_none(x.shape):
            raise TypeRuleError(f"regions {regions} of images {images} do not fit {x}")
        if self.mode not in ("avg", "max") or not 0 <= self.samples <= MOST_SAMPLES:
            raise TypeRuleError(f"{self.samples} samples in {self.bins} bins by {self.mode} are not supported")
        return super().infer(*types)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x, regions, images = (np.asarray(a) for a in arrays)
        wide = x.astype(np.promote_types(x.dtype, np.float32))
        result = np.zeros((len(regions), x.shape[1], *self.bins), wide.dtype)
        for r, image in enumerate(checked(images, x.shape[0])):
            (x0, y0, x1, y1) = regions[r].astype(wide.dtype) * wide.dtype.type(self.scale) - self.half_pixel * 0.5
            rows = self._samples(y0, y1, self.bins[0], x.shape[2])
            columns = self._samples(x0, x1, self.bins[1], x.shape[3])
            for i, j in np.ndindex(*self.bins):
                result[r, :, i, j] = self._bin(wide[image], rows[i], columns[j])
        return (result.astype(x.dtype),)

    def _samples(self, first: float, last: float, bins: int, extent: int) -> list[list[tuple[int, int, float]]]:
        """For each bin the samples along an axis: two places and the weight of the second; -1 for those outside."""
        size = last - first if self.half_pixel else max(last - first, 1.0)
        each = size / bins
        count = self.samples or int(min(np.nan_to_num(np.ceil(each), nan=0.0), MOST_SAMPLES))
        found = []
        for b in range(bins):
            line = []
            for i in range(count):
                at = first + b * each + (i + 0.5) * each / count
                low = min(int(max(at, 0.0)), extent - 1) if -1 <= at <= extent else -1
                rest = 0.0 if low == extent - 1 else max(at, 0.0) - low
                line.append((low, min(low + 1, extent - 1), rest))
            found.append(line)
        return found

    def _bin(
        self, image: Array, rows: list[tuple[int, int, float]], columns: list[tuple[int, int, float]]
    ) -> Array:
        total, count = np.zeros(len(image), image.dtype), len(rows) * len(columns)
        largest: list[Array] = []
        for top, bottom, v in rows:
            for left, right, u in columns:
                inside = float(top >= 0 and left >= 0)
                taps = [
                    image[:, top, left] * ((1 - v) * (1 - u) * inside),
                    image[:, top, right] * ((1 - v) * u * inside),
                    image[:, bottom, left] * (v * (1 - u) * inside),
                    image[:, bottom, right] * (v * u * inside),
                ]
                total += sum(taps)
                largest.append(np.max(taps, axis=0))
        if self.mode == "max":
            return np.max(largest, axis=0) if largest else total
        return total / max(count, 1)


def _sample(d: Draw) -> Case:
    images, many = d.int(1, 3), d.int(1, 4)
    x = d.array((images, d.choice([1, 3, 8]), *d.shape(2, 3, 8)))
    begins = d.array((many, 2), "f32", -2, 6)
    regions = np.concatenate([begins, begins + d.array((many, 2), "f32", 0.25, 9)], 1)
    attrs = {
        "output_height": d.int(1, 3), "output_width": d.int(1, 3), "sampling_ratio": d.int(0, 3),
        "spatial_scale": d.choice([1.0, 0.5]), "mode": d.choice(["avg", "avg", "max"]),
        "coordinate_transformation_mode": d.choice(["half_pixel", "output_half_pixel"]),
    }  # fmt: skip
    constant = frozenset({2}) if d.bool() else frozenset()
    return Case([x, regions, d.array((many,), "i64", 0, images - 1)], attrs, constant, opset=21)


def _regions_bytes(attrs: Attributes, arrays: Arrays) -> int:
    bins = [attrs.get(f"output_{name}", 1) for name in ("height", "width")]
    area = max(int(str(bins[0])), 1) * max(int(str(bins[1])), 1)
    return gathered_bytes(attrs, arrays[:2]) * area


@onnx_op("RoiAlign", sample=_sample, tolerance={"f32": 2e-5, "f16": 8e-3}, folding=Folding(_regions_bytes))
def import_roi_align(n: Import) -> None:
    x = n.input(0)
    if len(x.shape) != 4:
        raise n.error(f"{x.type} are no images")
    transform = n.attr("coordinate_transformation_mode", "half_pixel")
    if transform not in ("half_pixel", "output_half_pixel"):
        raise n.error(f"coordinate_transformation_mode {transform!r} is unknown")
    images, inside = index_operand(n, 2, x.shape[0])
    bins = (n.attr("output_height", 1), n.attr("output_width", 1))
    op = RoiAlign(
        n.attr("mode", "avg"), bins, n.attr("sampling_ratio", 0), n.attr("spatial_scale", 1.0),
        transform == "half_pixel", inside,
    )  # fmt: skip
    n.emit(op, [x, n.input(1), images])
