"""Loops that go element by element read memory forwards.

    call map.generic map {expr={x0}} (x+34[9,2]{-4,1}) -> y[9,2]{2,1}
    call map.generic map {expr={x0}} (x+2[9,2]{4,1}) -> y+16[9,2]{-2,1}

gcc 12 -O3 loads whole groups where neighbours are read backwards with a gap between: of the first, four elements from
``x[34]`` on, though ``x`` ends behind two. Behind ``x`` may be the end of the memory. Other loops keep their order:
what is summed or searched is turned when its views are made (`Variant.forwards`).
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.kernels.variant import axes_backwards
from mccompile.passes.manager import Remarks


def run(module: KernelModule, remarks: Remarks) -> int:
    """Turn loops over single elements that read backwards. Exact."""
    before = list(module.body.linear())
    after = [_forwards(step, remarks) for step in before]
    module.body = Block(tuple(after))
    return sum(a is not b for a, b in zip(before, after, strict=True))


def _forwards(step: Step, remarks: Remarks) -> Step:
    if not isinstance(step, Call) or not variant(step.kernel).elementwise:
        return step
    axes = axes_backwards(step)
    if not axes:
        return step
    what = f"turned {len(axes)} axes of {step.kernel} into {step.results[0].buffer.name}"
    if not step.kernel.endswith(".generic"):
        remarks.miss(what, "its vectors are made where it says, not by the C compiler")
        return step
    remarks.hit(what)
    return replace(
        step,
        reads=tuple(None if v is None else v.turned(axes) for v in step.reads),
        results=tuple(v.turned(axes) for v in step.results),
        extras=tuple(v.turned(axes) for v in step.extras),
    )
