"""Decides which numbers of kernel calls are C parameters, so that calls which differ only in them share code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, islice

from mccompile.ir.kernel import Block, Call, Fill, KernelModule, View, number_names
from mccompile.kernels.registry import variant


def _form(view: View | None) -> object:
    return None if view is None else (view.dtype, view.factors)


def _key(call: Call) -> object:
    """What two calls must have in common to be rendered from one text."""
    views = tuple(_form(v) for v in (*call.inputs, *call.results))
    scratch = call.scratch.type.dtype if call.scratch else None
    return (call.kernel, call.op, call.params, views, call.pre, call.post, scratch)


def share_code(steps: Sequence[Call | Fill], may_share: Callable[[str], bool]) -> list[Call | Fill]:
    """The steps with ``args`` set: the numbers in which calls of a group differ. For size, at -Os.

    ``may_share`` tells of a kernel whether its template prints extents and strides as numbers of views.
    """
    groups: dict[object, list[Call]] = {}
    for step in steps:
        if isinstance(step, Call) and may_share(step.kernel):
            groups.setdefault(_key(step), []).append(step)
    args: dict[int, tuple[str, ...]] = {}
    for calls in groups.values():
        numbers = [number_names(c) for c in calls]
        differing = tuple(n for n in numbers[0] if len({table[n] for table in numbers}) > 1)
        args.update({id(c): differing for c in calls})
    return [replace(s, args=args[id(s)]) if isinstance(s, Call) and id(s) in args else s for s in steps]


def share_modules(modules: Sequence[KernelModule]) -> None:
    """Set ``args`` throughout modules that are to share kernels; views must be final, for their numbers decide."""
    bodies = [list(m.body.linear()) for m in modules]
    shared = iter(share_code(list(chain.from_iterable(bodies)), lambda kernel: variant(kernel).may_share))
    for m, body in zip(modules, bodies, strict=True):
        m.body = Block(tuple(islice(shared, len(body))))
