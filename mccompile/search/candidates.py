"""Forms of a program, each in less memory than the one before: plain, leaner kernels, strips of rows.

A form is a graph and its kernels. They are made when they are asked for: what fits at once costs one lowering.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.files import IR
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import KernelModule
from mccompile.kernel_passes.pipeline import Improved, improve, pipeline
from mccompile.lower.cost_table import CostTable
from mccompile.lower.growth import NO_GROWTH, Budget, weight_bytes
from mccompile.lower.lower import Lowered, lower
from mccompile.passes.rows.regions import smallest
from mccompile.passes.rows.strips import streamed
from mccompile.passes.rows.turns import Gates, best_block, gates, in_blocks
from mccompile.plan.plan import plan
from mccompile.search.options import Options
from mccompile.search.state import Compilation

LONGER = "a longer search of the planner"
LEANER = "kernels without halos"
STRIPS = "convolutions in strips of rows"
BLOCKS = "recurrent cells in blocks of turns"

MOST_REGIONS = 4
"""Regions that are put in strips of rows to save memory."""
REGIONS_TRIED = 3
"""Regions that are tried for each."""
GAIN = 0.02
"""What faster kernels have to gain of the network's time, or they are not worth more memory."""
USUAL_GROWTH = 4.0
"""By what factor weights may grow at the most, where nobody says it."""
WORTH_GROWING = 0.95
"""The share of the cycles saved by that which they grow for then: the last bytes save next to nothing."""
BLOCKS_TAKE = 1.05
"""Blocks of turns may take so many times the cycles, on targets where memory is short anyway."""
SMALLER = 0.97
"""What part of the peak may be left, or it is not worth the code."""

Observer = Callable[[str, IR], None]
"""Sees the IR after each stage and pass: (stage name, IR). The IR changes afterwards: print it or forget it."""


def unobserved(stage: str, ir: IR) -> None:
    """The observer who is not interested."""


@dataclass(frozen=True)
class Candidate:
    """A graph with its kernels, and what passes made of these.

    ``what`` is how it saves memory, ``notes`` are for the user. ``search_longer``: the planner may try twice.
    """

    graph: Graph
    lowered: Lowered
    improved: Improved
    what: str = ""
    notes: tuple[str, ...] = ()
    search_longer: bool = True

    @property
    def module(self) -> KernelModule:
        return self.lowered.module

    @property
    def peak(self) -> int:
        """The planned peak as far as passes asked for it, else 0."""
        return self.improved.peak[1]


def candidates(c: Compilation, observe: Observer = unobserved) -> Iterator[Candidate]:
    """The forms of a program, that which is wanted first. ``observe`` sees how the first one becomes."""
    first = _worth_it(c, _improved(c, c.lowered or _lower(c, c.graph), c.graph, observe))
    if c.options.stream_rows == "always":
        for form in in_strips(c, first):
            first = replace(form, search_longer=True)
    at_once = first
    if not c.target.spare_memory:
        first = next(in_blocks_of_turns(c, at_once, BLOCKS_TAKE), at_once)
    yield first
    yield from in_blocks_of_turns(c, at_once, math.inf)
    if c.graph.nodes:
        leaner = _improved(c, _lower(c, c.graph, arena_first=True), c.graph)
        yield replace(leaner, what=LEANER)
    if c.options.stream_rows == "auto":
        yield from in_strips(c, first)


def _worth_it(c: Compilation, tuned: Candidate) -> Candidate:
    """The candidate whose kernels were chosen by measurements, or that of the estimates where it takes less memory
    and the network would be slower by no more than `GAIN`.

        by measurements     3,714 cycles, 32,064 bytes of arena
        by estimates        3,750 cycles,  6,144 bytes of arena      1 % slower: these are taken
    """
    costs = c.options.costs
    if c.lowered is not None or not costs.cycles:
        return tuned
    modest = _improved(c, _lower(c, c.graph, costs=replace(costs, decides=False)), c.graph)
    slower = _cycles(modest) / max(_cycles(tuned), 1.0) - 1
    more = _bytes(c, tuned) - _bytes(c, modest) if slower <= GAIN else 0
    if more <= 0:
        return tuned
    note = f"the kernels that were measured to be the fastest gain {max(slower, 0):.1%} and take {more:,} bytes more"
    return replace(modest, notes=(*modest.notes, f"{note}: those of the estimates are taken"))


def _cycles(form: Candidate) -> float:
    """Of all nodes of a form, measured where they were."""
    turns = {n.results[0].name: times for n, times in form.graph.everywhere()}
    return sum(choice.best.cycles * turns.get(name, 1) for name, choice in form.lowered.choices.items())


def _bytes(c: Compilation, form: Candidate) -> int:
    """What a form takes of RAM and flash."""
    program = plan(form.module, c.options.keep_inputs, c.options.plan_effort)
    return program.arena_bytes + sum(b.nbytes for b in program.blob())


def in_vain(c: Compilation) -> str:
    """What has been tried where no candidate fits."""
    cells = bool(_cells(c, c.graph))
    strips = c.options.stream_rows != "never"
    ways = [LONGER] + [BLOCKS] * cells + [LEANER] * bool(c.graph.nodes) + [STRIPS] * strips
    return f"tried in vain: {', '.join(ways)}"


def in_blocks_of_turns(c: Compilation, first: Candidate, worth: float) -> Iterator[Candidate]:
    """The form whose recurrent cells multiply what they read in blocks of turns, where that takes at most ``worth``
    times the cycles, if it takes less memory; see `mccompile.passes.rows.turns`."""
    graph, notes = first.graph, list(first.notes)
    for found in _cells(c, graph):
        if block := best_block(found, c.target, graph, worth):
            graph = in_blocks(graph, found, block)
            notes.append(f"{found.cell.where} in blocks of {block} of {found.turns} turns")
    if graph is not first.graph:
        graph.verify()
        made = _improved(c, _lower(c, graph), graph)
        if 0 < SMALLER * first.peak <= made.peak:
            return  # as far as a short search shows
        if _arena(c, made) < SMALLER * _arena(c, first):
            yield replace(made, what=BLOCKS, notes=tuple(notes))


def _cells(c: Compilation, graph: Graph) -> list[Gates]:
    """The cells that could be computed in blocks of turns, at the levels that do so."""
    return [] if c.options.opt_level in ("O0", "O1") else list(gates(graph))


def _arena(c: Compilation, form: Candidate) -> int:
    return plan(form.module, c.options.keep_inputs, c.options.plan_effort).arena_bytes


def in_strips(c: Compilation, first: Candidate) -> Iterator[Candidate]:
    """Forms that need less and less memory: region after region of ``first`` in strips of rows."""
    form = first
    for _ in range(MOST_REGIONS if c.options.opt_level not in ("O0", "O1") else 0):
        least = min(_one_more(c, form), key=lambda f: f.peak, default=form)
        if least.peak >= SMALLER * form.peak:
            return
        least.graph.verify()
        form = least
        yield form


def _one_more(c: Compilation, form: Candidate) -> Iterator[Candidate]:
    """Forms with one more region in strips."""
    for region, height in smallest(form.graph, REGIONS_TRIED, overlaps=not c.target.lanes):
        strips = streamed(form.graph, region.nodes, height)
        if not isinstance(strips, str):
            note = f"{region.what} in strips of {height} of {region.rows} rows"
            made = _improved(c, _lower(c, strips.graph), strips.graph)
            yield replace(made, what=STRIPS, notes=(*form.notes, note), search_longer=False)


def _lower(c: Compilation, graph: Graph, arena_first: bool = False, costs: CostTable | None = None) -> Lowered:
    o = c.options
    return lower(graph, c.target, o.kernels, arena_first, costs or o.costs, budget(o, graph), o.place)


def _improved(c: Compilation, lowered: Lowered, graph: Graph, observe: Observer = unobserved) -> Candidate:
    """A candidate from kernels, which the passes of the level change."""
    observe("lower", lowered.module)
    threads = c.options.threads
    names = pipeline(c.options.opt_level, threads)
    improved = improve(lowered.module, names, c.target, c.options.keep_inputs, observe, threads)
    return Candidate(graph, lowered, improved)


def budget(options: Options, graph: Graph) -> Budget:
    """What kernels may add to the weights of a graph to be faster, in ways that round otherwise."""
    if options.exact or options.opt_level not in ("O2", "O3"):
        return NO_GROWTH
    room = int(min(max(growth_factor(options) - 1, 0) * weight_bytes(graph), 2.0**62))
    decided = options.max_blob_growth is not None or options.precision  # what is f32 beside bf16 is so to grow
    return Budget(room, 1.0 if decided else WORTH_GROWING)


def growth_factor(options: Options) -> float:
    """By what factor weights may grow."""
    return USUAL_GROWTH if options.max_blob_growth is None else options.max_blob_growth
