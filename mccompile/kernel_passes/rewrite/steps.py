"""Steps of a module while a pass rewrites them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.kernel import Call, Fill, excluded
from mccompile.ir.turns import carried
from mccompile.ir.views import Buffer
from mccompile.kernel_passes.rewrite.rebind import COPY

Step = Call | Fill


def is_copy(step: Step | None) -> bool:
    """True if a step moves elements unchanged, always, and no kernel has counted how many."""
    return isinstance(step, Call) and step.kernel == COPY and not (
        step.pre or step.post or step.counts or step.when
    )


def copies(steps: Sequence[Step]) -> tuple[int, int]:
    """How many steps are copies, and the bytes that they write."""
    found = [s for s in steps if isinstance(s, Call) and is_copy(s)]
    return len(found), sum(bound(s.results[0].count) * s.results[0].dtype.nbytes for s in found)


@dataclass(frozen=True)
class State:
    """Steps by their number at the start; those that are gone are None.

    ``seen`` has, for all states, the steps that touch a buffer in any of them, so that few are looked at, ``filled``
    those of them that are backgrounds. ``carried`` are the buffers that loops change for their next turn, or for
    whoever is around: see `ir.turns`.
    """

    steps: tuple[Step | None, ...]
    seen: dict[Buffer, set[int]]
    filled: dict[Buffer, set[int]]
    carried: frozenset[Buffer] = frozenset()

    @classmethod
    def of(cls, steps: Sequence[Step]) -> State:
        state = cls(tuple(steps), {}, {}, carried(steps))
        for i, step in enumerate(steps):
            state._note(i, step)
        return state

    def live(self) -> Iterator[tuple[int, Step]]:
        return ((i, s) for i, s in enumerate(self.steps) if s is not None)

    def around(self, buffer: Buffer) -> Iterator[tuple[int, Step]]:
        """The steps that touch a buffer, in order."""
        return self._touching(buffer, self.seen)

    def fills(self, buffer: Buffer) -> Iterator[Fill]:
        """The backgrounds among them, which are few where thousands of steps write parts of a result."""
        return (step for _, step in self._touching(buffer, self.filled) if isinstance(step, Fill))

    def _touching(self, buffer: Buffer, noted: Mapping[Buffer, set[int]]) -> Iterator[tuple[int, Step]]:
        for i in sorted(noted.get(buffer, ())):
            step = self.steps[i]
            if step is not None and buffer in step.buffers():
                yield i, step

    def _note(self, i: int, step: Step | None) -> None:
        for b in () if step is None else step.buffers():
            self.seen.setdefault(b, set()).add(i)
            if isinstance(step, Fill):
                self.filled.setdefault(b, set()).add(i)

    def changed(self, changes: dict[int, Step | None]) -> State:
        steps = list(self.steps)
        for i, step in changes.items():
            steps[i] = step
            self._note(i, step)
        return State(tuple(steps), self.seen, self.filled, self.carried)

    def in_order(self) -> list[Step]:
        """The steps that are left and needed; a background is filled before the first step that touches its buffer in
        a run that fills it: another choice may know nothing yet of what this one depends on."""
        steps = _needed([s for _, s in self.live()])
        fills: dict[Buffer, list[Step]] = {}
        for s in steps:
            if isinstance(s, Fill):
                fills.setdefault(s.view.buffer, []).append(s)
        order: list[Step] = []
        for s in steps:
            for b in s.buffers():
                for fill in [f for f in fills.get(b, ()) if not excluded(f.when, s.when)]:
                    fills[b].remove(fill)
                    order.insert(_before(order, fill, s), fill)
            if not isinstance(s, Fill):
                order.append(s)
        return order


def _needed(steps: list[Step]) -> list[Step]:
    """Those of the steps that end the run, or write what is kept or what one that is left reads."""
    readers = Counter(b for s in steps for b in {*s.asked()})
    writers: dict[Buffer, list[int]] = {}
    for i, s in enumerate(steps):
        for b in {*s.written()}:
            writers.setdefault(b, []).append(i)
    left: list[Step | None] = [*steps]
    suspects = list(range(len(steps)))
    while suspects:
        i = suspects.pop()
        step = left[i]
        if step is None or _ends_run(step) or any(readers[b] or b.kept for b in step.written()):
            continue
        left[i] = None
        for b in {*step.asked()}:
            readers[b] -= 1
            if not readers[b]:
                suspects += writers.get(b, ())
    return [s for s in left if s is not None]


def _ends_run(step: Step) -> bool:
    return isinstance(step, Call) and step.op.ends_run


def _before(order: Sequence[Step], fill: Step, step: Step) -> int:
    """Where a fill stands before a step that comes next: outside of the loops that it is not in."""
    depth = len(fill.loops)
    at = len(order)
    while at and step.loops[depth:] and order[at - 1].loops[: depth + 1] == step.loops[: depth + 1]:
        at -= 1
    return at
