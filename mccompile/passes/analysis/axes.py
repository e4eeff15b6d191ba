"""Which axis of a result is an axis of operand 0, index by index, so that any of its indices may be left out.

For a maximum over [2, 5] of x[2, 5, 8], whose nest writes i, 0, k and reads x at i, r, k, axes 0 and 2 stay: their
loops i and k are those of one axis on each side and of nothing else. Axis 1 goes: the loop r is reduced.
"""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.structure import Coordinates, Nest, is_loop
from mccompile.ir.types import TensorType


def kept_axes(op: Op, types: Sequence[TensorType | None], axis: int) -> list[int] | None:
    """For each result of an operator the axis that is ``axis`` of operand 0, if that is all it is; else None."""
    results, nests = op.infer(*types), op.structure(types)
    found = [_kept_axis([n for n in nests if n.result == i], types, axis, y) for i, y in enumerate(results)]
    axes = [a for a in found if a is not None]
    return axes if len(axes) == len(results) and _shrinks(op, types, axis, axes) else None


def _kept_axis(
    nests: Sequence[Nest], types: Sequence[TensorType | None], axis: int, result: TensorType
) -> int | None:
    (x, *_), found = types, set[int | None]()
    assert x is not None
    for nest in nests:
        reads = nest.reads[0]
        k = None if reads is None else is_loop(reads[axis], nest.loops)
        if k is None or nest.loops[k] != x.shape[axis]:
            return None
        places = _users(nest.writes, k)
        elsewhere = any(_depends(at, k) for at in nest.reads[1:]) or len(_users(reads or (), k)) != 1
        if elsewhere or len(places) != 1 or is_loop(nest.writes[places[0]], nest.loops) != k:
            return None
        found.add(places[0] if result.shape[places[0]] == x.shape[axis] else None)
    return found.pop() if len(found) == 1 else None


def _shrinks(op: Op, types: Sequence[TensorType | None], axis: int, results: Sequence[int]) -> bool:
    """Whether the operator as it is takes an index less: it names no extent of the axis."""
    x, *others = types
    assert x is not None

    def less(t: TensorType, a: int) -> TensorType:
        return t.with_shape((*t.shape[:a], t.shape[a] - 1, *t.shape[a + 1 :]))

    try:
        found = op.infer(less(x, axis), *others)
    except (TypeRuleError, ValueError):
        return False
    return list(found) == [less(y, a) for y, a in zip(op.infer(*types), results, strict=True)]


def _users(side: Coordinates, k: int) -> list[int]:
    return [a for a, at in enumerate(side) if at is not None and at.coefs[k]]


def _depends(side: Coordinates | None, k: int) -> bool:
    """Whether what is read of an operand may be another for another step of a loop."""
    return side is not None and any(at is None or at.coefs[k] for at in side)
