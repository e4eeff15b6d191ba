"""Col2Im: columns of blocks added up to an image (torch.nn.Fold).

Worked example: blocks of 2 with stride 1 over an image of 3. Column 0 goes to places 0 and 1, column 1 to 1 and 2:

>>> columns = np.array([[[[1.0, 2.0], [10.0, 20.0]]]])  # [N, C, block, columns]
>>> Col2Im((3,), (1,), (0, 0), (1,)).evaluate(columns)[0].tolist()
[[[1.0, 12.0, 20.0]]]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import combine
from mccompile.ir.dims import span
from mccompile.ir.op import Kind, Op, TypeRuleError
from mccompile.ir.ranges import Range, summed
from mccompile.ir.scalar import Array
from mccompile.ir.structure import Nest, Structure, axis_loops
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.transpose import Transpose
from mccompile.ops.window import Window


@dataclass(frozen=True)
class Col2Im(Op):
    """Operand x[N, C, block..., columns...]; result [N, C, image...], zero where no block is."""

    name = "col2im"
    kind = Kind.REDUCTION

    image: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,)

    def structure(self, types: Sequence[TensorType | None]) -> Structure:
        (x,) = types
        assert x is not None
        n, spatial = x.rank, len(self.image)
        own = axis_loops(n, n)
        places = tuple(
            combine(n, {2 + a: self.dilations[a], 2 + spatial + a: self.strides[a]}, -self.pads[a])
            for a in range(spatial)
        )
        return (Nest(x.shape, (*own[:2], *places), (own,)),)

    def value_range(self, types: Sequence[TensorType | None], ranges: Sequence[Range | None]) -> tuple[Range, ...]:
        (x,), (found,) = types, ranges
        assert x is not None
        assert found is not None
        return (summed(found.with_zero(), math.prod(x.shape[2 : 2 + len(self.image)]), x.dtype),)

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        spatial = len(self.image)
        if x.rank != 2 + 2 * spatial or not x.dtype.is_float:
            raise TypeRuleError(f"{x} are no columns of {spatial} axes of blocks, of floats")
        window = Window(x.shape[2 : 2 + spatial], self.strides, self.dilations, self.pads)
        if window.output(self.image) != x.shape[2 + spatial :]:
            raise TypeRuleError(f"an image of {list(self.image)} has no {list(x.shape[2 + spatial:])} such blocks")
        return (TensorType(x.dtype, (*x.shape[:2], *self.image)),)

    def evaluate(self, *arrays: Array | None) -> tuple[Array, ...]:
        x = np.asarray(arrays[0])
        spatial = len(self.image)
        block, columns = x.shape[2 : 2 + spatial], x.shape[2 + spatial :]
        padded = [e + self.pads[a] + self.pads[spatial + a] for a, e in enumerate(self.image)]
        y = np.zeros((*x.shape[:2], *padded), np.promote_types(x.dtype, np.float32))
        for tap in np.ndindex(*block):
            part = tuple(
                slice(t * d, t * d + (c - 1) * s + 1, s)
                for t, d, s, c in zip(tap, self.dilations, self.strides, columns, strict=True)
            )
            y[(slice(None), slice(None), *part)] += x[(slice(None), slice(None), *tap)]
        inner = tuple(slice(self.pads[a], self.pads[a] + e) for a, e in enumerate(self.image))
        return (y[(slice(None), slice(None), *inner)].astype(x.dtype),)


def _sample(d: Draw) -> Case:
    spatial = d.choice([1, 2, 2])
    block, image = d.shape(spatial, 1, 3), d.shape(spatial, 5, 8)
    # onnxruntime 1.31 takes other elements than ONNX's reference where blocks of one axis are dilated.
    dilations = d.shape(spatial, 1, 2 if spatial > 1 else 1)
    window = Window(block, d.shape(spatial, 1, 2), dilations, d.shape(2 * spatial, 0, 2))
    if d.int(0, 3) == 0:  # blocks lie side by side
        image = tuple(b * d.int(1, 4) for b in block)
        window = Window(block, block, (1,) * spatial, (0,) * (2 * spatial))
    columns = math.prod(window.output(image))
    x = d.array((d.int(1, 2), d.int(1, 3) * math.prod(block), columns))
    attrs = {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}
    return Case([x, np.array(image), np.array(block)], attrs, frozenset({1, 2}))


def _image_bytes(attrs: Attributes, arrays: Arrays) -> int:
    """Channels are at most the rows of blocks."""
    x, image, *_ = present(arrays)
    return 8 * math.prod(x.shape[:2]) * math.prod(max(int(e), 1) for e in image.reshape(-1))


@onnx_op("Col2Im", sample=_sample, tolerance={"f32": 2e-6, "f16": 4e-3}, folding=Folding(_image_bytes))
def import_col2im(n: Import) -> None:
    x = n.input(0)
    image, block = n.ints(1, "image_shape"), n.ints(2, "block_shape")
    spatial = len(image)
    ones = (1,) * spatial
    strides, dilations = n.attr("strides", ones), n.attr("dilations", ones)
    pads = n.attr("pads", (0,) * (2 * spatial))
    if {len(block), len(strides), len(dilations)} != {spatial} or len(pads) != 2 * spatial or len(x.shape) != 3:
        raise n.error(f"blocks, strides, dilations, pads or {x.type} do not fit an image of {spatial} axes")
    least = min((span(e)[0] for e in (*image, *block, *strides, *dilations)), default=1)
    if least < 1 or min(pads, default=0) < 0:
        raise n.error("extents, strides and dilations must be positive, pads not negative")
    columns = Window(block, strides, dilations, pads).output(image)
    if x.shape[1] % math.prod(block) or x.shape[2] != math.prod(columns):
        raise n.error(f"{x.type} are no blocks of {list(block)} in {list(columns)} columns")
    channels = (x.shape[0], x.shape[1] // math.prod(block))
    blocks = n.reshape(x, (*channels, *block, *columns), "blocks")
    if image == tuple(b * c for b, c in zip(block, columns, strict=True)) and block == strides and not any(pads):
        # Blocks lie side by side: [N, C, block..., columns...] becomes [N, C, column, block, column, block ..].
        order = (0, 1, *(a for i in range(spatial) for a in (2 + spatial + i, 2 + i)))
        n.emit_reshape((*channels, *image), n.inner(Transpose(order), [blocks], "tiles"))
        return
    n.emit(Col2Im(image, strides, pads, dilations), [blocks])
