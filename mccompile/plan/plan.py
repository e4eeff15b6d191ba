"""Kernel IR to program IR: order, lifetimes, in-place offers, addresses in the arena and in the blob."""

from __future__ import annotations

import math

from mccompile.ir.kernel import Call, KernelModule
from mccompile.ir.program import PlanFacts, Program
from mccompile.ir.turns import widened
from mccompile.ir.views import Buffer
from mccompile.plan.alloc.portfolio import allocate
from mccompile.plan.alloc.problem import Interval, Near, Overwrite, Problem
from mccompile.plan.check import check_program
from mccompile.plan.regions import Memory, Placement, Work, place_regions
from mccompile.plan.schedule import schedule

EMPTY_ARENA = 64
"""Bytes of an arena that nothing lies in, for a type of C has a size: a multiple of every alignment."""


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def lifetimes(module: KernelModule, keep_inputs: bool = False) -> dict[Buffer, tuple[int, int]]:
    """Half-open life of each arena buffer: inputs from before the first step, outputs and kept inputs to the end;
    state holds all the time; what lasts from turn to turn of a loop, throughout the loop."""
    steps = list(module.body.linear())
    end = len(steps) + 1  # one past the last step, which must not overwrite what the caller will read
    touched: dict[Buffer, tuple[int, int]] = {}
    for t, step in enumerate(steps):
        for b in step.buffers():
            if b.space == "arena":
                touched[b] = (touched.get(b, (t, t))[0], t)
    life = {b: (first, last + 1) for b, (first, last) in widened(steps, touched).items()}
    for b in module.buffers:
        if b.space != "arena":
            continue
        if b.role == "input":
            life[b] = (-1, end if keep_inputs else life.get(b, (0, 1))[1])
        elif b.kept:
            life[b] = (life.get(b, (0, 0))[0], end)
    life.update(dict.fromkeys(module.held, (-1, end)))
    return life


def inplace_offers(module: KernelModule, life: dict[Buffer, tuple[int, int]]) -> list[tuple[Buffer, Buffer]]:
    """(result, operand) pairs where a call may write its result over an operand that dies there.

    The operand's buffer must be read at offered positions only, be as large as the result's, and the result
    must be born in this very call.
    """
    offers = []
    for t, step in enumerate(module.body.linear()):
        if not isinstance(step, Call) or len(step.results) != 1:
            continue
        result = step.results[0].buffer
        if result not in life or life[result][0] != t:
            continue
        for i in step.inplace:
            view = step.inputs[i]
            if view is None or view.buffer.space != "arena":
                continue
            dst = view.buffer
            elsewhere = [v for k, v in enumerate(step.inputs) if k not in step.inplace and v is not None]
            only = all(v.buffer is not dst for v in elsewhere)
            same = dst.type.dtype == result.type.dtype and dst.nbytes == result.nbytes and dst is not result
            if only and same and life[dst][1] == t + 1 and life[dst][0] < t:
                offers.append((result, dst))
    return offers


def near_offers(module: KernelModule, life: dict[Buffer, tuple[int, int]]) -> list[tuple[Buffer, Buffer, int]]:
    """(operand, result, distance) where a call may write its result over what it has read of a dying operand."""
    offers = []
    for t, step in enumerate(module.body.linear()):
        if not isinstance(step, Call):
            continue
        result = step.results[0].buffer
        for operand, distance in step.overlaps.items():
            if operand not in life or result not in life:
                continue
            if life[result][0] == t and life[operand][1] == t + 1:
                step_bytes = math.gcd(operand.align, result.align)  # both addresses are multiples of it
                offers.append((operand, result, round_up(distance, step_bytes)))
    return offers


def memory_problem(module: KernelModule, life: dict[Buffer, tuple[int, int]]) -> tuple[Problem, dict[Buffer, int]]:
    """What the allocators are asked, and the number of each buffer in it: of state, the input stands for both."""
    buffers = [b for b in module.buffers if b in life and b not in module.state]
    index = {b: i for i, b in enumerate(buffers)}
    intervals = tuple(Interval(b.name, *life[b], max(b.nbytes, 1), b.align) for b in buffers)
    overwrites = tuple(Overwrite(index[src], index[dst]) for src, dst in inplace_offers(module, life))
    nears = tuple(Near(index[src], index[dst], distance) for src, dst, distance in near_offers(module, life))
    return Problem(intervals, overwrites, nears), index


def place_blob(module: KernelModule) -> tuple[dict[Buffer, int], int]:
    """Offsets of the weights in order of first use, so that they are read forward; first of all, in one piece, those
    that kernels trust."""
    used: dict[Buffer, None] = {}
    for step in module.body.linear():
        used.update(dict.fromkeys(b for b in step.buffers() if b.space == "blob"))
    trusted = module.trusted()
    offsets: dict[Buffer, int] = {}
    at = 0
    for b in sorted(used, key=lambda b: b not in trusted):
        at = round_up(at, b.align)
        offsets[b] = at
        at += b.nbytes
    return offsets, at


def place_others(module: KernelModule) -> tuple[dict[Buffer, int], int]:
    """Offsets of what is not in the arena, and the bytes of the blob; 0 for each buffer of the caller."""
    offsets, blob_bytes = place_blob(module)
    offsets.update(dict.fromkeys((b for b in module.buffers if b.space == "caller"), 0))
    return offsets, blob_bytes


def place_state(module: KernelModule, offsets: dict[Buffer, int]) -> None:
    """Outputs that are state lie where the next run has them as inputs."""
    for kept, given in module.state.items():
        offsets[kept], kept.region = offsets[given], given.region


def plan(
    module: KernelModule, keep_inputs: bool = False, effort: int = 1, memory: Memory = (), work: Work | None = None
) -> Program:
    """Order the steps and give every buffer an address; the plan is checked independently.

    Args:
        effort: as for `allocate` and `best_order`.
        memory: where the arena lies in several memories: their names and sizes, fastest first.
        work: multiply-adds of ONNX nodes, for the choice among these.

    Raises:
        CompileError: ``memory`` is too small.
    """
    module = schedule(module, keep_inputs, effort)
    life = lifetimes(module, keep_inputs)
    for b in module.buffers:
        b.region = ""
    problem, index = memory_problem(module, life)
    if memory:
        return _place(module, place_regions(module, problem, index, memory, work, effort), keep_inputs)
    intervals = problem.intervals
    result = allocate(problem, effort)
    offsets, blob_bytes = place_others(module)
    offsets.update({b: result.offsets[i] for b, i in index.items()})
    place_state(module, offsets)
    module.buffers = [b for b in module.buffers if b in offsets]
    taken = tuple(
        (intervals[a].name, intervals[b].name)
        for a, b in ((o.src, o.dst) if isinstance(o, Overwrite) else (o.dst, o.src) for o in result.used)
    )
    naive = sum(i.nbytes for i in intervals)
    facts = PlanFacts(result.peak, result.lower_bound, naive, result.algorithm, taken)
    arena = round_up(max(result.peak, 1), module.align if index else EMPTY_ARENA)
    program = Program(module, offsets, arena, blob_bytes, facts)
    program.verify()
    check_program(program, keep_inputs)
    return program


def _place(module: KernelModule, placed: Placement, keep_inputs: bool) -> Program:
    """The program of an arena in several memories."""
    for b, region in placed.region_of.items():
        b.region = region
    offsets, blob_bytes = place_others(module)
    offsets.update(placed.offsets)
    place_state(module, offsets)
    module.buffers = [b for b in module.buffers if b in offsets]
    arena = sum(r.nbytes for r in placed.regions) or EMPTY_ARENA
    program = Program(module, offsets, arena, blob_bytes, placed.facts, placed.regions)
    program.verify()
    check_program(program, keep_inputs)
    return program
