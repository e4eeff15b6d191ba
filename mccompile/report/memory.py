"""What the report says of memory: where each tensor lies and how long, the peak, and what is alive then.

Worked example: x of 64 bytes is read at step 0, which makes t of 128, of which step 1 makes y of 64 over x:

    name  offset  bytes  first_step  last_step         step  arena_bytes
    x          0     64           0          0            0          192    the peak
    y          0     64           1          1            1          192
    t         64    128           0          1
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from itertools import pairwise
from typing import Any

import numpy as np

from mccompile.ir.dims import bound
from mccompile.ir.program import Program
from mccompile.ir.views import Buffer


def memory(program: Program, keep_inputs: bool = False, known: Set[str] = frozenset()) -> dict[str, Any]:
    """The report's section; ``keep_inputs``: inputs are needed to the end; ``known`` are the names of values in the
    ONNX model."""
    facts = program.facts
    used = occupied(program, keep_inputs)
    step = used.index(max(used))
    alive = [b for b, (first, last) in _lives(program, keep_inputs).items() if first <= step <= last]
    scratch = [b for b in program.arena() if b.role == "scratch"]
    return {
        "arena_bytes": program.arena_bytes,
        "peak_bytes": facts.peak,
        "lower_bound_bytes": facts.lower_bound,
        "gap_percent": round(100 * (facts.peak / facts.lower_bound - 1), 2) if facts.lower_bound else 0.0,
        "naive_bytes": facts.naive,
        "state_bytes": sum(b.nbytes for b in program.module.state),
        "scratch_bytes": max((b.nbytes for b in scratch), default=0),
        "algorithm": facts.algorithm,
        "in_place": [list(pair) for pair in facts.inplace],
        "peak_step": step,
        "used_at_peak_bytes": used[step],
        "alive_at_peak": [{"name": b.name, "bytes": b.nbytes} for b in alive if b.space == "arena"],
        "tensors": _tensors(program, keep_inputs, known),
    } | ({"regions": _regions(program)} if program.regions else {})


def _tensors(program: Program, keep_inputs: bool, known: Set[str]) -> list[dict[str, Any]]:
    """Each buffer of the arena by address: its place, its type, and the first and the last step it is needed at."""
    lives = _lives(program, keep_inputs)
    held = program.module.held
    rows = []
    for b in program.arena():
        first, last = lives.get(b, (0, 0))
        rows.append(
            {"name": b.name, "offset": program.offsets[b], "bytes": b.nbytes}
            | {"role": "state" if b in held else b.role, "onnx": b.name if b.name in known else None}
            | {"dtype": b.type.dtype.name, "shape": extents(b), "first_step": first, "last_step": last}
            | ({"region": b.region} if b.region else {})
        )
    return rows


def extents(b: Buffer) -> list[int]:
    """The logical shape of a buffer, without its halo; the largest where extents vary."""
    return [bound(e) for e in b.type.shape]


def _lives(program: Program, keep_inputs: bool) -> dict[Buffer, tuple[int, int]]:
    """First and last step of each buffer of the arena."""
    lives = program.lives()
    end = max((last for _, last in lives.values()), default=0)
    if keep_inputs:
        lives.update(dict.fromkeys(program.module.role("input"), (0, end)))
    return lives


def occupied(program: Program, keep_inputs: bool = False) -> list[int]:
    """The bytes of the arena that are taken at each step, or at the one moment of a program without steps; those that
    buffers lie over one another count once."""
    lives = _lives(program, keep_inputs)
    places = {b: _place(program, b) for b in lives if b.space == "arena"}
    # The arena in stretches that no buffer begins or ends inside of: how many buffers hold each at the moment.
    edges = sorted({edge for ends in places.values() for edge in ends})
    number = {edge: i for i, edge in enumerate(edges)}
    sizes = np.array([b[1] - a[1] if a[0] == b[0] else 0 for a, b in pairwise(edges)], np.int64)
    holders = np.zeros(sizes.size, np.int64)
    born, dead = ([list[Buffer]() for _ in range(_moments(lives) + 1)] for _ in range(2))
    for b in places:
        born[lives[b][0]].append(b)
        dead[lives[b][1] + 1].append(b)
    taken = 0
    found = []
    for begun, ended in zip(born[:-1], dead[:-1], strict=True):
        for buffers, change in ((begun, 1), (ended, -1)):
            for b in buffers:
                held = slice(*(number[edge] for edge in places[b]))
                alone = holders[held] == (0 if change > 0 else 1)
                taken += change * int(sizes[held][alone].sum())
                holders[held] += change
        found.append(taken)
    return found


def _place(program: Program, b: Buffer) -> tuple[tuple[str, int], tuple[str, int]]:
    """Where a buffer of the arena begins and ends, with its region."""
    return (b.region, program.offsets[b]), (b.region, program.offsets[b] + b.nbytes)


def _moments(lives: Mapping[Buffer, tuple[int, int]]) -> int:
    return max((last for _, last in lives.values()), default=0) + 1


def _regions(program: Program) -> list[dict[str, Any]]:
    """Each memory of the arena, fastest first: what it has, what is used, and by how many tensors."""
    return [
        {
            "name": r.name,
            "arena_bytes": r.nbytes,
            "limit_bytes": r.limit,
            "tensors": sum(b.region == r.name for b in program.arena()),
        }
        for r in program.regions
    ]
