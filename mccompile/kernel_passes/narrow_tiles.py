"""Convolutions whose results lie over their operands go by tiles of few pixels, where that takes less memory.

    call conv.depthwise ... params{pixels=5, lines=2, overlaps=True} (a, w) -> b near(0:3584)
    call conv.depthwise ... params{pixels=1, lines=1, overlaps=True} (a, w) -> b near(0:1536)

A tile is written when all that it takes has been read: the larger it is, the farther results begin before the
operand. Small ones take more cycles, so they are for those calls alone on which the peak depends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.types import TensorType
from mccompile.ir.views import Buffer
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

PIXELS = (1, 2, 3)
"""Pixels of the tiles that are tried, fewest first."""
WORTH = {False: 0.99, True: 0.95}
"""The peak must fall below this part of what it is: of calls without scratch memory, then of all calls. What a tile
keeps aside is little, and there are many such calls."""


def run(module: KernelModule, remarks: Remarks, target: Target, judge: Judge) -> int:
    """Let windows of targets without wide vectors go by tiles of few pixels where the planned peak falls by that.
    Exact."""
    if target.spare_memory or target.lanes != 1:
        return 0
    return sum(_narrow(module, remarks, judge, staged) for staged in WORTH)


def _narrow(module: KernelModule, remarks: Remarks, judge: Judge, staged: bool) -> int:
    """The same for all calls, or without ``staged`` for those that have no scratch memory."""
    steps = list(module.body.linear())
    narrow = narrowest(steps, staged)
    changed = [t for t, (a, b) in enumerate(zip(steps, narrow, strict=True)) if a is not b]
    if not changed:
        return 0
    now = judge.begin(steps)
    peak = judge.peak(narrow, buffers=declared(module.buffers, steps, narrow))
    if peak >= WORTH[staged] * now:
        remarks.miss(f"narrowed {len(changed)} tiles", f"the peak would be {peak} bytes, it is {now}")
        return 0
    for t in changed:
        _widen(module, steps, narrow, t, peak, judge)
    pairs = zip(narrow, steps, strict=True)
    kept = [s.results[0].buffer.name for s, old in pairs if s is not old and isinstance(s, Call)]
    module.buffers[:] = declared(module.buffers, steps, narrow)
    module.body = Block(tuple(narrow))
    judge.now = peak
    remarks.hit(f"tiles of few pixels make: {', '.join(kept)}")
    return len(kept)


def narrowest(steps: Sequence[Step], staged: bool = True) -> list[Step]:
    """The steps with tiles of the fewest pixels, or without ``staged`` those of them that have no scratch memory."""
    tried = (staged or (isinstance(s, Call) and s.scratch is None) for s in steps)
    return [(_narrowed(s, PIXELS[0]) if may else None) or s for s, may in zip(steps, tried, strict=True)]


def _widen(
    module: KernelModule, steps: Sequence[Step], narrow: list[Step], t: int, peak: int, judge: Judge
) -> None:
    """Give step ``t`` the largest tiles with which the peak is no higher."""
    least = narrow[t]
    for wider in (steps[t], *(_narrowed(steps[t], n) for n in PIXELS[:0:-1])):
        if wider is None:
            continue
        narrow[t] = wider
        if judge.peak(narrow, peak, declared(module.buffers, steps, narrow)) <= peak:
            return
    narrow[t] = least


def _narrowed(step: Step, pixels: int) -> Call | None:
    """The step with tiles of so few pixels, and with as much scratch memory as these take."""
    if not isinstance(step, Call) or step.varies:
        return None
    found = variant(step.kernel).narrowed(step, pixels)
    kept = variant(step.kernel).staged(found) if found is not None and found.scratch is not None else None
    if found is None or found.scratch is None or kept is None:
        return found
    old = found.scratch
    return replace(found, scratch=replace(old, type=TensorType(old.type.dtype, (kept.count,))))


def declared(buffers: Sequence[Buffer], steps: Sequence[Step], narrow: Sequence[Step]) -> list[Buffer]:
    """The buffers of a module with steps that have other scratch memory."""
    pairs = [(a, b) for a, b in zip(steps, narrow, strict=True) if isinstance(a, Call) and isinstance(b, Call)]
    changed = {a.scratch: b.scratch for a, b in pairs if a.scratch is not None and b.scratch is not None}
    return [changed.get(b, b) for b in buffers]
