"""Shares out calls to threads: the turns of one of a kernel's loops become parts that may be done at the same time.

    call matmul.packed matmul {...} params{...} (x[1,4096], w) -> y[1,1000]
    call matmul.packed matmul {...} params{...} (x[1,4096], w) -> y[1,1000] parts(n:0,512,1000)

A call is one piece of work still where a part would take no longer than it takes to hand it to another core. Scratch
memory has a piece for each part. What overlaps by the order in which a kernel works (`offer-overlaps`) is not
offered any more: nobody knows which part comes first.
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.types import TensorType
from mccompile.ir.views import Buffer
from mccompile.kernels.model.parts import divided, estimate, worth
from mccompile.kernels.registry import variant
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

LINE = 64
"""Bytes from one part's scratch memory to the next one's are a multiple of this: no two cores write to one line."""


def run(module: KernelModule, remarks: Remarks, target: Target, threads: int) -> int:
    """Share out the work of calls to ``threads`` threads, where each has enough of it. Exact."""
    steps = list(module.body.linear())
    after = [split(s, target, threads, remarks) if isinstance(s, Call) else s for s in steps]
    changed = [(a, b) for a, b in zip(steps, after, strict=True) if isinstance(b, Call) and b.parts is not None]
    wider = _with_room([b for _, b in changed])
    after = [_in_pieces(s, wider) if isinstance(s, Call) else s for s in after]
    module.buffers[:] = [wider.get(b, b) for b in module.buffers]
    module.body = Block(tuple(after))
    for _, call in changed:
        assert call.parts is not None
        remarks.hit(f"{call.results[0].buffer.name}: {call.parts.count} parts of the loop over {call.parts.loop}")
    return len(changed)


def split(call: Call, target: Target, threads: int, remarks: Remarks) -> Call:
    """The call in as many parts as are worth it, at most one for each thread; as it is where that is one."""
    if call.varies or any(v.count == 0 for v in call.results):
        return call
    own, cycles, name = variant(call.kernel), call.cycles or estimate(call, target), call.results[0].buffer.name
    count = worth(cycles, threads, target)
    if count < 2:
        handoff = target.machine.handoff
        remarks.miss(f"cut {name}", f"it takes {cycles:.0f} cycles, and {handoff:.0f} to hand a part over")
        return call
    finer = own.apart(call, count)
    parts = divided(own.parallel(finer, target), count)
    if parts is None:
        remarks.miss(f"cut {name}", f"{call.kernel} has no loop of several turns to share out")
        return call
    return replace(finer, parts=parts, near=None)


def pitch(scratch: Buffer) -> int:
    """Elements from one part's scratch memory to the next one's, where one part takes all of ``scratch``."""
    step = max(LINE, scratch.align) // scratch.type.dtype.nbytes
    return -(-scratch.elements // step) * step


def _with_room(calls: list[Call]) -> dict[Buffer, Buffer]:
    """Scratch memory with a piece for each part, for what was that of one; several calls may take the same."""
    most: dict[Buffer, int] = {}
    for call in calls:
        if call.scratch is not None and call.parts is not None:
            most[call.scratch] = max(most.get(call.scratch, 1), call.parts.count)
    return {b: replace(b, type=TensorType(b.type.dtype, (n, pitch(b)))) for b, n in most.items()}


def _in_pieces(call: Call, wider: dict[Buffer, Buffer]) -> Call:
    return replace(call, scratch=wider[call.scratch]) if call.scratch in wider else call
