"""Types of state: what an output has to be so that it can be an input of the next run.

Worked example: a cache of keys, [1, 4, past, 8], that grows by a row in each run. The next run's ``past`` is this
one's ``past + 1``; memory is for the most rows that there may be behind a run, 12:

>>> from mccompile.ir.dims import symbol
>>> from mccompile.ir.types import F32
>>> past = symbol("past", 0, 11)
>>> before, after = TensorType(F32, (1, 4, past, 8)), TensorType(F32, (1, 4, past + 1, 8))
>>> unlike_state(after, before), growth(after, before)
('', Growth(name='past', by=1))
>>> room(after, before)
(1, 4, 12, 8)
>>> unlike_state(after, after), [s.name for s in to_fix(after, after)]
('both are f32[1,4,past+1,8], which each run may say anew, and what is kept keeps its shape', ['past'])
"""

from __future__ import annotations

from mccompile._dataclass import dataclass
from mccompile.ir.dims import Dim, bound, span, symbols
from mccompile.ir.dims_terms import Symbol
from mccompile.ir.types import Shape, TensorType


@dataclass(frozen=True)
class Growth:
    """The symbol of an extent, and by how much it is more in the next run."""

    name: str
    by: int


def unlike_state(kept: TensorType, given: TensorType) -> str:
    """Why an output cannot be that input of the next run; empty if it can: they are of one type, or an axis grows."""
    differ = f"it is {kept}, and the input is {given}"
    if (kept.dtype, kept.layout, kept.rank) != (given.dtype, given.layout, given.rank):
        return differ
    if kept == given:
        why = f"both are {kept}, which each run may say anew, and what is kept keeps its shape"
        return why if kept.varies else ""
    apart = [a for a in range(kept.rank) if kept.shape[a] != given.shape[a]]
    if len(apart) > 1 or growth(kept, given) is None or kept.layout is not None:
        return differ
    others = [e for a, e in enumerate(kept.shape) if a not in apart]
    return f"{differ}: one axis may depend on the run, the one that grows" if symbols(*others) else ""


def to_fix(kept: TensorType, given: TensorType) -> list[Symbol]:
    """The symbols of extents that need one value for all runs, so that the output can be that input: all but those of
    the axis that grows."""
    grows = growth(kept, given)
    if kept.rank != given.rank or (kept != given and grows is None):
        return []
    pairs = zip(kept.shape, given.shape, strict=True)
    return symbols(*(e for pair in pairs for e in pair if kept == given or pair[0] == pair[1]))


def growth(kept: TensorType, given: TensorType) -> Growth | None:
    """How an extent of the input grows to that of the output; None where none does."""
    for after, before in zip(kept.shape, given.shape, strict=False):
        if after == before or not isinstance(before, Dim):
            continue
        by, own = after - before, before.terms
        name = own[0][0][0] if len(own) == 1 and len(own[0][0]) == 1 and own[0][1] == 1 else None
        if isinstance(name, Symbol) and name not in symbols(by) and span(by)[0] >= 0:
            return Growth(name.name, by)
    return None


def room(kept: TensorType, given: TensorType) -> Shape:
    """The extents of the memory for both, where they vary; empty where they do not."""
    if not kept.varies:
        return ()
    return tuple(max(bound(a), bound(b)) for a, b in zip(kept.shape, given.shape, strict=True))
