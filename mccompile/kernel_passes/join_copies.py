"""Copies in a row between two buffers become one, where their places are in arithmetic progression.

    call copy.generic concat {...} (x[4,2]{6,3}) -> y[4,2]{2,1}
    call copy.generic concat {...} (x+1[4,2]{6,3}) -> y+8[4,2]{2,1}
    call copy.generic concat {...} (x+2[4,2]{6,3}) -> y+16[4,2]{2,1}

take from one place further on each time, and write 8 further: one copy with an axis more, `x[3,4,2]{1,6,3}` to
`y[3,4,2]{8,2,1}`, of which the last two axes merge::

    call copy.generic concat {...} (x[3,8]{1,3}) -> y[3,8]{8,1}

>>> from mccompile.ir.kernel_parse import parse_module
>>> from mccompile.ir.kernel_text import call_text
>>> from mccompile.kernels.registry import params_of
>>> from mccompile.ops.registry import lookup
>>> module = parse_module('''kernels @g target=generic {
...   buffer x : f32[4,6] arena align=16 role=input
...   buffer y : f32[12,2] arena align=16 role=output
...   call copy.generic concat {axis=0} (x[4,2]{6,3}) -> y[4,2]{2,1}
...   call copy.generic concat {axis=0} (x+1[4,2]{6,3}) -> y+8[4,2]{2,1}
...   call copy.generic concat {axis=0} (x+2[4,2]{6,3}) -> y+16[4,2]{2,1}
... }''', lookup, params_of)
>>> run(module, Remarks()), [call_text(step) for step in module.body.linear()]
(2, ['call copy.generic concat {axis=0} (x[3,8]{1,3}) -> y[3,8]{8,1}'])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from mccompile.ir.kernel import Block, Call, KernelModule
from mccompile.ir.types import row_major
from mccompile.ir.views import View
from mccompile.kernel_passes.rewrite.steps import Step, is_copy
from mccompile.kernels.views.collapse import collapse
from mccompile.passes.manager import Remarks


def run(module: KernelModule, remarks: Remarks) -> int:
    """Make one copy of those in a row that differ by equal distances. Exact."""
    before = list(module.body.linear())
    after = _join(before, remarks)
    module.body = Block(tuple(after))
    return len(before) - len(after)


def _join(steps: Sequence[Step], remarks: Remarks) -> list[Step]:
    out: list[Step] = []
    at = 0
    while at < len(steps):
        end = at + 1
        while end < len(steps) and _may_join(steps[at : end + 1]):
            end += 1
        if end - at > 1:
            joined = _joined(steps[at:end])
            remarks.hit(f"joined {end - at} copies into {joined.results[0].buffer.name}")
            out.append(joined)
        else:
            out.append(steps[at])
        at = end
    return out if len(out) == len(steps) else _join(out, remarks)


def _may_join(steps: Sequence[Step]) -> bool:
    """Whether the last of some copies goes on as those before do."""
    first, last = steps[0], steps[-1]
    return _alike(first, last) and _even(steps) and _apart(first, last)


def _alike(a: Step, b: Step) -> bool:
    if not (isinstance(a, Call) and isinstance(b, Call) and is_copy(a) and is_copy(b)) or a.varies or b.varies:
        return False
    if a.loops != b.loops:
        return False
    pairs = [(a.reads[0], b.reads[0]), (a.results[0], b.results[0])]
    return all(
        v is not None and w is not None and v.buffer is w.buffer and v.shape == w.shape and v.strides == w.strides
        for v, w in pairs
    )


def _places(step: Step) -> tuple[int, int]:
    assert isinstance(step, Call)
    assert step.reads[0] is not None
    return step.reads[0].offset, step.results[0].offset


def _even(steps: Sequence[Step]) -> bool:
    """True if sources and results of copies each lie equally far apart; the first two always do."""
    places = [_places(s) for s in steps]
    gaps = {(c - a, d - b) for (a, b), (c, d) in itertools.pairwise(places)}
    return len(gaps) == 1


def _apart(first: Step, last: Step) -> bool:
    """Whether no copy reads what one of the others writes: within one buffer these have to be made in order."""
    assert isinstance(first, Call)
    assert isinstance(last, Call)
    read, written = _reach(first.reads[0], last.reads[0]), _reach(first.results[0], last.results[0])
    one_buffer = first.reads[0] is not None and first.reads[0].buffer is first.results[0].buffer
    return not one_buffer or read[1] < written[0] or written[1] < read[0]


def _reach(*views: View | None) -> tuple[int, int]:
    """Between which elements of their buffer all of some views lie."""
    places = [v.covered() for v in views if v is not None]
    return min(low for low, _ in places), max(high for _, high in places)


def _joined(steps: Sequence[Step]) -> Call:
    first = steps[0]
    assert isinstance(first, Call)
    (source, result), gaps = _places(first), _places(steps[1])
    views = []
    for v, step in ((first.reads[0], gaps[0] - source), (first.results[0], gaps[1] - result)):
        assert v is not None
        shape = (len(steps), *v.shape)
        views.append(View(v.buffer, shape, row_major(len(shape)), (step, *v.axis_strides()), v.offset))
    merged = collapse(views)
    assert not isinstance(merged, str)
    origins = tuple(dict.fromkeys(o for s in steps if isinstance(s, Call) for o in s.origins))
    return replace(first, reads=(merged[0],), results=(merged[1],), origins=origins)
