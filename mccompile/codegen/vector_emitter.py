"""Expressions over vectors as C: the words of vectors, and what is rounded to integers of 8 and 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.codegen.bounds import LIMIT, magnitude
from mccompile.codegen.c_expr import Emitter, literal
from mccompile.codegen.code import Code, bare, wrapped
from mccompile.codegen.uses import PLACES, Uses
from mccompile.ir import expr as ex
from mccompile.ir.dims import Dim
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import F32, I32, DType
from mccompile.ir.vector import V, is_narrow, kind_of

Width = int | Code
"""How many lanes of a vector are meant: a number, or C for what is known at run time only, and less than all."""


@dataclass(frozen=True)
class Primitives:
    """The words of a vector, asked for as they are printed."""

    vector: V
    uses: Uses

    @property
    def c(self) -> str:
        return self.uses.use(self.vector.c)

    def set(self, element: str) -> Code:
        return self.uses.say(self.vector.set("{0}"), element)

    def load(self, pointer: str, count: Width, step: int = 1, memory: DType | None = None) -> Code:
        apart = wrapped(step) if isinstance(step, Dim) else step
        return self.uses.say(self.vector.load("{0}", count, apart, memory), pointer)

    def store(
        self, pointer: str, value: str, count: Width, memory: DType | None = None, pieces: bool = False
    ) -> str:
        return self.uses.say(self.vector.store("{0}", "{1}", count, memory, pieces), pointer, value)

    def converted(self, value: str, target: DType) -> Code:
        return self.uses.say(self.vector.converted("{0}", target), value)

    def rounded(self, value: str, target: DType, zero: int, known: bool = False) -> Code:
        return self.uses.say(self.vector.rounded("{0}", target, zero, known), value)

    def rounded_by(self, value: str, target: DType, zero: str) -> Code:
        return self.uses.say(self.vector.rounded_by("{0}", target, "{1}"), value, zero)

    def quotient(self, value: str, by: str, target: DType, zero: str) -> Code:
        return self.uses.say(self.vector.quotient("{0}", "{1}", target, "{2}"), value, by, zero)

    def saturated(self, pointer: str, value: str, zero: int, count: Width, target: DType) -> str:
        return self.uses.say(self.vector.saturated("{0}", "{1}", zero, count, target), pointer, value)

    def whole(self, value: str) -> Code:
        return self.uses.say(self.vector.whole("{0}"), value)

    def packed(self, values: Sequence[str], zero: int, target: DType) -> Code:
        return self.uses.say(self.vector.packed([f"{{{i}}}" for i in range(len(values))], zero, target), *values)

    def woven(self, values: Sequence[str], zero: int, target: DType) -> Code:
        return self.uses.say(self.vector.woven([f"{{{i}}}" for i in range(len(values))], zero, target), *values)

    def store_woven(self, pointer: str, bytes_: str, count: int) -> str:
        return self.uses.say(self.vector.store_woven("{0}", "{1}", count), pointer, bytes_)

    def store_bytes(self, pointer: str, bytes_: str, first: int, count: int) -> str:
        return self.uses.say(self.vector.store_bytes("{0}", "{1}", first, count), pointer, bytes_)

    def clamped(self, value: str, low: int, high: int) -> Code:
        return self.uses.say(self.vector.clamped("{0}", low, high), value)

    def looked_up(self, value: str, table: str, target: DType) -> Code:
        return self.uses.say(self.vector.looked_up("{0}", "{1}", target), value, table)

    def applied(self, form: str, *values: str) -> Code:
        return self.uses.say(self.vector.applied(form, *PLACES), *values)


class VectorEmitter(Emitter):
    """An expression over vectors of ``lanes`` as C; comparisons and bools are masks of the lanes."""

    def __init__(
        self,
        lanes: int,
        leaf: Callable[[int], str],
        uses: Uses,
        prefix: str = "t",
        locals_: bool = True,
        bound: Callable[[int], float] = lambda _: math.inf,
        same: Callable[[int], bool] = lambda _: False,
    ) -> None:
        """``bound`` says how large variables may be, ``same`` which of them have one value in all lanes."""
        super().__init__(leaf, uses, prefix, locals_)
        self.lanes = lanes
        self.bound = bound
        self.same = same

    def ctype(self, dtype: DType) -> str:
        return self._of(dtype).c

    def _of(self, dtype: DType) -> Primitives:
        return Primitives(V(dtype, self.lanes), self.uses)

    def _read_all(self, expr: ex.Expr) -> None:
        """Nothing: a function that chooses has read both."""

    def _text(self, e: ex.Expr) -> Code:
        match e:
            case ex.Num(dtype=dtype):
                return self._of(dtype).set(self.uses.say(literal(e.value, dtype)))
            case ex.Convert(dtype=dtype, operand=operand):
                found = rounding(e)
                if found is not None:
                    value, known = bare(self._walk(found[0])), self._is_small(found[0])
                    return self._of(F32).rounded(value, dtype, found[1], known)
                by = rounding_by(e)
                if by is not None:
                    return self._rounded_by(*by, dtype)
                steps = steps_of(e)
                if steps is not None and self._is_small(steps.value):
                    return self._of(F32).clamped(bare(self._walk(steps.value)), steps.low, steps.high)
                return wrapped(self._of(operand.dtype).converted(wrapped(self._walk(operand)), dtype))
            case ex.Lookup(dtype=dtype, operand=operand):
                table = self.uses.table(e.elements)
                return self._of(operand.dtype).looked_up(bare(self._walk(operand)), table, dtype)
        return super()._text(e)

    def _rounded_by(self, value: ex.Expr, zero: ex.Expr, dtype: DType) -> Code:
        """A float that is quantised: its quotient by a scale that is the same for all lanes, or whatever it is."""
        match value:
            case ex.Apply(fn="div", operands=(a, s)) if all(map(self.same, ex.variables(s))):
                parts = [bare(self._walk(part)) for part in (a, s, zero)]
                return self._of(F32).quotient(parts[0], parts[1], dtype, parts[2])
        return self._of(F32).rounded_by(bare(self._walk(value)), dtype, bare(self._walk(zero)))

    def _is_small(self, e: ex.Expr) -> bool:
        """Whether it is a number for sure, and no large one."""
        return magnitude(e, self.bound) < LIMIT

    def _apply(self, fn: str, operands: tuple[ex.Expr, ...]) -> Code:
        typed = operands[-1].dtype
        args = [wrapped(self._walk(a)) for a in operands]
        return wrapped(self._of(typed).applied(FUNCTIONS[fn].vector[kind_of(fn, typed)], *args))


def rounding(e: ex.Convert) -> tuple[ex.Expr, int] | None:
    """What is rounded, and the zero that is added, where a float becomes a quantised integer: i8(rne(a) + 3.0).

    The sum of floats is exact unless it is far outside of what is stored, where both saturate alike.
    """
    if not is_narrow(e.dtype):
        return None
    info = np.iinfo(e.dtype.numpy.name)
    match e.operand:
        case ex.Apply(fn="rne", operands=(x,)):
            return x, 0
        case ex.Apply(fn="add", operands=(ex.Apply(fn="rne", operands=(x,)), ex.Num() as zero)):
            return (x, int(zero.value)) if zero.value in range(info.min, info.max + 1) else None
    return None


def rounding_by(e: ex.Convert) -> tuple[ex.Expr, ex.Expr] | None:
    """The same where the zero is an expression of the integer's type: i8(rne(a) + f32(x1))."""
    if not is_narrow(e.dtype):
        return None
    match e.operand:
        case ex.Apply(fn="add", operands=(ex.Apply(fn="rne", operands=(x,)), ex.Convert(operand=zero))) if (
            zero.dtype == e.dtype
        ):
            return x, zero
    return None


@dataclass(frozen=True)
class Steps:
    """``value`` rounded to whole numbers from ``low`` to ``high``."""

    value: ex.Expr
    low: int
    high: int


def steps_of(e: ex.Convert) -> Steps | None:
    """What is quantised and dequantised but for its scale: f32((i32(i8((rne(x) + 3.0))) - i32(3)))."""
    whole, zero = e.operand, 0
    match whole:
        case ex.Apply(fn="sub", operands=(ex.Convert() as inner, ex.Num() as number)):
            whole, zero = inner, int(number.value)
    if isinstance(whole, ex.Convert) and whole.dtype == I32 and is_narrow(whole.operand.dtype):
        whole = whole.operand
    found = rounding(whole) if e.dtype == F32 and isinstance(whole, ex.Convert) else None
    if found is None or found[1] != zero:
        return None
    info = np.iinfo(whole.dtype.numpy.name)
    return Steps(found[0], int(info.min) - zero, int(info.max) - zero)
