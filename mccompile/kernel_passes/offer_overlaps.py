"""Says of each step in which order its kernel works, and how far behind an operand its result may begin by that.

    call pool.generic pool {...} params{} (a[1,1,4,4]{16,16,4,1}) -> b
    call pool.generic pool {...} params{} (a[1,1,4,4]{16,16,4,1}) -> b near(0:0)

The kernel has read an element of ``a`` before it writes the element of ``b`` in its place, so the planner may let the
two overlap: ``a`` may begin 0 bytes or more behind the beginning of ``b``.
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.views import View
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.kernels.views.windows import Order, channels_innermost
from mccompile.passes.manager import Remarks


def run(module: KernelModule, remarks: Remarks) -> int:
    """Choose the order in which windows are walked, and offer the planner the overlaps which that allows. Exact."""
    before = list(module.body.linear())
    after = [offered(step) for step in before]
    module.body = Block(tuple(after))
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    for _, step in changed:
        if isinstance(step, Call):
            for i, gap in step.near:
                remarks.hit(f"{step.results[0].buffer.name} may begin {gap} bytes before its operand {i}")
    return len(changed)


def offered(step: Step) -> Step:
    """The step with the order its kernel works in, and what may overlap by that; itself where it says so already. Its
    views must be final."""
    if not isinstance(step, Call) or step.varies:
        return step
    if isinstance(step.params, Order):
        y = step.results[0]
        last = y.linear and channels_innermost(y)
        if step.params.channels_last != last:
            step = replace(step, params=replace(step.params, channels_last=last))
    own = variant(step.kernel)
    near = tuple((i, gap) for i, gap in own.overlaps(step) if _may_alias(step.inputs[i], step.results[0]))
    inplace = tuple(sorted({*step.inplace, *own.overwrites(step)}))
    return step if (step.near, step.inplace) == (near, inplace) else replace(step, near=near, inplace=inplace)


def _may_alias(x: View | None, y: View) -> bool:
    """Whether elements of the two may lie over one another in C: of one type, or bytes. Of stores of halves and loads
    of floats compilers suppose that they are apart, and change their order."""
    return x is None or x.dtype.c == y.dtype.c or 1 in (x.dtype.nbytes, y.dtype.nbytes)
