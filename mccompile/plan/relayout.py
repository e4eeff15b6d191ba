"""Storage and order of scalar convolutions: channels last, or pixel by pixel in place, where memory is saved."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mccompile.ir.kernel import Buffer, Call, Fill, View, whole
from mccompile.ir.types import TensorType, channels_last
from mccompile.kernels.conv.planar import ConvGeneric
from mccompile.kernels.views.windows import Order
from mccompile.plan.judge import Judge, Step
from mccompile.plan.rebind import rebound
from mccompile.targets.target import Target

WORTH = 0.97
"""The peak must fall below this part of what it was: other orders of access are not faster."""


def save_memory(steps: Sequence[Step], peak: int, judge: Judge, target: Target) -> tuple[list[Step], int]:
    """The steps, and their planned peak, in the storage and order that take least of the arena.

    Tried for scalar targets: planes between convolutions and pools stored pixel by pixel; 1x1 convolutions that
    take the place of their operand. What a kernel cannot address so stays as it is.
    """
    best, least, buffers = list(steps), peak, list(judge.module.buffers)
    if target.hosted or target.lanes or not _planes(steps):
        return best, least
    moved, moved_buffers = _channels_last(steps, buffers, target)
    for tried, declared in ((steps, buffers), (moved, moved_buffers)):
        stashed, all_declared = _stashed(tried, declared)
        for candidate, module_buffers in ((tried, declared), (stashed, all_declared)):
            judge.module.buffers[:] = module_buffers
            found = judge.peak(candidate) if candidate is not steps else peak
            if found < (WORTH * peak if least == peak else least):
                best, least, buffers = list(candidate), found, module_buffers
    judge.module.buffers[:] = buffers
    return best, least


def _channels_last(
    steps: Sequence[Step], buffers: Sequence[Buffer], target: Target
) -> tuple[list[Step], list[Buffer]]:
    """The steps and buffers with planes stored pixel by pixel."""
    changed, declared = list(steps), list(buffers)
    for buffer in _planes(steps):
        other = Buffer(buffer.name, _moved(buffer), "arena", buffer.align)
        found = _stored(changed, buffer, whole(other), target)
        if found is not None:
            changed = found
            declared[declared.index(buffer)] = other
    return changed, declared


def _stashed(steps: Sequence[Step], buffers: Sequence[Buffer]) -> tuple[list[Step], list[Buffer]]:
    """The steps and buffers with 1x1 convolutions that overwrite an operand which nobody reads afterwards."""
    last = {b: t for t, s in enumerate(steps) for b in s.buffers()}
    changed, declared = list(steps), list(buffers)
    for t, step in enumerate(steps):
        if not isinstance(step, Call) or not isinstance(step.params, Order) or step.kernel != ConvGeneric.kernel:
            continue
        x, y = step.reads[0], step.results[0]
        if x is None or x.buffer.space != "arena" or last[x.buffer] != t or not ConvGeneric.may_stash(step):
            continue
        type_ = TensorType(x.dtype.compute, (y.shape[1],))
        scratch = Buffer(f"{y.buffer.name}.pixel", type_, "arena", y.buffer.align, role="scratch")
        if any(b.name == scratch.name for b in declared):
            continue
        declared.append(scratch)
        inplace = tuple(sorted({0, *step.inplace}))
        changed[t] = replace(step, params=replace(step.params, stash=True), scratch=scratch, inplace=inplace)
    return changed, declared


def _planes(steps: Iterable[Step]) -> list[Buffer]:
    """Temporaries that convolutions and pools read or write, of several channels and pixels."""
    calls = [s for s in steps if isinstance(s, Call) and isinstance(s.params, Order)]
    views = [v for c in calls for v in (c.reads[0], *c.results) if v is not None]
    found = dict.fromkeys(v.buffer for v in views if v.buffer.space == "arena" and not v.buffer.role)
    return [b for b in found if not b.halo and b.type.layout is None and b.type.rank > 2 and _is_plane(b)]


def _is_plane(buffer: Buffer) -> bool:
    _, channels, *space = buffer.type.shape
    return channels > 1 and max(space) > 1


def _moved(buffer: Buffer) -> TensorType:
    return TensorType(buffer.type.dtype, buffer.type.shape, channels_last(buffer.type.rank))


def _stored(steps: Sequence[Step], buffer: Buffer, far: View, target: Target) -> list[Step] | None:
    """The steps with everything that touches ``buffer`` on ``far`` instead; None if some kernel cannot."""
    out: list[Step] = []
    for step in steps:
        if buffer not in step.buffers():
            out.append(step)
            continue
        if isinstance(step, Fill):
            return None
        found = rebound(step, buffer, whole(buffer), far, target, writes=True)
        if isinstance(found, str):
            return None
        out.append(found)
    return out
