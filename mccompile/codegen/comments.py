"""The comment above a kernel: what it computes, from what, for which steps, and where its pointers share bytes.

A convolution that two steps call, whose result lies over its operand:

    /* conv 3x3 p1 'Conv_4' and 1 more, steps @2, @5 (conv.generic): x0 f32[1,16..32,8,8], x1 weights f32[16,16,3,3],
     * e0 constants f32[16,1,1] -> y0 f32[1,16,8,8] = relu(acc + e0). y0 may lie over x0, hence no restrict: what is
     * written over x0 has been read. */
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Protocol, runtime_checkable

from mccompile._dataclass import dataclass
from mccompile.codegen.names import MAX_LABEL, comment, label
from mccompile.codegen.shared_numbers import form_of
from mccompile.codegen.wrapping import wrap_comment
from mccompile.ir import expr as ex
from mccompile.ir.dims import varies
from mccompile.ir.kernel import Call, Fill
from mccompile.ir.names import first_of
from mccompile.ir.op import Kind
from mccompile.ir.types import Shape, TensorType, layout_text
from mccompile.ir.views import View

MAX_STEPS = 12
"""So many runs of steps are listed; how many others there are is said."""
MAX_BODY = 160
"""Characters of an expression that are shown."""
MAX_EXTENTS = 3
"""So many extents of calls are shown where they are known at run time only; how many others there are is said."""


@dataclass(frozen=True)
class Use:
    """A step that calls a kernel. ``shared`` are the inputs that share bytes with a result."""

    model: str
    number: int
    step: Call | Fill
    shared: frozenset[int] = frozenset()


@runtime_checkable
class _Windowed(Protocol):
    """Parameters of kernels that know their window, which packed weights do not show."""

    @property
    def kernel(self) -> tuple[int, ...]: ...


def kernel_comment(kernel: str, uses: Sequence[Use], room: int = MAX_LABEL) -> str:
    """The comment of a kernel, on lines of no more than `wrapping.COLUMNS`; the name of a node has so much ``room``.
    """
    first = uses[0].step
    where = f"{_steps(uses)} ({kernel})"
    if isinstance(first, Fill):
        views = [u.step.view for u in uses if isinstance(u.step, Fill)]
        return wrap_comment(f"fill, {where}: y0 {_types(views)} = {first.value:g}.")
    calls = [u.step for u in uses if isinstance(u.step, Call)]
    text = f"{_operator(first)}{_origin(calls, room)}, {where}: {_operands(calls)}{_results(calls)}."
    return wrap_comment(text + _overlap(uses))


def _operator(call: Call) -> str:
    """The operator with its window and attributes: ``conv 3x3 s2``."""
    name, _, attributes = call.op.describe().partition(" ")
    if not call.kernel.startswith(f"{name}."):
        return f"{call.kernel.partition('.')[0]} for {name}"
    words = [name, "x".join(map(str, _window(call))), _short(attributes)]
    return comment(" ".join(filter(None, words)))


def _window(call: Call) -> Sequence[int]:
    """The extents of a convolution's kernel, if the weights or the parameters show them."""
    x, weights = (*call.reads, None, None)[:2]
    if call.op.kind is not Kind.COMPLEX or x is None or weights is None:
        return ()
    if isinstance(call.params, _Windowed):
        return call.params.kernel if len(call.params.kernel) == x.rank - 2 else ()
    return weights.shape[2:] if call.kernel in ("conv.generic", "conv_transpose.generic") else ()


def _origin(calls: Sequence[Call], room: int) -> str:
    """The ONNX node of the first call's operator, and how many other calls there are."""
    names = [name for c in calls for name in c.origins[:1]]
    if not names:
        return ""
    more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
    return f" '{label(names[0], room)}'{more}"


def _steps(uses: Sequence[Use]) -> str:
    """``steps @1-@3, @7``, by model if there are several."""
    models = dict.fromkeys(u.model for u in uses)
    texts = []
    for model in models:
        runs = _runs(u.number for u in uses if u.model == model)
        plural = "s" if len(runs) > 1 or "-" in runs[0] else ""
        texts.append(f"{model + ' ' if len(models) > 1 else ''}step{plural} {first_of(runs, MAX_STEPS)}")
    return "; ".join(texts)


def _runs(numbers: Iterable[int]) -> list[str]:
    """``@4`` for a number alone, ``@1-@3`` for a run of three or more."""
    runs: list[list[int]] = []
    for n in numbers:
        if runs and runs[-1][-1] == n - 1:
            runs[-1].append(n)
        else:
            runs.append([n])
    out = []
    for run in runs:
        out += [f"@{run[0]}-@{run[-1]}"] if len(run) > 2 else [f"@{n}" for n in run]
    return out


def _operands(calls: Sequence[Call]) -> str:
    """Every pointer that is read: its role, its type, its prologue."""
    first = calls[0]
    pre = dict(first.pre)
    texts = []
    bodies = [dict(c.pre) for c in calls]
    for prefix, views in (("x", [c.reads for c in calls]), ("e", [c.extras for c in calls])):
        for i, view in enumerate(views[0]):
            if view is None:
                continue
            role = _role(first, view) if prefix == "x" else _role_beside(first, i)
            read = f" read as {_body([b[i] for b in bodies])}" if prefix == "x" and i in pre else ""
            texts.append(f"{prefix}{i}{role} {_types([v[i] for v in views])}{read}")
    return ", ".join(texts)


def _role(call: Call, view: View) -> str:
    if view.buffer.space != "blob":
        return ""
    return " weights" if call.op.kind is Kind.COMPLEX and view is not call.reads[0] else " constants"


def _role_beside(call: Call, i: int) -> str:
    """What an extra operand is: constants that are added to a result are a bias."""
    if call.extras[i].buffer.space != "blob":
        return ""
    return " bias" if any(_adds(body, i) for _, body in call.post) else " constants"


def _adds(e: ex.Expr, i: int) -> bool:
    if isinstance(e, ex.Apply) and e.fn == "add":
        operands = {a.index for a in e.operands if isinstance(a, ex.Var)}
        if {ex.ACC, i} <= operands:
            return True
    return any(_adds(a, i) for a in e.args)


def _results(calls: Sequence[Call]) -> str:
    first = calls[0]
    post = [dict(c.post) for c in calls]
    body = getattr(first.op, "expr", None) if first.op.name == "map" else None
    texts = []
    for i in range(len(first.results)):
        stored = _body([p[i] for p in post]) if i in post[0] else ""
        value = f" = {stored}" if stored else ""
        if isinstance(body, ex.Expr):
            bodies = [b for c in calls if isinstance(b := getattr(c.op, "expr", None), ex.Expr)]
            value = f" = {_body(bodies, 'x')}" + (f", stored as {stored}" if stored else "")
        texts.append(f"y{i} {_types([c.results[i] for c in calls])}{value}")
    return " -> " + ", ".join(texts)


def _body(bodies: Sequence[ex.Expr], prefix: str = "e") -> str:
    """An expression of all calls: ``i32(4..6)`` for a number that is not the same in all of them; the first one where
    others are of another form, though their C is the same."""
    forms = [form_of(ex.text(b, prefix)) for b in bodies]
    forms = [f for f in forms if f.pieces == forms[0].pieces]
    numbers = [_range(n) for n in zip(*(f.numbers for f in forms), strict=True)]
    text = "".join(chain.from_iterable(zip(forms[0].pieces, (*numbers, ""), strict=True)))
    if len(text) > MAX_BODY:
        return _short(text)
    return text[1:-1] if text.startswith("(") and isinstance(bodies[0], ex.Apply) else text


def _short(text: str) -> str:
    return text if len(text) <= MAX_BODY else text[: MAX_BODY - 3] + "..."


def _types(views: Sequence[View | None]) -> str:
    """The type of a pointer in one call, or the range of types in several."""
    shapes = [_shape(v) for v in views if v is not None]
    first = next(v for v in views if v is not None)
    if any(len(s) != len(shapes[0]) for s in shapes):
        return f"{first.dtype}[{_extents(shapes[:1])}] or another shape"
    layout = first.buffer.type.layout
    order = f" {layout_text(layout)}" if layout is not None and len(shapes[0]) == first.buffer.type.rank else ""
    return f"{first.dtype}[{_extents(shapes)}]{order}"


def _shape(view: View) -> Shape:
    """The logical extents of what a view shows: of the tensor as a whole, or of a part."""
    whole = view.buffer.space == "blob" or view.count == view.buffer.type.count
    return view.buffer.type.shape if whole else view.shape


def type_text(t: TensorType) -> str:
    """A type as a comment shows it: of a sum of a hundred counts, how it begins.

    >>> from mccompile.ir.types import F32
    >>> type_text(TensorType(F32, (3, 4)))
    'f32[3,4]'
    """
    layout = "" if t.layout is None else f":{layout_text(t.layout)}"
    return f"{t.dtype}[{_extents([t.shape])}]{layout}"


def _extents(shapes: Sequence[Shape]) -> str:
    return ",".join(map(_range, zip(*shapes, strict=True)))


def _range(extents: Sequence[int]) -> str:
    """An extent, or another number, in one call or several."""
    if varies(extents):
        told = list(dict.fromkeys(_short(str(e)) for e in extents))
        more = [f"{len(told) - MAX_EXTENTS} others"] if len(told) > MAX_EXTENTS else []
        return " or ".join([*told[:MAX_EXTENTS], *more])
    low, high = min(extents), max(extents)
    return str(low) if low == high else f"{low}..{high}"


def _overlap(uses: Sequence[Use]) -> str:
    """Why pointers are not ``restrict``: which results may lie over which inputs, and why that is right."""
    first = uses[0].step
    assert isinstance(first, Call)
    shared = sorted(frozenset().union(*(u.shared for u in uses)))
    if not shared:
        return ""
    names = [f"x{i}" if i < len(first.reads) else f"e{i - len(first.reads)}" for i in shared]
    results = ", ".join(f"y{i}" for i in range(len(first.results)))
    inputs = " or ".join(names)
    return f" {results} may lie over {inputs}, hence no restrict: what is overwritten there has been read."
