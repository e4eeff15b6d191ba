"""Proof that a placed program is sound, by running it on a memory that only knows which buffer each byte holds.

It shares no code with the scheduler, the lifetimes or the allocators that it judges, and uses only what a
reader of the program's text sees: steps, views, offsets.

Worked example: step 0 makes a of x, step 1 y of a. Where a lies behind x, y may take the place of x, which nobody
reads any more. Where a begins in the middle of x, step 0 would write what it may still have to read.

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.ir.program import PlanFacts
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> module = parse_module('''kernels @g target=generic {
...   buffer x : f32[4] arena align=8 role=input
...   buffer a : f32[4] arena align=8
...   buffer y : f32[4] arena align=8 role=output
...   call map.generic map {expr={neg(x0)}} (x) -> a
...   call map.generic map {expr={neg(x0)}} (a) -> y
... }''', lookup, params_of)
>>> def placed(*offsets):
...     at = dict(zip(module.buffers, offsets, strict=True))
...     return Program(module, at, arena_bytes=32, blob_bytes=0, facts=PlanFacts(32, 32, 48, "by hand"))
>>> check_program(placed(0, 16, 0))
>>> try:
...     check_program(placed(0, 8, 0))
... except InternalError as e:
...     print(e)
x at [0, 16) and a at [8, 24) overlap, both are alive at step 0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from mccompile.ir.dims import value
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Call, Condition, Fill, excluded
from mccompile.ir.program import Program
from mccompile.ir.turns import Loop, Numbered, Turns, nested
from mccompile.ir.views import MAX_ALIGN, Buffer, View, whole

_NOBODY: Final = -1
_APART: Final = 4096
"""A multiple of every alignment: where a region begins tells nothing of what is aligned in it."""
Owners = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
"""The numbers of buffers, in as few bytes as hold them all."""


def check_program(program: Program, keep_inputs: bool = False) -> None:
    """Raise InternalError, naming step and buffers, unless the program is sound.

    Verified: every address is aligned and inside of its space (its region, where the arena has several, none of
    which takes more than there is); blob entries do not overlap; every element a step reads was written by the
    buffer it is read from and by nobody since (halos and tails included, for kernels may read them); a call
    writes no byte that it reads, except through an operand offered in place, at the same element, or one that
    lies as far behind the result as the call asks for; buffers that are alive together overlap only in such a
    call; inputs hold from the start (``keep_inputs``, and those of the caller: to the end), outputs are complete at
    the end; outputs that are state are then where the next run has them as inputs.
    """
    _check_regions(program)
    _check_places(program)
    _check_sizes(program)
    _check_blob(program)
    _check_lives(program, keep_inputs)
    _check_state(program)
    for least, values in enumerate(_ends(program)):
        _Memory(program, values, bool(least)).run(keep_inputs)


def _ends(program: Program) -> list[dict[str, int]]:
    """The values of the symbols of extents for which memory is watched: all at their bounds, and all at the least.

    Of a choice, that is the largest: a step that is not of this choice would seem to read what nobody has written.
    """
    symbols = program.module.symbols()
    bounds, least = {s.name: s.high for s in symbols}, {s.name: s.high if s.choices else s.low for s in symbols}
    return [bounds, least] if least != bounds or program.module.loops() else [bounds]


def _span(program: Program, b: Buffer) -> tuple[int, int]:
    """A buffer's bytes, as if regions of the arena, and behind them the caller's buffers, lay one after the other."""
    at = program.offsets[b]
    if b.space == "caller":
        at += _base(program, b)
    elif b.region:
        at += _base(program, b.region)
    return at, at + b.nbytes


def _base(program: Program, stop: str | Buffer | None) -> int:
    """Where a region, or a buffer of the caller, begins if each lies behind the one before; None: where all end."""
    sizes: list[tuple[str | Buffer, int]] = [(r.name, r.nbytes) for r in program.regions]
    sizes = sizes or [("", program.arena_bytes)]
    sizes += [(b, b.nbytes) for b in program.module.buffers if b.space == "caller"]
    at = 0
    for memory, nbytes in sizes:
        if memory == stop:
            break
        at += -(-nbytes // _APART) * _APART
    return at


def _describe(program: Program, b: Buffer) -> str:
    at = program.offsets[b]
    return f"{b.name} at {b.region}[{at}, {at + b.nbytes})"


def _check_places(program: Program) -> None:
    for b in program.module.buffers:
        if b not in program.offsets:
            raise InternalError(f"{b.name} has no address")
        limit = _limit(program, b)
        low, high = program.offsets[b], program.offsets[b] + b.nbytes
        if low < 0 or high > limit or low % b.align or low % b.type.dtype.nbytes:
            raise InternalError(f"{_describe(program, b)} is misaligned or leaves the {b.space} of {limit} bytes")


def _check_sizes(program: Program) -> None:
    """No memory is larger than what lies in it, but for what brings its size to a multiple of some alignment."""
    ends: dict[str, int] = {}
    for b in program.module.buffers:
        if b.space != "caller":
            space = "blob" if b.space == "blob" else b.region
            ends[space] = max(ends.get(space, 0), program.offsets[b] + b.nbytes)
    sizes = {r.name: r.nbytes for r in program.regions} or {"": program.arena_bytes}
    for space, nbytes in {**sizes, "blob": program.blob_bytes}.items():
        if nbytes > ends.get(space, 0) + MAX_ALIGN:
            raise InternalError(f"{nbytes} bytes of {space or 'arena'} are {nbytes - ends.get(space, 0)} too many")


def _check_regions(program: Program) -> None:
    names = [r.name for r in program.regions]
    if len(set(names)) != len(names):
        raise InternalError("two regions share a name")
    for r in program.regions:
        if r.nbytes > r.limit:
            raise InternalError(f"region {r.name} takes {r.nbytes} bytes of {r.limit}")
    if names and sum(r.nbytes for r in program.regions) != program.arena_bytes:
        raise InternalError(f"the regions do not add up to the {program.arena_bytes} bytes of the arena")


def _limit(program: Program, b: Buffer) -> int:
    if b.space == "blob":
        return program.blob_bytes
    if b.space == "caller":
        return b.nbytes
    if not program.regions and not b.region:
        return program.arena_bytes
    sizes = [r.nbytes for r in program.regions if r.name == b.region]
    if not sizes:
        raise InternalError(f"{b.name} lies in region {b.region!r}, which the program does not have")
    return sizes[0]


def _check_blob(program: Program) -> None:
    entries = sorted((b for b in program.module.buffers if b.space == "blob"), key=lambda b: program.offsets[b])
    for b in entries:
        if b.data is not None and b.data.nbytes != b.nbytes:
            raise InternalError(f"{b.name} has {b.data.nbytes} bytes of data, not {b.nbytes}")
    for a, b in itertools.pairwise(entries):
        if _span(program, a)[1] > _span(program, b)[0]:
            raise InternalError(f"{_describe(program, a)} and {_describe(program, b)} overlap in the blob")


def _check_lives(program: Program, keep_inputs: bool) -> None:
    """Whole buffers: those alive at one step are disjoint, unless that step is an offered overwriting."""
    steps = list(program.body.linear())
    touched = [set(_touched(s)) for s in steps]
    first: dict[Buffer, int] = {b: -1 for b in program.module.buffers if b.role == "input"}
    last: dict[Buffer, int] = dict(first)
    for t, buffers in enumerate(touched):
        for b in buffers:
            first.setdefault(b, t)
            last[b] = t
    _last_through_loops(steps, first, last)
    for b in first:
        if _kept(program, b, keep_inputs):
            last[b] = len(steps)
    order = sorted(first, key=lambda b: first[b])
    ends = np.array([last[b] for b in order], np.int64)
    low, high = np.array([_span(program, b) for b in order], np.int64).reshape(-1, 2).T
    for at, b in enumerate(order):
        born = first[b]
        for k in np.flatnonzero((ends[:at] >= born) & (low[:at] < high[at]) & (low[at] < high[:at])).tolist():
            a = order[k]
            allowed = _overwrites(steps, born, b, a) or _follows(program, steps, born, b, a)
            if not (last[a] == born and allowed):
                raise InternalError(
                    f"{_describe(program, a)} and {_describe(program, b)} overlap, both are alive at step {born}"
                )


def _last_through_loops(steps: list[Call | Fill], first: dict[Buffer, int], last: dict[Buffer, int]) -> None:
    """What a turn of a loop finds as another turn, or whoever is around, has left it is alive as long as the loop."""
    ends: dict[Loop, tuple[int, int]] = {}
    for t, step in enumerate(steps):
        ends.update({loop: (ends.get(loop, (t, t))[0], t) for loop in step.loops})
    for begin, end in list(ends.values())[::-1]:
        made: set[Buffer] = set()
        for step in steps[begin : end + 1]:
            results = [step.view] if isinstance(step, Fill) else step.results
            written = {v.buffer for v in results}
            if isinstance(step, Call) and step.scratch is not None:
                written.add(step.scratch)
            for b in _touched(step):
                found = b not in made and (b not in written or _reads(step, b))
                if found or first[b] < begin or last[b] > end or b.role == "input":
                    first[b], last[b] = min(first[b], begin), max(last[b], end)
            made |= written


def _reads(step: Call | Fill, b: Buffer) -> bool:
    return isinstance(step, Call) and any(v is not None and v.buffer is b for v in step.inputs)


def _kept(program: Program, b: Buffer, keep_inputs: bool) -> bool:
    """True of what has to hold to the end: of state, what it is next."""
    kept_input = keep_inputs and b not in program.module.state.values()
    wanted = b.kept or (b.role == "input" and (kept_input or b.space == "caller"))
    return wanted and b.type.count != 0


def _check_state(program: Program) -> None:
    for kept, given in program.module.state.items():
        if (kept.region, _span(program, kept)) != (given.region, _span(program, given)):
            where = _describe(program, given)
            raise InternalError(f"{_describe(program, kept)} is not where the next run has {where}")


def _touched(step: Call | Fill) -> Iterator[Buffer]:
    views = [step.view] if isinstance(step, Fill) else [v for v in (*step.inputs, *step.results) if v is not None]
    yield from (v.buffer for v in views if v.buffer.space != "blob")
    yield from (b for b, _ in step.when)
    yield from (b for loop in step.loops for b in (loop.turn, *loop.asked) if b.space != "blob")
    yield from step.counts
    if isinstance(step, Call) and step.scratch is not None:
        yield step.scratch


def _overwrites(steps: list[Call | Fill], t: int, result: Buffer, operand: Buffer) -> bool:
    """True if step ``t`` offers to write ``result`` over ``operand``."""
    step = steps[t] if 0 <= t < len(steps) else None
    if not isinstance(step, Call) or step.results[0].buffer is not result:
        return False
    offered = [step.inputs[i] for i in step.inplace]
    return any(v is not None and v.buffer is operand for v in offered)


def _follows(program: Program, steps: list[Call | Fill], t: int, result: Buffer, operand: Buffer) -> bool:
    """True if step ``t`` offers to write ``result`` as far before ``operand`` as it lies, or farther."""
    step = steps[t] if 0 <= t < len(steps) else None
    if not isinstance(step, Call) or step.results[0].buffer is not result:
        return False
    distance = step.overlaps.get(operand)
    return distance is not None and _span(program, operand)[0] >= _span(program, result)[0] + distance


class _Memory:
    """The arena in units of as many bytes as every address and element size is a multiple of."""

    def __init__(self, program: Program, values: Mapping[str, int], least: bool) -> None:
        self.program = program
        self.values = dict(values)
        self.least = least
        self.buffers = [b for b in program.module.buffers if b.space != "blob"]
        self.number = {b: i for i, b in enumerate(self.buffers)}
        sizes = [n for b in self.buffers for n in (_span(program, b)[0], b.type.dtype.nbytes)]
        self.unit = math.gcd(*sizes) or 1
        end = _base(program, None)
        kind = np.min_scalar_type(-len(self.buffers) - 1)
        self.owners: Owners = np.full(end // self.unit + 1, _NOBODY, kind)
        self.written: dict[Buffer, list[tuple[Sequence[Condition], Owners]]] = {}

    def run(self, keep_inputs: bool) -> None:
        for b in self.buffers:
            if b.role == "input":
                (self._tensor(b) if b.room else self._all(b))[...] = self.number[b]
        self._all_of(nested(list(self.program.body.linear())))
        for b in self.buffers:
            if _kept(self.program, b, keep_inputs):
                self._expect(f"the {b.role} {b.name} after the last step", b, self._tensor(b))

    def _all_of(self, items: Sequence[Numbered | Turns]) -> None:
        for item in items:
            if isinstance(item, Turns):
                self._turns(item)
            else:
                self._step(*item)

    def _step(self, t: int, step: Call | Fill) -> None:
        step = step.at(self.values)
        if isinstance(step, Fill):
            self._fill(f"step {t}", step)
        else:
            self._call(f"step {t} ({step.kernel})", step)

    def _fill(self, where: str, step: Fill) -> None:
        """A background comes before what calls write on it, but for calls of another choice."""
        self._expect_asked(where, step)
        region, buffer = self._units(step.view), step.view.buffer
        region[...] = _NOBODY
        before = [mine for when, mine in self.written.get(buffer, ()) if not excluded(when, step.when)]
        if not step.loops and any((mine == _NOBODY).any() for mine in before):
            raise InternalError(f"{where} fills what a call has written to {buffer.name}")
        region[...] = self.number[buffer]

    def _turns(self, turns: Turns) -> None:
        """The first two turns of a loop and the last one; of those between, which do what the second does, what they
        write elsewhere in each turn."""
        loop = turns.loop
        names = [name for name, b in self.program.module.counts.items() if b is loop.turn]
        trips = self._number_of_turns(loop)
        self._all(loop.turn)[...] = self.number[loop.turn]
        by_turn = [step for _, step in turns.steps() if loop.turn in step.counts]
        results = [v for s in by_turn for v in ((s.view,) if isinstance(s, Fill) else s.results)]
        elsewhere = [v for v in results if v.varies]
        for turn in range(trips) if elsewhere or trips < 3 else (0, 1, trips - 1):
            self.values.update(dict.fromkeys(names, turn))
            for b in (loop.turn, *loop.asked):
                if b.space != "blob":
                    self._expect(f"turn {turn} asks for what is in {b.name}", b, self._all(b))
            if turn < 2 or turn == trips - 1:
                self._all_of(turns.inside)
            else:
                for view in elsewhere:
                    self._write(view.at(self.values))
        self.values.update(dict.fromkeys(names, trips))

    def _number_of_turns(self, loop: Loop) -> int:
        """As many as there may be, or where extents are watched at their least, as few."""
        return 0 if self.least and loop.decided else value(loop.trips, self.values)

    def _call(self, where: str, call: Call) -> None:
        for v in call.inputs:
            if v is not None and v.buffer.space != "blob":
                self._expect(f"{where} reads {v.buffer.name}", v.buffer, self._read(v))
        self._expect_asked(where, call)
        regions = [(r.buffer, self._units(r)) for r in call.results]
        if call.scratch is not None:
            regions.append((call.scratch, self._all(call.scratch)))
        self._check_apart(where, call, regions)
        for r in call.results:
            self._write(r)
            if not call.loops:
                self.written.setdefault(r.buffer, []).append((call.when, self._units(r)))
        if call.scratch is not None:
            self._all(call.scratch)[...] = self.number[call.scratch]

    def _expect_asked(self, where: str, step: Call | Fill) -> None:
        """What says whether and how far a step goes is there."""
        for b in (*step.counts, *(b for b, _ in step.when)):
            if b.space != "blob":
                self._expect(f"{where} asks for what is in {b.name}", b, self._all(b))

    def _check_apart(self, where: str, call: Call, written: list[tuple[Buffer, Owners]]) -> None:
        """What the call writes is disjoint from itself and from what it reads, but for offered operands."""
        for i, (b, mine) in enumerate(written):
            for other, theirs in written[:i]:
                if self._meet(b, mine, other, theirs):
                    raise InternalError(f"{where} writes {b.name} and {other.name} to the same bytes")
            for k, v in enumerate(call.inputs):
                if v is None or v.buffer.space == "blob" or not self._meet(b, mine, v.buffer, self._read(v)):
                    continue
                behind = _follows(self.program, [call], 0, b, v.buffer)
                if not (i == 0 and (behind or (k in call.inplace and self._same_elements(v, call.results[0])))):
                    raise InternalError(f"{where} writes {b.name} over {v.buffer.name}, which it still reads")

    def _meet(self, a: Buffer, mine: Owners, b: Buffer, theirs: Owners) -> bool:
        """True if two regions share a unit. Regions of buffers that are apart cannot."""
        (a_low, a_high), (b_low, b_high) = _span(self.program, a), _span(self.program, b)
        if a_high <= b_low or b_high <= a_low:
            return False
        mark = np.zeros(self.owners.size, bool)
        strided, each = np.lib.stride_tricks.as_strided, self.owners.itemsize
        for region, write in ((mine, True), (theirs, False)):
            start = (region.__array_interface__["data"][0] - self.owners.ctypes.data) // each
            shadow = strided(mark[start:], region.shape, tuple(s // each for s in region.strides))
            if write:
                shadow[...] = True
            elif shadow.any():
                return True
        return False

    def _same_elements(self, a: View, b: View) -> bool:
        """True if every coordinate has one address under both views."""
        if a.shape != b.shape or a.dtype.nbytes != b.dtype.nbytes:
            return False
        size = a.dtype.nbytes
        start = [_span(self.program, v.buffer)[0] + v.offset * size for v in (a, b)]
        steps = zip(_contributions(a), _contributions(b), strict=True)
        return start[0] == start[1] and all(np.array_equal(x, y) for x, y in steps)

    def _expect(self, what: str, b: Buffer, region: Owners) -> None:
        wrong = region != self.number[b]
        if wrong.any():
            owner = int(region[wrong][0])
            culprit = "nobody has written" if owner == _NOBODY else f"{self.buffers[owner].name} has overwritten"
            raise InternalError(f"{what}, where {culprit} {int(wrong.sum()) * self.unit} of its bytes")

    def _write(self, view: View) -> None:
        self._units(view)[...] = self.number[view.buffer]

    def _read(self, view: View) -> Owners:
        """What a kernel may read: the view, or all of the buffer if that has a halo or a tail.

        A part of a tensor has no halo: who reads one, reads nothing beside it.
        """
        of = view.buffer.type
        stored, count = (value(n, self.values) for n in (math.prod(of.stored_shape), of.count))
        padded = (bool(view.buffer.halo) and view.count == count) or stored != count
        return self._filled(view.buffer) if padded else self._units(view)

    def _tensor(self, b: Buffer) -> Owners:
        """All of a buffer, or of one whose extents are known at run time only, what is used of it."""
        return self._units(whole(b).at(self.values)) if b.type.varies else self._all(b)

    def _filled(self, b: Buffer) -> Owners:
        """All that a run has of a buffer, its halo included: elements that lie together."""
        if not b.type.varies:
            return self._all(b)
        count = math.prod(value(e, self.values) for e in b.extents)
        return self._all(b)[: count * b.type.dtype.nbytes // self.unit]

    def _all(self, b: Buffer) -> Owners:
        low, high = _span(self.program, b)
        return self.owners[low // self.unit : high // self.unit]

    def _units(self, view: View) -> Owners:
        """The units of a view's elements, as a numpy view of the memory."""
        size = view.dtype.nbytes // self.unit
        low, high = (n // self.unit for n in _span(self.program, view.buffer))
        extents = [f.extent(view.shape) for f in view.factors]
        if math.prod(extents) != view.count:
            return self.owners[low:high]  # an axis in blocks with a tail: taken as its whole buffer
        strides = [s if e > 1 else 0 for s, e in zip(view.strides, extents, strict=True)]
        extents = [e if s else min(e, 1) for s, e in zip(strides, extents, strict=True)]
        reach = [s * (e - 1) for s, e in zip(strides, extents, strict=True)]
        first = low + view.offset * size
        lowest = first + size * sum(min(r, 0) for r in reach)
        highest = first + size * sum(max(r, 0) for r in reach)
        if not view.count:
            return self.owners[:0]
        if lowest < low or highest + size > high:
            raise InternalError(f"a view leaves {_describe(self.program, view.buffer)}")
        each = self.owners.itemsize
        bytes_of = tuple(s * size * each for s in strides)
        return np.lib.stride_tricks.as_strided(self.owners[first:], (*extents, size), (*bytes_of, each))


def _contributions(view: View) -> list[np.ndarray[Any, np.dtype[np.int64]]]:
    """For each logical axis, what each coordinate adds to the element's place in the buffer."""
    out = []
    for axis, extent in enumerate(view.shape):
        at = np.arange(extent, dtype=np.int64)
        total = np.zeros(extent, np.int64)
        for f, stride in zip(view.factors, view.strides, strict=True):
            if f.axis == axis:
                total += stride * ((at // f.div) % f.mod if f.mod else at // f.div)
        out.append(total)
    return out
