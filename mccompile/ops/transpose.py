"""Transpose: axes permuted."""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, loop
from mccompile.ir.graph import Value
from mccompile.ir.op import TypeRuleError
from mccompile.ir.types import TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Transpose(Movement):
    """Result axis i is operand axis perm[i]."""

    name = "transpose"

    perm: tuple[int, ...]

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        (x,) = types
        assert x is not None
        if sorted(self.perm) != list(range(x.rank)):
            raise TypeRuleError(f"perm {list(self.perm)} is no permutation of the axes of {x}")
        return (TensorType(x.dtype, tuple(x.shape[p] for p in self.perm)),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        shape = results[0].shape
        rank = len(shape)
        src = tuple(loop(self.perm.index(a), rank) for a in range(rank))
        return (Move(0, 0, shape, src, tuple(loop(a, rank) for a in range(rank))),)


def _sample(d: Draw) -> Case:
    rank = d.int(1, 5)
    attrs = {} if d.int(0, 4) == 0 else {"perm": d.permutation(rank)}
    return Case([d.array(d.shape(rank), d.choice(["f32", "i64", "u8", "f16"]))], attrs)


@onnx_op("Transpose", sample=_sample, tolerance={})
def import_transpose(n: Import) -> None:
    x = n.input(0)
    perm = n.attr("perm", tuple(reversed(range(len(x.shape)))))
    if sorted(perm) != list(range(len(x.shape))):
        raise n.error(f"perm {list(perm)} is no permutation of the axes of {x.type}")
    if _keeps_order(x, perm):
        n.emit_reshape(tuple(x.shape[p] for p in perm))
    else:
        n.emit(Transpose(perm), [x])


def transposed(n: Import, x: Value, perm: tuple[int, ...], suffix: str) -> Value:
    """``x`` with its axes in another order, for a front end that goes on with it."""
    if _keeps_order(x, perm):
        return n.reshape(x, tuple(x.shape[p] for p in perm), suffix)
    return n.inner(Transpose(perm), [x], suffix)


def _keeps_order(x: Value, perm: tuple[int, ...]) -> bool:
    """Whether only axes of extent 1 move."""
    kept = [p for p in perm if x.shape[p] != 1]
    return kept == sorted(kept)
