"""Says of each step in which order its kernel works, and how far behind an operand its result may begin by that.

    call pool.generic pool {...} params{} (a[1,1,4,4]{16,16,4,1}) -> b
    call pool.generic pool {...} params{} (a[1,1,4,4]{16,16,4,1}) -> b near(0:0)

The kernel has read an element of ``a`` before it writes the element of ``b`` in its place, so the planner may let the
two overlap: ``a`` may begin 0 bytes or more behind the beginning of ``b``.
"""

from __future__ import annotations

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.kernel_passes.rewrite.offers import Offers
from mccompile.passes.manager import Remarks


def run(module: KernelModule, remarks: Remarks, offers: Offers) -> int:
    """Choose the order in which windows are walked, and offer the planner the overlaps which that allows. Exact."""
    before = list(module.body.linear())
    after = [offers.of(step) for step in before]
    module.body = Block(tuple(after))
    changed = [b for a, b in zip(before, after, strict=True) if a is not b]
    for step in changed:
        if isinstance(step, Call):
            for i, gap in step.near:
                remarks.hit(f"{step.results[0].buffer.name} may begin {gap} bytes before its operand {i}")
    return len(changed)
