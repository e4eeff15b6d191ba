"""Which channels of an operand may be neighbours where products of two neighbours are added in 16 bits.

PMADDUBSW adds two products of u8 by i8 in 16 bits: two weights of one sign may be 128 together. Whether two channels
may be neighbours is asked of the weights that each column has for them; channels are then put in pairs, each in one.

Worked example: channel 0 and 1 may not be neighbours, as 100 + 90 is more than 128, and neither may 2 and 3. 0 and 2
may, as their signs differ in both columns, and so may 1 and 3. Where too few find a partner it is not worth it:

>>> paired(np.array([[100, 90, -100, -90], [50, -70, -100, 127]]))
((0, 2, 1, 3), 0)
>>> paired(np.array([[100, 90, 80, 127, 127], [-50, 70, 100, 127, 127]])) is None
True
"""

from __future__ import annotations

import heapq

import numpy as np

from mccompile.ir.scalar import Array

MOST = 2048
"""Channels above which no pairs are looked for: time grows with the square."""
FEWEST = 0.5
"""The part of channels that is in pairs, at least, where it is worth to look on."""


def paired(weights: Array) -> tuple[tuple[int, ...], int] | None:
    """Channels in an order in which neighbours, two by two from the first on, may be added in 16 bits, and how many
    at the end may not; ``weights`` are [columns, channels]. These are in pairs that the fewest columns refuse. None
    if fewer channels than `FEWEST` find a partner, or if there are more than `MOST`."""
    channels = weights.shape[1]
    edges = _partners(weights) if channels <= MOST else None
    if edges is None:
        return None
    partner = _matched(edges, channels)
    lone = [c for c in range(channels) if c not in partner]
    if len(partner) < FEWEST * channels:
        return None
    order = [c for a in range(channels) if (b := partner.get(a, -1)) > a for c in (a, b)]
    return (*order, *(lone[i] for i in _least_refused(weights[:, lone]))), len(lone)


def _least_refused(weights: Array) -> list[int]:
    """Channels in pairs, of which those that the fewest columns refuse are made first."""
    channels = weights.shape[1]
    first, second = np.triu_indices(channels, 1)
    count = np.zeros(first.size, np.int64)
    for row in weights:
        both = np.where(row[first] * row[second] > 0, np.abs(row[first] + row[second]), 0)
        count += both > 128
    order: list[int] = []
    taken = np.zeros(channels, bool)
    for i in np.argsort(count, kind="stable").tolist():
        if not taken[[first[i], second[i]]].any():
            taken[[first[i], second[i]]] = True
            order += [int(first[i]), int(second[i])]
    return [*order, *np.flatnonzero(~taken).tolist()]


def _partners(weights: Array) -> list[set[int]] | None:
    """For each channel those that may be its neighbour; None where there are too few."""
    channels = weights.shape[1]
    first, second = np.triu_indices(channels, 1)
    positive, negative = np.maximum(weights, 0), np.maximum(-weights, 0)
    for row in np.argsort(-np.abs(weights).sum(1), kind="stable"):  # those that refuse most come first
        up, down = positive[row], negative[row]
        stays = (up[first] + up[second] <= 128) & (down[first] + down[second] <= 128)
        first, second = first[stays], second[stays]
        if 2 * len(first) < FEWEST * channels:
            return None
    found: list[set[int]] = [set() for _ in range(channels)]
    for a, b in zip(first.tolist(), second.tolist(), strict=True):
        found[a].add(b)
        found[b].add(a)
    return found


def _matched(edges: list[set[int]], channels: int) -> dict[int, int]:
    """Partners: the channel with the fewest that are left chooses first, of those the one with the fewest again.
    Two that stay alone may part a pair of which each takes one."""
    free = [set(e) for e in edges]
    partner: dict[int, int] = {}
    queue = [(len(e), c) for c, e in enumerate(free)]
    heapq.heapify(queue)
    while queue:
        count, c = heapq.heappop(queue)
        if c in partner or count != len(free[c]) or not count:
            continue
        other = min(free[c], key=lambda o: (len(free[o]), o))
        partner[c], partner[other] = other, c
        for gone in (c, other):
            for o in free[gone]:
                free[o].discard(gone)
                heapq.heappush(queue, (len(free[o]), o))
    lone = [c for c in range(channels) if c not in partner]
    for c in lone:
        _part_a_pair(c, edges, partner, lone)
    return partner


def _part_a_pair(c: int, edges: list[set[int]], partner: dict[int, int], lone: list[int]) -> None:
    if c in partner:
        return
    for a in sorted(edges[c]):
        b = partner.get(a, -1)
        other = next((o for o in lone if o != c and o not in partner and o in edges[b]), -1) if b >= 0 else -1
        if other >= 0:
            partner.update({c: a, a: c, b: other, other: b})
            return
