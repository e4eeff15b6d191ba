"""Expand: an operand repeated along its axes of extent 1."""

from __future__ import annotations

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, fixed, loop
from mccompile.ir.dims import UndecidedError
from mccompile.ir.dims_hints import hint_of
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import TensorType, broadcast_shapes
from mccompile.ops.folding import Folding, shaped_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Expand(Movement):
    """The operand broadcast to ``shape`` by numpy's rule."""

    name = "expand"

    shape: tuple[int, ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if broadcast_shapes(x.shape, self.shape) != self.shape:
            raise TypeRuleError(f"{x} does not broadcast to {list(self.shape)}")
        return (TensorType(x.dtype, self.shape),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        rank = len(self.shape)
        given = types[0].shape
        shift = rank - len(given)
        src = tuple(fixed(0, rank) if e == 1 else loop(a + shift, rank) for a, e in enumerate(given))
        return (Move(0, 0, self.shape, src, tuple(loop(a, rank) for a in range(rank))),)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(0, 4))
    x = d.array(d.broadcastable(shape), d.choice(["f32", "f16", "i64", "bool"]))
    wanted = d.broadcastable(shape)
    return Case([x, np.array(wanted, dtype=np.int64)], {}, frozenset({1}))


@onnx_op("Expand", sample=_sample, tolerance={}, folding=Folding(shaped_bytes, sized=True))
def import_expand(n: Import) -> None:
    x, wanted = n.input(0), n.ints(1, "shape")
    if any(e < 0 for e in wanted):
        raise n.error(f"the shape {list(wanted)} has a negative extent")
    try:
        shape = broadcast_shapes(x.shape, wanted)
    except ValueError as e:
        raise n.error(str(e), hint_of(e, n.stated.taken) if isinstance(e, UndecidedError) else "") from e
    if x.type.with_shape(shape).count == x.type.count:
        n.emit_reshape(shape)
    else:
        n.emit(Expand(shape), [x])
