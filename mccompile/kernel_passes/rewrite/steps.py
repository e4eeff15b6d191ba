"""Steps of a module while a pass rewrites them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mccompile.ir.dims import bound
from mccompile.ir.kernel import Buffer, Call, Fill
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


def written_buffers(step: Step) -> list[Buffer]:
    return [step.view.buffer] if isinstance(step, Fill) else [v.buffer for v in step.results]


@dataclass(frozen=True)
class State:
    """Steps by their number at the start; those that are gone are None.

    ``seen`` has, for all states, the steps that touch a buffer in any of them, so that few are looked at.
    """

    steps: tuple[Step | None, ...]
    seen: dict[Buffer, set[int]]

    @classmethod
    def of(cls, steps: Sequence[Step]) -> State:
        seen: dict[Buffer, set[int]] = {}
        for i, step in enumerate(steps):
            _note(seen, i, step)
        return cls(tuple(steps), seen)

    def live(self) -> Iterator[tuple[int, Step]]:
        return ((i, s) for i, s in enumerate(self.steps) if s is not None)

    def around(self, buffer: Buffer) -> Iterator[tuple[int, Step]]:
        """The steps that touch a buffer, in order."""
        for i in sorted(self.seen.get(buffer, ())):
            step = self.steps[i]
            if step is not None and buffer in step.buffers():
                yield i, step

    def changed(self, changes: dict[int, Step | None]) -> State:
        steps = list(self.steps)
        for i, step in changes.items():
            steps[i] = step
            _note(self.seen, i, step)
        return State(tuple(steps), self.seen)

    def in_order(self) -> list[Step]:
        """The steps that are left and needed; a background is filled before the first step that touches its
        buffer."""
        steps = [s for _, s in self.live()]
        while True:
            read = {b for s in steps for b in _asked(s)}
            needed = [s for s in steps if _ends_run(s) or any(b in read or b.kept for b in written_buffers(s))]
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


def _ends_run(step: Step) -> bool:
    return isinstance(step, Call) and step.op.ends_run


def _asked(step: Step) -> list[Buffer]:
    """The buffers that a step reads, and those that say whether and how far it goes."""
    conditions = [b for b, _ in step.when]
    if isinstance(step, Fill):
        return conditions
    return [*conditions, *step.counts, *(v.buffer for v in step.inputs if v is not None)]


def _note(seen: dict[Buffer, set[int]], i: int, step: Step | None) -> None:
    for b in () if step is None else step.buffers():
        seen.setdefault(b, set()).add(i)
