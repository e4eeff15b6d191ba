"""Execution orders of steps: what peak each needs, and bounded searches for one that needs less.

Steps are taken in units: a fill stays right in front of the step that touches its buffer next. Sets of units
and the users of a buffer are bit masks. The peak of an order counts a result that may overwrite a dying
operand once.

Worked example: from x (8 bytes) two branches go out, x -> big (64) -> a (8) and x -> c (16), and a + c is the
result. Where c comes first, it waits beside big: 8 + 16 + 64 = 88 bytes. In the order big, a, c the most is
8 + 64 + 8 = 80, while a is made of big. As bit masks: unit 1 (a) waits for 0b0001, unit 3 (the sum) for 0b0110.

>>> x, big, a, c, result = range(5)
>>> diamond = OrderProblem(
...     steps=((0,), (1,), (2,), (3,)), waits=(0, 0b0001, 0, 0b0110), followers=((1,), (3,), (3,), ()),
...     touched=((x, big), (big, a), (x, c), (a, c, result)), nbytes=(8, 64, 8, 16, 8),
...     users=(0b0101, 0b0011, 0b1010, 0b1100, 0b1000), is_input=(True, False, False, False, False),
...     is_kept=(False, False, False, False, True), offers=((big, ()), (a, ()), (c, ()), (result, ())),
... )
>>> diamond.peak([2, 0, 1, 3]), diamond.peak([0, 1, 2, 3])
(88, 80)
"""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence, Set
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import Call, Fill, KernelModule
from mccompile.ir.order import bits
from mccompile.ir.turns import Loop
from mccompile.ir.views import Buffer
from mccompile.plan.state import first_order, with_state

Step = Call | Fill

BEAM_STATES = 8_000
"""States that one search looks at for effort 1; the beam is as wide as that allows."""

WIDEST_BEAM = 256

MOST_READY = 48
"""Ready units that a state looks at, first in file order."""

RUNS_PER_STATE = 8
"""Ready units that the states of a length may look at in the mean; wide graphs get a narrower beam."""

MOST_WAITS = 64
"""Units that one may wait for so that a bound of all orders looks at them."""


Offer = tuple[int, tuple[tuple[int, int], ...]]
"""A unit's result, and the operands it may overlap where they die: (buffer, bytes that both may use)."""


@dataclass(frozen=True)
class OrderProblem:
    """Units in file order, by number; buffers by number. `steps[u]` are the steps of unit u in order."""

    steps: tuple[tuple[int, ...], ...]
    waits: tuple[int, ...]  # units that come before
    followers: tuple[tuple[int, ...], ...]  # who waits for it; but who waits for them may be left out
    touched: tuple[tuple[int, ...], ...]  # buffers of each unit
    nbytes: tuple[int, ...]
    users: tuple[int, ...]  # units that touch a buffer
    is_input: tuple[bool, ...]
    is_kept: tuple[bool, ...]  # alive to the end
    offers: tuple[Offer, ...]  # per unit

    @property
    def first_live(self) -> int:
        """Bytes of the inputs, which are there from the start."""
        return sum(n for n, here in zip(self.nbytes, self.is_input, strict=True) if here)

    @functools.cached_property
    def _lives(self) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]], int, list[tuple[int, int]]]]:
        """Per unit, as (users, bytes): what it may be the first to touch, and the last; the users of its result, and
        the operands that this may overlap, where they die."""
        found = []
        for of, (result, operands) in zip(self.touched, self.offers, strict=True):
            born = [(self.users[b], self.nbytes[b]) for b in of if not self.is_input[b] and self.nbytes[b]]
            dying = [(self.users[b], self.nbytes[b]) for b in of if not self.is_kept[b] and self.nbytes[b]]
            shared = [(self.users[b], n) for b, n in operands if not self.is_kept[b]]
            found.append((born, dying, self.users[result], shared))
        return found

    def run(self, live: int, done: int, unit: int) -> tuple[int, int]:
        """The bytes that `unit` needs alive after `done`, and those it leaves, if `live` are there before."""
        after = done | 1 << unit
        born, dying, results, shared = self._lives[unit]
        saved = 0
        if shared and not results & done:
            for users, nbytes in shared:
                if nbytes > saved and users & after == users:
                    saved = nbytes
        for users, nbytes in born:
            if not users & done:
                live += nbytes
        need = live - saved
        for users, nbytes in dying:
            if users & after == users:
                live -= nbytes
        return need, live

    def peak(self, order: Iterable[int]) -> int:
        """The most bytes alive at once."""
        live, done = self.first_live, 0
        most = live
        for unit in order:
            need, live = self.run(live, done, unit)
            most = max(most, need)
            done |= 1 << unit
        return most

    def floor(self) -> int:
        """Bytes that every order needs: the inputs, and each unit's own buffers with those kept from before."""
        most = self.first_live
        for unit, buffers in enumerate(self.touched):
            _, operands = self.offers[unit]
            own = sum(self.nbytes[b] for b in buffers) - max((shared for _, shared in operands), default=0)
            most = max(most, own)
        return most

    def bound(self) -> int:
        """Bytes that every order needs, no less than `floor`: the last of what a unit waits for finds the other
        operands of that unit there."""
        most = self.floor()
        for unit, buffers in enumerate(self.touched):
            if not 0 < self.waits[unit].bit_count() <= MOST_WAITS:
                continue
            before = bits(self.waits[unit])
            there = {b for w in before for b in self.touched[w]}
            waiting = {b for b in buffers if b in there or self.is_input[b]}
            held = sum(self.nbytes[b] for b in waiting)
            most = max(most, held + min(self._besides(w, waiting) for w in before))
        return most

    def _besides(self, unit: int, held: Set[int]) -> int:
        """Bytes that a unit needs at least beside buffers that are ``held``."""
        _, operands = self.offers[unit]
        own = sum(self.nbytes[b] for b in self.touched[unit] if b not in held)
        return own - max((shared for _, shared in operands), default=0)


def order_problem(module: KernelModule, steps: list[Step], keep_inputs: bool) -> OrderProblem:
    """The units of `steps` and what they touch. Where there is state, what reads it comes before what writes it."""
    units = _units(steps)
    number: dict[Buffer, int] = {}
    for buffer in (*module.role("input"), *(b for s in steps for b in s.buffers() if b.space != "blob")):
        number.setdefault(buffer, len(number))
    buffers = list(number)
    users = [0] * len(buffers)
    waits = [0] * len(units)
    written: dict[int, int] = {}
    last: dict[int, list[int]] = {}
    behind: list[list[int]] = []
    touched: list[tuple[int, ...]] = []
    for u, members in enumerate(units):
        mine = list(dict.fromkeys(number[b] for t in members for b in steps[t].buffers() if b.space != "blob"))
        touched.append(tuple(mine))
        for b in mine:
            users[b] |= 1 << u
            waits[u] |= written.get(b, 0)
        behind.append(sorted({before for b in mine for before in last.get(b, ())}))
        for w in {number[b]: None for t in members for b in _writes(steps[t])}:
            written[w] = written.get(w, 0) | 1 << u
            # Of a thousand writers of one buffer each waits for all before it, and so whoever waits for the last.
            last[w] = [u] if w in mine else [*last.get(w, ()), u]
    if module.state:
        waits, _ = with_state(module, steps, units, waits)
        behind = [bits(mask) for mask in waits]
    held = module.held
    followers: list[list[int]] = [[] for _ in units]
    for u, those in enumerate(behind):
        for before in those:
            followers[before].append(u)
    return OrderProblem(
        steps=tuple(map(tuple, units)),
        waits=tuple(waits),
        followers=tuple(map(tuple, followers)),
        touched=tuple(touched),
        nbytes=tuple(b.nbytes if b.space == "arena" and b not in module.state else 0 for b in buffers),
        users=tuple(users),
        is_input=tuple(b.role == "input" for b in buffers),
        is_kept=tuple(b.kept or b in held or (keep_inputs and b.role == "input") for b in buffers),
        offers=tuple(_offer([steps[t] for t in members], number) for members in units),
    )


def _writes(step: Step) -> list[Buffer]:
    if isinstance(step, Fill):
        return [step.view.buffer]
    turns = [loop.turn for loop in step.loops]
    return [v.buffer for v in step.results] + ([step.scratch] if step.scratch else []) + turns


def state_apart(module: KernelModule) -> list[Buffer]:
    """The outputs that cannot be written in the place of the inputs that they are in the next run."""
    steps = list(module.body.linear())
    plain = order_problem(replace(module, state={}), steps, False)
    return with_state(module, steps, plain.steps, plain.waits)[1]


def _units(steps: list[Step]) -> list[list[int]]:
    """Steps by unit, in file order of what follows the fills; fills that nothing follows stand alone. A loop is one
    unit."""
    waiting: dict[Buffer, list[int]] = {}
    units: list[list[int]] = []
    around: Loop | None = None
    for t, step in enumerate(steps):
        inside = around is not None and step.loops[:1] == (around,)
        around = step.loops[0] if step.loops else None
        if inside:
            units[-1] = [*_filled_before(step, steps, waiting), *units[-1], t]
            continue
        if isinstance(step, Fill) and not step.loops:
            waiting.setdefault(step.view.buffer, []).append(t)
            continue
        units.append([*_filled_before(step, steps, waiting), t])
    return units + list(waiting.values())


def _filled_before(step: Step, steps: Sequence[Step], waiting: dict[Buffer, list[int]]) -> list[int]:
    """The fills that are due right before a step, in order: those of what it touches, and of what these ask for. They
    are taken from the ``waiting`` ones."""
    found: list[int] = []
    touching = [step]
    while touching:
        fills = [f for b in touching.pop().buffers() for f in waiting.pop(b, ())]
        found += fills
        touching += [steps[f] for f in fills]
    return sorted(found)


def _offer(members: list[Step], number: dict[Buffer, int]) -> Offer:
    """What the result of a unit may overlap: operands to be overwritten in place, or behind the reading."""
    call = members[-1]
    if not isinstance(call, Call) or len(call.results) != 1 or call.loops:
        return 0, ()
    result = call.results[0].buffer
    if result.space != "arena" or any(result in s.buffers() for s in members[:-1]):
        return number[result], ()
    shared: dict[Buffer, int] = {}
    for b in _alone(call, call.inplace):
        if (b.type.dtype, b.nbytes) == (result.type.dtype, result.nbytes):
            shared[b] = result.nbytes
    for b, distance in call.overlaps.items():
        if b.space == "arena":
            diagonal = min(b.nbytes, result.nbytes, result.nbytes - distance)
            shared[b] = max(shared.get(b, 0), diagonal)
    return number[result], tuple((number[b], n) for b, n in shared.items() if b is not result and n > 0)


def _alone(call: Call, operands: tuple[int, ...]) -> list[Buffer]:
    """The arena buffers of these operands that no other operand reads."""
    elsewhere = {v.buffer for k, v in enumerate(call.inputs) if v is not None and k not in operands}
    views = [call.inputs[i] for i in operands]
    return [v.buffer for v in views if v is not None and v.buffer.space == "arena" and v.buffer not in elsewhere]


def greedy_order(p: OrderProblem) -> list[int]:
    """Of the ready units always the one that leaves the fewest bytes alive; ties by file order."""
    return beam_order(p, 1, 0)


def depth_first_order(p: OrderProblem) -> list[int]:
    """From the last units backwards: what a unit waits for comes right before it."""
    order: list[int] = []
    seen: set[int] = set()
    for final in range(len(p.steps)):
        if p.followers[final]:
            continue
        stack = [(final, iter(bits(p.waits[final])))]
        seen.add(final)
        while stack:
            unit, rest = stack[-1]
            following = next((w for w in rest if w not in seen), None)
            if following is None:
                order.append(unit)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(bits(p.waits[following]))))
    return order


@dataclass(slots=True)
class _State:
    peak: int
    live: int
    done: int
    ready: tuple[int, ...]
    unit: int
    before: _State | None


_Reached = tuple[int, int, int, int, int, _State]
"""What a state is made of: peak, live, the order in which it was reached, done, unit, before."""


def beam_order(p: OrderProblem, width: int, floor: int) -> list[int]:
    """List scheduling that keeps `width` states per length; peaks up to `floor` count alike.

    Two states with the same units done have the same future, so only the one of lower peak is kept.
    """
    count = len(p.steps)
    ready = tuple(u for u in range(count) if not p.waits[u])
    states = [_State(max(floor, p.first_live), p.first_live, 0, ready, -1, None)]
    run = p.run
    for _ in range(count):
        reached: dict[int, _Reached] = {}
        for state in states:
            before, known = state.done, reached.get
            for unit in state.ready[:MOST_READY]:
                need, live = run(state.live, before, unit)
                done = before | 1 << unit
                peak = need if need > state.peak else state.peak
                old = known(done)
                if old is None or peak < old[0]:
                    # States are reached in file order, which so breaks ties.
                    reached[done] = (peak, live, len(reached) if old is None else old[2], done, unit, state)
        states = _kept(p, sorted(reached.values()), width)
    order: list[int] = []
    last: _State | None = states[0]
    while last is not None and last.before is not None:
        order.append(last.unit)
        last = last.before
    return order[::-1]


def _kept(p: OrderProblem, reached: list[_Reached], width: int) -> list[_State]:
    """The first ``width`` states, or as many as may be looked at, with what is ready after them."""
    runs = 0
    states: list[_State] = []
    for peak, live, _, done, unit, before in reached[:width]:
        freed = [f for f in p.followers[unit] if p.waits[f] & done == p.waits[f]]
        states.append(_State(peak, live, done, _with_freed(before.ready, unit, freed), unit, before))
        runs += min(len(states[-1].ready), MOST_READY)
        if runs >= width * RUNS_PER_STATE:
            break
    return states


def _with_freed(ready: tuple[int, ...], unit: int, freed: list[int]) -> tuple[int, ...]:
    """What is ready, in order, once ``unit`` of it is done and others are ``freed`` by that."""
    after = list(ready)
    del after[bisect_left(after, unit)]
    for follower in freed:
        insort(after, follower)
    return tuple(after)


def _reversed(p: OrderProblem) -> OrderProblem:
    """The problem backwards in time; without in-place offers, which hold in one direction only."""
    return replace(
        p,
        waits=tuple(sum(1 << f for f in after) for after in p.followers),
        followers=tuple(tuple(bits(mask)) for mask in p.waits),
        is_input=p.is_kept,
        is_kept=p.is_input,
        offers=((0, ()),) * len(p.steps),
    )


@functools.lru_cache(maxsize=8)
def best_order(p: OrderProblem, effort: int = 1, part: int = 1) -> tuple[int, ...]:
    """The order of least peak of those tried: file order (as far as state lets it), which wins ties, greedy,
    depth-first, beams.

    It is kept: the planner is asked before and after kernel passes that often change nothing of the order's problem.
    Beams run forwards and backwards in time; without ``effort`` there are none, each further level looks at
    4 times as many states, one ``part`` of so many at as much less.
    """
    best: Sequence[int] = best_order(p, 0) if effort else first_order(p.waits)
    least, floor = p.peak(best), p.floor()
    if least > floor and not effort:
        for order in (greedy_order(p), depth_first_order(p)):
            if (peak := p.peak(order)) < least:
                best, least = order, peak
    states = BEAM_STATES * 4 ** (effort - 1) // max(1, len(p.steps)) if effort else 0
    width = min(WIDEST_BEAM << effort, states) // part
    if least > floor and width > 1 and least > p.bound():
        # Below the floor peaks do not matter; a level half way up lets the beam think ahead of it.
        tries = [(p, floor, 1), (_reversed(p), floor, -1), (p, (floor + least) // 2, 1)]
        for problem, level, direction in tries:
            order = beam_order(problem, width, level)[::direction]
            if (peak := p.peak(order)) < least:
                best, least = order, peak
    return tuple(best)
