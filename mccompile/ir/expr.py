"""Scalar expressions as data: typed DAGs over one element, with text, evaluation and substitution.

They are the bodies of `map` nodes and the prologues and epilogues of every other node, so that no
kernel template is written for a combination of operators. Broadcasting is in the views, never here.

Grammar (``acc`` is the value a prologue or epilogue is applied to, ``x0 x1 ...`` the other operands)::

    expr    = sum
    sum     = product {("+" | "-") product}
    product = unary {("*" | "/") unary}
    unary   = ["-"] number | "true" | "false" | "acc" | "x" int | call | "(" expr ")"
    call    = (function | dtype) "(" expr {"," expr} ")" | "lookup_" dtype "(" expr "," table ")"
    table   = '"' hex digits '"'

``lookup_u8(x0, "...")`` is the element of a table of 256 that the byte x0 (of i8 as of u8) has the number of.
A number is f32; ``i64(3)`` is a number of another type, ``f32(x0)`` a conversion. Conversions from float
to integer saturate and turn NaN into 0; integer narrowing wraps.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import numpy as np

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, UndecidedError, ranges
from mccompile.ir.errors import InternalError
from mccompile.ir.scalar import FUNCTIONS, Array
from mccompile.ir.types import BOOL, DTYPES, F32, DType, dtype_of

T = TypeVar("T")

ACC = -1
"""The index of the variable that stands for the value itself."""


@dataclass(frozen=True)
class Expr:
    """A node of an expression; ``dtype`` is the type of its value (never f16: that computes as f32)."""

    dtype: DType

    @property
    def args(self) -> tuple[Expr, ...]:
        return ()


@dataclass(frozen=True)
class Var(Expr):
    """Operand ``index``, or the value itself (`ACC`)."""

    index: int


@dataclass(frozen=True)
class Num(Expr):
    """A constant. Compared by text, so that NaN equals itself and -0.0 differs from 0.0."""

    text: str

    @property
    def value(self) -> float | int | bool:
        if self.dtype == BOOL:
            return self.text == "true"
        return float(self.text) if self.dtype.is_float else int(self.text)


@dataclass(frozen=True)
class Apply(Expr):
    """A function of `FUNCTIONS` applied to arguments."""

    fn: str
    operands: tuple[Expr, ...]

    def __hash__(self) -> int:
        made: int = self.__dict__["_hash"]
        return made

    def __post_init__(self) -> None:
        """The hash is made once, from the operands up, however deep they go: an expression is looked up in many
        tables, with all its parts each time."""
        self.__dict__["_hash"] = hash((self.dtype, self.fn, self.operands))

    @property
    def args(self) -> tuple[Expr, ...]:
        return self.operands


@dataclass(frozen=True)
class Convert(Expr):
    """A conversion to ``dtype``."""

    operand: Expr

    def __hash__(self) -> int:
        made: int = self.__dict__["_hash"]
        return made

    def __post_init__(self) -> None:
        """As that of `Apply`."""
        self.__dict__["_hash"] = hash((self.dtype, self.operand))

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.operand,)


@dataclass(frozen=True)
class Lookup(Expr):
    """An element of a table: any function of 8 bits. ``table`` holds 256 elements of ``dtype``, little-endian; the
    operand, of i8 or u8, is the number of one as its byte says: -1 as i8 has the number 255."""

    operand: Expr
    table: bytes

    @property
    def args(self) -> tuple[Expr, ...]:
        return (self.operand,)

    @property
    def elements(self) -> Array:
        return np.frombuffer(self.table, self.dtype.numpy.newbyteorder("<")).astype(self.dtype.numpy)


def var(index: int, dtype: DType) -> Var:
    return Var(dtype.compute, index)


def acc(dtype: DType) -> Var:
    return Var(dtype.compute, ACC)


def num(value: float | bool | np.generic, dtype: DType = F32) -> Num:
    """A constant of ``dtype``, rounded to it; the shortest text that reads back the same."""
    if isinstance(value, Dim):
        raise UndecidedError(f"{value} is no constant, it depends on {ranges(value)}")
    dtype = dtype.compute
    typed = np.asarray(value).astype(dtype.numpy)[()]
    if dtype == BOOL:
        return Num(dtype, "true" if typed else "false")
    if not dtype.is_float:
        return Num(dtype, str(int(typed)))
    return Num(dtype, str(typed) if np.isfinite(typed) else str(float(typed)))


class OperandTypeError(InternalError):
    """A function is asked for of element types that it does not take. Where a front end asks, the model does."""


def apply(fn: str, *operands: Expr) -> Apply:
    """``fn`` of operands. Raises OperandTypeError on a wrong arity or operand types that do not agree."""
    row = FUNCTIONS[fn]
    typed = operands[1:] if fn == "select" else operands
    if len(operands) != row.arity or len({o.dtype for o in typed}) != 1:
        raise OperandTypeError(f"{fn} cannot be applied to ({', '.join(str(o.dtype) for o in operands)})")
    if typed[0].dtype.kind not in row.c or (row.operand and typed[0].dtype.name != row.operand):
        raise OperandTypeError(f"{fn} is not defined for {typed[0].dtype}")
    return Apply(typed[-1].dtype if row.result == "same" else DTYPES[row.result], fn, tuple(operands))


def lookup(operand: Expr, elements: Array) -> Expr:
    """Element number ``operand``, of 8 bits, of 256 elements. Raises InternalError where there are others."""
    dtype = dtype_of(elements)
    if operand.dtype.name not in ("i8", "u8") or elements.shape != (256,):
        raise InternalError(f"a table of {elements.shape} cannot be read by {operand.dtype}")
    return Lookup(dtype, operand, elements.astype(elements.dtype.newbyteorder("<")).tobytes())


def convert(operand: Expr, dtype: DType) -> Expr:
    """Conversion to ``dtype``; the operand itself if it is of that type."""
    if dtype.name == "f16":
        return apply("round_f16", convert(operand, F32))
    return operand if operand.dtype == dtype else Convert(dtype, operand)


def with_operands(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The expression, its operands changed; itself if none of them is another object now, so that what is known of it
    stays beside it and look-ups find the same object.

    >>> e = apply("add", var(0, F32), num(1))
    >>> with_operands(e, lambda part: part) is e
    True
    """
    match expr:
        case Apply(fn=fn, operands=operands):
            changed = tuple(map(change, operands))
            return expr if all(map(operator.is_, changed, operands)) else apply(fn, *changed)
        case Convert(dtype=dtype, operand=operand):
            inner = change(operand)
            return expr if inner is operand and inner.dtype != dtype else convert(inner, dtype)
        case Lookup(dtype=dtype, operand=operand, table=table):
            return Lookup(dtype, change(operand), table)
    return expr


class OfParts(Generic[T]):
    """What is made of parts of an expression, of each once: it is a DAG whose shared parts a tree would repeat.
    ``make`` gets a part, and this to ask for what is made of others.

    >>> depth = OfParts[int](lambda e, of: 1 + max(map(of, e.args), default=0))
    >>> depth(apply("add", var(0, F32), apply("neg", var(0, F32))))
    3

    (A function in a function that calls itself would be garbage that only a search finds, with all that it holds.)
    """

    def __init__(self, make: Callable[[Expr, Callable[[Expr], T]], T]) -> None:
        self._make = make
        self.made: dict[Expr, T] = {}

    def __call__(self, e: Expr) -> T:
        if e not in self.made:
            self.made[e] = self._make(e, self)
        return self.made[e]


def rewritten(expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """The expression with every part for which ``replace`` knows another one replaced; shared parts stay shared."""

    def step(e: Expr, of: Callable[[Expr], Expr]) -> Expr:
        found = replace(e)
        return with_operands(e, of) if found is None else found

    return OfParts(step)(expr)


def substitute(expr: Expr, replace: Callable[[Var], Expr]) -> Expr:
    """The expression with every variable replaced."""
    return rewritten(expr, lambda e: replace(e) if isinstance(e, Var) else None)


def replaced(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with ``new`` wherever ``old``, of the same type, is a part of it."""
    return rewritten(expr, {old: new}.get)


def variables(expr: Expr) -> frozenset[int]:
    """The indices of the variables an expression reads: looked for once, and kept beside it."""
    found: frozenset[int] | None = expr.__dict__.get("_variables")
    if found is None:
        found = expr.__dict__["_variables"] = frozenset(e.index for e in distinct(expr) if isinstance(e, Var))
    return found


def distinct(expr: Expr) -> list[Expr]:
    """Every part of an expression once: it is a DAG whose shared parts a tree would repeat."""
    seen = {expr: None}
    pending = [expr]
    while pending:
        for a in pending.pop().args:
            if a not in seen:
                seen[a] = None
                pending.append(a)
    return list(seen)


def functions(expr: Expr) -> frozenset[str]:
    """The names of the functions in an expression: as `variables`, looked for once."""
    found: frozenset[str] | None = expr.__dict__.get("_functions")
    if found is None:
        found = expr.__dict__["_functions"] = frozenset(e.fn for e in distinct(expr) if isinstance(e, Apply))
    return found


def evaluate(expr: Expr, values: Callable[[int], Array], wide: bool = False) -> Array:
    """The meaning in numpy; ``values(index)`` gives the arrays. ``wide`` computes floats in float64."""

    def computed(e: Expr, of: Callable[[Expr], Array]) -> Array:
        match e:
            case Var(index=index, dtype=dtype):
                return np.asarray(values(index)).astype(dtype.evaluated(wide))
            case Num(dtype=dtype):  # 0.1 is the f32 nearest to it
                return np.asarray(e.value, dtype=dtype.numpy).astype(dtype.evaluated(wide))
            case Convert(dtype=dtype, operand=operand):
                return saturating_cast(of(operand), dtype.evaluated(wide))
            case Lookup(operand=operand):
                places = of(operand).astype(operand.dtype.numpy).view(np.uint8)
                return e.elements[places].astype(e.dtype.evaluated(wide))
            case Apply(fn=fn, operands=operands):
                found = FUNCTIONS[fn].numpy(*map(of, operands))
                return np.asarray(found).astype(e.dtype.evaluated(wide), copy=False)
        raise InternalError(f"cannot evaluate {e}")

    with np.errstate(all="ignore"):
        return OfParts(computed)(expr)


@functools.cache
def _ends(dtype: np.dtype[np.generic]) -> tuple[int, int]:
    """The least and the greatest number of a type of integers."""
    info = np.iinfo(dtype.name)
    return int(info.min), int(info.max)


def saturating_cast(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Conversion as generated C does it: float to integer saturates, NaN gives 0, integers wrap."""
    if array.dtype.kind == "f" and dtype.kind in "iu":
        least, most = _ends(dtype)
        missing = np.isnan(array)
        if missing.any():
            array = np.where(missing, array.dtype.type(0), array)
        if dtype.itemsize <= 2 and array.dtype.itemsize >= 4:  # its ends are floats of any such width
            return np.asarray(np.minimum(np.maximum(array, least), most)).astype(dtype)
        clipped = np.clip(array.astype(np.float64), float(least), float(most))
        if dtype.itemsize <= 4:
            return clipped.astype(dtype)
        # 2**63 - 1 is not a float64: values at or above the bound are set by hand.
        return np.where(clipped >= float(most), most, clipped.astype(dtype)).astype(dtype)
    return array.astype(dtype)


_INFIX = {row.infix: row.name for row in FUNCTIONS.values() if row.infix}


def text(expr: Expr, prefix: str = "x") -> str:
    """The text form; `parse` is its inverse. Variables are called ``prefix`` and their number."""
    match expr:
        case Var(index=index):
            return "acc" if index == ACC else f"{prefix}{index}"
        case Num(dtype=dtype, text=literal):
            return literal if dtype in (F32, BOOL) else f"{dtype}({literal})"
        case Convert(dtype=dtype, operand=Num(dtype=DType(name="f32"), text=literal)):
            return f"{dtype}(f32({literal}))"  # i32(1) would be a number of that type
        case Convert(dtype=dtype, operand=operand):
            return f"{dtype}({text(operand, prefix)})"
        case Lookup(dtype=dtype, operand=operand, table=table):
            return f'lookup_{dtype}({text(operand, prefix)}, "{table.hex()}")'
        case Apply(fn=fn, operands=operands):
            row = FUNCTIONS[fn]
            shown = [text(o, prefix) for o in operands]
            return f"({shown[0]} {row.infix} {shown[1]})" if row.infix else f"{fn}({', '.join(shown)})"
    raise InternalError(f"no text for {expr}")


_TOKEN = re.compile(r"""\s*(-?(?:\d+(?:\.\d*)?(?:e[+-]?\d+)?|inf|nan)(?![\w.])|[A-Za-z_]\w*|"[0-9a-f]*"|[-+*/(),])""")


class _Parser:
    def __init__(self, source: str, types: Callable[[int], DType]) -> None:
        self.source = source
        self.types = types
        self.tokens = self._lex(source)
        self.at = 0

    @staticmethod
    def _lex(source: str) -> list[str]:
        tokens: list[str] = []
        at = 0
        while at < len(source.rstrip()):
            m = _TOKEN.match(source, at)
            if not m:
                raise ValueError(f"unexpected text {source[at:]!r} in expression")
            # "a -1" is a subtraction: a sign belongs to a number only where an operand may begin.
            token = m[1]
            if token[0] == "-" and len(token) > 1 and tokens and tokens[-1] not in ("(", ",", "+", "-", "*", "/"):
                token = "-"
            tokens.append(token)
            at = m.end() - (len(m[1]) - len(token))
        return tokens

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, expected: str = "") -> str:
        token = self.peek()
        if not token or (expected and token != expected):
            raise ValueError(f"expected {expected or 'an operand'} but found {token!r} in {self.source!r}")
        self.at += 1
        return token

    def chain(self, symbols: str, operand: Callable[[], Expr]) -> Expr:
        left = operand()
        while self.peek() and self.peek() in symbols:
            symbol = self.take()
            left = apply(_INFIX[symbol], left, operand())
        return left

    def sum(self) -> Expr:
        return self.chain("+-", lambda: self.chain("*/", self.unary))

    def unary(self) -> Expr:
        token = self.take()
        if token == "(":
            inner = self.sum()
            self.take(")")
            return inner
        if token in ("true", "false"):
            return Num(BOOL, token)
        if re.match(r"-?(\d|inf$|nan$)", token):
            return Num(F32, token)
        if self.peek() == "(":
            return self.call(token)
        if token == "acc":
            return acc(self.types(ACC))
        if re.fullmatch(r"x\d+", token):
            return var(int(token[1:]), self.types(int(token[1:])))
        raise ValueError(f"unknown name {token!r} in expression {self.source!r}")

    def call(self, name: str) -> Expr:
        self.take("(")
        if name in DTYPES and re.match(r"-?(\d|inf$|nan$)", self.peek()) and self.tokens[self.at + 1] == ")":
            typed = Num(DTYPES[name], self.take())
            self.take(")")
            if not _is_number(typed):
                raise ValueError(f"{typed.text} is no number of type {name}")
            return typed
        args = [self.sum()]
        if name.startswith("lookup_") and name[7:] in DTYPES:
            return self.table(DTYPES[name[7:]], args[0])
        while self.peek() == ",":
            self.take()
            args.append(self.sum())
        self.take(")")
        if name in DTYPES:
            return Convert(DTYPES[name], args[0])
        if name not in FUNCTIONS:
            raise ValueError(f"unknown function {name!r} in expression {self.source!r}")
        return apply(name, *args)

    def table(self, dtype: DType, operand: Expr) -> Expr:
        """The rest of a lookup: its table, in quotes."""
        self.take(",")
        digits = self.take()
        self.take(")")
        if not re.fullmatch(r'"([0-9a-f]{2})*"', digits) or len(digits) != 2 + 512 * dtype.nbytes:
            raise ValueError(f"a table of {dtype} has 256 elements, as hex digits in quotes")
        if operand.dtype.name not in ("i8", "u8"):
            raise ValueError(f"a table is read by i8 or u8, not by {operand.dtype}")
        return Lookup(dtype, operand, bytes.fromhex(digits.strip('"')))


def _is_number(typed: Num) -> bool:
    """Whether the text of a constant is a number that its type has."""
    if typed.dtype == BOOL:
        return False
    try:
        value = typed.value
    except ValueError:
        return False
    if typed.dtype.is_float:
        return True
    least, most = _ends(np.dtype(typed.dtype.numpy))
    return least <= value <= most


def parse(source: str, types: Callable[[int], DType] | Sequence[DType]) -> Expr:
    """Parse the text form; ``types`` gives the type of each variable. Raises ValueError."""
    lookup = types if callable(types) else (lambda i: types[i])
    parser = _Parser(source, lookup)
    expr = parser.sum()
    if parser.peek():
        raise ValueError(f"unexpected {parser.peek()!r} after expression {source!r}")
    return expr
