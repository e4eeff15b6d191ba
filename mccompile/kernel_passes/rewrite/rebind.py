"""Calls on other views: what a call becomes when a buffer it touches is seen through a copy.

Worked example: `copy` takes the right half of x[2,6] to a[2,3], and a map reads all of a as one run. Seen through
the copy that run is two rows of x, so the map runs over y in rows as well, which is y as it is. Another kernel than
an element-wise one counts on the axes it has, and stays as it is.

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.ir.kernel_text import call_text
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> from mccompile.targets.target import resolve
>>> module = parse_module('''kernels @g target=generic {
...   buffer x : f32[2,6] arena align=16 role=input
...   buffer a : f32[2,3] arena align=16
...   buffer y : f32[2,3] arena align=16 role=output
...   call copy.generic slice {starts=(0, 3), steps=(1, 1), extents=(2, 3)} (x+3[2,3]{6,1}) -> a[2,3]{3,1}
...   call map.generic map {expr={neg(x0)}} (a[6]{1}) -> y[6]{1}
... }''', lookup, params_of)
>>> copy, negate = module.body.linear()
>>> (near,), (far,) = copy.results, copy.reads
>>> call_text(rebound(negate, near.buffer, near, far, resolve("generic"), writes=False))
'call map.generic map {expr={neg(x0)}} (x+3[2,3]{6,1}) -> y'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mccompile.ir.dims import UndecidedError, span, symbols
from mccompile.ir.kernel import Call, Logical
from mccompile.ir.types import row_major
from mccompile.ir.views import Buffer, View
from mccompile.kernel_passes.rewrite.views import Refined, cut, seen_through
from mccompile.kernels.registry import variant
from mccompile.kernels.variant import lines_spread
from mccompile.kernels.views.collapse import collapse, in_stored_order
from mccompile.targets.target import Target

COPY = "copy.generic"


def rebound(
    call: Call, buffer: Buffer, near: View, far: View, target: Target, *, writes: bool, beside: bool = False
) -> Call | str:
    """``call`` with its views of ``buffer`` seen through the copy ``near`` <-> ``far``.

    ``beside``: other copies fill other parts of the buffer; views that meet none of this one's stay.
    Returns the reason if the kernel cannot take the views.
    """
    try:
        return _rebound(call, buffer, near, far, target, writes, beside)
    except UndecidedError as e:
        return str(e)


def _rebound(
    call: Call, buffer: Buffer, near: View, far: View, target: Target, writes: bool, beside: bool
) -> Call | str:
    if set(symbols(*far.shape, *far.strides, far.offset)) - set(symbols(*near.shape, *near.strides, near.offset)):
        return "it would depend on extents that the copy does not know"
    views: list[View | None] = [*call.inputs, *call.results]
    refined: list[Refined | View | None] = list(views)
    for k, v in enumerate(views):
        if v is None or v.buffer is not buffer or (k >= len(call.inputs) and not writes):
            continue
        found = seen_through(v, near, far)
        if isinstance(found, str):
            if beside and _apart(v, near):
                continue
            return found
        refined[k] = found
    own = variant(call.kernel)
    whole = [r.whole if isinstance(r, Refined) else r for r in refined]
    if own.elementwise:
        cut_views = _cut_alike(refined)
        if isinstance(cut_views, str):
            return cut_views
        collapsed = collapse(in_stored_order(cut_views))
        if isinstance(collapsed, str):
            return collapsed
        whole = list(collapsed)
    elif any(w is None and r is not None for w, r in zip(whole, refined, strict=True)):
        return f"{call.kernel} would need more axes"
    if not all(v.is_inside for v in whole if isinstance(v, View)):
        return "the ranges of its extents do not tell that it stays inside of the buffer"
    after = own.forwards(_with_views(call, whole))
    after = replace(after, logical=_logical(call, buffer, near, far, writes))
    if not own.kernel.endswith(".generic") and (reason := lines_spread(call, after, target)):
        return reason
    return own.refuses(call, after, target) or after


def _logical(call: Call, buffer: Buffer, near: View, far: View, writes: bool) -> Logical | None:
    """What the views of a call are to its operator, seen through the copy as well."""
    old = call.logical
    if old is None or old.missing:
        return old
    seen: list[View | None] = []
    for k, v in enumerate((*old.reads, *old.extras, *old.results)):
        is_result = k >= len(old.reads) + len(old.extras)
        if v is None or v.buffer is not buffer or (is_result and not writes):
            seen.append(v)
            continue
        found = seen_through(v, near, far)
        if not isinstance(found, str):
            seen.append(found.regrouped)
        elif _apart(v, near):
            seen.append(v)
        else:
            return Logical(missing=found)
    n, m = len(old.reads), len(old.reads) + len(old.extras)
    extras, results = (tuple(v for v in part if v is not None) for part in (seen[n:m], seen[m:]))
    return Logical(tuple(seen[:n]), results, extras, old.op)


def _with_views(call: Call, views: Sequence[View | None]) -> Call:
    """The call on other views; it may overwrite what it could before, where that lies alike still."""
    n = len(call.inputs)
    inputs = views[:n]
    results = tuple(v for v in views[n:] if v is not None)
    offered = range(n) if variant(call.kernel).elementwise else call.inplace
    inplace = tuple(k for k in offered if (v := inputs[k]) is not None and v.same_elements(results[0]))
    extras = tuple(v for v in inputs[len(call.reads) :] if v is not None)
    return replace(
        call, reads=tuple(inputs[: len(call.reads)]), extras=extras, results=results,
        inplace=() if call.kernel == COPY else inplace,
    )  # fmt: skip


def _cut_alike(refined: Sequence[Refined | View | None]) -> list[View] | str:
    """Views of one shape, with the axes cut in all of them where they are cut in one."""
    views = [r.view if isinstance(r, Refined) else r for r in refined if r is not None]
    if any(v.shape != views[0].shape for v in views):
        return "its views differ in extents"
    parts: list[tuple[int, ...]] = [(e,) for e in views[0].shape]
    for r in refined:
        if isinstance(r, Refined):
            for axis, found in enumerate(r.parts):
                extents = tuple(e for e, _ in found)
                if len(extents) == 1 or extents == parts[axis]:
                    continue
                if len(parts[axis]) > 1:
                    return "two operands would cut an axis in different ways"
                parts[axis] = extents
    out = []
    for r in refined:
        if isinstance(r, Refined):
            out.append(_cut_refined(r, parts))
        elif r is not None:
            if not r.linear:
                return "the layout is blocked"
            out.append(cut(r, parts))
    return out


def _cut_refined(r: Refined, parts: Sequence[tuple[int, ...]]) -> View:
    """A refined view with the given cuts, of which its own are some."""
    shape: list[int] = []
    strides: list[int] = []
    for own, extents in zip(r.parts, parts, strict=True):
        if len(own) == len(extents):
            strides += [s for _, s in own]
        else:
            step = own[0][1]
            inner = 1
            steps = []
            for extent in reversed(extents):
                steps.append(step * inner)
                inner *= extent
            strides += reversed(steps)
        shape += extents
    flat = View(r.view.buffer, (), (), (), r.offset)
    return replace(flat, shape=tuple(shape), factors=row_major(len(shape)), strides=tuple(strides))


def _apart(a: View, b: View) -> bool:
    """True if two views of one buffer certainly have no element in common: what begins at n may begin at 0."""
    (a_low, a_high), (b_low, b_high) = _range(a), _range(b)
    return span(b_low - a_high)[0] > 0 or span(a_low - b_high)[0] > 0


def _range(v: View) -> tuple[int, int]:
    reach = [s * (f.extent(v.shape) - 1) for f, s in zip(v.factors, v.strides, strict=True)]
    return v.offset + sum(min(r, 0) for r in reach), v.offset + sum(max(r, 0) for r in reach)
