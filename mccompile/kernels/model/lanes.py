"""Which expressions have a form over vectors, and what they cost over vectors and one by one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence

from mccompile.ir import expr as ex
from mccompile.ir.graph import Node, Value
from mccompile.ir.scalar import FUNCTIONS
from mccompile.ir.types import BOOL, F16, F32, DType
from mccompile.ir.vector import converts, is_lane, is_narrow, kind_of
from mccompile.kernels.variant import blocked
from mccompile.targets.machine import Capability
from mccompile.targets.target import Target

_VECTOR_CYCLES: Mapping[str, Mapping[str, float]] = {"i": {"mul": 2, "div": 26, "mod": 32, "fmod": 30}, "f": {
    "div": 6, "sqrt": 10, "exp": 9, "exp2": 9, "log": 22, "log1p": 30, "erf": 18, "tanh": 18, "sigmoid": 11,
    "gate": 11, "floor": 6, "ceil": 8, "rne": 6, "sign": 4, "max": 2, "min": 2, "rounded": 4, "round_f16": 10,
    "round_bf16": 5, "sin": 24, "cos": 24, "tan": 28, "atan": 20, "asin": 16, "acos": 22, "sinh": 20, "cosh": 15,
    "asinh": 50, "acosh": 40, "atanh": 38, "pow": 110, "fmod": 50,
}}  # fmt: skip
"""By kind of operands, of a vector of 64 bytes on two units of 256 bits (Zen 4); 1 for what is not listed."""
_SCALAR_CYCLES: Mapping[str, float] = {
    "div": 4, "sqrt": 6, "exp": 20, "exp2": 8, "log": 20, "log1p": 40, "erf": 60, "tanh": 50, "sigmoid": 30,
    "pow": 60, "sin": 30, "cos": 30, "tan": 50, "atan": 30, "asin": 30, "acos": 30, "sinh": 40, "cosh": 40,
    "asinh": 50, "acosh": 50, "atanh": 50, "fmod": 20, "mod": 20, "rne": 30, "floor": 4, "ceil": 4, "sign": 4,
    "round_f16": 6, "round_bf16": 3, "rounded": 4,
}  # fmt: skip
"""Of one element; what is not listed is made into vectors by compilers."""
_QUOTIENTS = frozenset({"div", "mod", "fmod"})
_MOST_FACTORS = 4
_LOOKED_UP: Mapping[str, float] = {"avx2": 1.5, "avx512": 1.2}
"""Cycles of a lane that is looked up in a table of 256, by the instructions of a target: gathered (Zen 3: 11 of eight
lanes), or by words of the table that registers hold (Zen 4: 12 of sixteen, 20 where it is
loaded again); else `_ONE_BY_ONE`."""
_ONE_BY_ONE = 4.0
_HALF_CYCLES = 12
"""Of an f16 that becomes an f32 or the other way, over all lanes."""
_VECTOR_LOOKUP = 12.0
"""Cycles of a vector that is looked up, of 16 lanes or fewer."""
_SCALAR_LOOKUP = 1.5


@functools.lru_cache(maxsize=1024)
def vector_form(e: ex.Expr) -> ex.Expr:
    """The expression with small whole powers as products, and products with a sigmoid as quotients: what there is a
    vector form of, if there is one.

    A product of n equal factors is within n / 2 units in the last place of the power.
    """
    return ex.OfParts(_vector_form)(e)


def _vector_form(e: ex.Expr, of: Callable[[ex.Expr], ex.Expr]) -> ex.Expr:
    match e:
        case ex.Apply(fn="mul", operands=(a, ex.Apply(fn="sigmoid", operands=(x,)))) | ex.Apply(
            fn="mul", operands=(ex.Apply(fn="sigmoid", operands=(x,)), a)
        ):
            return ex.apply("gate", of(a), of(x))
        case ex.Apply(fn="pow", operands=(base, ex.Num() as n)) if _factors(n):
            return _power(of(base), _factors(n))
    return ex.with_operands(e, of)


def _factors(n: ex.Num) -> int:
    """The exponent, if a power is a product of few factors; else 0."""
    return int(n.value) if n.dtype == F32 and n.value in range(1, _MOST_FACTORS + 1) else 0


def _power(base: ex.Expr, n: int) -> ex.Expr:
    if n == 1:
        return base
    half = _power(base, n // 2)
    square = ex.apply("mul", half, half)
    return ex.apply("mul", square, base) if n % 2 else square


def no_vectors(e: ex.Expr) -> str:
    """Why an expression has no form over vectors; empty if it has one."""
    if not is_lane(e.dtype):
        return f"{e.dtype} is not vectorised"
    match e:
        case ex.Convert(dtype=dtype, operand=operand):
            known = converts(operand.dtype, dtype)
            return no_vectors(operand) or ("" if known else f"{operand.dtype} to {dtype} has no vector form")
        case ex.Apply(fn=fn, operands=operands):
            if kind_of(fn, operands[-1].dtype) not in FUNCTIONS[fn].vector:
                return f"{fn} has no vector form"
            if fn in _QUOTIENTS and not operands[1].dtype.is_float and isinstance(operands[1], ex.Num):
                return "compilers multiply where a number divides whole numbers"
            return next(filter(None, map(no_vectors, operands)), "")
        case ex.Lookup(dtype=dtype, operand=operand):
            return no_vectors(operand) if is_narrow(dtype) else f"a table of {dtype} has no vector form"
    return ""


def loaded(node: Node, operand: int) -> DType:
    """The type of the elements of an operand behind its prologue."""
    value = node.operands[operand]
    assert value is not None
    return node.pre[operand].dtype if operand in node.pre else value.dtype


def converts_halves(target: Target) -> bool:
    """Whether an instruction makes a vector of floats of as many f16, and one the other way."""
    return Capability.F16_CONVERSION in target.capabilities


def halves(target: Target) -> tuple[DType, ...]:
    """f16, as a type of elements that vectors of floats come from and go to, where a target converts them."""
    return (F16,) if converts_halves(target) else ()


def read_early(node: Node) -> list[Value]:
    """The extras that prologues read; what epilogues read and give may be of any type: elements are stored one by
    one where they have no vector form."""
    read = set().union(*map(ex.variables, node.pre.values()))
    return [v for i, v in enumerate(node.extras) if i in read]


def refusal(
    node: Node, target: Target, bodies: Iterable[ex.Expr] = (), dtypes: Sequence[DType] = (F32, BOOL),
    values: Iterable[Value | None] | None = None,
) -> str:  # fmt: skip
    """Why vectors along some axis cannot compute a node, whose ``bodies`` and prologues are applied to vectors, and
    whose operands and results, or those ``values`` of them that are read as vectors, may be of ``dtypes``."""
    if not target.lanes:
        return "the target has no vectors"
    if target.compact and target.lanes == 1:
        return "loops over single floats take code"
    every = (*node.inputs, *node.results)
    if any(v is not None and v.dtype not in dtypes for v in (every if values is None else values)):
        return f"only {', '.join(t.name for t in dtypes)} are vectorised"
    if target.lanes == 1 and any(not v.dtype.is_float and v.dtype != BOOL for v in every):
        return "integers one at a time are the plain loop"
    if reason := blocked(node):
        return reason
    return next(filter(None, map(no_vectors, (*bodies, *node.pre.values()))), "")


def vector_cycles(bodies: Iterable[ex.Expr], vector_bytes: int) -> float:
    """Cycles of expressions over one vector of so many bytes."""
    parts = _distinct(map(vector_form, bodies))
    tables = sum(isinstance(e, ex.Lookup) for e in parts)
    return _cycles(parts, vector_bytes) + tables * _VECTOR_LOOKUP


def _cycles(parts: Iterable[ex.Expr], vector_bytes: int) -> float:
    """Cycles of the functions among so many parts of expressions, over one vector."""
    applied = [e for e in parts if isinstance(e, ex.Apply)]
    one = sum(_VECTOR_CYCLES.get(e.operands[-1].dtype.kind, {}).get(e.fn, 1.0) for e in applied)
    return one * max(vector_bytes / 64, 0.5)


def lookup_pays(e: ex.Expr, byte: ex.Expr, target: Target) -> bool:
    """Whether a table of 256 is faster than the arithmetic that makes an expression of a part of it, a byte."""
    if not target.lanes or no_vectors(e):
        return False
    own = _distinct([e]) - _distinct([byte])
    tables = sum(isinstance(part, ex.Lookup) for part in own)
    arithmetic = _cycles(own, target.machine.vector_bytes)
    return arithmetic > _LOOKED_UP.get(target.isa, _ONE_BY_ONE) * target.lanes * (1 - tables)


def scalar_cycles(bodies: Iterable[ex.Expr], target: Target) -> float:
    """Cycles of expressions over one element, in a loop that compilers may turn into vectors."""
    total = 0.0
    plain = 0.0
    for e in _distinct(bodies):
        if isinstance(e, ex.Apply):
            slow = _SCALAR_CYCLES.get(e.fn, 0.0 if e.fn in FUNCTIONS and FUNCTIONS[e.fn].vector else 30.0)
            total += slow
            plain += not slow
        elif isinstance(e, ex.Lookup):
            total += _SCALAR_LOOKUP
    return total + plain * (1.0 if total or not target.lanes else 2.0 / target.lanes)


def half_cycles(values: Iterable[Value], target: Target) -> float:
    """Cycles of converting an element of each of these ``values`` that are of f16, one by one."""
    return sum(v.dtype == F16 for v in values) * _HALF_CYCLES / max(target.lanes, 1)


def _distinct(bodies: Iterable[ex.Expr]) -> set[ex.Expr]:
    """Every part of expressions once: what is used twice is computed once."""
    seen: set[ex.Expr] = set()
    queue = list(bodies)
    while queue:
        e = queue.pop()
        if e not in seen:
            seen.add(e)
            queue += e.args
    return seen
