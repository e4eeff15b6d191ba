"""What the operators that take regions of images in bins share (RoiAlign, MaxRoiPool)."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.dims import require_same
from mccompile.ir.op import Kind, Layouts, Op, TypeRuleError
from mccompile.ir.structure import Coordinates, Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.indices import require_indices


class OfRegions(Op):
    """Base of those with operands x[N, C, H, W], regions[R, 4] (first column and line, last ones), images[R]; result
    [R, C, bins...]. ``inside``: the numbers of images are known to be right."""

    kind = Kind.COMPLEX
    layouts = Layouts.ANY

    bins: tuple[int, int]
    inside: bool

    @property
    def trusted(self) -> tuple[int, ...]:
        return (2,) if self.inside else ()

    @property
    def decides(self) -> bool:
        """On which elements a bin has."""
        return True

    @property
    def smooth(self) -> tuple[int, ...]:
        return (0,)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        """Any elements of a channel, by all of a region."""
        (y,) = self.infer(*types)
        own = axis_loops(4, 5)
        image: Coordinates = (None, own[1], None, None)
        return (Nest((*y.shape, 4), own, (image, (own[0], *axis_loops(1, 5, 4)), (own[0],))),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        x, regions, images = types
        assert x is not None
        assert regions is not None
        assert images is not None
        require_indices(images, self.inside)
        if x.rank != 4 or regions.shape[1:] != (4,) or not require_same(images.shape, regions.shape[:1]):
            raise TypeRuleError(f"regions {regions} of images {images} do not fit {x}")
        if x.dtype.compute.name not in ("f32", "f64") or regions.dtype.compute != x.dtype.compute:
            raise TypeRuleError(f"{x} and {regions} are not computed in one type of floats")
        if len(self.bins) != 2 or min(self.bins) < 1:
            raise TypeRuleError(f"{self.bins} bins are not supported")
        return (TensorType(x.dtype, (regions.shape[0], x.shape[1], *self.bins)),)
