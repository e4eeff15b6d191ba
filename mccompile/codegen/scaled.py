"""Epilogues that scale the sums of each channel by a number of its own, and do nothing else.

    sat_i8(asr((mulhi((acc + x0), x1) + c), s))     sums begin with x0: ScaledChannels("e0", "e1", c, s)
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.ir import expr as ex
from mccompile.kernels.integers import begun_with


@dataclass(frozen=True)
class ScaledChannels:
    """The names of what channels begin with (empty: operand 2) and are scaled by, each side by side; what is added to
    products by 2^-32, and the bits that they are shifted by."""

    begin: str
    scale: str
    offset: int
    bits: int


def scaled_channels(context: KernelContext, begun: int) -> ScaledChannels | None:
    """The epilogue of a call whose sums have ``begun`` with an extra operand, or -1; None where it is another one."""
    y = context.y[0]
    body = dict(context.call.post).get(0)
    if body is None or y.dtype != body.dtype:
        return None
    match begun_with(body, begun) if begun >= 0 else body:
        case ex.Apply(fn="sat_i8" | "sat_u8", operands=(ex.Apply(fn="asr", operands=(
            ex.Apply(fn="add", operands=(
                ex.Apply(fn="mulhi", operands=(ex.Var(index=ex.ACC), ex.Var(index=scale))), ex.Num(value=offset))),
            ex.Num(value=bits))),)):  # fmt: skip
            begin = context.e[begun] if begun >= 0 else None
            within = 1 <= bits < MOST_BITS and abs(offset) < MOST_OFFSET
            if within and _by_channels(context.e[scale]) and (begin is None or _by_channels(begin)):
                return ScaledChannels("" if begin is None else begin.name, f"e{scale}", int(offset), int(bits))
    return None


MOST_BITS = 16
"""Shifts below this have functions of their own."""

MOST_OFFSET = 1 << 22
"""Offsets below this, which are added to the upper word of a sum below 2^23 by 2^31 at most, may be 256 times as
large: the functions for pairs of channels have 256 times one of the sums."""


def _by_channels(e: BoundView) -> bool:
    """Whether an extra operand has one number for each channel, side by side, and no other."""
    others = any(e.varies(a) for a in range(e.rank) if a != 1)
    return e.view.linear and not others and e.view.axis_strides()[1] == 1 and e.dtype.name == "i32"
