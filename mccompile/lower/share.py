"""Decides which numbers of kernel calls are C parameters, so that calls which differ only in them share code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from mccompile.ir.kernel import Call, Fill, View, number_names


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
