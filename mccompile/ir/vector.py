"""The types of vectors: what their lanes are, where lanes come from and go to, and what C calls that.

Eight lanes, and how the primitives of ``kernels_templates/_lib/vector*.c.j2`` are named after them::

    V(F32, 8)       mcc_vf  mcc_vload(p)      mcc_vload_n(p, n)      mcc_vload_step(p, step, n)       mcc_vset(x)
      from F16              mcc_vload_f16(p, n)                      mcc_vload_f16_step(p, step, n)
    V(I32, 8)       mcc_vi  mcc_vload_i32(p)  mcc_vload_i32_n(p, n)  mcc_vload_i32_step(p, step, n)   mcc_vset_i32(x)
    V(I8, 8)        mcc_vi  mcc_vload_i8(p, n)                       mcc_vload_i8_step(p, step, n)    mcc_vset_i8(x)
    V(F32, 8).mask  mcc_vi  mcc_vload_mask(p, n)                     mcc_vload_mask_step(p, step, n)  mcc_vset_mask(x)

A mask has all bits of a lane set or none, and as many of them as what it masks. Integers of 8 and 16 bits are
computed in lanes of 32, each of which holds the number itself: they are widened as they are loaded. One more type of
lanes is a row of `_MEMORY`, its primitives, and forms of its kind in `ir/scalar.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.errors import InternalError
from mccompile.ir.types import BOOL, F16, F32, I8, I16, I32, U8, U16, DType

NARROW = (I8, U8, I16, U16)
"""Integers that are computed in lanes of 32 bits."""
_MEMORY: Mapping[DType, tuple[DType, ...]] = {
    F32: (F32, F16), I32: (I32,), BOOL: (BOOL,), **{t: (t,) for t in NARROW},
}  # fmt: skip
"""Of each type of lanes, the types of memory that there are primitives for."""
_PAIRS = (F32,)
"""Types of which every second element is taken from whole vectors, not gathered."""
_WRAPS: Mapping[DType, str] = {
    I8: "({t})((mcc_vu){0} << 24) >> 24", U8: "{0} & 255", I16: "({t})((mcc_vu){0} << 16) >> 16", U16: "{0} & 65535",
}  # fmt: skip
"""C for the number that the low bits of lanes are."""
_KEEPING = frozenset({"max", "min", "relu", "eq", "lt", "le", "gt", "ge", "select"})
"""Functions of integers of 8 and 16 bits that are such again, or masks, whatever they are computed in."""
_CONVERSIONS: Mapping[tuple[DType, DType], str] = {
    (F32, BOOL): "{0} != 0.0f",
    (I32, BOOL): "{0} != 0",
    (BOOL, F32): "mcc_vselect({0}, mcc_vset(1.0f), mcc_vset(0.0f))",
    (BOOL, I32): "{0} & 1",
    **{(t, F32): "__builtin_convertvector({0}, {t})" for t in (I32, *NARROW)},
    **{(F32, t): f"mcc_vto_{t}({{0}})" for t in (I32, *NARROW)},
    **{(t, I32): "{0}" for t in NARROW},
    **{(t, BOOL): "{0} != 0" for t in NARROW},
    **{(BOOL, t): "{0} & 1" for t in NARROW},
    **{(s, t): _WRAPS[t] for t in NARROW for s in (I32, *NARROW) if s != t},
}
"""C for lanes of one type as lanes of another one, of as many bits; {t} is the C type of the result."""


def is_lane(dtype: DType) -> bool:
    """Whether expressions of a type can be computed in vectors."""
    return dtype in _MEMORY


def is_direct(memory: DType) -> bool:
    """Whether elements lie in memory as they lie in a vector."""
    return memory != BOOL and memory in _MEMORY and memory not in NARROW


def is_narrow(dtype: DType) -> bool:
    """Whether it is an integer of 8 or 16 bits, which lanes of 32 hold."""
    return dtype in NARROW


def kind_of(fn: str, operand: DType) -> str:
    """The kind of lanes that a function of operands of a type is computed over; empty if it needs lanes as wide as
    these: sums of bytes wrap at 8 bits."""
    if operand not in NARROW:
        return operand.kind
    return "i" if fn in _KEEPING else ""


def converts(source: DType, target: DType) -> bool:
    """Whether there is C that makes lanes of one type of those of another."""
    return (source, target) in _CONVERSIONS


@dataclass(frozen=True)
class V:
    """A vector of so many lanes, of so many ``bits`` each: a mask has those of what it masks."""

    dtype: DType
    lanes: int
    bits: int = 32

    def __post_init__(self) -> None:
        if not is_lane(self.dtype):
            raise InternalError(f"no vectors of {self.dtype}")
        if self.dtype != BOOL and self.bits != 8 * self.lane.nbytes:
            raise InternalError(f"no lanes of {self.bits} bits for {self.dtype}")

    @property
    def lane(self) -> DType:
        """The type that lanes are computed in."""
        return I32 if self.dtype in NARROW else self.dtype

    @property
    def mask(self) -> V:
        """What a comparison of two such vectors is."""
        return V(BOOL, self.lanes, self.bits)

    @property
    def c(self) -> str:
        """The C type: mcc_vf, mcc_vi, and with the bits of a lane if these are not 32. Masks are signed numbers."""
        kind = "i" if self.dtype == BOOL else self.lane.kind
        return f"mcc_v{kind}{'' if self.bits == 32 else self.bits}"

    @property
    def unsigned(self) -> str:
        """The C type of as many unsigned numbers of as many bits, whose sums wrap."""
        return f"mcc_vu{'' if self.bits == 32 else self.bits}"

    def suffix(self, memory: DType | None = None) -> str:
        """What ends the names of primitives of these vectors, or of those that move them from and to a memory."""
        memory = memory or self.dtype
        if memory not in _MEMORY[self.dtype]:
            raise InternalError(f"no vectors of {self.dtype} from {memory}")
        return {F32: "", BOOL: "_mask"}.get(memory, f"_{memory}")

    def set(self, element: str) -> str:
        """An element, as expressions have it, in every lane."""
        return f"mcc_vset{self.suffix()}({element})"

    def load(self, pointer: str, count: int | str, step: int | str = 1, memory: DType | None = None) -> str:
        """The first ``count`` lanes from elements ``step`` apart; nothing else is touched."""
        memory = memory or self.dtype
        name, part = f"mcc_vload{self.suffix(memory)}", count != self.lanes
        if step == 2 and memory in _PAIRS:
            return f"{name}2_n({pointer}, {count})" if part else f"{name}2({pointer})"
        if step != 1:
            return f"{name}_step({pointer}, {step}, {count})"
        if is_direct(memory):
            return f"{name}_n({pointer}, {count})" if part else f"{name}({pointer})"
        return f"{name}({pointer}, {count})"

    def store(
        self, pointer: str, value: str, count: int | str, memory: DType | None = None, pieces: bool = False
    ) -> str:
        """The statement that stores the first ``count`` lanes to neighbours; nothing else is touched.

        In ``pieces``, it does not hold up a load of what lies behind them (`Capability.MASKED_STORES`).
        """
        memory = memory or self.dtype
        name = f"mcc_vstore{self.suffix(memory)}"
        if is_direct(memory) and count == self.lanes:
            return f"{name}({pointer}, {value});"
        if not is_direct(memory):
            return f"{name}({pointer}, {value}, {count});"
        return f"{name}{'_pieces' if pieces else '_n'}({pointer}, {value}, {count});"

    def converted(self, value: str, target: DType) -> str:
        """C for these lanes as lanes of another type; ``value`` may stand next to any operator."""
        if not converts(self.dtype, target):
            raise InternalError(f"no vectors of {target} from vectors of {self.dtype}")
        return _CONVERSIONS[self.dtype, target].format(value, t=V(target, self.lanes, self.bits).c)

    def rounded(self, value: str, target: DType, zero: int, known: bool = False) -> str:
        """C for these floats as the nearest integers of 8 or 16 bits, ties to even, ``zero`` added and saturated.
        ``known``: they are numbers for sure."""
        return f"mcc_v{'near' if known else 'round'}_{target}({value}, {zero})"

    def rounded_by(self, value: str, target: DType, zero: str) -> str:
        """`rounded` with lanes of ``zero`` added."""
        return f"mcc_vround_by_{target}({value}, {zero})"

    def quotient(self, value: str, by: str, target: DType, zero: str) -> str:
        """`rounded_by` of a quotient: fast where all lanes are divided ``by`` the same."""
        return f"mcc_vquotient_{target}({value}, {by}, {zero})"

    def saturated(self, pointer: str, value: str, zero: int, count: int | str, target: DType) -> str:
        """The statement that stores the first ``count`` of these floats, which are numbers, as the nearest integers
        of 8 or 16 bits, ties to even, ``zero`` added and saturated."""
        whole = f"mcc_vwhole({value})" + (f" + {zero}" if zero > 0 else f" - {-zero}" if zero else "")
        return f"mcc_vstore_sat_{target}({pointer}, {whole}, {count});"

    def whole(self, value: str) -> str:
        """C for these floats, which are numbers below 2^31, as the nearest whole ones, ties to even."""
        return f"mcc_vwhole({value})"

    def packed(self, values: Sequence[str], zero: int, target: DType) -> str:
        """C for four vectors of numbers as bytes one behind the other, ``zero`` added and saturated."""
        return f"mcc_vpack_{target}({', '.join(values)}, {zero})"

    def woven(self, values: Sequence[str], zero: int, target: DType) -> str:
        """C for two or four vectors of numbers, whose lanes are woven, as bytes in order, ``zero`` added and
        saturated."""
        return f"mcc_vweave{len(values)}_{target}({', '.join(values)}, {zero})"

    def store_woven(self, pointer: str, bytes_: str, count: int) -> str:
        """The statement that stores all bytes of so many woven vectors."""
        return f"mcc_vstore_woven{count}({pointer}, {bytes_});"

    def store_bytes(self, pointer: str, bytes_: str, first: int, count: int) -> str:
        """The statement that stores bytes of a vector, from ``first`` on: all, or up to half."""
        return f"mcc_vstore_bytes({pointer}, {bytes_}, {first}, {count});"

    def clamped(self, value: str, low: int, high: int) -> str:
        """C for these floats, which are numbers, as the nearest whole ones from ``low`` to ``high``, as floats."""
        return f"mcc_vsteps({value}, {low}.0f, {high}.0f)"

    def looked_up(self, value: str, table: str, target: DType) -> str:
        """C for the elements of a table that these bytes have the numbers of."""
        return f"mcc_vlookup_{target}({table}, {value})"

    def applied(self, form: str, *values: str) -> str:
        """A vector form of a scalar function over lanes of this type; see `ir/scalar.py`."""
        wide = V(self.lane, self.lanes, self.bits)
        return form.format(*values, t=self.c, u=self.unsigned, s=wide.suffix())
