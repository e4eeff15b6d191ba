"""Few blocks that need the whole peak: what shows at once that a search would look for less in vain.

A plan of all blocks is a plan of any of them, so where the blocks of a while cannot be placed below a peak, all
cannot either. These are few, and all plans of few blocks are soon looked at.

Worked example: x of 8 bytes lives all the while; a of 4 bytes becomes b of 1, which may lie in the first byte of a,
and b becomes c of 4, whose last byte b may be. Each time 12 bytes are alive. But with both overlaps a begins where c
ends, 7 bytes beside those of x; with one of them b lies elsewhere than a or c, which takes 13. So no plan has less.

>>> from mccompile.plan.alloc.bounds import lower_bound
>>> from mccompile.plan.alloc.chains import build_blocks
>>> from mccompile.plan.alloc.conflicts import build_conflicts
>>> from mccompile.plan.alloc.problem import Interval, Near, Problem
>>> lives = {"x": (0, 4, 8), "a": (0, 2, 4), "b": (1, 3, 1), "c": (2, 4, 4)}
>>> intervals = tuple(Interval(name, begin, end, size, 1) for name, (begin, end, size) in lives.items())
>>> problem = Problem(intervals, nears=(Near(src=1, dst=2, distance=0), Near(src=2, dst=3, distance=3)))
>>> conflicts = build_conflicts(problem, build_blocks(problem, ()))
>>> lower_bound(problem, ()), is_needed(conflicts, 13), is_needed(conflicts, 14)
(12, True, False)
"""

from __future__ import annotations

from collections.abc import Iterator

from mccompile.plan.alloc.conflicts import Conflicts
from mccompile.plan.alloc.exact import every_plan

SIZES = (4, 8)
"""How many blocks are taken at the most, fewest first."""

WHILES = 12
"""How many such groups are tried of each size, those of most bytes first."""

STEPS = 20_000
"""For each group: some five milliseconds at the most."""


def is_needed(conflicts: Conflicts, peak: int) -> bool:
    """True if a few blocks show that no plan has a peak below ``peak``; else there may be none all the same."""
    tried: set[tuple[int, ...]] = set()
    for size in SIZES:
        groups = sorted(_whiles(conflicts, size), key=lambda group: -_nbytes(conflicts, group))
        for group in groups[:WHILES]:
            # Blocks side by side are a plan.
            if group in tried or _nbytes(conflicts, group) < peak:
                continue
            tried.add(group)
            found, final = every_plan(_only(conflicts, group), peak, peak - 1, STEPS)
            if final and found is None:
                return True
    return False


def _whiles(conflicts: Conflicts, size: int) -> Iterator[tuple[int, ...]]:
    """Blocks that are alive between two moments: from each moment on as long as they are ``size`` at the most."""
    blocks = conflicts.blocks
    born = sorted(range(len(blocks)), key=lambda i: blocks[i].begin)
    alive: list[int] = []
    following = 0
    for moment in sorted({b.begin for b in blocks}):
        alive = [i for i in alive if blocks[i].end > moment]
        while following < len(born) and blocks[born[following]].begin == moment:
            alive.append(born[following])
            following += 1
        if len(alive) <= size:
            yield tuple(sorted(alive + born[following : following + size - len(alive)]))


def _nbytes(conflicts: Conflicts, group: tuple[int, ...]) -> int:
    return sum(conflicts.blocks[i].nbytes for i in group)


def _only(conflicts: Conflicts, group: tuple[int, ...]) -> Conflicts:
    """The conflicts of some blocks with each other."""
    number = {i: k for k, i in enumerate(group)}
    rivals = (
        tuple((number[j], low, high) for j, low, high in conflicts.rivals[i] if j in number) for i in group
    )
    return Conflicts(tuple(conflicts.blocks[i] for i in group), tuple(rivals))
