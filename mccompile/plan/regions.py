"""An arena in several memories: which buffer lies in which, by access density, and addresses in each.

Bytes of fast memory are best spent on the buffers that are accessed most often for each byte and step that they
are kept. So the hottest buffers that fit go to the first memory, the hottest of the rest to the second, and so on.

Worked example: memories tcm of 16 bytes and sram of 64. Of a (16 bytes, of which step 0 reads 32) and b (32 bytes),
alive together, a is the hotter for each byte and step and goes to tcm. c is born when a has died: it fits there
too, and b is left to sram.

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> from mccompile.plan.alloc.problem import Interval
>>> module = parse_module('''kernels @g target=generic {
...   buffer a : f32[4] arena align=16 role=input
...   buffer b : f32[4,2] arena align=16
...   buffer c : f32[4] arena align=16 role=output
...   call map.generic map {expr={neg(x0)}} (a[4,2]{1,0}) -> b[4,2]{2,1}
...   call map.generic map {expr={neg(x0)}} (b[4]{2}) -> c[4]{1}
... }''', lookup, params_of)
>>> problem = Problem((Interval("a", 0, 1, 16, 16), Interval("b", 0, 2, 32, 16), Interval("c", 1, 2, 16, 16)))
>>> index = {b: i for i, b in enumerate(module.buffers)}
>>> placed = place_regions(module, problem, index, (("tcm", 16), ("sram", 64)))
>>> {b.name: (region, placed.offsets[b]) for b, region in placed.region_of.items()}
{'a': ('tcm', 0), 'c': ('tcm', 0), 'b': ('sram', 0)}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.errors import CompileError
from mccompile.ir.kernel import Call, KernelModule
from mccompile.ir.names import first_of, own_names
from mccompile.ir.program import PlanFacts, Region
from mccompile.ir.turns import times
from mccompile.ir.views import Buffer, View
from mccompile.plan.alloc.bounds import lower_bound
from mccompile.plan.alloc.chains import choose_overwrites
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.alloc.problem import Overwrite, Plan, Problem

Memory = Sequence[tuple[str, int]]
"""Names and sizes in bytes of the memories, the fastest first."""

Work = Mapping[tuple[str, ...], int]
"""Multiply-adds by the names of the ONNX nodes that a call comes from: a kernel reads its operands so often."""

MAX_SHOWN = 6
MAX_NAME = 80


@dataclass(frozen=True)
class Placement:
    """Where each arena buffer lies, in bytes of its region."""

    regions: tuple[Region, ...]
    region_of: dict[Buffer, str]
    offsets: dict[Buffer, int]
    facts: PlanFacts


@dataclass(frozen=True)
class _Part:
    """The buffers of one memory and their plan."""

    name: str
    limit: int
    align: int
    buffers: tuple[Buffer, ...]
    plan: Plan

    @property
    def nbytes(self) -> int:
        return -(-self.plan.peak // self.align) * self.align


@dataclass(frozen=True)
class _Whole:
    """The allocator's problem of the whole arena, and the number of each buffer in it."""

    problem: Problem
    index: Mapping[Buffer, int]
    align: int

    def part(self, buffers: Sequence[Buffer]) -> Problem:
        """The problem of some of the buffers; offers that leave the set do not count."""
        new = {self.index[b]: i for i, b in enumerate(buffers)}
        return Problem(
            tuple(self.problem.intervals[i] for i in new),
            tuple(
                replace(o, src=new[o.src], dst=new[o.dst])
                for o in self.problem.overwrites
                if o.src in new and o.dst in new
            ),
            tuple(
                replace(o, src=new[o.src], dst=new[o.dst])
                for o in self.problem.nears
                if o.src in new and o.dst in new
            ),
        )

    def life(self, b: Buffer) -> tuple[int, int]:
        interval = self.problem.intervals[self.index[b]]
        return interval.begin, interval.end

    def alive(self, step: int) -> list[Buffer]:
        return [b for b in self.index if self.life(b)[0] <= step < self.life(b)[1]]

    def fullest(self) -> int:
        """The first step with the most bytes alive."""
        change: dict[int, int] = {0: 0}
        for b in self.index:
            begin, end = self.life(b)
            change[max(begin, 0)] = change.get(max(begin, 0), 0) + b.nbytes
            change[end] = change.get(end, 0) - b.nbytes
        best, at, alive = -1, 0, 0
        for t in sorted(change):
            alive += change[t]
            if alive > best:
                best, at = alive, t
        return at


def access_bytes(module: KernelModule, work: Work) -> dict[Buffer, int]:
    """How many bytes of each arena buffer the steps read and write, repeated reads of a kernel included; at the most
    where that is known at run time only."""
    total: dict[Buffer, int] = {}

    def touch(view: View, count: int) -> None:
        if view.buffer.space == "arena":
            total[view.buffer] = total.get(view.buffer, 0) + bound(turns * count) * view.dtype.nbytes

    for step in module.body.linear():
        turns = times(step)
        if not isinstance(step, Call):
            touch(step.view, step.view.count)
            continue
        own = step.kernel.startswith(f"{step.op.name}.")  # not the copy that a kernel asked for
        macs = bound(work.get(step.origins, 0)) if own else 0
        for v in step.reads:
            if v is not None:
                touch(v, max(macs, bound(v.count)))
        for v in (*step.extras, *step.results):
            touch(v, v.count)
        if step.scratch is not None:
            total[step.scratch] = total.get(step.scratch, 0) + 2 * bound(turns) * step.scratch.nbytes
    return total


def place_regions(
    module: KernelModule,
    problem: Problem,
    index: Mapping[Buffer, int],
    memory: Memory,
    work: Work | None = None,
    effort: int = 1,
) -> Placement:
    """Distribute the arena's buffers over ``memory`` and plan each part on its own.

    Args:
        problem: that of the whole arena.
        index: the number of each buffer in it.

    Raises:
        CompileError: they do not fit; says by how much, and which step and tensors are the peak.
    """
    whole = _Whole(problem, index, module.align)
    accesses = access_bytes(module, work or {})
    heat = {b: accesses.get(b, 0) / (max(b.nbytes, 1) * (hi - lo)) for b in index for lo, hi in [whole.life(b)]}
    rank = {b: i for i, b in enumerate(index)}
    crowded = frozenset(whole.alive(whole.fullest()))
    orders: tuple[Callable[[Buffer], tuple[float, ...]], ...] = (
        lambda b: (-heat[b], rank[b]),
        lambda b: (b not in crowded, -heat[b], rank[b]),  # what keeps the whole from fitting first
        lambda b: (-b.nbytes, rank[b]),
    )
    best: list[_Part] | None = None
    for key in orders:
        parts = _distribute(sorted(index, key=key), whole, memory, effort)
        if best is None or _excess(parts) < _excess(best):
            best = parts
        if not _excess(best):
            return _placement([_polished(p, whole, effort) for p in best], problem)
    assert best is not None
    raise _misfit(module, whole, best)


def _distribute(wanted: list[Buffer], whole: _Whole, memory: Memory, effort: int) -> list[_Part]:
    """The parts, filled in the order ``wanted``; the last one takes what is left, whether it fits or not."""
    parts: list[_Part] = []
    for name, limit in memory[:-1]:
        part = _fill(name, limit, wanted, whole)
        parts.append(part)
        wanted = [b for b in wanted if b not in part.buffers]
    name, limit = memory[-1]
    problem = whole.part(wanted)
    last = _Part(name, limit, whole.align, tuple(wanted), allocate(problem, 0))
    if last.nbytes > limit and last.plan.lower_bound <= limit:
        last = _Part(name, limit, whole.align, tuple(wanted), allocate(problem, effort))
    return [*parts, last]


def _fill(name: str, limit: int, wanted: list[Buffer], whole: _Whole) -> _Part:
    """The first of ``wanted`` that fit together; the last of them leave again until the plan fits, too."""
    chosen: list[Buffer] = []
    for b in wanted:
        if b.nbytes <= limit and _bound(whole.part([*chosen, b])) <= limit:
            chosen.append(b)
    while True:
        problem = whole.part(chosen)
        for effort in (0, 1):
            part = _Part(name, limit, whole.align, tuple(chosen), allocate(problem, effort))
            if part.nbytes <= limit:
                return part
        chosen.pop()


def _polished(part: _Part, whole: _Whole, effort: int) -> _Part:
    """The part with the best plan there is time for: what a memory keeps free is the application's."""
    if part.plan.peak <= part.plan.lower_bound:
        return part
    again = allocate(whole.part(part.buffers), effort)
    return replace(part, plan=again) if again.peak < part.plan.peak else part


def _bound(problem: Problem) -> int:
    return lower_bound(problem, choose_overwrites(problem))


def _excess(parts: Sequence[_Part]) -> int:
    return sum(max(p.nbytes - p.limit, 0) for p in parts)


def _placement(parts: Sequence[_Part], problem: Problem) -> Placement:
    """Memories that hold nothing are left out."""
    used = [p for p in parts if p.buffers]
    offsets = {b: at for p in used for b, at in zip(p.buffers, p.plan.offsets, strict=True)}
    taken = [
        (p.buffers[o.src].name, p.buffers[o.dst].name)
        for p in used
        for o in p.plan.used
        if isinstance(o, Overwrite)
    ]
    facts = PlanFacts(
        peak=sum(p.plan.peak for p in used),
        lower_bound=sum(p.plan.lower_bound for p in used),
        naive=sum(i.nbytes for i in problem.intervals),
        algorithm=", ".join(f"{p.name}: {p.plan.algorithm}" for p in used),
        inplace=tuple(taken),
    )
    regions = tuple(Region(p.name, p.nbytes, p.limit) for p in used)
    return Placement(regions, {b: p.name for p in used for b in p.buffers}, offsets, facts)


# -- what does not fit -------------------------------------------------------------------------------------------


class DoesNotFitError(CompileError):
    """Activations are too large for the memories; ``beyond`` is by how many bytes the last of these."""

    usual_code = "does-not-fit"

    def __init__(self, rule: str, beyond: int, *, where: str, hint: str) -> None:
        super().__init__(rule, where=where, hint=hint)
        self.beyond = beyond


def _misfit(module: KernelModule, whole: _Whole, parts: Sequence[_Part]) -> DoesNotFitError:
    """Which memory is too small by how much, and who is alive where most is."""
    full = parts[-1]
    room = sum(p.limit for p in parts)
    at = whole.fullest()
    steps = list(module.body.linear())
    step = steps[min(at, len(steps) - 1)] if steps else None
    what = f"step {at}"
    if isinstance(step, Call):
        what += f", {step.kernel} of {own_names(step.origins, MAX_NAME)}"
    alive = sorted(whole.alive(at), key=lambda b: (-b.nbytes, b.name))
    shown = first_of([f"{b.name} {b.nbytes:,}" for b in alive], MAX_SHOWN)
    sizes = ", ".join(f"{p.name} {p.limit:,}" for p in parts)
    largest = max(whole.index, key=lambda b: b.nbytes)
    alone = max(p.limit for p in parts)
    huge = f"\n  {largest.name} alone takes {largest.nbytes:,} bytes, more than any of them"
    beyond = full.nbytes - full.limit
    return DoesNotFitError(
        f"the activations do not fit in memory ({sizes}; {room:,} bytes): {full.name} would need {full.nbytes:,} "
        f"bytes, {beyond:,} more than it has\n"
        f"  peak: {what}; alive: {sum(b.nbytes for b in alive):,} bytes: {shown}"
        f"{huge if largest.nbytes > alone else ''}",
        beyond,
        where=module.name,
        hint="larger regions in --memory, a smaller or quantised model, or smaller extents (--dim, --input-shape)",
    )
