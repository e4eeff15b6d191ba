"""How much work the steps of a program are: kernel launches, bytes read and written, multiply-adds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound
from mccompile.ir.graph import Graph
from mccompile.ir.kernel import Call, Condition, Fill, KernelModule
from mccompile.ir.turns import times
from mccompile.ir.views import Buffer, View


@dataclass(frozen=True)
class Traffic:
    """``launches``: steps of one run, fills and all turns of loops included.
    ``read_bytes`` and ``written_bytes``: what they touch, each
    element of an operand or result counted once per step. ``moved_bytes``: the part of calls that only copy, and
    of fills. ``transposes``: calls that copy for an operator Transpose."""

    launches: int
    read_bytes: int
    written_bytes: int
    moved_bytes: int
    transposes: int

    @property
    def bytes(self) -> int:
        return self.read_bytes + self.written_bytes


def view_bytes(view: View) -> int:
    """Bytes of the different elements of a view: those a broadcast repeats count once."""
    extents = [f.extent(view.shape) for f, s in zip(view.factors, view.strides, strict=True) if s != 0]
    return min(bound(math.prod(extents)) * view.dtype.nbytes, view.buffer.nbytes)


def step_bytes(step: Call | Fill) -> tuple[int, int]:
    """Bytes that a step reads and writes, each element counted once."""
    if isinstance(step, Fill):
        return 0, view_bytes(step.view)
    return sum(view_bytes(v) for v in step.inputs if v is not None), sum(view_bytes(v) for v in step.results)


def step_macs(module: KernelModule, graph: Graph) -> list[int]:
    """Multiply-adds of each step.

    What is made in turns counts for all of them, at most.
    Those of a node are counted at the one call of a kernel for its operator that came from the same ONNX nodes, of
    several such nodes the first at the first call. Where a variant takes several calls, or kernels of another
    operator, they are counted at the last one of them that does not only copy.
    """
    open_: dict[tuple[str, ...], list[tuple[str, int]]] = {}
    for node, _ in graph.everywhere():
        macs = node.op.macs(node.operand_types(), [r.type for r in node.results])
        if macs:
            open_.setdefault(node.origins, []).append((node.op.name, macs))
    steps = list(module.body.linear())
    found = [0] * len(steps)
    last: dict[tuple[str, ...], int] = {}
    for i, step in enumerate(steps):
        if isinstance(step, Call) and step.origins in open_:
            family, nodes = step.kernel.partition(".")[0], open_[step.origins]
            if step.origins not in last or family != "copy":
                last[step.origins] = i
            own = next((n for n in nodes if n[0] == family), None)
            if own is not None:
                nodes.remove(own)
                found[i] = times(step) * own[1]
    for origins, nodes in open_.items():
        if origins in last:
            found[last[origins]] += times(steps[last[origins]]) * sum(macs for _, macs in nodes)
    return found


def _conditions(step: Call | Fill) -> tuple[Condition, ...]:
    """All that has to hold for a step, what decides first in front."""
    return (*(c for loop in step.loops for c in loop.when), *step.when)


def _longest(steps: Sequence[tuple[tuple[Condition, ...], Call | Fill]], depth: int = 0) -> list[Call | Fill]:
    """The steps of the run that touches the most bytes: those of one side of each condition."""
    found = [step for conditions, step in steps if len(conditions) == depth]
    sides: dict[Buffer, dict[bool, list[tuple[tuple[Condition, ...], Call | Fill]]]] = {}
    for conditions, step in steps:
        if len(conditions) > depth:
            decides, is_so = conditions[depth]
            sides.setdefault(decides, {}).setdefault(is_so, []).append((conditions, step))
    for both in sides.values():
        found += max((_longest(side, depth + 1) for side in both.values()), key=_touched)
    return found


def _touched(steps: Iterable[Call | Fill]) -> int:
    return sum(times(step) * sum(step_bytes(step)) for step in steps)


def traffic(module: KernelModule) -> Traffic:
    """The traffic of one run of a kernel module: the one that touches the most, where conditions decide."""
    launches = read = written = moved = transposes = 0
    for step in _longest([(_conditions(step), step) for step in module.body.linear()]):
        launches += times(step)
        own, results = (times(step) * n for n in step_bytes(step))
        if isinstance(step, Call):
            transposes += step.kernel.startswith("copy.") and step.op.name == "transpose"
        read += own
        written += results
        if not isinstance(step, Call) or step.kernel.startswith("copy."):
            moved += own + results
    return Traffic(launches, read, written, moved, transposes)
