"""Element types, storage layouts and tensor types, with their text form.

Grammar::

    type    = dtype "[" [int {"," int}] "]" [":" layout]
    dtype   = "f32" | "f16" | "i8" | ...
    layout  = alias | "(" factor {"," factor} ")"
    factor  = axis | axis "/" int | axis "%" int
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mccompile._cached import cached
from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound, require_equal, span, value, varies
from mccompile.ir.errors import InternalError

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """One element type: there is one object of each, also after a copy, so that they compare by identity.

    ``c`` is the type memory is declared with; f16 is stored as ``uint16_t`` and computed as f32.
    """

    name: str
    c: str
    nbytes: int
    kind: str  # "f" float, "i" signed, "u" unsigned, "b" bool

    @cached
    def numpy(self) -> np.dtype[np.generic]:
        import numpy as np  # here, so that targets are known without it

        return np.dtype(_NUMPY[self.name])

    def evaluated(self, wide: bool) -> np.dtype[np.generic]:
        """What evaluations in numpy have: its own type, or with ``wide`` float64 for every float."""
        return (F64 if wide and self.is_float else self).numpy

    @cached
    def ends(self) -> tuple[int, int]:
        """The least and the greatest whole number of this type, which is no float."""
        if self.kind == "b":
            return 0, 1
        import numpy as np

        info = np.iinfo(self.numpy.name)
        return int(info.min), int(info.max)

    @property
    def compute(self) -> DType:
        """The type of one element in an expression."""
        return F32 if self.name == "f16" else self

    @property
    def is_float(self) -> bool:
        return self.kind == "f"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _dtype_named, (self.name,)


def _dtype_named(name: str) -> DType:
    return DTYPES[name]


_NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bool": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip

F64 = DType("f64", "double", 8, "f")
F32 = DType("f32", "float", 4, "f")
F16 = DType("f16", "uint16_t", 2, "f")
I8 = DType("i8", "int8_t", 1, "i")
I16 = DType("i16", "int16_t", 2, "i")
I32 = DType("i32", "int32_t", 4, "i")
I64 = DType("i64", "int64_t", 8, "i")
U8 = DType("u8", "uint8_t", 1, "u")
U16 = DType("u16", "uint16_t", 2, "u")
U32 = DType("u32", "uint32_t", 4, "u")
U64 = DType("u64", "uint64_t", 8, "u")
BOOL = DType("bool", "uint8_t", 1, "b")

DTYPES: dict[str, DType] = {d.name: d for d in (F64, F32, F16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL)}

@functools.cache
def _by_numpy() -> Mapping[np.dtype[np.generic], DType]:
    return {d.numpy: d for d in DTYPES.values()}


def dtype_of(array: np.ndarray) -> DType:
    """The element type of a numpy array; KeyError for types no IR has (strings, complex)."""
    return _by_numpy()[array.dtype]


Shape = tuple[int, ...]
"""Logical extents in ONNX order. What is known at run time only is a `Dim`, which as a number is its bound."""


@dataclass(frozen=True)
class Factor:
    """One stored axis: the coordinate ``(x // div) % mod`` of a logical axis (mod 0: no modulus)."""

    axis: int
    div: int = 1
    mod: int = 0

    def extent(self, shape: Shape) -> int:
        """The stored extent; a divided axis is rounded up, its tail is padding."""
        if self.mod:
            return self.mod
        return -(-shape[self.axis] // self.div)

    def __str__(self) -> str:
        if self.mod:
            return f"{self.axis}%{self.mod}"
        return f"{self.axis}/{self.div}" if self.div > 1 else str(self.axis)


Layout = tuple[Factor, ...]
"""How elements are stored: axis factors, outermost first. Shapes and attributes never depend on it."""


@functools.cache
def row_major(rank: int) -> Layout:
    """The layout of a tensor that says nothing: all axes in logical order."""
    return tuple(Factor(i) for i in range(rank))


def blocked(rank: int, axis: int, block: int) -> Layout:
    """Row-major with ``axis`` split in blocks, the block innermost (nchw16c for rank 4, axis 1)."""
    outer = [Factor(i, block) if i == axis else Factor(i) for i in range(rank)]
    return (*outer, Factor(axis, 1, block))


def channels_last(rank: int) -> Layout:
    """Axis 1 innermost (nhwc for rank 4)."""
    return tuple(Factor(i) for i in (0, *range(2, rank), 1))


_ALIASES: dict[str, Layout] = {
    "ndhwc": channels_last(5),
    "nhwc": channels_last(4),
    "nwc": channels_last(3),
    "nchw4c": blocked(4, 1, 4),
    "nchw8c": blocked(4, 1, 8),
    "nchw16c": blocked(4, 1, 16),
}
_ALIAS_OF = {layout: name for name, layout in _ALIASES.items()}


def layout_text(layout: Layout) -> str:
    return _ALIAS_OF.get(layout) or "(" + ",".join(map(str, layout)) + ")"


def parse_layout(text: str) -> Layout:
    """The inverse of `layout_text`. Raises ValueError for text that is no layout."""
    if text in _ALIASES:
        return _ALIASES[text]
    factors = []
    for part in text.strip("()").split(","):
        axis, _, rest = part.partition("/") if "/" in part else part.partition("%")
        div = int(rest) if "/" in part else 1
        mod = int(rest) if "%" in part else 0
        factors.append(Factor(int(axis), div, mod))
    return tuple(factors)


def is_linear(layout: Layout) -> bool:
    """True if no axis is split in blocks: each coordinate has one stride."""
    return all(f.div == 1 and not f.mod for f in layout)


@dataclass(frozen=True)
class TensorType:
    """The type of a value: element type, logical shape, and how it is stored (None: row-major)."""

    dtype: DType
    shape: Shape
    layout: Layout | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored elements at the bounds of their extents, block tails included."""
        return self.dtype.nbytes * bound(math.prod(self.stored_shape))

    @property
    def factors(self) -> Layout:
        return self.layout if self.layout is not None else row_major(self.rank)

    @property
    def linear(self) -> bool:
        return is_linear(self.factors)

    @cached
    def varies(self) -> bool:
        """Whether an extent is known at run time only."""
        return varies(self.shape)

    @property
    def stored_shape(self) -> Shape:
        if self.layout is None:
            return self.shape
        return tuple(f.extent(self.shape) for f in self.factors)

    def is_case_of(self, other: TensorType) -> bool:
        """Whether it is that type, or what that may be where symbols of extents have values."""
        if self == other or (self.dtype, self.layout, self.rank) != (other.dtype, other.layout, other.rank):
            return self == other
        pairs = zip(self.shape, other.shape, strict=True)
        return all(e == o or (isinstance(o, Dim) and span(o)[0] <= bound(e) <= bound(o)) for e, o in pairs)

    def at(self, values: Mapping[str, int]) -> TensorType:
        """The type where symbols of extents have values."""
        return TensorType(self.dtype, tuple(value(e, values) for e in self.shape), self.layout)

    def at_bounds(self) -> TensorType:
        """The type with the largest extents."""
        return TensorType(self.dtype, tuple(map(bound, self.shape)), self.layout)

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(self.dtype, shape)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(dtype, self.shape, self.layout)

    def verify(self) -> None:
        """Raises InternalError if an extent is negative or the layout does not cover each axis once."""
        if any(e < 0 for e in self.shape):
            raise InternalError(f"negative extent in {self}")
        if self.layout is None:
            return
        for axis in range(self.rank):
            own = [f for f in self.layout if f.axis == axis]
            whole = len(own) == 1 and own[0] == Factor(axis)
            split = len(own) == 2 and own[0].div == own[1].mod > 1 and own[0].mod == 0 and own[1].div == 1
            if not (whole or split):
                raise InternalError(f"layout of {self} does not cover axis {axis} exactly once")

    def __str__(self) -> str:
        text = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return text if self.layout is None else f"{text}:{layout_text(self.layout)}"


class BroadcastError(ValueError):
    """Shapes of which two extents differ, and neither is 1."""


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The numpy broadcast of shapes. Raises BroadcastError where two extents differ and neither is 1."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for shape in shapes:
        for i, extent in enumerate(shape, rank - len(shape)):
            if extent != 1 and out[i] not in (1, extent):
                require_equal(extent, out[i])
                raise BroadcastError(f"shapes {', '.join(str(list(s)) for s in shapes)} do not broadcast")
            if extent != 1:
                out[i] = extent
    return tuple(out)
