"""Concat: operands one after the other along an axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from mccompile._dataclass import dataclass
from mccompile.ir.affine import Move, box
from mccompile.ir.dims import require_equal
from mccompile.ir.graph import Value
from mccompile.ir.op import Layouts, TypeRuleError
from mccompile.ir.types import Shape, TensorType
from mccompile.ops.frontend import Import
from mccompile.ops.movement import Movement
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


@dataclass(frozen=True)
class Concat(Movement):
    """Operands equal in every extent but that of ``axis``.

    ``view``: no operand is to be copied that can be written in its place, whatever that means for the arena.
    """

    name = "concat"
    layouts = Layouts.ALIKE

    axis: int
    view: bool = False

    @property
    def joins(self) -> bool:
        return True

    @property
    def is_view(self) -> bool:
        return self.view

    @property
    def multilinear(self) -> tuple[int, ...]:
        return ()

    def infer(self, *types: TensorType | None) -> tuple[TensorType, ...]:
        known = [t for t in types if t is not None]
        first, a = known[0], self.axis
        for t in known[1:]:
            same = t.rank == first.rank and t.dtype == first.dtype
            for i, e in enumerate(first.shape if same else ()):
                if i != a:
                    require_equal(t.shape[i], e)
            if not same or any(i != a and t.shape[i] != e for i, e in enumerate(first.shape)):
                raise TypeRuleError(f"{first} and {t} cannot be joined along axis {a}")
        extent = sum(t.shape[a] for t in known)
        return (TensorType(first.dtype, (*first.shape[:a], extent, *first.shape[a + 1 :])),)

    def moves(self, types: tuple[TensorType, ...], results: tuple[TensorType, ...]) -> tuple[Move, ...]:
        starts = accumulate((t.shape[self.axis] for t in types), initial=0)
        moves = []
        for i, (t, start) in enumerate(zip(types, starts, strict=False)):
            dst = tuple((start if a == self.axis else 0, 1) for a in range(t.rank))
            moves.append(box(t.shape, ((0, 1),) * t.rank, dst, operand=i))
        return tuple(moves)


def _sample(d: Draw) -> Case:
    shape = d.shape(d.int(1, 4))
    axis = d.int(-len(shape), len(shape) - 1)
    dtype = d.choice(["f32", "i64", "u8"])
    parts = []
    for _ in range(d.int(1, 4)):
        extents = list(shape)
        extents[axis] = d.int(1, 4)
        parts.append(d.array(extents, dtype))
    return Case(parts, {"axis": axis})


@onnx_op("Concat", sample=_sample, tolerance={})
def import_concat(n: Import) -> None:
    operands = [n.input(i) for i in range(len(n.inputs))]
    if any(v.type.rank == 0 for v in operands):
        raise n.error("numbers without axes cannot be joined")
    axis = n.axis(n.required("axis", int), len(operands[0].shape))
    filled, longer = with_elements(operands, axis)
    if longer:
        joined = filled[0] if len(filled) == 1 else n.inner(Concat(axis), filled, "joined")
        n.bind(0, made_longer(n, joined, axis, longer, "longer"))
    elif len(filled) == 1:
        n.bind(0, filled[0])
    else:
        n.emit(Concat(axis), filled)


def with_elements(operands: Sequence[Value], axis: int) -> tuple[list[Value], int]:
    """The operands of a Concat that have elements, for nothing may be read where there are none, or all; and how much
    longer the others make the result, where some other extent is 0 in some run."""
    filled = [v for v in operands if v.type.count != 0] or list(operands)
    others = [v for v in operands if v not in filled and _fits(v.shape, axis, filled[0].shape)]
    return filled, sum(v.shape[axis] for v in others)


def made_longer(n: Import, value: Value, axis: int, more: int, suffix: str) -> Value:
    """A tensor with a longer axis, in which there are no more elements."""
    return n.reshape(value, _with_more(value.shape, axis, more), suffix)


def _fits(shape: Shape, axis: int, other: Shape) -> bool:
    """Whether two shapes are alike but for the extent of the axis."""
    return _with_more(shape, axis, -shape[axis]) == _with_more(other, axis, -other[axis])


def _with_more(shape: Shape, axis: int, more: int) -> Shape:
    return (*shape[:axis], shape[axis] + more, *shape[axis + 1 :])
