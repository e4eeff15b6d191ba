"""Tile: an operand laid side by side along its axes."""

from __future__ import annotations

import math

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, combine, loop
from mccompile.ir.dims import span
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import TensorType
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Tile(Movement):
    """Axis a holds ``repeats[a]`` copies of the operand's axis a, one after the other."""

    name = "tile"

    repeats: tuple[int, ...]

    @property
    def times(self) -> tuple[int, ...]:
        return self.repeats

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if len(self.repeats) != x.rank or any(span(r)[0] < 0 for r in self.repeats):
            raise TypeRuleError(f"repeats {list(self.repeats)} do not fit {x}")
        return (TensorType(x.dtype, tuple(e * r for e, r in zip(x.shape, self.repeats, strict=True))),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        shape = types[0].shape
        rank = 2 * len(shape)
        loops = tuple(n for pair in zip(self.repeats, shape, strict=True) for n in pair)
        src = tuple(loop(2 * a + 1, rank) for a in range(len(shape)))
        dst = tuple(combine(rank, {2 * a: e, 2 * a + 1: 1}) for a, e in enumerate(shape))
        return (Move(0, 0, loops, src, dst),)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4), 1, 4)
    repeats = np.array(d.shape(len(shape), 1, 3), dtype=np.int64)
    return Case([d.array(shape, d.choice(["f32", "f16", "i32", "u8"])), repeats], {}, frozenset({1}))


def _tiled_bytes(attrs: Attributes, arrays: Arrays) -> int:
    x, repeats, *_ = present(arrays)
    return x.nbytes * math.prod(max(int(r), 1) for r in repeats.reshape(-1))


@onnx_op("Tile", sample=_sample, tolerance={}, folding=Folding(_tiled_bytes, sized=True))
def import_tile(n: Import) -> None:
    x, repeats = n.input(0), n.ints(1, "repeats")
    if all(r == 1 for r in repeats) and len(repeats) == len(x.shape):
        n.bind(0, x)
    else:
        n.emit(Tile(repeats), [x])
