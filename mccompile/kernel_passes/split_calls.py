"""Shares out calls to threads: the turns of one of a kernel's loops become parts that may be done at the same time.

    call matmul.packed matmul {...} params{...} (x[1,4096], w) -> y[1,1000]
    call matmul.packed matmul {...} params{...} (x[1,4096], w) -> y[1,1000] parts(n:0,512,1000)

A call is one piece of work still where a part would take no longer than it takes to hand it to another core. Scratch
memory has a piece for each part, the same for all calls if there is room: what another core has written last is slow
to write to. What overlaps by the order in which a kernel works (`offer-overlaps`) is not offered any more: nobody
knows which part comes first. So a call that moves state where it lies (`keep-state`) stays one piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.types import TensorType
from mccompile.ir.views import Buffer
from mccompile.kernel_passes.rewrite.judge import Judge
from mccompile.kernels.model.parts import divided, estimate, unevenness, worth
from mccompile.kernels.registry import variant
from mccompile.passes.manager import Remarks
from mccompile.targets.target import Target

LINE = 64
"""Bytes from one part's scratch memory to the next one's are a multiple of this: no two cores write to one line."""
ROOM = 1.25
"""By so much the planned peak may grow for scratch memory that is the same for all calls. (Zen 4, two threads: a 3x3
convolution of 32x32 pixels that writes its points where another core worked took as long as by one thread.)"""


def run(module: KernelModule, remarks: Remarks, target: Target, threads: int, judge: Judge) -> int:
    """Share out the work of calls to ``threads`` threads, where each has enough of it. Exact."""
    steps = list(module.body.linear())
    after = [split(s, target, threads, remarks, module.state) if isinstance(s, Call) else s for s in steps]
    after = _with_scratch_of_its_own(steps, after)
    changed = [(a, b) for a, b in zip(steps, after, strict=True) if isinstance(b, Call) and b.parts is not None]
    found = [b for _, b in changed]
    own = _made(module, after, _with_room(found))
    one = _made(module, after, _in_one_place(found))
    apart = len(set(own.buffers)) > len(set(one.buffers))
    better = apart and judge.oracle.peak(one) <= ROOM * judge.oracle.peak(own)
    module.buffers[:], module.body = (one if better else own).buffers, (one if better else own).body
    for _, call in changed:
        assert call.parts is not None
        remarks.hit(f"{call.results[0].buffer.name}: {call.parts.count} parts of the loop over {call.parts.loop}")
    return len(changed)


def split(call: Call, target: Target, threads: int, remarks: Remarks, state: Mapping[Buffer, Buffer]) -> Call:
    """The call in as many parts as are worth it, at most one for each thread; as it is where that is one."""
    if call.varies or any(v.count == 0 for v in call.results):
        return call
    own, cycles, name = variant(call.kernel), call.cycles or estimate(call, target), call.results[0].buffer.name
    if _moves_state(call, state):
        remarks.miss(f"cut {name}", "it moves state where it lies, in the order in which it works")
        return call
    count = worth(cycles, threads, target)
    if count < 2:
        handoff = target.machine.handoff
        remarks.miss(f"cut {name}", f"it takes {cycles:.0f} cycles, and {handoff:.0f} to hand a part over")
        return call
    finer = own.apart(call, count, target)
    loops = own.parallel(finer, target)
    count = worth(cycles / max((t.rounds for t in loops), default=1), threads, target)
    parts = divided(loops, count, unevenness(finer, cycles, count, target)) if count > 1 else None
    if parts is None:
        remarks.miss(f"cut {name}", f"{call.kernel} has no loop of several turns to share out")
        return call
    return replace(finer, parts=parts, near=())


def _with_scratch_of_its_own(steps: Sequence[Call | Fill], after: Sequence[Call | Fill]) -> list[Call | Fill]:
    """The steps after, where calls that had one scratch memory have one again: the largest that any of them asks for,
    as the groups of a convolution do."""
    most: dict[Buffer, Buffer] = {}
    pairs = [(a, b) for a, b in zip(steps, after, strict=True) if isinstance(a, Call) and isinstance(b, Call)]
    for a, b in pairs:
        if a.scratch is not None and b.scratch is not None:
            known = most.setdefault(a.scratch, b.scratch)
            most[a.scratch] = b.scratch if b.scratch.elements > known.elements else known
    made = {id(b): replace(b, scratch=most[a.scratch]) for a, b in pairs if a.scratch in most}
    return [made.get(id(s), s) for s in after]


def _moves_state(call: Call, state: Mapping[Buffer, Buffer]) -> bool:
    """Whether a call writes what state is next over what it is, as its order of work allows."""
    given = state.get(call.results[0].buffer)
    return given is not None and given in call.overlaps


def pitch(scratch: Buffer) -> int:
    """Elements from one part's scratch memory to the next one's, where one part takes all of ``scratch``."""
    step = max(LINE, scratch.align) // scratch.type.dtype.nbytes
    return -(-scratch.elements // step) * step


def _with_room(calls: list[Call]) -> dict[Buffer, Buffer]:
    """Scratch memory with a piece for each part, for what was that of one; several calls may take the same."""
    most: dict[Buffer, int] = {}
    for call in calls:
        if call.scratch is not None and call.parts is not None and call.parts.rounds == 1:
            most[call.scratch] = max(most.get(call.scratch, 1), call.parts.count)
    return {b: replace(b, type=TensorType(b.type.dtype, (n, pitch(b)))) for b, n in most.items()}


def _in_one_place(calls: list[Call]) -> dict[Buffer, Buffer]:
    """The largest of these for all calls in parts whose scratch memory has elements of a type."""
    own, one = _with_room(calls), dict[Buffer, Buffer]()
    for dtype in dict.fromkeys(b.type.dtype for b in own):
        alike = {b: w for b, w in own.items() if b.type.dtype == dtype}
        count, longest = (max(w.type.shape[a] for w in alike.values()) for a in (0, 1))
        place, align = next(iter(alike.values())), max(b.align for b in alike)
        wide = replace(place, type=TensorType(dtype, (count, longest)), align=align)
        one |= dict.fromkeys(alike, wide)
    return one


def _made(module: KernelModule, steps: Sequence[Call | Fill], places: Mapping[Buffer, Buffer]) -> KernelModule:
    """The module with these steps, and with other scratch memory where it is in pieces."""
    body = Block(tuple(_in_pieces(s, places) if isinstance(s, Call) else s for s in steps))
    before, left = ({s.scratch: None for s in of.linear() if isinstance(s, Call)} for of in (module.body, body))
    kept = [b for b in module.buffers if b not in before or b in left]
    added = [b for b in left if b is not None and b not in kept]
    return replace(module, buffers=[*kept, *added], body=body)


def _in_pieces(call: Call, places: Mapping[Buffer, Buffer]) -> Call:
    own = None if call.scratch is None else places.get(call.scratch)
    return call if own is None else replace(call, scratch=own)
