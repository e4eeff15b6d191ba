"""Memory forwarding: copies vanish where readers take views of their source, or writers views of their result."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mccompile.ir.kernel import Block, Buffer, Call, Fill, KernelModule, View
from mccompile.ir.types import row_major
from mccompile.kernels.variant import innermost_stride
from mccompile.kernels.views.collapse import collapse
from mccompile.lower.lower import Forwarding
from mccompile.ops.concat import Concat
from mccompile.ops.slice import Slice
from mccompile.plan.judge import Judge
from mccompile.plan.rebind import COPY, rebound
from mccompile.plan.relayout import save_memory
from mccompile.targets.target import Target

MOST_PLANS = 40
"""Plans that each way of rewriting may try; what is left then stays as it is."""

Step = Call | Fill


@dataclass(frozen=True)
class _State:
    """Steps by their number at the start; those that are gone are None.

    ``seen`` has, for all states, the steps that touch a buffer in any of them, so that few are looked at.
    """

    steps: tuple[Step | None, ...]
    seen: dict[Buffer, set[int]]

    def live(self) -> Iterator[tuple[int, Step]]:
        return ((i, s) for i, s in enumerate(self.steps) if s is not None)

    def around(self, buffer: Buffer) -> Iterator[tuple[int, Step]]:
        """The steps that touch a buffer, in order."""
        for i in sorted(self.seen.get(buffer, ())):
            step = self.steps[i]
            if step is not None and buffer in step.buffers():
                yield i, step

    def changed(self, changes: dict[int, Step | None]) -> _State:
        steps = list(self.steps)
        for i, step in changes.items():
            steps[i] = step
            _note(self.seen, i, step)
        return _State(tuple(steps), self.seen)


def _note(seen: dict[Buffer, set[int]], i: int, step: Step | None) -> None:
    for b in () if step is None else step.buffers():
        seen.setdefault(b, set()).add(i)


def _started(steps: Sequence[Step]) -> _State:
    seen: dict[Buffer, set[int]] = {}
    for i, step in enumerate(steps):
        _note(seen, i, step)
    return _State(tuple(steps), seen)


def forward(module: KernelModule, target: Target, keep_inputs: bool = False) -> Forwarding:
    """Remove the copies that readers and writers can do without: those of which the operator says so, then others
    as long as the planned peak does not grow.

    Changes the body of ``module``; values that lived in buffers of their own may now be views of others.
    """
    start = _started(list(module.body.linear()))
    copies = [i for i, s in start.live() if is_copy(s)]
    ways = [_Rewriting(rewrite, target, {}) for rewrite in (_read_through, _write_through)]
    judge = Judge(module, keep_inputs)
    state = start
    for way in reversed(ways):  # what is written in its place first may come before the rest of it
        state = way.apply(state, [i for i in copies if _wants_view(start.steps[i])])
    before = peak = judge.peak(_in_order(state))
    for way in ways:
        judge.plans_left = MOST_PLANS
        state, peak = _accept(judge, state, peak, copies, way)
    steps, peak = save_memory(_join_copies(_in_order(state)), peak, judge, target)
    module.body = Block(tuple(map(judge.offered, steps)))
    left = [s for s in module.body.linear() if is_copy(s)]
    old = [s for s in start.steps if is_copy(s)]
    why = {i: "; ".join(way.reasons[i] for way in ways if i in way.reasons) for i in copies}
    still = [(_name(s), why[i]) for i, s in state.live() if is_copy(s)]
    return Forwarding(
        (len(old), len(left)), (_written(old), _written(left)), (before, peak), tuple(dict.fromkeys(still))
    )


def is_copy(step: Step | None) -> bool:
    """True if a step moves elements unchanged."""
    return isinstance(step, Call) and step.kernel == COPY and not step.pre and not step.post


def _wants_view(step: Step | None) -> bool:
    return isinstance(step, Call) and isinstance(step.op, Slice | Concat) and step.op.view


def _written(copies: Sequence[Step | None]) -> int:
    return sum(s.results[0].count * s.results[0].dtype.nbytes for s in copies if isinstance(s, Call))


def _name(step: Step) -> str:
    assert isinstance(step, Call)
    source = step.reads[0]
    assert source is not None
    return f"{step.op.name} {source.buffer.name} -> {step.results[0].buffer.name}"


# -- which rewrites are taken ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Rewriting:
    """One way to do without a copy; remembers why it cannot be gone."""

    rewrite: Callable[[_State, int, Target], _State | str]
    target: Target
    reasons: dict[int, str]

    def apply(self, state: _State, copies: Sequence[int]) -> _State:
        """The state after every rewrite of ``copies`` that is legal."""
        for i in copies:
            if state.steps[i] is not None:
                found = self.rewrite(state, i, self.target)
                if isinstance(found, str):
                    self.reasons[i] = found
                else:
                    state = found
        return state


def _accept(
    judge: Judge, state: _State, peak: int, copies: Sequence[int], how: _Rewriting
) -> tuple[_State, int]:
    """Rewrites in groups, halved where a group makes the peak grow: few plans where most rewrites are good."""
    following = how.apply(state, copies)
    if following is state:
        return state, peak
    grown = judge.peak(_in_order(following), peak)
    if grown <= peak:
        return following, grown
    if len(copies) == 1 or judge.plans_left <= 0:
        why = f"the peak would grow from {peak} to {grown} bytes"
        how.reasons.update({i: why for i in copies if state.steps[i] is not None and following.steps[i] is None})
        return state, peak
    middle = len(copies) // 2
    for half in (copies[:middle], copies[middle:]):
        state, peak = _accept(judge, state, peak, half, how)
    return state, peak


def _in_order(state: _State) -> list[Step]:
    """The steps that are left and needed; a background is filled before the first step that touches its buffer."""
    steps = [s for _, s in state.live()]
    while True:
        read = {v.buffer for s in steps if isinstance(s, Call) for v in s.inputs if v is not None}
        needed = [s for s in steps if any(b in read or b.role == "output" for b in _written_buffers(s))]
        if len(needed) == len(steps):
            break
        steps = needed
    fills: dict[Buffer, list[Step]] = {}
    for s in steps:
        if isinstance(s, Fill):
            fills.setdefault(s.view.buffer, []).append(s)
    order: list[Step] = []
    for s in steps:
        for b in s.buffers():
            order += fills.pop(b, ())
        if not isinstance(s, Fill):
            order.append(s)
    return order


def _written_buffers(step: Step) -> list[Buffer]:
    return [step.view.buffer] if isinstance(step, Fill) else [v.buffer for v in step.results]


# -- the two rewrites --------------------------------------------------------------------------------------------
def _read_through(state: _State, i: int, target: Target) -> _State | str:
    """Let the readers of a copy's result read its source."""
    copy = state.steps[i]
    assert isinstance(copy, Call)
    (source,), (result,) = copy.reads, copy.results
    assert source is not None
    buffer = result.buffer
    if buffer.role or buffer.halo:
        return "an output is made" if buffer.role else "a halo is around the result"
    changes: dict[int, Step | None] = {i: None}
    far = 0
    only = sum(1 for _, s in state.around(buffer) if buffer in _written_buffers(s)) == 1
    for k, step in state.around(buffer):
        if isinstance(step, Call) and any(v is not None and v.buffer is buffer for v in step.inputs):
            found = rebound(step, buffer, result, source, target, writes=False, beside=not only)
            if isinstance(found, str):
                return found
            changes[k] = found
            far += sum(v.count for v in found.inputs if v is not None and v.buffer is source.buffer and _strided(v))
    if target.hosted and far > 2 * result.count:
        return "several readers would read far apart"
    return state.changed(changes)


def _strided(view: View) -> bool:
    return innermost_stride(view) not in (0, 1)


def _write_through(state: _State, i: int, target: Target) -> _State | str:
    """Let everything that touches a copy's source touch its result instead."""
    copy = state.steps[i]
    assert isinstance(copy, Call)
    (source,), (result,) = copy.reads, copy.results
    assert source is not None
    buffer = source.buffer
    if buffer.space != "arena" or buffer.role or buffer.halo or buffer is result.buffer:
        return "its source is an input, an output, constant, or has a halo"
    changes: dict[int, Step | None] = {i: None}
    for k, step in state.around(buffer):
        if k != i:
            if isinstance(step, Fill):
                return "a background is filled in"
            found = rebound(step, buffer, source, result, target, writes=True, beside=False)
            if isinstance(found, str):
                return found
            changes[k] = found
    return state.changed(changes)


# -- copies that are one -----------------------------------------------------------------------------------------
def _join_copies(steps: Sequence[Step]) -> list[Step]:
    """Copies in a row between two buffers whose places are in arithmetic progression become one with an axis more."""
    out: list[Step] = []
    at = 0
    while at < len(steps):
        end = at + 1
        while end < len(steps) and _alike(steps[at], steps[end]) and _even(steps[at : end + 1]):
            end += 1
        out.append(_joined(steps[at:end]) if end - at > 1 else steps[at])
        at = end
    return out if len(out) == len(steps) else _join_copies(out)


def _alike(a: Step, b: Step) -> bool:
    if not (isinstance(a, Call) and isinstance(b, Call) and is_copy(a) and is_copy(b)):
        return False
    pairs = [(a.reads[0], b.reads[0]), (a.results[0], b.results[0])]
    return all(
        v is not None and w is not None and v.buffer is w.buffer and v.shape == w.shape and v.strides == w.strides
        for v, w in pairs
    )


def _places(step: Step) -> tuple[int, int]:
    assert isinstance(step, Call)
    assert step.reads[0] is not None
    return step.reads[0].offset, step.results[0].offset


def _even(steps: Sequence[Step]) -> bool:
    """True if sources and results of copies each lie equally far apart; the first two always do."""
    places = [_places(s) for s in steps]
    gaps = {(c - a, d - b) for (a, b), (c, d) in itertools.pairwise(places)}
    return len(gaps) == 1


def _joined(steps: Sequence[Step]) -> Call:
    first = steps[0]
    assert isinstance(first, Call)
    (source, result), gaps = _places(first), _places(steps[1])
    views = []
    for v, step in ((first.reads[0], gaps[0] - source), (first.results[0], gaps[1] - result)):
        assert v is not None
        shape = (len(steps), *v.shape)
        views.append(View(v.buffer, shape, row_major(len(shape)), (step, *v.axis_strides()), v.offset))
    merged = collapse(views)
    assert not isinstance(merged, str)
    origins = tuple(dict.fromkeys(o for s in steps if isinstance(s, Call) for o in s.origins))
    return replace(first, reads=(merged[0],), results=(merged[1],), origins=origins)
