"""Planes between convolutions and pools of scalar targets are stored pixel by pixel, where that saves memory.

    buffer a : f32[1,8,4,4] arena                   call conv ... -> a   all pixels of channel 0, then of 1 ...
    buffer a : f32[1,8,4,4]:nhwc arena              call conv ... -> a   all channels of pixel 0, then of 1 ...

A kernel that writes pixel by pixel is behind its reads by a few pixels; one that writes channel by channel by whole
planes. So its result may begin that little before its operand, and both need less memory than side by side.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mccompile.ir.dims import bound
from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.types import TensorType
from mccompile.ir.types import channels_last as nhwc
from mccompile.ir.views import Buffer, View, whole
from mccompile.kernel_passes.buffer_pixels import WORTH, buffered
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernel_passes.rewrite.rebind import rebound
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.kernels.views.windows import Order
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target


def run(module: KernelModule, remarks: Remarks, target: Target, judge: Judge) -> int:
    """Store planes between convolutions and pools channels-last on targets without wide vectors, if the planned peak
    falls by that, or by that and what `buffer-pixels` does afterwards; where kernels are faster by it, if the peak
    does not rise. What kernels cannot address so stays as it is. Exact."""
    if target.spare_memory or target.lanes > 1:
        return 0
    steps = list(module.body.linear())
    stored, buffers = channels_last(steps, module.buffers, target)
    moved = [b.name for a, b in zip(module.buffers, buffers, strict=True) if a is not b]
    if not moved:
        return 0
    now = judge.begin(steps)
    peak = judge.peak(stored, buffers=buffers)
    if any(isinstance(s, Call) and variant(s.kernel).wants_pixels for s in stored):
        limit: float = now + 1
    else:
        limit = min(_stashed_peak(judge, steps, module.buffers, now), WORTH * judge.baseline)
    least = peak if peak < limit else min(peak, _stashed_peak(judge, stored, buffers, peak))
    if least >= limit:
        remarks.miss(f"stored {len(moved)} planes channels-last", f"the peak would be {least} bytes, it is {now}")
        return 0
    module.body, module.buffers[:] = Block(tuple(stored)), buffers
    judge.now = peak
    remarks.hit(f"stored channels-last: {', '.join(moved)}")
    return len(moved)


def _stashed_peak(judge: Judge, steps: Sequence[Step], buffers: Sequence[Buffer], otherwise: int) -> int:
    """The peak with results of pointwise convolutions in the place of their operands."""
    changed, declared = buffered(steps, buffers)
    return judge.peak(changed, buffers=declared) if len(declared) > len(buffers) else otherwise


def channels_last(
    steps: Sequence[Step], buffers: Sequence[Buffer], target: Target
) -> tuple[list[Step], list[Buffer]]:
    """The steps and buffers with planes stored pixel by pixel."""
    changed, others = list(steps), dict[Buffer, Buffer]()
    touching: dict[Buffer, list[int]] = {}
    for t, step in enumerate(steps):
        for b in step.buffers():
            touching.setdefault(b, []).append(t)
    for buffer in (b for b in planes(steps) if b.type.layout is None and not b.room):
        other = Buffer(buffer.name, _moved(buffer), "arena", buffer.align)
        found = _stored([changed[t] for t in touching[buffer]], buffer, whole(other), target)
        if found is not None:
            others[buffer] = other
            for t, step in zip(touching[buffer], found, strict=True):
                changed[t] = step
    return changed, [others.get(b, b) for b in buffers]


def planes(steps: Iterable[Step]) -> list[Buffer]:
    """Temporaries that convolutions and pools read or write, of several channels and pixels."""
    calls = [s for s in steps if isinstance(s, Call) and isinstance(s.params, Order)]
    views = [v for c in calls for v in (c.reads[0], *c.results) if v is not None]
    found = dict.fromkeys(v.buffer for v in views if v.buffer.space == "arena" and not v.buffer.role)
    return [b for b in found if not b.halo and b.type.rank > 2 and _is_plane(b)]


def _is_plane(buffer: Buffer) -> bool:
    _, channels, *space = map(bound, buffer.type.shape)
    return channels > 1 and max(space) > 1


def _moved(buffer: Buffer) -> TensorType:
    return TensorType(buffer.type.dtype, buffer.type.shape, nhwc(buffer.type.rank))


def _stored(steps: Sequence[Step], buffer: Buffer, far: View, target: Target) -> list[Step] | None:
    """The steps, which all touch ``buffer``, on ``far`` instead; None if some kernel cannot."""
    out: list[Step] = []
    for step in steps:
        if isinstance(step, Fill):
            return None
        found = rebound(step, buffer, whole(buffer), far, target, writes=True)
        if isinstance(found, str):
            return None
        out.append(found)
    return out
