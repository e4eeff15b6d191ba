"""Notes on outputs of which it says little that they agree: wrong C might have given the same."""

from __future__ import annotations

from collections.abc import Sequence

from mccompile.check.reference import Expected
from mccompile.check.result import Run
from mccompile.ir.names import first_of

MOST_NAMED = 3


def unmoved(names: Sequence[str], expected: Sequence[Expected]) -> tuple[str, ...]:
    """Outputs that are the same whatever is drawn, but for what is allowed."""
    first, *others = expected
    compared = [name for name in names if others and name in first.values]
    found = [name for name in compared if all(one.compared(name, first.values[name]).ok for one in others)]
    if not found:
        return ()
    return (f"random inputs do not move {_named(found)}: what agrees says little; give real ones (--inputs)",)


def unsure(runs: Sequence[Run]) -> tuple[str, ...]:
    """Outputs of which the reference says nothing: any number would be within what it is off by itself."""
    found = list(dict.fromkeys(o.name for run in runs for o in run.comparisons if o.unsure >= 1))
    if not found:
        return ()
    why = "for small changes of weights move the reference"
    allowed = f"anything as large as the reference is allowed of {_named(found)}, {why}"
    return (f"{allowed}: what agrees says little; --per-layer compares what comes before",)


def _named(names: Sequence[str]) -> str:
    return first_of(list(map(repr, names)), MOST_NAMED)
