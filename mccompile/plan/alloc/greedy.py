"""Greedy placement: blocks one after another into the first or the tightest gap, over several orders.

Worked example: with p at [0, 4), q at [10, 12) and r at [15, 20) placed, gaps of 6 bytes (4..10) and of 3 (12..15)
are free. A block of 3 bytes that is alive with all three goes to 4 by first gap, and to 12 by tightest gap.

>>> from mccompile.plan.alloc.chains import build_blocks
>>> from mccompile.plan.alloc.conflicts import build_conflicts
>>> from mccompile.plan.alloc.problem import Interval, Problem
>>> sizes = {"p": 4, "q": 2, "r": 5, "new": 3}
>>> problem = Problem(tuple(Interval(name, 0, 1, size, 1) for name, size in sizes.items()))
>>> conflicts = build_conflicts(problem, build_blocks(problem, ()))
>>> lowest_address(conflicts, [0, 10, 15, UNPLACED], 3)
4
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mccompile.plan.alloc.chains import Block
from mccompile.plan.alloc.conflicts import Conflicts

UNPLACED = -1


def first_gap(conflicts: Conflicts, order: Sequence[int]) -> list[int]:
    """Each block of `order` at the lowest address that its placed rivals leave free."""
    addresses = [UNPLACED] * len(conflicts.blocks)
    for i in order:
        addresses[i] = lowest_address(conflicts, addresses, i)
    return addresses


def lowest_address(conflicts: Conflicts, addresses: list[int], i: int, floor: int = 0) -> int:
    """The lowest aligned address of block i, at or above `floor`, that no placed rival forbids."""
    return lowest_free(_taken(conflicts, addresses, i), conflicts.blocks[i].align, floor)


def lowest_free(ranges: Sequence[tuple[int, int]], align: int, floor: int) -> int:
    """The lowest aligned address at or above `floor` in none of the open ranges, which are in order."""
    address = -(-floor // align) * align
    for low, high in ranges:
        if low >= address:
            break
        if high > address:
            address = -(-high // align) * align
    return address


def _taken(conflicts: Conflicts, addresses: list[int], i: int) -> list[tuple[int, int]]:
    """The open ranges of addresses that placed rivals forbid to block i, by their low ends."""
    ranges = [
        (base + low, base + high) for j, low, high in conflicts.rivals[i] if (base := addresses[j]) >= 0
    ]
    ranges.sort()
    return ranges


def best_gap(conflicts: Conflicts, order: Sequence[int]) -> list[int]:
    """Each block of `order` into the smallest gap that holds it, or on top if there is none."""
    addresses = [UNPLACED] * len(conflicts.blocks)
    for i in order:
        align = conflicts.blocks[i].align
        best, best_slack, address = -1, 0, 0
        for low, high in _taken(conflicts, addresses, i):
            if low >= address and (best < 0 or low - address < best_slack):
                best, best_slack = address, low - address
            if high > address:
                address = -(-high // align) * align
        addresses[i] = best if best >= 0 else address
    return addresses


def peak_of(blocks: Sequence[Block], addresses: Sequence[int]) -> int:
    """The highest byte in use plus one."""
    return max((a + b.nbytes for a, b in zip(addresses, blocks, strict=True)), default=0)


def orders(blocks: tuple[Block, ...]) -> dict[str, list[int]]:
    """Named orders of placement; ties go to the longer life, then to the earlier birth."""
    crowd = _crowding(blocks)
    keys: dict[str, Callable[[int], tuple[int, ...]]] = {
        "size": lambda i: (-blocks[i].nbytes, blocks[i].begin - blocks[i].end),
        "life": lambda i: (blocks[i].begin - blocks[i].end, -blocks[i].nbytes),
        "area": lambda i: (-blocks[i].nbytes * (blocks[i].end - blocks[i].begin), -blocks[i].nbytes),
        "crowd-size": lambda i: (-crowd[i], -blocks[i].nbytes),
        "crowd-life": lambda i: (-crowd[i], blocks[i].begin - blocks[i].end),
        "begin": lambda i: (blocks[i].begin, -blocks[i].nbytes),
        "end": lambda i: (-blocks[i].end, -blocks[i].nbytes),
    }
    indices = range(len(blocks))
    return {
        name: sorted(indices, key=lambda i, key=key: (*key(i), blocks[i].begin, i))  # type: ignore[misc]
        for name, key in keys.items()
    }


def _crowding(blocks: tuple[Block, ...]) -> list[int]:
    """For each block the most bytes alive at one moment of its life."""
    change: dict[int, int] = {}
    for block in blocks:
        change[block.begin] = change.get(block.begin, 0) + block.nbytes
        change[block.end] = change.get(block.end, 0) - block.nbytes
    times = sorted(change)
    index = {time: k for k, time in enumerate(times)}
    live, loads = 0, []
    for time in times:
        live += change[time]
        loads.append(live)
    table = _max_table(loads)
    crowd = []
    for block in blocks:
        first, last = index[block.begin], index[block.end]
        level = (last - first).bit_length() - 1
        crowd.append(max(table[level][first], table[level][last - (1 << level)]))
    return crowd


def _max_table(values: list[int]) -> list[list[int]]:
    """table[k][i] is the maximum of values[i : i + 2**k]."""
    table = [values]
    step = 1
    while 2 * step <= len(values):
        row = table[-1]
        table.append([max(row[i], row[i + step]) for i in range(len(row) - step)])
        step *= 2
    return table
