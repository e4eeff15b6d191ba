"""The meaning of kernel IR in numpy: every buffer is an array, every call is its operator on views of arrays.

    buffer a : f32[6]      call conv.channels conv {...} (a[1,2,3,1]{6,3,1,1}, packed) -> b

A kernel may see ``a`` with other axes than its operator and weights that were packed: then the call's `Logical` views
say what these are to the operator, whose `evaluate` is asked. Copies move elements, whatever their operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from mccompile.ir import expr as ex
from mccompile.ir.dims import value
from mccompile.ir.errors import CompileError, InternalError
from mccompile.ir.kernel import Call, Condition, Fill, KernelModule, Logical
from mccompile.ir.op import op_at
from mccompile.ir.scalar import Array, as_computed
from mccompile.ir.turns import Numbered, Turns, nested
from mccompile.ir.views import Buffer, View, whole
from mccompile.kernels.copy import CopyGeneric
from mccompile.kernels.registry import variant


def evaluate(module: KernelModule, inputs: Mapping[str, Array], wide: bool = False) -> dict[str, Array]:
    """The outputs of a module by name. ``wide`` computes floats in float64, as `Graph.evaluate`.

    Raises:
        CompileError: an input has another shape than its buffer.
        InternalError: a call does not know what its views are to its operator; says why.
    """
    memory = _Memory(wide)
    for b in module.role("input"):
        if inputs[b.name].shape != b.type.shape:
            raise CompileError(f"input {b.name} has shape {inputs[b.name].shape}, not {b.type.shape}")
        memory.write(whole(b), inputs[b.name])
    counted: dict[Buffer, list[str]] = {}
    for name, b in module.counts.items():
        counted.setdefault(b, []).append(name)
    _run_all(nested(list(module.body.linear())), memory, counted)
    outputs = [whole(b) for b in module.role("output")]
    return {v.buffer.name: memory.read(v.at(memory.extents(module.counts.values(), counted))).copy() for v in outputs}


def unknown(module: KernelModule) -> dict[str, str]:
    """The kernels of which some call cannot be evaluated, and why."""
    calls = [s for s in module.body.linear() if isinstance(s, Call)]
    return {c.kernel: c.logical.missing for c in calls if c.logical is not None and c.logical.missing}


def _run_all(items: Sequence[Numbered | Turns], memory: _Memory, counted: Mapping[Buffer, list[str]]) -> None:
    for item in items:
        if isinstance(item, Turns):
            _run_loop(item, memory, counted)
        elif memory.holds(item[1].when):
            step = item[1]
            known = memory.extents([b for b in step.buffers() if b not in step.written()], counted)
            if isinstance(step, Fill):
                memory.write(step.view.at(known), np.asarray(step.value))
            else:
                _run(step, memory, known, counted)


def _run_loop(turns: Turns, memory: _Memory, counted: Mapping[Buffer, list[str]]) -> None:
    loop = turns.loop
    if not memory.holds(loop.when):
        return
    trips = value(loop.trips, memory.extents(loop.counts, counted))
    going = [] if loop.going is None else [(loop.going, True)]
    memory.write(whole(loop.turn), np.asarray(0))
    while memory.holds(going):
        done = memory.scalar(loop.turn)
        if done >= (trips if loop.count is None else memory.scalar(loop.count)) and not loop.endless:
            return
        if done >= trips:
            raise CompileError(f"the loop {loop.turn.name} makes more than {trips} turns")
        _run_all(turns.inside, memory, counted)
        memory.write(whole(loop.turn), np.asarray(done + 1))


def _run(call: Call, memory: _Memory, known: Mapping[str, int], counted: Mapping[Buffer, list[str]]) -> None:
    """``known`` are the extents that were counted before: what the call counts itself, its results tell."""
    own = variant(call.kernel)
    views = call.logical or Logical(call.reads, call.results, call.extras)
    if views.missing:
        raise InternalError(f"{call.kernel} of {'+'.join(call.origins)} cannot be evaluated: {views.missing}")
    extras = [memory.read(v.at(known)) for v in views.extras]
    pre, post = dict(call.pre), dict(call.post)
    arrays = [None if v is None else memory.read(v.at(known)) for v in views.reads]
    arrays = [_applied(pre.get(i), a, extras, memory.wide) for i, a in enumerate(arrays)]
    if isinstance(own, CopyGeneric):
        results: Sequence[Array | None] = arrays
    else:
        with np.errstate(all="ignore"):
            op = op_at(views.op or call.op, known)
            arrays = list(map(as_computed, arrays)) if post else arrays
            results = op.evaluate_wide(*arrays) if memory.wide else op.evaluate(*arrays)
    made = [_applied(post.get(i), result, extras, memory.wide) for i, result in enumerate(results)]
    pairs = list(zip(views.results, made, strict=True))
    found = {name: int(a.item()) for view, a in pairs if a is not None for name in counted.get(view.buffer, ())}
    for view, a in pairs:
        assert a is not None
        memory.write(view.at({**known, **found}), a)


def _applied(body: ex.Expr | None, a: Array | None, extras: Sequence[Array], wide: bool) -> Array | None:
    """An operand after its prologue, or a result after its epilogue."""
    if body is None or a is None:
        return a
    found = ex.evaluate(body, lambda i: a if i == ex.ACC else extras[i], wide)
    return np.broadcast_to(found, np.broadcast_shapes(a.shape, found.shape))




class _Memory:
    """The elements of every buffer; what was never written is NaN, or 0 of other types."""

    def __init__(self, wide: bool) -> None:
        self.wide = wide
        self._arrays: dict[Buffer, Array] = {}

    def _of(self, b: Buffer) -> Array:
        if b not in self._arrays:
            stored = b.type.dtype.evaluated(self.wide)
            if b.data is not None:
                self._arrays[b] = b.data.reshape(-1).astype(stored)
            else:
                self._arrays[b] = np.full(b.elements, np.nan if stored.kind == "f" else 0, stored)
        return self._arrays[b]

    def scalar(self, b: Buffer) -> int:
        """The number in a buffer of one."""
        return int(self.read(whole(b)).reshape(-1)[0])

    def holds(self, when: Sequence[Condition]) -> bool:
        return all(bool(self.scalar(b)) == wanted for b, wanted in when)

    def extents(self, buffers: Iterable[Buffer], counted: Mapping[Buffer, list[str]]) -> dict[str, int]:
        """What the symbols are that are counted into some of these buffers."""
        return {name: self.scalar(b) for b in buffers for name in counted.get(b, ())}

    def read(self, view: View) -> Array:
        return self._seen(view) if view.linear else self._of(view.buffer)[_places(view)]

    def write(self, view: View, values: Array) -> None:
        with np.errstate(over="ignore"):  # what a small float does not hold is infinite, as in C
            stored = np.asarray(values).astype(view.dtype.evaluated(self.wide))
        if stored.ndim and stored.shape != view.shape:
            raise InternalError(f"{view.buffer.name}: a view of {view.shape} is given {stored.shape}")
        if view.linear:
            self._seen(view)[...] = stored
        else:
            self._of(view.buffer)[_places(view)] = stored

    def _seen(self, view: View) -> Array:
        """A linear view as numpy's own."""
        flat = self._of(view.buffer)
        strides = tuple(s * flat.itemsize for s in view.axis_strides())
        if not view.count:
            return np.empty(view.shape, flat.dtype)
        return np.ndarray(view.shape, flat.dtype, flat, view.offset * flat.itemsize, strides)


def _places(view: View) -> Array:
    """The place of each element of a view in its buffer."""
    at = np.full(view.shape, view.offset, np.int64)
    for f, stride in zip(view.factors, view.strides, strict=True):
        digit = np.arange(view.shape[f.axis]) // f.div
        digit = digit % f.mod if f.mod else digit
        at += (digit * stride).reshape([-1 if a == f.axis else 1 for a in range(view.rank)])
    return at
