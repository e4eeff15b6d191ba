"""The operators that answer a question about shapes, or make a tensor of a shape: known at import or refused."""

from __future__ import annotations

import math

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import UndecidedError, bound, maximum
from mccompile.ir.graph import Value
from mccompile.ir.types import DTYPES, I32
from mccompile.onnxio import dtype_name
from mccompile.ops.expand import Expand
from mccompile.ops.folding import UNBOUNDED, Arrays, Attributes, Folding, present, product_bytes, shaped_bytes
from mccompile.ops.frontend import Import
from mccompile.ops.held import held
from mccompile.ops.iota import Iota
from mccompile.ops.map import Map
from mccompile.ops.registry import onnx_op
from mccompile.ops.sampling import Case, Draw


def _refuse(n: Import) -> None:
    """The importer folds the operator when its inputs are constants, so that one of them here is not."""
    for i, value in enumerate(n.inputs):
        if value is not None:
            n.const(i, n.op_type.lower())
    raise n.error(f"{n.op_type} is supported where its result is known at compile time only")


@onnx_op("Shape")
def import_shape(n: Import) -> None:
    start, end = n.attr("start", 0), n.attr("end")
    n.fold(np.array(n.input(0).shape[start:end], dtype=np.int64))


@onnx_op("Size")
def import_size(n: Import) -> None:
    n.fold(np.array(n.input(0).type.count, dtype=np.int64))


@onnx_op("ConstantOfShape", folding=Folding(shaped_bytes, sized=True, repeats=True))
def import_constant_of_shape(n: Import) -> None:
    """One element, repeated where it is read: the importer folds what is small."""
    shape = n.ints(0, "shape")
    n.emit(Expand(shape), [repeated_element(n, len(shape))])


def repeated_element(n: Import, rank: int) -> Value:
    """What ConstantOfShape repeats, as a tensor of ``rank`` axes."""
    value = n.attr("value")
    element, n.narrow_result = held(np.zeros(1, np.float32) if value is None else np.asarray(value))
    return n.constant("element", element.reshape((1,) * rank))


def _range_bytes(attrs: Attributes, arrays: Arrays) -> int:
    start, limit, delta = (float(a.reshape(-1)[0]) for a in present(arrays))
    count = abs((limit - start) / delta) if delta else 0.0
    return int(8 * count) if math.isfinite(count) else UNBOUNDED


@onnx_op("Range", without_effect=("stash_type",), folding=Folding(_range_bytes, sized=True, always=True))
def import_range(n: Import) -> None:
    """Of extents that are known at run time only; the importer folds what is known."""
    known = [n.const(i, "range") for i in range(3) if n.is_const(i)]
    whole = all(np.all(a == np.floor(a)) for a in known)
    if not whole and len(known) < 3 and all(n.has_numbers(i) for i in range(3)):
        raise UndecidedError("how many numbers of a step that is not whole there are is found out by the run")
    if not whole or not all(n.has_numbers(i) for i in range(3)):
        _refuse(n)
    (start,), (limit,), (step,) = (n.ints(i, what) for i, what in enumerate(("start", "limit", "delta")))
    away = limit - start if step > 0 else start - limit
    count = maximum((away + abs(step) - 1) // abs(step), 0)
    n.emit(Iota(start, step, count, n.input(0).dtype.name), [])


def _sample_eye(d: Draw) -> Case:
    x = d.array(d.shape(2), d.choice(["f32", "i64"]))
    return Case([x], {"k": d.int(-3, 3), **({"dtype": 1} if d.bool() else {})})


@onnx_op("EyeLike", sample=_sample_eye, tolerance={}, folding=Folding(product_bytes))
def import_eye_like(n: Import) -> None:
    """Only the shape and the element type of the input count, and they are known."""
    x = n.input(0)
    name = dtype_name(n.attr("dtype")) if n.attr("dtype") is not None else n.narrow(0) or x.dtype.name
    if name == "bf16":  # which holds 0 and 1
        n.narrow_result, name = name, "f32"
    if len(x.shape) != 2 or name not in DTYPES:
        raise n.error(f"EyeLike of {x.type} as {name} is not supported")
    shift = n.attr("k", 0)
    if not x.type.varies:
        n.fold(np.eye(*x.shape, k=shift, dtype=DTYPES[name].numpy))
        return
    shift = max(-bound(x.shape[0]), min(shift, bound(x.shape[1])))  # beyond these there is no one, either
    rows = n.reshape(n.steps(x.shape[0], I32, "rows", shift), (x.shape[0], 1), "diagonal")
    same = ex.apply("eq", ex.var(0, I32), ex.var(1, I32))
    body = ex.convert(same, DTYPES[name])
    n.emit(Map(body, "f16" if name == "f16" else ""), [rows, n.steps(x.shape[1], I32, "columns")])
