"""Extents that are known at run time only, in C: where their symbols are held, and how they are computed of these.

Worked example: n is what the caller has set, k what a kernel has counted into the arena.

>>> from mccompile.ir.dims import symbol
>>> n, k = symbol("n", 1, 9), symbol("k", 0, 4)
>>> c_number(n * 2 + k + 1, {"n": "net->dim_n", "k": "a->count.v[0]"})
'a->count.v[0] + 2 * net->dim_n + 1'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.codegen.c_extent import c_extent
from mccompile.codegen.code import extent_name
from mccompile.ir.dims import ranges, symbols
from mccompile.ir.kernel import KernelModule
from mccompile.ir.state import growth


@dataclass(frozen=True)
class GivenExtent:
    """A symbol that the caller sets: its name, its range, the field of the network's struct that holds it. One of
    state that grows begins at its least; a run makes it more ``by`` so much, in C. ``told`` if the outputs of the run
    have it, which are as large as it was then."""

    name: str
    low: int
    high: int
    step: int = 1
    choices: tuple[int, ...] = ()
    by: str = ""
    told: bool = False

    @property
    def begin(self) -> int:
        """What it is after init."""
        return self.low if self.by else self.high

    @property
    def field(self) -> str:
        return extent_name(self.name)

    @property
    def ran(self) -> str:
        """The field that holds what it was in the last run, if it is ``told``."""
        return f"ran_{self.name}"

    @property
    def wrong(self) -> str:
        """In C, what is true of an ``extent`` that it may not be."""
        if self.choices:
            return " && ".join(f"(extent != {n})" for n in self.choices)
        step = f" || (extent % {self.step} != 0)" if self.step > 1 else ""
        return f"(extent < {self.low}) || (extent > {self.high}){step}"

    @property
    def range(self) -> str:
        """What it may be, for readers."""
        if self.choices:
            return f"{', '.join(map(str, self.choices[:-1]))} or {self.choices[-1]}"
        return f"{self.low} to {self.high}" + (f", multiples of {self.step}" if self.step > 1 else "")


def given_extents(module: KernelModule, counted: Mapping[str, str]) -> list[GivenExtent]:
    """The symbols of a module but those that kernels count, for which there is C already."""
    given = [GivenExtent(s.name, s.low, s.high, s.step, s.choices) for s in module.symbols() if s.name not in counted]
    places = {**counted, **{g.name: f"net->{g.field}" for g in given}}
    grown = [growth(kept.type, now.type) for kept, now in module.state.items()]
    by = {g.name: c_number(g.by, places) for g in grown if g is not None}
    outputs = (b.type.shape for b in module.role("output") if b not in module.held)
    told = {s.name for shape in outputs for s in symbols(*shape)} & by.keys()
    return [replace(g, by=by.get(g.name, ""), told=g.name in told) for g in given]


def c_number(n: int, places: Mapping[str, str]) -> str:
    """A number as C; ``places`` are expressions for symbols."""
    return c_extent(n, places.__getitem__)


def shape_text(shape: Iterable[int]) -> str:
    """Extents for readers: ``n,64``, and behind them what they may be."""
    extents = list(shape)
    varying = f", {ranges(*extents)}" if symbols(*extents) else ""
    return f"[{','.join(map(str, extents))}]{varying}"
