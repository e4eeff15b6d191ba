"""Scalar expressions as C: literals, calls, and locals for what is used more than once."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

from mccompile.codegen.uses import PLACES, Uses
from mccompile.ir import expr as ex
from mccompile.ir.errors import InternalError
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import BOOL, DType

_BOUNDS = {"i32": (-(2**31), "INT32_MIN"), "i64": (-(2**63), "INT64_MIN")}


def literal(value: float, dtype: DType) -> str:
    """A C constant of the compute type of ``dtype`` that has exactly this value."""
    dtype = dtype.compute
    if dtype.is_float:
        suffix = "f" if dtype.name == "f32" else ""
        if math.isnan(value):
            return "NAN" if suffix else "(double)NAN"
        if math.isinf(value):
            name = "INFINITY" if suffix else "(double)INFINITY"
            return name if value > 0 else f"-{name}"
        text = ex.num(value, dtype).text
        return (text if re.search(r"[.e]", text) else text + ".0") + suffix
    whole = int(value)
    if dtype.name in _BOUNDS and whole == _BOUNDS[dtype.name][0]:
        return _BOUNDS[dtype.name][1]
    if dtype.name in ("i32", "u32", "i64", "u64"):
        macro = {"i32": "", "u32": "UINT32_C", "i64": "INT64_C", "u64": "UINT64_C"}[dtype.name]
        return f"{macro}({whole})" if macro else str(whole)
    return f"({dtype.c}){whole}" if whole >= 0 else f"({dtype.c})({whole})"


def wrapped(text: str) -> str:
    """``text`` so that it may stand next to any operator."""
    return text if _binds_closest(text) else f"({text})"


def bare(text: str) -> str:
    """``text`` without parentheses around the whole, for where it stands alone."""
    return text[1:-1] if text.startswith("(") and _group_end(text, 0) == len(text) else text


def _binds_closest(text: str) -> bool:
    """True of a name, a number, a group in parentheses, and of calls and elements of names.

    ``x0[f(i) * 3]`` and ``mcc_relu_f32(x - (y + z))`` do, ``-x``, ``a + b``, ``(float)x`` and ``c ? a : b`` do not.
    """
    if text.startswith("("):
        return _group_end(text, 0) == len(text)  # what follows the group would make it a cast
    name = re.match(r"[\w.]+", text)
    at = name.end() if name else 0
    while 0 < at < len(text) and text[at] in "([":
        at = _group_end(text, at)
    return 0 < at == len(text)


def _group_end(text: str, start: int) -> int:
    """The place behind the group in brackets that begins at ``start``; 0 if it does not end."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([") - (text[i] in ")]")
        if depth == 0:
            return i + 1
    return 0


def conversion(text: str, source: DType, target: DType, uses: Uses) -> str:
    """C for a conversion: float to integer saturates through a helper, all else is a cast."""
    if source == target:
        return text
    if target == BOOL:
        return f"(uint8_t)({wrapped(text)} != 0)"
    if source.is_float and not target.is_float:
        return f"{uses.use(f'mcc_{source}_to_{target}')}({bare(text)})"
    return f"({target.c}){wrapped(text)}"


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
        self._done: dict[ex.Expr, str] = {}
        self._uses: Counter[ex.Expr] = Counter()

    def ctype(self, dtype: DType) -> str:
        """The C type of a local."""
        return dtype.c

    def emit(self, expr: ex.Expr) -> str:
        self._count(expr)
        return bare(self._walk(expr))

    def _count(self, e: ex.Expr) -> None:
        self._uses[e] += 1
        if self._uses[e] == 1:
            for a in e.args:
                self._count(a)

    def _walk(self, e: ex.Expr) -> str:
        if e in self._done:
            return self._done[e]
        text = self._text(e)
        simple = isinstance(e, ex.Num) or re.fullmatch(r"\w+", text)
        if self.locals and self._uses[e] > 1 and not simple:
            name = f"{self.prefix}{len(self.lines)}"
            self.lines.append(f"const {self.ctype(e.dtype)} {name} = {bare(text)};")
            text = name
        self._done[e] = text
        return text

    def _text(self, e: ex.Expr) -> str:
        match e:
            case ex.Var(index=index):
                return self.leaf(index)
            case ex.Num():
                return wrapped(self.uses.say(literal(e.value, e.dtype)))
            case ex.Convert(dtype=dtype, operand=operand):
                return wrapped(conversion(self._walk(operand), operand.dtype, dtype, self.uses))
            case ex.Lookup(operand=operand):
                return f"{self.uses.table(e.elements)}[{self._number_of(operand)}]"
            case ex.Apply(fn=fn, operands=operands):
                return self._apply(fn, operands)
        raise InternalError(f"no C for {e}")

    def _number_of(self, byte: ex.Expr) -> str:
        """What a table is indexed with: the byte as an unsigned number."""
        text = self._walk(byte)
        return bare(text) if byte.dtype.kind == "u" else f"(uint8_t){wrapped(text)}"

    def _apply(self, fn: str, operands: tuple[ex.Expr, ...]) -> str:
        row = FUNCTIONS[fn]
        typed = operands[-1].dtype
        template = row.c[typed.kind]
        call = re.fullmatch(r"\w+(\{\w\})?\w*(\{\w\})?\(.*\)", template) is not None
        args = [self._walk(a) for a in operands]
        shown = [bare(a) if call else wrapped(a) for a in args]
        unsigned = "u" + typed.c if typed.kind == "i" else typed.c
        if typed.nbytes < 4:
            unsigned = "uint32_t"  # C would promote narrower operands to int anyway
        suffix = "f" if typed.name == "f32" else ""
        form = template.format(*PLACES, t=typed.c, u=unsigned, s=typed.name, f=suffix)
        text = self.uses.say(form, *shown)
        return text if call else wrapped(text)
