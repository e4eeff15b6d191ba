"""How much work the steps of a program are beside arithmetic: kernel launches, and bytes read and written."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mccompile.ir.kernel import Call, KernelModule, View


@dataclass(frozen=True)
class Traffic:
    """``launches``: steps of one run, fills included. ``read_bytes`` and ``written_bytes``: what they touch, each
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
    return min(math.prod(extents) * view.dtype.nbytes, view.buffer.nbytes)


def traffic(module: KernelModule) -> Traffic:
    """The traffic of one run of a kernel module."""
    launches = read = written = moved = transposes = 0
    for step in module.body.linear():
        launches += 1
        own = 0
        if isinstance(step, Call):
            own = sum(view_bytes(v) for v in step.inputs if v is not None)
            results = sum(view_bytes(v) for v in step.results)
            transposes += step.kernel.startswith("copy.") and step.op.name == "transpose"
        else:
            results = view_bytes(step.view)
        read += own
        written += results
        if not isinstance(step, Call) or step.kernel.startswith("copy."):
            moved += own + results
    return Traffic(launches, read, written, moved, transposes)
