"""What the operators that address elements by indices share: checks at import, and the meaning in numpy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccompile.ir.dims import Dim, varies
from mccompile.ir.errors import CompileError
from mccompile.ir.graph import Value
from mccompile.ir.indices import checked
from mccompile.ir.op import Op, TypeRuleError
from mccompile.ir.scalar import Array
from mccompile.ir.types import I32, I64, TensorType
from mccompile.ops.frontend import Import

REDUCTIONS = {"none": "", "add": "sum", "mul": "prod", "max": "max", "min": "min"}
"""What ONNX calls the reductions of scatters, and what `reduce` calls them."""


def index_operand(n: Import, i: int, extents: int | tuple[int, ...]) -> tuple[Value, bool]:
    """Input ``i`` as indices into axes of ``extents``, and whether they are known to be inside.

    Constants are checked, made non-negative and stored as i32; what is computed at run time is left to the kernel.
    """
    if not n.is_const(i):
        return n.input(i), False
    if isinstance(extents, Dim):
        known = n.const(i, "indices")
        inside = known.size > 0 and known.min() >= 0 and known.max() < extents.low
        return (n.constant(f"indices{i}", known.astype(np.int32)), True) if inside else (n.input(i), False)
    if isinstance(extents, tuple) and varies(extents):
        return n.input(i), False
    try:
        known = checked(n.const(i, "indices"), np.array(extents, np.int64))
    except CompileError as e:
        raise n.error(e.rule) from e
    return n.constant(f"indices{i}", known.astype(np.int32)), True


class Indexed(Op):
    """Base of operators whose operand 1 is indices, checked at import (``inside``) or by the kernel."""

    inside: bool

    @property
    def trusted(self) -> tuple[int, ...]:
        return (1,) if self.inside else ()


class Gathering(Indexed):
    """Base of those whose result has elements of operand 0, wherever they are from."""

    @property
    def multilinear(self) -> tuple[int, ...]:
        return (0,)

    @property
    def selects(self) -> bool:
        return True


def require_indices(t: TensorType, inside: bool) -> None:
    """Raises TypeRuleError unless ``t`` may hold indices; ``inside`` means that they were checked at import."""
    if t.dtype != I32 and (inside or t.dtype != I64):
        raise TypeRuleError(f"indices must be i32{'' if inside else ' or i64'}, not {t}")


def data_and_indices(types: Sequence[TensorType | None], inside: bool) -> tuple[TensorType, TensorType]:
    """The types of the first two operands, the second one checked by `require_indices`."""
    x, indices = types[:2]
    assert x is not None
    assert indices is not None
    require_indices(indices, inside)
    return x, indices


def progression(indices: Array) -> tuple[int, int] | None:
    """(first, step) if the indices, flattened, are an arithmetic progression whose step is not 0."""
    flat = [int(i) for i in indices.reshape(-1)]
    if not flat:
        return None
    step = flat[1] - flat[0] if len(flat) > 1 else 1
    return (flat[0], step) if step and flat == list(range(flat[0], flat[0] + len(flat) * step, step)) else None


def scatter(target: Array, where: Sequence[Array], updates: Array, reduction: str) -> None:
    """Write ``updates`` to ``target[where]`` in order, in place."""
    match reduction:
        case "none":
            target[tuple(where)] = updates
        case "add":
            np.add.at(target, tuple(where), updates)
        case "mul":
            np.multiply.at(target, tuple(where), updates)
        case "max":
            np.maximum.at(target, tuple(where), updates)
        case "min":
            np.minimum.at(target, tuple(where), updates)


def read_reduction(n: Import) -> str:
    """The attribute ``reduction``, which must be one that the element type has."""
    reduction = n.attr("reduction", "none")
    if reduction not in REDUCTIONS:
        raise n.error(f"reduction {reduction!r} is unknown")
    if reduction != "none" and n.input(0).dtype.name == "bool":
        raise n.error(f"reduction {reduction!r} is not defined for bool")
    return str(reduction)
