"""Execution order: topological orders of the steps, compared by the most bytes alive at once."""

from __future__ import annotations

from dataclasses import dataclass

from mccompile.ir.kernel import Block, Buffer, Call, Fill, KernelModule

Step = Call | Fill


@dataclass(frozen=True)
class _Dependencies:
    """Steps by number: what each waits for, what waits for it, and the arena buffers each touches."""

    waits: list[set[int]]
    followers: list[set[int]]
    touched: list[list[Buffer]]


def _writes(step: Step) -> set[Buffer]:
    if isinstance(step, Fill):
        return {step.view.buffer}
    return {v.buffer for v in step.results} | ({step.scratch} if step.scratch else set())


def _dependencies(steps: list[Step]) -> _Dependencies:
    """A step waits for earlier ones that write what it touches; so writers of one buffer keep their order."""
    waits: list[set[int]] = [set() for _ in steps]
    followers: list[set[int]] = [set() for _ in steps]
    touched = [[b for b in s.buffers() if b.space == "arena"] for s in steps]
    writers: dict[Buffer, list[int]] = {}
    for t, step in enumerate(steps):
        for b in touched[t]:
            for w in writers.get(b, ()):
                waits[t].add(w)
                followers[w].add(t)
        for b in _writes(step):
            writers.setdefault(b, []).append(t)
    return _Dependencies(waits, followers, touched)


def peak_bytes(module: KernelModule, steps: list[Step]) -> int:
    """The most arena bytes alive at one step: what no plan of this order without overlaps can beat."""
    begin: dict[Buffer, int] = dict.fromkeys(module.role("input"), 0)
    end: dict[Buffer, int] = {b: len(steps) - 1 for b in module.role("output")}
    for t, step in enumerate(steps):
        for b in step.buffers():
            if b.space == "arena":
                begin.setdefault(b, t)
                if b.role != "output":
                    end[b] = t
    change = [0] * (len(steps) + 1)
    for b, t in begin.items():
        change[t] += b.nbytes
        change[end.get(b, t) + 1] -= b.nbytes
    peak = alive = 0
    for delta in change:
        alive += delta
        peak = max(peak, alive)
    return peak


def _greedy(module: KernelModule, steps: list[Step], d: _Dependencies) -> list[int]:
    """List scheduling: of the ready steps, the one that leaves the fewest bytes alive; ties by file order."""
    readers: dict[Buffer, int] = {}
    for buffers in d.touched:
        for b in buffers:
            readers[b] = readers.get(b, 0) + 1
    born: set[Buffer] = set(module.role("input"))
    waiting = [len(w) for w in d.waits]
    ready = [t for t, n in enumerate(waiting) if n == 0]
    order: list[int] = []

    def growth(t: int) -> int:
        new = sum(b.nbytes for b in d.touched[t] if b not in born)
        dying = sum(b.nbytes for b in d.touched[t] if readers[b] == 1 and b.role != "output")
        return new - dying

    while ready:
        t = min(ready, key=lambda t: (growth(t), t))
        ready.remove(t)
        order.append(t)
        for b in d.touched[t]:
            born.add(b)
            readers[b] -= 1
        for f in sorted(d.followers[t]):
            waiting[f] -= 1
            if waiting[f] == 0:
                ready.append(f)
    return order


def _depth_first(steps: list[Step], d: _Dependencies) -> list[int]:
    """From the last step backwards: what a step waits for comes right before it."""
    order: list[int] = []
    seen: set[int] = set()
    for final in range(len(steps)):
        if d.followers[final]:
            continue
        stack = [(final, iter(sorted(d.waits[final])))]
        seen.add(final)
        while stack:
            t, rest = stack[-1]
            following = next((w for w in rest if w not in seen), None)
            if following is None:
                order.append(t)
                stack.pop()
            else:
                seen.add(following)
                stack.append((following, iter(sorted(d.waits[following]))))
    return order


def schedule(module: KernelModule) -> KernelModule:
    """The module with its steps in the order of least peak; file order wins ties."""
    steps = list(module.body.linear())
    d = _dependencies(steps)
    orders = [list(range(len(steps))), _greedy(module, steps, d), _depth_first(steps, d)]
    peaks = [peak_bytes(module, [steps[t] for t in order]) for order in orders]
    best = orders[peaks.index(min(peaks))]
    return KernelModule(module.name, module.target, module.buffers, Block(tuple(steps[t] for t in best)))
