"""What cannot be made in the place where state is kept is copied there when all else is done.

    buffer h : f32[4] arena align=16 role=input
    buffer g : f32[4] arena align=16 role=output state=h
    call map.generic map {...} (h) -> g
    call map.generic map {...} (g, h) -> y

Both ``g`` and ``h`` are read by the second call, so that ``g`` cannot lie over ``h`` yet. It gets a place of its
own::

    call map.generic map {...} (h) -> g.made
    call map.generic map {...} (g.made, h) -> y
    call copy.generic slice {...} (g.made) -> g               and g is h of the next run

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> module = parse_module('''kernels @g target=generic {
...   buffer h : f32[4] arena align=16 role=input
...   buffer g : f32[4] arena align=16 role=output state=h
...   buffer y : f32[4] arena align=16 role=output
...   call map.generic map {expr={neg(x0)}} (h) -> g inplace(0)
...   call map.generic map {expr={(x0 + x1)}} (g, h) -> y inplace(0,1)
... }''', lookup, params_of)
>>> run(module, Remarks())
1
>>> [b.name for b in module.buffers], {kept.name: given.name for kept, given in module.state.items()}
(['h', 'g.made', 'g', 'y'], {'g': 'h'})

What is joined to its state lies there already: the copy is offered to be made in place, and is nothing then. What is
moved towards the beginning of its state, as in a window that is shifted, is moved where it lies: the copy
says that it may (``near``).
"""

from __future__ import annotations

from dataclasses import replace

from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Block, Call, Fill, KernelModule
from mccompile.ir.names import free_name
from mccompile.ir.views import Buffer, whole
from mccompile.kernel_passes.rewrite.rebind import COPY
from mccompile.kernels.copy import ahead
from mccompile.kernels.views.collapse import collapse
from mccompile.ops.slice import Slice
from mccompile.passes.manager import Remarks
from mccompile.plan.orders import state_apart


def run(module: KernelModule, remarks: Remarks) -> int:
    """Let every output that is state be written when the input it becomes has been read for the last time. Exact."""
    before = list(module.body.linear())
    after = [_shifted(module, step) for step in before]
    module.body = Block(tuple(after))
    moved = sum(a is not b for a, b in zip(before, after, strict=True))
    apart = state_apart(module) if module.state else []
    for kept, given in list(module.state.items()):
        if kept in apart:
            remarks.miss("kept in place", "what it was is read when it is made, or later", kept.name)
            _copy_at_end(module, kept)
        else:
            remarks.hit(f"{kept.name} is kept in the place of {given.name}")
    return moved + len(apart)


def _shifted(module: KernelModule, step: Call | Fill) -> Call | Fill:
    """The step; a copy of state into what it is next, with the offer to be made in place if it can."""
    if not isinstance(step, Call) or step.kernel != COPY or step.near or step.reads[0] is None:
        return step
    if module.state.get(step.results[0].buffer) is not step.reads[0].buffer or step.pre or step.post:
        return step
    if step.reads[0].same_elements(step.results[0]):
        return replace(step, inplace=(0,))
    return replace(step, near=((0, 0),)) if ahead(step) == 0 else step


def _copy_at_end(module: KernelModule, kept: Buffer) -> None:
    place = replace(kept)
    kept.role, kept.name = "", free_name(f"{kept.name}.made", {b.name for b in module.buffers}, ".")
    module.buffers.insert(module.buffers.index(kept) + 1, place)
    module.state = {place if b is kept else b: given for b, given in module.state.items()}
    shape = kept.type.shape
    op = Slice((0,) * len(shape), (1,) * len(shape), shape)
    views = collapse([whole(kept), whole(place)])
    if isinstance(views, str):
        raise InternalError(views)
    copy = Call(COPY, op, None, (views[0],), (views[1],), origins=(place.name,)).with_counts(module.counts)
    module.body = Block((*module.body.steps, copy))
