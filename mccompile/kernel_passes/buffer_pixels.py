"""Convolutions take the place of their operand: what is still needed of it, or is not yet written, lies aside.

    call conv.generic ... params{channels_last} (a, w) -> b
    call conv.generic ... params{channels_last, pixel_buffer} (a, w) -> b scratch b.pixel inplace(0)

All channels of a pixel of ``b`` need all channels of the same pixel of ``a`` and nothing else: with these few numbers
in a scratch buffer, ``b`` may lie over ``a``, and the two take the memory of one. Each kernel says for itself what it
keeps aside: some pixels, or a plane of a channel (`Variant.staged`).

Where tiles of few pixels alone take as little memory, because results of small tiles lie over most of their operand
anyway, that is left to `narrow-tiles`: it keeps nothing aside, and leaves most calls as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.types import TensorType
from mccompile.ir.views import Buffer
from mccompile.kernel_passes.narrow_tiles import declared, narrowest
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

WORTH = 0.97
"""The peak must fall below this part of what it was at first: other orders of access are not faster."""


def run(module: KernelModule, remarks: Remarks, target: Target, judge: Judge) -> int:
    """Let 1x1 and depthwise convolutions of targets without wide vectors overwrite an operand that nobody reads
    afterwards, if the planned peak falls. Exact."""
    if target.spare_memory or target.lanes > 1:
        return 0
    steps = list(module.body.linear())
    changed, buffers = buffered(steps, module.buffers)
    count = len(buffers) - len(module.buffers)
    if not count:
        return 0
    now = judge.begin(steps)
    peak = judge.peak(changed, buffers=buffers)
    if peak >= min(now, WORTH * judge.baseline):
        remarks.miss(f"let {count} results overwrite operands", f"the peak would be {peak} bytes, it is {now}")
        return 0
    small, both = (_narrow_peak(s, b, judge) for s, b in ((steps, module.buffers), (changed, buffers)))
    if small <= min(peak, both):
        remarks.miss(f"let {count} results overwrite operands", f"with tiles of few pixels the peak is {small} bytes")
        return 0
    names = [b.name.removesuffix(PIXEL) for b in buffers[len(module.buffers) :]]
    module.body, module.buffers[:] = Block(tuple(changed)), buffers
    judge.now = peak
    remarks.hit(f"computed in place of their operands: {', '.join(names)}")
    return count


def _narrow_peak(steps: Sequence[Step], buffers: Sequence[Buffer], judge: Judge) -> int:
    """The peak with tiles of the fewest pixels."""
    narrow = narrowest(steps)
    return judge.peak(narrow, buffers=declared(buffers, steps, narrow))


PIXEL = ".pixel"


def buffered(steps: Sequence[Step], buffers: Sequence[Buffer]) -> tuple[list[Step], list[Buffer]]:
    """The steps and buffers with convolutions that overwrite an operand which nobody reads afterwards."""
    last = {b: t for t, s in enumerate(steps) for b in s.buffers()}
    changed, declared = list(steps), list(buffers)
    names = {b.name for b in buffers}
    for t, step in enumerate(steps):
        if not isinstance(step, Call) or step.varies or not step.reads or step.scratch is not None:
            continue
        x, y = step.reads[0], step.results[0]
        if x is None or x.buffer.space != "arena" or last[x.buffer] != t:
            continue
        found = variant(step.kernel).staged(step)
        if found is None:
            continue
        type_ = TensorType(x.dtype.compute, (found.count,))
        scratch = Buffer(f"{y.buffer.name}{PIXEL}", type_, "arena", y.buffer.align, role="scratch")
        if scratch.name in names:
            continue
        names.add(scratch.name)
        declared.append(scratch)
        inplace = tuple(sorted({0, *step.inplace}))
        changed[t] = replace(step, params=found.params, scratch=scratch, inplace=inplace)
    return changed, declared
