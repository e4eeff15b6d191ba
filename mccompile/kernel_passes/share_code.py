"""Decides which numbers of kernel calls are C parameters, so that calls which differ only in them share code.

    call map.generic map {...} (a[8]{1}) -> b[8]{1}
    call map.generic map {...} (c[5]{2}) -> d[5]{1}

are one C function of ``x0_e0``, ``x0_s0`` and ``y0_e0``: the numbers that are not equal in all of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, islice

from mccompile.ir.kernel import Block, Call, Fill, KernelModule, number_names
from mccompile.ir.views import View
from mccompile.kernels.registry import variant
from mccompile.passes.manager import Remarks


def run(module: KernelModule, remarks: Remarks) -> int:
    """Make C parameters of the numbers in which kernel calls differ, so that one function serves all. Exact."""
    before = list(module.body.linear())
    share_modules([module])
    after = list(module.body.linear())
    changed = [b for a, b in zip(before, after, strict=True) if isinstance(b, Call) and a != b]
    for kernel in dict.fromkeys(c.kernel for c in changed):
        calls = [c for c in changed if c.kernel == kernel]
        remarks.hit(f"shared {kernel} between {len(calls)} calls")
    return len(changed)


def _form(view: View | None) -> object:
    return None if view is None else (view.dtype, view.factors)


def _key(call: Call) -> object:
    """What two calls must have in common to be rendered from one text."""
    views = tuple(_form(v) for v in (*call.inputs, *call.results))
    scratch = call.scratch.type.dtype if call.scratch else None
    return (call.kernel, variant(call.kernel).shared(call), call.params, views, call.pre, call.post, scratch)


def share_code(steps: Sequence[Call | Fill], may_share: Callable[[str], bool]) -> list[Call | Fill]:
    """The steps with ``args`` set: the numbers in which calls of a group differ. For size, at -Os.

    ``may_share`` tells of a kernel whether its template prints extents and strides as numbers of views.
    """
    groups: dict[object, list[int]] = {}
    for i, step in enumerate(steps):
        if isinstance(step, Call) and may_share(step.kernel):
            groups.setdefault(_key(step), []).append(i)
    out = list(steps)
    for group in groups.values():
        calls = _alike([s for s in (steps[i] for i in group) if isinstance(s, Call)])
        numbers = [number_names(c) for c in calls]
        differing = tuple(n for n in numbers[0] if len({table[n] for table in numbers}) > 1)
        for i, call in zip(group, calls, strict=True):
            out[i] = replace(call, args=differing)
    return out


def _alike(calls: list[Call]) -> list[Call]:
    """Calls of one group with strides as products of extents, only if they are such in all of them."""
    if len({tuple(v and v.by_extents() for v in (*c.inputs, *c.results)) for c in calls}) == 1:
        return calls
    return list(map(by_strides, calls))


def by_strides(call: Call) -> Call:
    """The call with no stride as a product of extents."""
    if not getattr(call.params, "by_extents", False):
        return call
    return replace(call, params=replace(call.params, by_extents=False))  # type: ignore[type-var]


def share_modules(modules: Sequence[KernelModule]) -> None:
    """Set ``args`` throughout modules that are to share kernels; views must be final, for their numbers decide."""
    bodies = [list(m.body.linear()) for m in modules]
    shared = iter(share_code(list(chain.from_iterable(bodies)), lambda kernel: variant(kernel).may_share))
    for m, body in zip(modules, bodies, strict=True):
        m.body = Block(tuple(islice(shared, len(body))))
