"""Extents that a kernel is given as they are, whatever they are computed of: its text says less, and kernels that
compute theirs of other extents have the same one.

Worked example: a convolution halves what is left of n lines by others before it, and copies none of m that go beyond
ten. Its kernel knows lines, not n, and what it makes of them:

>>> from mccompile.ir.dims import minimum, symbol
>>> n, m = symbol("n", 16, 640), symbol("m", 1, 99)
>>> own = OwnExtents([(n + 15) // 16, ((n + 15) // 16 + 1) // 2, 4 * minimum(m, 10), 7])
>>> [own.short(k) for k in ((n + 15) // 16, (n + 31) // 32, 4 * minimum(m, 10), 7)]
[extent_0, ((extent_0+1)//2), 4*extent_1, 7]
>>> own.kept
{'extent_0': ((n+15)//16), 'extent_1': least(m;10)}

Extents of which a kernel also sees what they are computed of stay: what it decides by both would be lost.

>>> own = OwnExtents([(n + 15) // 16, n])
>>> own.short((n + 15) // 16), own.kept
(((n+15)//16), {})
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Container, Iterable
from dataclasses import fields, is_dataclass

from mccompile.codegen.c_extent import NARROW
from mccompile.ir.dims import Dim, polynomial, span, symbol, with_atoms
from mccompile.ir.dims_terms import Atom, Quotient, Symbol, apart, stepped, symbols_of


class OwnExtents:
    """The extents that stand for atoms of some numbers. They have no names that are ``taken``."""

    def __init__(self, numbers: Iterable[int], taken: Container[str] = ()) -> None:
        atoms = list(dict.fromkeys(a for n in numbers if isinstance(n, Dim) for m, _ in n.terms for a in m))
        names = (name for i in itertools.count() if (name := f"extent_{i}") not in taken)
        self.kept: dict[str, int] = {}
        self._by: dict[Atom, int] = {}
        for places in apart([(a,) for a in atoms]):
            together = [atoms[i] for i in places]
            base = min(together, key=_divisor)
            low, high = _span_of(base)
            known_better = isinstance(base, Symbol) or stepped(base) or any(s.choices for s in symbols_of(base))
            if known_better or max(-low, high) > NARROW:
                continue
            extent = _extent(name := next(names), low, high)
            found = [_made_of(a, base, extent) for a in together]
            if None not in found:
                self.kept[name] = polynomial({(base,): 1})
                self._by |= {a: n for a, n in zip(together, found, strict=True) if n is not None}

    def short(self, n: int) -> int:
        """A number by the extents that are kept."""
        if not isinstance(n, Dim) or not any(a in self._by for m, _ in n.terms for a in m):
            return n
        return with_atoms(n, lambda atom: self._by.get(atom, polynomial({(atom,): 1})))


def varies_within(value: object) -> bool:
    """Whether an extent of the run is anywhere in what a kernel is chosen with."""
    if isinstance(value, (tuple, list)):
        return any(map(varies_within, value))
    if is_dataclass(value):
        return any(varies_within(getattr(value, f.name)) for f in fields(value))
    return isinstance(value, Dim)


@functools.lru_cache(maxsize=1 << 12)
def _span_of(atom: Atom) -> tuple[int, int]:
    """The range of an atom: steps that concatenate many parts have many atoms each, most of them the same."""
    return span(polynomial({(atom,): 1}))


@functools.lru_cache(maxsize=1 << 12)
def _extent(name: str, low: int, high: int) -> int:
    return symbol(name, low, high)


def _divisor(atom: Atom) -> int:
    return 0 if isinstance(atom, Symbol) else atom.by if isinstance(atom, Quotient) else 1


def _made_of(atom: Atom, base: Atom, extent: int) -> int | None:
    """An atom by the extent that stands for another one: ``(n + 31) // 32`` is half of ``(n + 15) // 16 + 1``."""
    if atom == base:
        return extent
    if isinstance(atom, Quotient) and isinstance(base, Quotient) and atom.by % base.by == 0:
        more = atom.of - base.of
        if not isinstance(more, Dim) and more % base.by == 0:
            return (extent + more // base.by) // (atom.by // base.by)
    return None
