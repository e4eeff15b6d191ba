"""In which order the kernel of a step works, and what of its operands its result may lie over by that."""

from __future__ import annotations

from dataclasses import field, replace

from mccompile._dataclass import dataclass
from mccompile.ir.kernel import Call
from mccompile.ir.views import View
from mccompile.kernel_passes.rewrite.steps import Step
from mccompile.kernels.registry import variant
from mccompile.kernels.views.windows import Order, channels_innermost


@dataclass
class Offers:
    """What each step offers, found out once for all passes of a pipeline: most steps are the same objects in every
    trial, and an offer takes a walk over all elements. By identity, for to compare two steps takes longer; the step
    is kept beside, so that its number stays its own."""

    _made: dict[int, tuple[Step, Step]] = field(default_factory=dict)

    def of(self, step: Step) -> Step:
        """As `offered`."""
        if id(step) not in self._made:
            self._made[id(step)] = (step, offered(step))
        return self._made[id(step)][1]


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
