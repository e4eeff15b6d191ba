"""The order of what waits for each other."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence

import numpy as np


def in_order(needs: Sequence[Collection[int]]) -> list[int]:
    """0, 1, 2, ... as far as each comes behind those that it ``needs``; without those that wait for each other.

    >>> in_order([{1}, {}, {0}]), in_order([{1}, {0}, {}])
    ([1, 0, 2], [2])
    """
    followers: list[list[int]] = [[] for _ in needs]
    for i, wanted in enumerate(needs):
        for j in wanted:
            followers[j].append(i)
    left = [len(wanted) for wanted in needs]
    ready = [i for i, count in enumerate(left) if not count]
    order: list[int] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(i)
        for j in followers[i]:
            left[j] -= 1
            if not left[j]:
                heapq.heappush(ready, j)
    return order


def bits(mask: int) -> list[int]:
    """The numbers of the bits of a mask, ascending.

    >>> bits(0b101)
    [0, 2]
    """
    if mask.bit_length() > LONG_MASK:
        octets = np.frombuffer(mask.to_bytes(-(-mask.bit_length() // 8), "little"), np.uint8)
        found: list[int] = np.flatnonzero(np.unpackbits(octets, bitorder="little")).tolist()
        return found
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


LONG_MASK = 512
"""Bits of a mask whose ones are not looked for one by one: each step there is as long as the mask."""
