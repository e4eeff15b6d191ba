"""What tiled products ask for before they need it: weights from far away, and the places of their results.

A product of [16, 512] by [512, 512] on a second cache of 1 MiB: its 1 MiB of weights is more than a quarter of it, so
each line of them is asked for `AHEAD` bytes early. All views together are more than half of it, and 512 steps are
enough to hide the way, so the lines of a tile's results are asked for before its sums begin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from mccompile.ir.dims import bound
from mccompile.ir.views import View
from mccompile.kernels.model.tiles import Prefetching
from mccompile.targets.machine import Machine

AHEAD = 8192
"""Bytes by which weights are asked for early: two pages, which hardware does not fetch ahead of."""
STREAM_AHEAD = {16: 3072, 8: 1024, 4: 3072}
"""The same for weights of so many bits, which few rows use up as fast as memory gives them. What is asked for holds a
place until it comes: ways from memory are left to hardware, and lines are fetched from the caches behind. Of 64 MiB,
rounded, 84 % of the bandwidth became 99 % with 8 bits, 90 % became 96 % with 4; of 20 MiB in the last cache, which
others used too, 4 bits got 80 % by 1 KiB and all of it by 3 KiB (Zen 3). One row by 32 MiB of bf16 took 0.65 of the
time that it took by `AHEAD`, by 160 MiB 0.92 (Zen 4)."""
ENOUGH_TILES = 20
"""Tiles of rows by the same weights whose work hides that the first waits for these. On 64-bit Arm a tile takes 16
turns for a page of weights, and to ask in each is half a cycle: 8 cycles of each tile, where the first one waits some
150 for what hardware does not fetch ahead of."""
ENOUGH_STEPS = 48
"""Steps of a sum that hide the way of a line from behind the second cache."""

Kind = TypeVar("Kind", bound=Prefetching)


def prefetching(tile: Kind, weights: int, steps: int, views: Sequence[View], machine: Machine) -> Kind:
    """The tile with what it asks for early, for ``weights`` elements of f32 in all, ``steps`` to a sum, and all views
    that the kernel reads and writes."""
    early = results_early(steps, views, machine)
    return replace(tile, ahead=weights_ahead(weights, machine), early_results=early)


def results_early(steps: int, views: Sequence[View], machine: Machine) -> bool:
    """Whether the lines of results are worth asking for: they are far, and sums of ``steps`` hide the way."""
    return steps >= ENOUGH_STEPS and sum(map(_nbytes, views)) > machine.l2 // 2 > 0


def weights_ahead(weights: int, machine: Machine, streamed: int = 0) -> int:
    """How early ``weights`` elements are asked for, of ``streamed`` bits each where few rows use them up; 0 where a
    quarter of the second cache holds them, or none is."""
    return STREAM_AHEAD.get(streamed, AHEAD) if 4 * weights > machine.l2 // 4 > 0 else 0


def lines_asked(lines: int, tiles: int) -> int:
    """Of ``lines`` of weights that a turn of a loop reads, how many it asks for where ``tiles`` of rows read the
    same, one after the other: its share of as many that the tiles of the next columns read; 0 of what they need not
    wait for.

    >>> [lines_asked(4, tiles) for tiles in (1, 2, 3, 8, 30)]
    [4, 2, 2, 1, 0]
    """
    return -(-lines // tiles) if tiles < ENOUGH_TILES else 0


def asked_in_time(nbytes: int, machine: Machine) -> bool:
    """Whether weights may be asked for ``nbytes`` before they are read: no later than others are, and they wait."""
    return nbytes >= AHEAD and waits(nbytes, machine)


def waits(nbytes: int, machine: Machine) -> bool:
    """Whether the second cache keeps a line until ``nbytes`` more of weights are read, beside all else that is read
    until then: a quarter of it."""
    return nbytes <= machine.l2 // 4


def _nbytes(view: View) -> int:
    """Bytes of the different elements of a view: without what is repeated."""
    if not view.linear:
        return bound(math.prod(view.shape)) * view.dtype.nbytes
    steps = zip(view.shape, view.axis_strides(), strict=True)
    return bound(math.prod(extent for extent, step in steps if step)) * view.dtype.nbytes
