"""Copies vanish where readers take views of their source, or writers views of their result.

    call copy.generic slice {...} (x[2,3]{6,1}) -> a          slice the left half of x
    call map.generic map {...} (a) -> y                       and negate it

is read through: the map takes the slice's view, and nothing is left to be copied::

    call map.generic map {...} (x[2,3]{6,1}) -> y

Writing through is the mirror image: what a concat would copy into its place is computed there. Both are taken as long
as the peak of the plan does not grow; copies whose operator says so (`Slice.view`) are gone wherever they can be.

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.ir.kernel_text import call_text
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> from mccompile.targets.target import resolve
>>> module = parse_module('''kernels @g target=generic {
...   buffer x : f32[2,6] arena align=16 role=input
...   buffer a : f32[2,3] arena align=16
...   buffer y : f32[2,3] arena align=16 role=output
...   call copy.generic slice {starts=(0, 0), steps=(1, 1), extents=(2, 3)} (x[2,3]{6,1}) -> a
...   call map.generic map {expr={neg(x0)}} (a) -> y
... }''', lookup, params_of)
>>> run(module, Remarks(), resolve("generic"), Judge.of(module, keep_inputs=False))
1
>>> [call_text(step) for step in module.body.linear()]
['call map.generic map {expr={neg(x0)}} (x[2,3]{6,1}) -> y']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.views import Buffer, View
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernel_passes.rewrite.rebind import rebound
from mccompile.kernel_passes.rewrite.steps import State, Step, is_copy
from mccompile.kernels.variant import innermost_stride
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

MOST_PLANS = 40
"""Plans that each way of rewriting may try; what is left then stays as it is."""


def run(module: KernelModule, remarks: Remarks, target: Target, judge: Judge) -> int:
    """Let readers of a copy read its source, and writers of its source write its result, so that the copy is gone,
    as long as the planned peak does not grow. Exact."""
    state = State.of(list(module.body.linear()))
    copies = {i: s for i, s in state.live() if is_copy(s)}
    ways = [_Rewriting(rewrite, target, {}) for rewrite in (_read_through, _write_through)]
    for way in reversed(ways):  # what is written in its place first may come before the rest of it
        state = way.apply(state, [i for i, s in copies.items() if _wants_view(s)])
    peak = judge.begin(state.in_order())
    for way in ways:
        judge.plans_left = MOST_PLANS
        state, peak = _accept(judge, state, peak, list(copies), way)
    judge.now = judge.baseline = peak
    left = state.in_order()
    module.body = Block(tuple(left))
    return _say(remarks, state, copies, ways)


def _say(remarks: Remarks, state: State, copies: dict[int, Step], ways: Sequence[_Rewriting]) -> int:
    """What became of each copy; returns how many are gone."""
    gone = 0
    for i, copy in copies.items():
        now = state.steps[i]
        if now is None:
            remarks.hit(f"forwarded {_name(copy)}")
            gone += 1
        elif is_copy(now):
            why = "; ".join(way.reasons[i] for way in ways if i in way.reasons)
            remarks.miss("forwarded", why, _name(now))
    return gone


def _wants_view(step: Step) -> bool:
    return isinstance(step, Call) and step.op.is_view


def _name(step: Step) -> str:
    assert isinstance(step, Call)
    source = step.reads[0]
    assert source is not None
    return f"{step.op.name} {source.buffer.name} -> {step.results[0].buffer.name}"


# -- which rewrites are taken ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Rewriting:
    """One way to do without a copy; remembers why it cannot be gone."""

    rewrite: Callable[[State, int, Target], State | str]
    target: Target
    reasons: dict[int, str]

    def apply(self, state: State, copies: Sequence[int]) -> State:
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
    judge: Judge, state: State, peak: int, copies: Sequence[int], how: _Rewriting
) -> tuple[State, int]:
    """Rewrites in groups, halved where a group makes the peak grow: few plans where most rewrites are good."""
    following = how.apply(state, copies)
    if following is state:
        return state, peak
    grown = judge.peak(following.in_order(), peak)
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


# -- the two rewrites --------------------------------------------------------------------------------------------
def _read_through(state: State, i: int, target: Target) -> State | str:
    """Let the readers of a copy's result read its source."""
    copy = state.steps[i]
    assert isinstance(copy, Call)
    (source,), (result,) = copy.reads, copy.results
    assert source is not None
    buffer = result.buffer
    if buffer.role or buffer.halo:
        return "an output is made" if buffer.role else "a halo is around the result"
    if buffer in state.carried or _changes_before(state, i, source.buffer, buffer):
        return "a loop changes what is read"
    if _decides(state, buffer):
        return "it says whether or how often a step is made"
    changes: dict[int, Step | None] = {i: None}
    far = 0
    only = sum(1 for _, s in state.around(buffer) if buffer in s.written()) == 1
    for k, step in state.around(buffer):
        if isinstance(step, Call) and any(v is not None and v.buffer is buffer for v in step.inputs):
            found = rebound(step, buffer, result, source, target, writes=False, beside=not only)
            if isinstance(found, str):
                return found
            changes[k] = found
            seen = [v for v in found.inputs if v is not None and v.buffer is source.buffer]
            far += sum(bound(v.count) for v in seen if _strided(v))
    if target.cached and far > 2 * bound(result.count):
        return "several readers would read far apart"
    return state.changed(changes)


def _decides(state: State, buffer: Buffer) -> bool:
    """Whether a step is made, or how often, by what is in a buffer: that is its first element, where it lies."""
    return any(buffer in s.deciding() for _, s in state.around(buffer))


def _changes_before(state: State, i: int, source: Buffer, copy: Buffer) -> bool:
    """Whether a loop writes to the source of step i before the last reader of the copy."""
    if source not in state.carried:
        return False
    last = max(k for k, _ in state.around(copy))
    return any(i < k <= last and source in s.written() for k, s in state.around(source))


def _may_carry(state: State, i: int, source: View, place: View) -> bool:
    """Whether what step i copies to the place of what a loop carries may be made there at once.

    Before the loop: if nobody else reads it. In a turn: if everybody who reads the place has done so before; the one
    who makes it may read it at that very moment, if element by element.
    """
    copy = state.steps[i]
    assert copy is not None
    makers = [k for k, s in state.around(source.buffer) if source.buffer in s.written()]
    others = [k for k, s in state.around(source.buffer) if k != i and source.buffer in s.asked()]
    users = [s for k in (*makers, *others) if (s := state.steps[k]) is not None]
    if any(s.loops != copy.loops for s in users):
        return False
    if next(s for _, s in state.around(place.buffer)) is copy:
        return not others
    for k, s in state.around(place.buffer):
        if k == i or s.loops[: len(copy.loops)] != copy.loops or k < makers[0]:
            continue
        if k > makers[0] or len(makers) > 1 or not _by_element(s, source, place):
            return False
    return True


def _by_element(step: Step, result: View, place: View) -> bool:
    """Whether a step offers to write its result over all that it reads of a buffer."""
    if not isinstance(step, Call) or len(step.results) != 1 or not place.same_elements(result):
        return False
    read = [k for k, v in enumerate(step.inputs) if v is not None and v.buffer is place.buffer]
    views = [step.inputs[k] for k in read]
    alike = all(v is not None and v.same_elements(step.results[0]) for v in views)
    return alike and set(read) <= set(step.inplace) and place.buffer not in step.deciding()


def _late_background(state: State, i: int, source: Buffer, place: Buffer) -> str | None:
    """Why what step i copies cannot be made in its place at once: a background there comes before whatever is written
    on it, but behind what says how far and how often it is filled in."""
    makers = [(k, s) for k, s in state.around(source) if k != i]
    if not makers:
        return None
    first, maker = makers[0]
    for fill in state.fills(place):
        if fill.loops != maker.loops[: len(fill.loops)]:
            return "a loop fills in the background"
        late = [b for b in fill.asked() for k, s in state.around(b) if k >= first and b in s.written()]
        if late:
            return f"how far the background goes is counted later, in {late[0].name}"
    return None


def _strided(view: View) -> bool:
    return innermost_stride(view) not in (0, 1)


def _write_through(state: State, i: int, target: Target) -> State | str:
    """Let everything that touches a copy's source touch its result instead."""
    copy = state.steps[i]
    assert isinstance(copy, Call)
    (source,), (result,) = copy.reads, copy.results
    assert source is not None
    buffer = source.buffer
    if buffer.space != "arena" or buffer.role or buffer.halo or buffer is result.buffer:
        return "its source is an input, an output, constant, or has a halo"
    if _decides(state, buffer):
        return "it says whether or how often a step is made"
    if buffer in state.carried or (result.buffer in state.carried and not _may_carry(state, i, source, result)):
        return "what a loop carries is still read"
    if (why := _late_background(state, i, buffer, result.buffer)) is not None:
        return why
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
