"""What the C of a call depends on: calls of one form are printed once.

    %a = conv(%x, %u) {...} with (%b) : f32[1,8,6,6]      the same operator, parameters, bodies, and views of the same
    %c = conv(%a, %v) {...} with (%d) : f32[1,8,6,6]      extents and strides of other buffers: one form

Kernels see views, not names, addresses or elements: where a view begins is the pointer that they are called with, so
that softmaxes of which each writes its own place of a concatenation are of one form. The one thing that they ask of
elements is how large those are that epilogues read which round to integers (`bounds.of_view`).
"""

from __future__ import annotations

import numpy as np

from mccompile.codegen.bounds import of_view
from mccompile.ir import expr as ex
from mccompile.ir.kernel import Call
from mccompile.ir.views import Buffer, View


def call_form(call: Call) -> object | None:
    """Equal for calls of which a template prints the same; None for a call that is like no other: numbers that are
    known at run time only are printed with the names of their symbols."""
    if call.varies or call.op.varying:
        return None
    seen: dict[Buffer, tuple[int, int]] = {}
    views = [None if v is None else _seen(v, seen) for v in (*call.inputs, *call.results)]
    whole = any(not part.dtype.is_float for _, body in call.post for part in ex.distinct(body))
    largest = tuple(of_view(v) if isinstance(v.buffer.data, np.ndarray) else None for v in call.extras if whole)
    scratch = None if call.scratch is None else call.scratch.type
    # Attributes by their text as well: 0.0 and -0.0 are equal, and so are 1 and True.
    attributes = (call.kernel, call.op, repr(call.op), call.params, repr(call.params))
    return (*attributes, len(call.reads), *views, call.pre, call.post, scratch, call.args, call.parts, largest)


def _seen(view: View, seen: dict[Buffer, tuple[int, int]]) -> tuple[object, ...]:
    """What a kernel sees of a view: its buffer by the number that it has in the call, and its beginning by that of
    the first view of the same buffer, from which others may be told to be the same elements."""
    b = view.buffer
    number, first = seen.setdefault(b, (len(seen), view.offset))
    place = (view.shape, view.factors, view.strides, view.offset == 0, view.offset - first)
    return (*place, b.type, b.halo, b.room, number)
