"""QuantizeLinear and DequantizeLinear (and their com.microsoft forms): maps whose expressions say what ONNX says.

    DequantizeLinear(x, 0.5, 3):  f32(i32(x) - 3) * 0.5
    QuantizeLinear(x, 0.5, 3):    u8(rne(x / 0.5) + 3.0)          conversions from float saturate

Scales and zero points may be one number, one for each index of an axis, or one for each block along it; they may be
computed at run time.
"""

from __future__ import annotations

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.graph import Value
from mccompile.ir.scalar import uniform
from mccompile.ir.types import DTYPES, F32, I32, DType, Shape
from mccompile.onnxio import dtype_name
from mccompile.ops.elementwise import emit_map
from mccompile.ops.expand import Expand
from mccompile.ops.expansion import CONTRIB
from mccompile.ops.frontend import Import
from mccompile.ops.narrow_floats import NARROW_FLOATS, rounded
from mccompile.ops.registry import FrontEnd
from mccompile.ops.reshape import Reshape
from mccompile.ops.sampling import Case, Draw

WIDENED = ("i8", "u8", "i16", "u16", "i32")

NARROW = {"i4": ("i8", -8, 7), "u4": ("u8", 0, 15), "i2": ("i8", -2, 1), "u2": ("u8", 0, 3)}
"""Types of files: the type that holds them here, and their ends."""


def _axis_of(n: Import, rank: int) -> int:
    return n.axis(n.attr("axis", 1), rank)


def _number(n: Import, name: str) -> int:
    """An attribute of ONNX's operators that their com.microsoft forms do not have; 0 by default."""
    return 0 if n.node.domain else n.attr(name, 0)


def _aligned(n: Import, x: Value, scale: Value, what: Value, suffix: str) -> Value:
    """A scale or zero point so that it broadcasts to ``x``: one number, one of each index of the axis, blocks."""
    if scale.type.count == 1 and scale.type.rank <= 1:
        return n.reshape(what, (), suffix)
    if what.shape != scale.shape:
        raise n.error(f"a zero point of shape {list(what.shape)} does not fit scales of {list(scale.shape)}")
    if not x.shape:
        raise n.error(f"there are scales {scale.type} for one number")
    axis, block = _axis_of(n, x.type.rank), _number(n, "block_size")
    if scale.type.rank == 1 and not block:
        if scale.type.count != x.shape[axis]:
            raise n.error(f"{scale.type.count} scales for an axis of {x.shape[axis]}")
        return n.reshape(what, tuple(e if a == axis else 1 for a, e in enumerate(x.shape)), suffix)
    return _blocks(n, x.shape, what, axis, block, suffix)


def _blocks(n: Import, shape: Shape, what: Value, axis: int, block: int, suffix: str) -> Value:
    """One element for each block of an axis, repeated for each index: [.., 2, ..] of blocks of 3 as [.., 6, ..]."""
    count = what.shape[axis] if what.type.rank == len(shape) else 0
    if block <= 0 and count:
        block = -(-shape[axis] // count)
    fits = count and -(-shape[axis] // block) == count
    if not fits or any(e != s for a, (e, s) in enumerate(zip(what.shape, shape, strict=True)) if a != axis):
        size = f" of {block} " if block > 0 else ", for there is no block_size, "
        raise n.error(f"scales of shape {list(what.shape)} are no blocks{size}along axis {axis}")
    if what in n.graph.constants:
        repeated = n.graph.array(what).take(np.arange(shape[axis]) // block, axis)
        return n.constant(suffix, np.ascontiguousarray(repeated))
    if count * block != shape[axis]:
        raise n.error("blocks computed at run time must fill their axis")
    apart = (*what.shape[: axis + 1], 1, *what.shape[axis + 1 :])
    wide = (*apart[: axis + 1], block, *apart[axis + 2 :])
    spread = n.inner(Expand(wide), [n.reshape(what, apart, f"{suffix}.apart")], f"{suffix}.blocks")
    return n.inner(Reshape(shape), [spread], suffix)


def _zero_point(
    n: Import, x: Value, scale: Value, zero: Value | None, dtype: DType, operands: list[Value]
) -> ex.Expr:
    """A zero point in ``dtype``: a number where it is known and one for all, else one more of ``operands``."""
    known = zero is None or zero in n.graph.constants
    values = np.zeros(1, np.int64) if zero is None else n.graph.array(zero) if known else None
    if values is not None and uniform(values):
        return ex.num(values.flat[0], dtype)
    assert zero is not None
    operands.append(_aligned(n, x, scale, zero, "zero_point"))
    return ex.convert(ex.var(len(operands) - 1, zero.dtype), dtype)


def dequantize(n: Import) -> None:
    """y = (x - zero_point) * scale, computed in f32."""
    x, scale, zero = n.input(0), n.input(1), n.optional(2)
    is_float = n.narrow(0).startswith("f")
    if x.dtype.name not in WIDENED and not is_float:
        raise n.error(f"elements of {x.dtype} cannot be dequantised", f"{', '.join(WIDENED)} can")
    if zero is not None and (zero.dtype != x.dtype or n.narrow(0) != n.narrow(2)):
        raise n.error(f"a zero point of {n.narrow(2) or zero.dtype} for elements of {n.narrow(0) or x.dtype}")
    if is_float and zero in n.graph.constants and n.const(2, "zero point").any():
        raise n.error(f"the zero point of elements of {n.narrow(0)} must be 0")
    target = _number(n, "output_dtype")
    name = dtype_name(target) if target else n.narrow(1) or scale.dtype.name
    if name not in ("f32", "f16", "bf16"):
        raise n.error("output_dtype must be float, float16 or bfloat16")
    n.narrow_result = name if name == "bf16" else ""
    storage = F32 if name == "bf16" else DTYPES[name]
    n.attr("axis", 1), _number(n, "block_size")
    operands = [x, _aligned(n, x, scale, scale, "scale")]
    if is_float:
        body = ex.apply("mul", ex.var(0, x.dtype), ex.convert(ex.var(1, scale.dtype), F32))
        emit_map(n, lambda _, v: ex.substitute(body, lambda old: v[old.index]), operands,
                 "f16" if storage.name == "f16" else "")  # fmt: skip
        return
    offset = _zero_point(n, x, scale, zero, I32, operands)
    whole = ex.convert(ex.var(0, x.dtype), I32)
    if offset != ex.num(0, I32):
        whole = ex.apply("sub", whole, offset)
    body = ex.apply("mul", ex.convert(whole, F32), ex.convert(ex.var(1, scale.dtype), F32))
    emit_map(n, lambda _, v: ex.substitute(body, lambda old: v[old.index]), operands,
             "f16" if storage.name == "f16" else "")  # fmt: skip


def quantize(n: Import) -> None:
    """y = saturate(round(x / scale) + zero_point), ties to even."""
    x, scale, zero = n.input(0), n.input(1), n.optional(2)
    if x.dtype.name not in ("f32", "f16", "i32"):
        raise n.error(f"elements of {x.dtype} cannot be quantised", "float, float16 and int32 can")
    asked = _number(n, "output_dtype")
    target = n.narrow(2) or (zero.dtype.name if zero is not None else dtype_name(asked) if asked else "u8")
    if target not in ("i8", "u8", "i16", "u16", *NARROW, *NARROW_FLOATS):
        raise n.error(f"quantised elements of {target} are not supported", "integers and floats up to 16 bits are")
    n.attr("axis", 1), _number(n, "block_size")
    operands = [x, _aligned(n, x, scale, scale, "scale")]
    quotient = _quotient(n, ex.var(0, x.dtype), ex.var(1, scale.dtype))
    saturate = n.node.domain != "" or n.flag("saturate", True)
    if target in NARROW_FLOATS:  # the zero point of such elements is 0
        n.narrow_result = target
        body = rounded(quotient, target, saturate)
        emit_map(n, lambda _, v: ex.substitute(body, lambda old: v[old.index]), operands, "")
        return
    body = ex.apply("rne", quotient)
    offset = _zero_point(n, x, scale, zero, F32, operands)
    if offset != ex.num(0, F32):
        body = ex.apply("add", body, offset)
    if target in NARROW:
        n.narrow_result = target
        target, low, high = NARROW[target]
        body = ex.apply("min", ex.apply("max", body, ex.num(low, F32)), ex.num(high, F32))
    body = ex.convert(body, DTYPES[target])
    emit_map(n, lambda _, v: ex.substitute(body, lambda old: v[old.index]), operands, "")


def _quotient(n: Import, x: ex.Expr, scale: ex.Expr) -> ex.Expr:
    """x / scale in the type that ``precision`` says, that of the scale by default.

    Example: of 0.8354 and 0.007843 of f16 it is 106.5 there, whose even neighbour is 106; in f32 it is 106.52.
    """
    kind = _number(n, "precision")
    name = dtype_name(kind) if kind else "f32" if n.node.domain else n.narrow(1) or n.input(1).dtype.name
    if name not in ("f32", "f16", "bf16"):
        if kind:
            raise n.error(f"precision {name} is not supported", "float, float16 and bfloat16 are")
        name = "f32"  # powers of two in 8 bits, say, scale floats of 32
    return _as(name, ex.apply("div", _as(name, x), _as(name, scale)))


def _as(dtype: str, x: ex.Expr) -> ex.Expr:
    """A number as a float of 32 bits that is one of f32, f16 or bf16."""
    return rounded(x, dtype) if dtype == "bf16" else ex.convert(x, DTYPES[dtype])


def draw_scale(d: Draw, shape: Shape, size: float = 1.0) -> np.ndarray:
    """Scales of every kind: powers of two, what is none, small and large ones; around ``size``."""
    base = d.choice([0.5, 0.25, 1.0, 1 / 3, 0.0078125, 0.0123, 0.37, 1e-3])
    return (np.abs(d.array(shape, "f32", 0.5, 1.0)) * np.float32(base * size)).astype(np.float32)


def _draw_zero(d: Draw, shape: Shape, dtype: str) -> np.ndarray | None:
    info = np.iinfo({"i8": "int8", "u8": "uint8", "i16": "int16", "u16": "uint16", "i32": "int32"}[dtype])
    if dtype == "i32" or d.bool():
        return None
    low, high = d.choice([(info.min, info.min), (info.max, info.max), (0, 0), (info.min, info.max)])
    return d.array(shape, dtype, low, high)


def _draw_parameters(d: Draw) -> tuple[Shape, Shape, int]:
    """The shapes of a tensor and its scales, and the axis."""
    shape = d.shape(d.int(1, 4), 1, 5)
    axis = d.int(0, len(shape) - 1)
    return shape, d.choice([(), (shape[axis],)]), axis


def _sample_dequantize(d: Draw) -> Case:
    dtype = d.choice(["i8", "u8", "i16", "u16", "i32"])
    shape, scales, axis = _draw_parameters(d)
    low = -128 if dtype[0] == "i" else 0
    zero = _draw_zero(d, scales, dtype)
    constant = frozenset({1, 2}) if d.bool() else frozenset()
    return Case([d.array(shape, dtype, low, 127), draw_scale(d, scales), zero], {"axis": axis}, constant)


def _sample_quantize(d: Draw) -> Case:
    dtype = d.choice(["i8", "u8", "i16", "u16"])
    shape, scales, axis = _draw_parameters(d)
    zero = _draw_zero(d, scales, dtype)
    if zero is None:
        zero = np.zeros(scales, {"i8": np.int8, "u8": np.uint8, "i16": np.int16, "u16": np.uint16}[dtype])
    constant = frozenset({1, 2}) if d.bool() else frozenset()
    return Case([d.array(shape, "f32", -30, 30), draw_scale(d, scales), zero], {"axis": axis}, constant)


FRONT_ENDS: tuple[FrontEnd, ...] = (
    FrontEnd("QuantizeLinear", quantize, _sample_quantize, {}),
    FrontEnd("DequantizeLinear", dequantize, _sample_dequantize, {"f32": 0.0}),
    FrontEnd("QuantizeLinear", quantize, _sample_quantize, {}, CONTRIB),
    FrontEnd("DequantizeLinear", dequantize, _sample_dequantize, {"f32": 0.0}, CONTRIB),
)
