"""Extents as expressions of C that do not overflow.

Worked example: symbols are of 32 bits, and n up to 100,000 has a square up to 10^10. The first factor of such a
product is widened, or the first term of such a sum: what is computed of it is of 64 bits as well. What fits into 32
bits in the end is made that again, as all that reads it expects.

>>> from mccompile.ir.dims import minimum, symbol
>>> n = symbol("n", 1, 100_000)
>>> c_extent(n * 12 + 4, str), c_extent(n * n, str)
('12 * n + 4', '(int64_t)n * n')
>>> c_extent(minimum(n * n, 7000), str)
'(int32_t)((((int64_t)n * n < 7000) ? (int64_t)n * n : 7000))'
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mccompile.ir.dims import Dim, product_reach, reach, span
from mccompile.ir.dims_terms import Atom, Least, Monomial, Quotient, Symbol, factored
from mccompile.ir.errors import CompileError

NARROW = 2**31 - 1
"""What symbols, and most of what is computed of them, are at most."""
WIDE = 2**62
"""Half of what 64 bits hold: quotients of what may be negative are made of a little more."""


class Written(NamedTuple):
    """An expression, and whether it is of 64 bits."""

    code: str
    wide: bool = False


def c_extent(n: int, name: Callable[[str], str]) -> str:
    """A number as C; ``name`` gives the expressions of symbols, which are of 32 bits. Of 64 bits if it may be larger.

    Raises CompileError for what may not fit into 64 bits on the way.
    """
    if not isinstance(n, Dim):
        return str(n)
    if reach(n) > WIDE:
        raise CompileError(f"{n} may not fit into 64 bits", hint="let the extents vary less: --dim NAME=LOW..HIGH")
    code, wide = _sum(n, name)
    return f"(int32_t)({code})" if wide and max(map(abs, span(n))) <= NARROW else code


def _sum(n: int, name: Callable[[str], str]) -> Written:
    if not isinstance(n, Dim):
        return Written(str(n), abs(n) > NARROW)
    total = sum(product_reach(m, c) for m, c in n.terms)
    out, wide = "", total > NARROW
    for at, (m, c) in enumerate(n.terms):
        product = _product(m, abs(c), name, product_reach(m, c) > NARROW or (wide and at == 0))
        out += (f" {'-' if c < 0 else '+'} " if out else "-" if c < 0 else "") + product.code
        wide = wide or product.wide
    return Written(out, wide)


def _product(product: Monomial, times: int, name: Callable[[str], str], wide: bool) -> Written:
    atoms, times = factored(product, times)
    factors = [_atom(a, name) for a in atoms]
    if times != 1 or not factors:
        factors.insert(0, _sum(times, name))
    if wide and not factors[0].wide:
        first, *rest = factors
        factors = [Written(f"(int64_t){first.code}", wide=True), *rest]
    return Written(" * ".join(f.code for f in factors), any(f.wide for f in factors))


def _atom(atom: Atom | str, name: Callable[[str], str]) -> Written:
    match atom:
        case str():
            return Written(name(atom))
        case Symbol():
            return Written(name(atom.name))
        case Quotient():
            # C rounds towards 0: of what may be below it, a quotient is (x + 4) / 2 - 2
            below = max(-(span(atom.of)[0] // atom.by), 0)
            inner, wide = _sum(atom.of + below * atom.by, name)
            over = inner if inner.isidentifier() else f"({inner})"
            found = f"({over} / {atom.by})"
            return Written(f"({found} - {below})" if below else found, wide)
        case Least():
            inner, wide = _sum(atom.left, name)
            sign = "<" if atom.sign > 0 else ">"
            chosen = f"(({inner} {sign} {atom.right}) ? {inner} : {atom.right})"
            return Written(chosen, wide or abs(atom.right) > NARROW)
