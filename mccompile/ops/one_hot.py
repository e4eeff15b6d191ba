"""OneHot: a comparison with the numbers 0 to depth - 1 along a new axis, as one `map`."""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim, bound
from mccompile.ir.graph import Value
from mccompile.ir.types import I32, I64
from mccompile.ops.elements import Elements
from mccompile.ops.extents import Extents
from mccompile.ops.folding import Arrays, Attributes, Folding, present
from mccompile.ops.frontend import Import
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.run_time import RunTime
from mccompile.ops.sampling import Case, Draw
from mccompile.ops.slice import Slice


def _sample(d: Draw) -> Case:
    shape, depth = d.shape(d.int(1, 3), 1, 4), d.int(1, 5)
    indices = d.array(shape, d.choice(["i64", "f32", "i32"]), -depth - 1, depth + 1).round()
    if indices.dtype == np.int32:
        values = d.array((2,), "f32")
        indices = indices.astype(np.int64)
    else:
        values = d.array((2,), "f32" if indices.dtype == np.float32 else d.choice(["f32", "i64"]))
    constant = d.choice([frozenset({1}), frozenset({1, 2})])
    depths = np.array(depth, dtype=np.float32 if indices.dtype == np.float32 else np.int64)
    return Case([indices, depths, values], {"axis": d.int(-len(shape) - 1, len(shape))}, constant)


def _off_and_on(n: Import, operands: list[Value]) -> tuple[ex.Expr, ex.Expr]:
    """The two values as numbers, or as operands that are added to ``operands``."""
    values = n.input(2)
    if n.is_const(2):
        off, on = n.const(2, "values").reshape(-1)
        return ex.num(off, values.dtype), ex.num(on, values.dtype)
    first = len(operands)
    operands += [n.reshape(n.inner(Slice((i,), (1,), (1,)), [values], f"value{i}"), (), f"scalar{i}") for i in (0, 1)]
    return ex.var(first, values.dtype), ex.var(first + 1, values.dtype)


def _one_hot_bytes(attrs: Attributes, arrays: Arrays) -> int:
    indices, depth, *_ = present(arrays)
    return 8 * indices.size * max(int(depth.reshape(-1)[0]), 1)


@onnx_op("OneHot", sample=_sample, tolerance={}, folding=Folding(_one_hot_bytes, sized=True))
def import_one_hot(n: Import) -> None:
    """Indices outside of [-depth, depth) select nothing, as ONNX has it: there is no index to check."""
    depths = n.ints(1, "depth")
    if len(depths) != 1:
        raise n.error(f"input 1 (depth) is {n.input(1).type}, but it may only be one number")
    _emit(n, depths[0])


def _import_counted(n: Import) -> None:
    """A depth that the run finds out."""
    e = Elements(n)
    depths = e.of(1, "depth")
    if len(depths) != 1:
        raise n.error(f"depth has {len(depths)} elements, not one")
    axis = n.axis(n.attr("axis", -1), len(n.input(0).shape) + 1)
    stated = n.declared_extent(axis)
    _emit(n, e.number("depth", depths[0], *((1, n.largest(axis)) if stated is None else (stated, stated))))


RUN_TIME = {"OneHot": RunTime(_import_counted)}


def _emit(n: Import, depth: int) -> None:
    indices = n.input(0)
    if bound(depth) < 1 or n.input(2).shape != (2,):
        raise n.error(f"depth {depth} must be positive and values must be [off, on]")
    rank = len(indices.shape) + 1
    axis = n.axis(n.attr("axis", -1), rank)
    dtype = I32 if indices.dtype == I32 else I64
    n.require_foldable(8 * bound(depth), "classes")
    counted = n.reshape(n.steps(depth, dtype, "classes"), (depth, *(1,) * (rank - 1 - axis)), "along")
    operands = [n.reshape(indices, (*indices.shape[:axis], 1, *indices.shape[axis:]), "column"), counted]
    given = ex.var(0, indices.dtype)
    index = ex.convert(given, dtype)
    if indices.dtype.is_float:  # as no class is NaN
        index = ex.apply("select", ex.apply("isnan", given), ex.num(dtype.ends[0], dtype), index)
    count: ex.Expr = ex.num(bound(depth), dtype)
    if isinstance(depth, Dim):
        operands.append(n.inner(Extents((depth,), (), dtype.name), [], "depth"))
        count = ex.var(2, dtype)
    below = ex.apply("lt", index, ex.num(0, dtype))
    wrapped = ex.apply("select", below, ex.apply("add", index, count), index)
    off, on = _off_and_on(n, operands)
    body = ex.apply("select", ex.apply("eq", wrapped, ex.var(1, dtype)), on, off)
    n.emit(Map(body, "f16" if n.input(2).dtype.name == "f16" else ""), operands)
