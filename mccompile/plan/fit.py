"""Plans that try harder where memory is short: a longer search, and kernels that take less of the arena."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mccompile.ir.errors import CompileError
from mccompile.ir.program import Program
from mccompile.lower.lower import Lowered
from mccompile.plan.plan import plan
from mccompile.plan.regions import Memory, Work

LONGER = "a longer search of the planner"
LEANER = "kernels without halos"
STRIPS = "convolutions in strips of rows"


@dataclass(frozen=True)
class Room:
    """What a plan has to respect: memories by name, or a limit of the one arena in bytes, or neither.

    ``effort`` is how long the planner searches before anything is found too large; see `plan`.
    """

    keep_inputs: bool = False
    memory: Memory = ()
    ram: int | None = None
    effort: int = 1


@dataclass(frozen=True)
class Fitted:
    """The kernels and the plan that were kept, and what was done so that they fit, if anything was."""

    lowered: Lowered
    program: Program
    note: str = ""


def plan_to_fit(
    first: Lowered, leaner: Callable[[], Lowered] | None, room: Room, work: Work,
    in_strips: Callable[[], Iterator[Lowered]] | None = None,
) -> Fitted:  # fmt: skip
    """The first plan that fits, or the smallest one where none does.

    Args:
        first: the kernels that are wanted.
        leaner: gives kernels that take less memory and more time; None if there are no others.
        room: what there is.
        work: see `plan`.
        in_strips: gives ever smaller forms in which large values exist as a few rows; None if there are no others.

    Raises:
        CompileError: the memories of ``room`` are too small for all of them.
    """
    best: Fitted | None = None
    failure: CompileError | None = None
    begun = ""
    for lowered, effort, what in _attempts(first, leaner, in_strips, room.effort):
        if best is not None and effort > room.effort and _hopeless(best, lowered, room):
            continue
        try:
            program = plan(lowered.module, room.keep_inputs, effort, room.memory, work)
        except CompileError as e:
            if not room.memory:
                raise
            failure, begun = e, begun or f"the arena did not fit into {_sizes(room.memory)}"
            continue
        if best is None or program.arena_bytes < best.program.arena_bytes:
            did = f"{begun}; {what} brought it to {program.arena_bytes:,} bytes" if begun else ""
            best = Fitted(lowered, program, did)
        if room.ram is None or best.program.arena_bytes <= room.ram:
            return best
        begun = begun or f"the arena took {program.arena_bytes:,} bytes, --ram has {room.ram:,}"
    if best is not None:
        return best
    assert failure is not None
    tried = [LONGER] + [LEANER] * (leaner is not None) + [STRIPS] * (in_strips is not None)
    raise CompileError(f"{failure.rule}\n  tried in vain: {', '.join(tried)}", where=failure.where, hint=failure.hint)


def _attempts(
    first: Lowered, leaner: Callable[[], Lowered] | None, in_strips: Callable[[], Iterator[Lowered]] | None,
    effort: int,
) -> Iterator[tuple[Lowered, int, str]]:  # fmt: skip
    """Kernels, effort of the planner, what that is called; the cheapest for the user first."""
    yield first, effort, ""
    yield first, effort + 1, LONGER
    if leaner is not None:
        lowered = leaner()
        yield lowered, effort, LEANER
        yield lowered, effort + 1, f"{LEANER} and {LONGER}"
    for lowered in in_strips() if in_strips is not None else ():
        yield lowered, effort, STRIPS


def _hopeless(best: Fitted, lowered: Lowered, room: Room) -> bool:
    """True if a longer search cannot help: the best plan of these kernels has met its bound, or that is too much."""
    facts = best.program.facts
    return best.lowered is lowered and (facts.peak <= facts.lower_bound or facts.lower_bound > (room.ram or 0))


def _sizes(memory: Memory) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in memory)
