"""The first candidate that fits into the memory there is, or the smallest one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mccompile._dataclass import dataclass
from mccompile.ir.errors import CompileError
from mccompile.ir.program import Program
from mccompile.plan.plan import plan
from mccompile.plan.regions import DoesNotFitError, Memory, Work
from mccompile.search.candidates import LONGER, Candidate


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
    """The candidate that was kept, its plan, and what was done so that it fits, if anything was."""

    candidate: Candidate
    program: Program
    note: str = ""


def fit(candidates: Iterable[Candidate], room: Room, work: Work, in_vain: str) -> Fitted:
    """The first plan that fits, or the smallest one where none does.

    Args:
        candidates: forms of the program, the one that is wanted first; asked for one by one as they are needed.
        room: what there is.
        work: see `plan`.
        in_vain: what the error says was tried.

    Raises:
        CompileError: the memories of ``room`` are too small for all of them.
    """
    best: Fitted | None = None
    failure: DoesNotFitError | None = None
    begun = ""
    for candidate, effort, what in _attempts(candidates, room.effort):
        if best is not None and effort > room.effort and _hopeless(best, candidate, room):
            continue
        try:
            program = plan(candidate.module, room.keep_inputs, effort, room.memory, work)
        except DoesNotFitError as e:
            failure = e if failure is None or e.beyond < failure.beyond else failure
            begun = begun or f"the arena did not fit into {_sizes(room.memory)}"
            continue
        if best is None or program.arena_bytes < best.program.arena_bytes:
            did = f"{begun}; {what} brought it to {program.arena_bytes:,} bytes" if begun else ""
            best = Fitted(candidate, program, did)
        if room.ram is None or best.program.arena_bytes <= room.ram:
            return best
        begun = begun or f"the arena took {program.arena_bytes:,} bytes, --ram has {room.ram:,}"
    if best is not None:
        return best
    assert failure is not None
    raise CompileError(f"{failure.rule}\n  {in_vain}", where=failure.where, hint=failure.hint, code=failure.code)


def _attempts(candidates: Iterable[Candidate], effort: int) -> Iterator[tuple[Candidate, int, str]]:
    """Candidates, effort of the planner, what that is called; the cheapest for the user first."""
    for candidate in candidates:
        yield candidate, effort, candidate.what
        if candidate.search_longer:
            yield candidate, effort + 1, f"{candidate.what} and {LONGER}" if candidate.what else LONGER


def _hopeless(best: Fitted, candidate: Candidate, room: Room) -> bool:
    """True if a longer search cannot help: the best plan of these kernels has met its bound, or that is too much."""
    facts = best.program.facts
    met = facts.peak <= facts.lower_bound or facts.lower_bound > (room.ram or 0)
    return best.candidate is candidate and met


def _sizes(memory: Memory) -> str:
    return ", ".join(f"{name} {size:,}" for name, size in memory)
