"""Scalar expressions as C: literals, calls, and locals for what is used more than once."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from mccompile.codegen.code import Bond, Code, bare, bond_of, closed, code, opened, wrapped
from mccompile.codegen.uses import PLACES, Uses
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import BOOL, DType

_WITH_ITSELF = {"eq": True, "le": True, "ge": True, "lt": False, "gt": False}
"""What comparisons of a whole number with itself give: compilers warn of them as they stand."""

_BOUNDS = {"i32": (-(2**31), "INT32_MIN"), "i64": (-(2**63), "INT64_MIN")}


def literal(value: float, dtype: DType) -> Code:
    """A C constant of the compute type of ``dtype`` that has exactly this value."""
    dtype = dtype.compute
    if dtype.is_float:
        return _real(value, dtype)
    whole = int(value)
    if dtype.name in _BOUNDS and whole == _BOUNDS[dtype.name][0]:
        return code(_BOUNDS[dtype.name][1])
    if dtype.name in ("i32", "u32", "i64", "u64"):
        macro = {"i32": "", "u32": "UINT32_C", "i64": "INT64_C", "u64": "UINT64_C"}[dtype.name]
        return closed(f"{macro}({whole})") if macro else code(str(whole))
    return opened(f"({dtype.c}){whole}" if whole >= 0 else f"({dtype.c})({whole})")


def _real(value: float, dtype: DType) -> Code:
    suffix = "f" if dtype.name == "f32" else ""
    if math.isnan(value):
        return code("NAN") if suffix else opened("(double)NAN")
    if math.isinf(value):
        name = "INFINITY" if suffix else "(double)INFINITY"
        return code(name if value > 0 else f"-{name}")
    text = ex.num(value, dtype).text
    text = (text if "." in text or "e" in text else text + ".0") + suffix
    return opened(text) if math.copysign(1, value) < 0 else closed(text)


def conversion(text: str, source: DType, target: DType, uses: Uses) -> Code:
    """C for a conversion: float to integer saturates through a helper, all else is a cast."""
    if source == target:
        return code(text)
    if target == BOOL:
        return opened(f"(uint8_t)({wrapped(text)} != 0)")
    if source.is_float and not target.is_float:
        return uses.say(f"mcc_{source}_to_{target}({{0}})", bare(text))
    return opened(f"({target.c}){wrapped(text)}")


def unread(value: str) -> str:
    """The statement that an expression does without a value, lest the names in it be left unused."""
    return f"(void){wrapped(value)}; /* the result does not depend on it */"


def instead(value: str, read: str) -> Code:
    """``read``, an expression that does without a value whose names must not be left unused."""
    return closed(f"((void){wrapped(value)}, {wrapped(read)})")


def _read_in(parts: Sequence[ex.Expr]) -> list[ex.Var]:
    """The variables in expressions."""
    return [e for part in parts for e in ex.distinct(part) if isinstance(e, ex.Var)]


def decided(fn: str, a: ex.Expr, b: ex.Expr) -> bool | None:
    """What a comparison of whole numbers gives whatever they are, by their types: compilers warn of these as well.
    None for others.

    >>> from mccompile.ir.types import I64, U8
    >>> x = ex.convert(ex.var(0, U8), I64)
    >>> decided("lt", x, ex.num(256, I64)), decided("eq", x, ex.num(-1, I64)), decided("le", x, ex.num(0, I64))
    (True, False, None)
    """
    if a.dtype.is_float:
        return None
    if a == b:
        return _WITH_ITSELF[fn]
    (low, high), (least, most) = _ends(a), _ends(b)
    if fn == "eq":
        return False if high < least or most < low else None
    if fn in ("gt", "ge"):
        (low, high), (least, most) = (least, most), (low, high)
    always, never = (high < least, low >= most) if fn in ("lt", "gt") else (high <= least, low > most)
    return True if always else False if never else None


def _ends(e: ex.Expr) -> tuple[int, int]:
    """The least and the greatest value of a whole number by its type, and by those that it was converted from."""
    if isinstance(e, ex.Num):
        return int(e.value), int(e.value)
    own = e.dtype.ends
    if not isinstance(e, ex.Convert) or e.operand.dtype.is_float:
        return own
    low, high = _ends(e.operand)
    return (low, high) if own[0] <= low and high <= own[1] else own


class Emitter:
    """Turns one expression into C. ``leaf`` gives the C of a variable's value.

    With ``locals_`` whatever is used more than once becomes a ``const`` local, declared in `lines`.
    """

    def __init__(self, leaf: Callable[[int], str], uses: Uses, prefix: str = "t", locals_: bool = True) -> None:
        self.leaf = leaf
        self.uses = uses
        self.prefix = prefix
        self.locals = locals_
        self.lines: list[str] = []
        self._done: dict[ex.Expr, Code] = {}
        self._uses: Counter[ex.Expr] = Counter()

    def ctype(self, dtype: DType) -> str:
        """The C type of a local."""
        return dtype.c

    def emit(self, expr: ex.Expr) -> Code:
        self._count(expr)
        self._read_all(expr)
        return bare(self._walk(expr))

    def _read_all(self, expr: ex.Expr) -> None:
        """Let what is read for a choice be a local, chosen or not: see `mcc_select_f32`."""
        for part in ex.distinct(expr):
            if isinstance(part, ex.Apply) and part.fn == "select":
                for read in _read_in(part.operands[1:]):
                    self._uses[read] = max(self._uses[read], 2)

    def _count(self, e: ex.Expr) -> None:
        self._uses[e] += 1
        if self._uses[e] == 1:
            for a in e.args:
                self._count(a)

    def _walk(self, e: ex.Expr) -> Code:
        if e in self._done:
            return self._done[e]
        text = self._text(e)
        simple = isinstance(e, ex.Num) or text.bond is Bond.WORD
        if self.locals and self._uses[e] > 1 and not simple:
            name = f"{self.prefix}{len(self.lines)}"
            self.lines.append(f"const {self.ctype(e.dtype)} {name} = {bare(text)};")
            text = code(name)
        self._done[e] = text
        return text

    def _text(self, e: ex.Expr) -> Code:
        match e:
            case ex.Apply(fn="sat_i8" | "sat_u8", operands=(ex.Apply(fn="asr", operands=(
                ex.Apply(fn="add", operands=(ex.Apply(fn="mulhi", operands=(a, m)), c)), n)),)):  # fmt: skip
                parts = [bare(self._walk(p)) for p in (a, m, c, n)]
                return closed(f"{self.uses.use(f'mcc_requant_{e.dtype}')}({', '.join(parts)})")
            case ex.Var(index=index):
                return code(self.leaf(index))
            case ex.Num():
                return wrapped(self.uses.say(literal(e.value, e.dtype)))
            case ex.Convert(dtype=dtype, operand=operand):
                return wrapped(conversion(self._walk(operand), operand.dtype, dtype, self.uses))
            case ex.Lookup(operand=operand):
                return closed(f"{self.uses.table(e.elements)}[{self._number_of(operand)}]")
            case ex.Apply(fn=fn, operands=operands):
                return self._apply(fn, operands)
        raise InternalError(f"no C for {e}")

    def _number_of(self, byte: ex.Expr) -> str:
        """What a table is indexed with: the byte as an unsigned number."""
        text = self._walk(byte)
        return bare(text) if byte.dtype.kind == "u" else f"(uint8_t){wrapped(text)}"

    def _apply(self, fn: str, operands: tuple[ex.Expr, ...]) -> Code:
        row = FUNCTIONS[fn]
        typed = operands[-1].dtype
        if fn == "select" and not self.locals and _read_in(operands[1:]):
            name = "u8" if typed == BOOL else typed.name
            return self.uses.say(f"mcc_select_{name}({{0}}, {{1}}, {{2}})", *(bare(self._walk(a)) for a in operands))
        known = decided(fn, *operands) if fn in _WITH_ITSELF else None
        if known is not None:
            read = operands[0] if isinstance(operands[1], ex.Num) else operands[1]
            return instead(self._walk(read), str(int(known)))
        unsigned = "u" + typed.c if typed.kind == "i" else typed.c
        if typed.nbytes < 4:
            unsigned = "uint32_t"  # C would promote narrower operands to int anyway
        suffix = "f" if typed.name == "f32" else ""
        pattern = row.c[typed.kind].format(*PLACES, t=typed.c, u=unsigned, s=typed.name, f=suffix)
        call = bond_of(pattern) == (Bond.CLOSED, False)
        args = [self._walk(a) for a in operands]
        return wrapped(self.uses.say(pattern, *[bare(a) if call else wrapped(a) for a in args]))
