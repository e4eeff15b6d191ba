"""What a change of the kernel IR does to the planned peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import Block, KernelModule
from mccompile.ir.views import Buffer
from mccompile.kernel_passes.rewrite.offers import Offers
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.plan.oracle import Oracle


@dataclass
class Judge:
    """The planner's word on the steps that a module might have. One judge serves all passes of a pipeline: they share
    the effort that planning may take, and what they found out.

    Peaks, 0 where not known: ``first`` before anything was changed for one; ``baseline`` before anything was changed
    that is no faster; ``now`` as the module is.
    """

    module: KernelModule
    oracle: Oracle
    plans_left: int = 0
    first: int = 0
    baseline: int = 0
    now: int = 0
    offers: Offers = field(default_factory=Offers)

    @classmethod
    def of(cls, module: KernelModule, keep_inputs: bool = False) -> Judge:
        return cls(module, Oracle(sum(1 for _ in module.body.linear()), keep_inputs))

    def peak(self, steps: Sequence[Step], limit: int = 0, buffers: Sequence[Buffer] | None = None) -> int:
        """The peak of a module with these steps (and ``buffers``, if they are others); see `Oracle.peak`."""
        self.plans_left -= 1
        body = Block(tuple(map(self.offers.of, steps)))
        known = self.module.buffers if buffers is None else buffers
        return self.oracle.peak(replace(self.module, buffers=list(known), body=body), limit)

    def begin(self, steps: Sequence[Step]) -> int:
        """The peak of the steps as they are, planned if it is not known."""
        self.now = self.now or self.peak(steps)
        self.first = self.first or self.now
        self.baseline = self.baseline or self.now
        return self.now
