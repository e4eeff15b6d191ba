"""What a kernel variant is and what it may ask of the lowering that calls it."""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Protocol

from mccompile._dataclass import dataclass
from mccompile.ir.dims import bound, span, varies
from mccompile.ir.graph import Node, Value
from mccompile.ir.kernel import Call, Logical
from mccompile.ir.op import Op
from mccompile.ir.scalar import Array
from mccompile.ir.types import F32, DType
from mccompile.ir.views import Buffer, Halo, View
from mccompile.kernels.model.parts import Turns
from mccompile.kernels.model.widening import widened_operand
from mccompile.targets.target import Target


class Packing(Protocol):
    """How a constant is rearranged at compile time. A frozen dataclass: equal packings are stored once."""

    def pack(self, array: Array) -> Array: ...


@dataclass(frozen=True)
class Demand:
    """What a variant needs of the buffer of ``operand``: a halo per logical axis, filled with ``fill``."""

    operand: int
    halo: Halo
    fill: float = 0


@dataclass(frozen=True)
class Offer:
    """What a variant would make of a node, and what that takes: what is priced is what is lowered.

    Attributes:
        label: tells it from every other offer for the node: the kernel, and its parameters where several have that.
        cycles: estimated, on the target.
        params: what `Variant.lower` makes the kernel's parameters of: mostly these themselves.
        demands: what the operands' buffers must offer.
        growth_bytes: by how much packed constants exceed the constants as they are, where that is more than padding.
        spends_arena: it takes a good deal of the arena to be fast, beside the halos that it demands.
    """

    label: str
    cycles: float
    params: object | None = None
    demands: tuple[Demand, ...] = ()
    growth_bytes: int = 0
    spends_arena: bool = False

    @property
    def enlarges_arena(self) -> bool:
        return self.spends_arena or any(lo or hi for d in self.demands for lo, hi in d.halo)


@dataclass(frozen=True)
class Staged:
    """Parameters of a kernel that keeps ``count`` elements of its operand or result in scratch memory."""

    params: object
    count: int


@dataclass(frozen=True)
class Compact:
    """A call with less code: the bytes of machine code that it saves, and the multiply-adds that it takes more."""

    call: Call
    bytes: float
    macs: float


class Builder(Protocol):
    """The lowering of one node, as a variant sees it."""

    target: Target

    def read(self, value: Value) -> View:
        """The view of a value in memory; a constant is stored in the blob as it is."""
        ...

    def is_constant(self, value: Value) -> bool:
        """Whether `packed` may be asked for: the elements are known."""
        ...

    def result(self, index: int) -> View:
        """The view of a result of the node."""
        ...

    def packed(self, value: Value, how: Packing) -> View:
        """The view of a packed constant."""
        ...

    def seen(self, value: Value, how: Packing) -> View:
        """The view of a rearranged constant for ``logical``: it is stored nowhere."""
        ...

    def read_halo(self, demand: Demand) -> View:
        """The view of an operand whose coordinates may run into the demanded halo."""
        ...

    def scratch(self, count: int, dtype: DType) -> Buffer:
        """Memory of the call's own: ``count`` uninitialised elements, aligned for the target."""
        ...

    def fill(self, view: View, value: float) -> None:
        """Emit a step that sets every element of a view."""
        ...

    def call(
        self,
        kernel: str,
        reads: list[View | None],
        results: list[View],
        *,
        op: Op | None = None,
        params: object | None = None,
        scratch: Buffer | None = None,
        extras: list[View] | None = None,
        inplace: tuple[int, ...] | None = None,
        logical: Logical | None = None,
    ) -> None:
        """Emit a call of the node's operator (or ``op``), its prologues and epilogues included.

        ``extras`` default to the node's, broadcast to what they are applied to. ``inplace`` are the inputs
        the result may overwrite; by default the extras an epilogue reads at the element it writes. ``logical`` is
        what the views are to ``op``; where a node is one call, the node's own views are by default.
        """
        ...


class Variant:
    """One way to compute an operator. Subclasses override what differs from the defaults."""

    ops: ClassVar[tuple[str, ...]] = ()
    kernel: ClassVar[str] = ""
    params: ClassVar[type | None] = None
    """The frozen dataclass of the ``params`` it gives to its calls; None if it gives none."""
    may_share: ClassVar[bool] = True
    """Whether the template prints every extent and stride by `BoundView.e` and `index`: then -Os may share it."""

    stores_rows: ClassVar[bool] = False
    """Whether the template stores elements of results one behind the other, whatever their views are."""

    elementwise: ClassVar[bool] = False
    """Whether all views of a call have one shape, whose axes mean nothing: they may be cut and merged at will, and
    the result may overwrite any input that lies alike."""
    wants_pixels: ClassVar[bool] = False
    """Whether it is faster where the channels of a pixel lie side by side, which targets without vectors leave to the
    planned peak."""
    rereads: ClassVar[tuple[int, ...]] = ()
    """Operands whose elements are read many times: where there is a cache, neighbours are to stay neighbours."""

    pads_of_run: ClassVar[bool] = False
    """Whether a template that is not generic does for windows whose pads are known at run time only."""

    def runs(self, node: Node) -> bool:
        """Whether the template does for the extents and the pads of a node, of which some are known at run time."""
        told = self.pads_of_run or self.kernel.endswith(".generic") or not varies(getattr(node.op, "pads", ()))
        return told and self.takes(node)

    def takes(self, node: Node) -> bool:
        """Whether the template does for a node whose extents are known at run time only.

        `offer` sees the node at the largest extents, which its parameters are chosen for; `lower` sees it as it is.
        """
        return (self.may_share and self.kernel.endswith(".generic")) or not node.varies

    @property
    def label(self) -> str:
        """Tells it from every other variant of the operator."""
        return self.kernel

    def numbers(self, node: Node, target: Target, constants: Container[Value]) -> Hashable:
        """What `offer` asks of the elements of constants: nodes that differ in it have answers of their own."""
        return None

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        """What it takes to compute the node, with the parameters that its model prefers; or why it cannot.

        ``constants`` are the values whose elements are known, which may be rearranged at compile time.
        By default any node, at the price of scalar code.
        """
        return Offer(self.label, scalar_estimate(node))

    def offers(self, node: Node, target: Target, constants: Container[Value]) -> Iterator[Offer]:
        """`offer`, then the same kernel with other parameters, for `mccompile.tune` to measure. Their estimates must
        not be lower, and the labels differ. Nothing if the node is not supported."""
        preferred = self.offer(node, target, constants)
        if isinstance(preferred, Offer):
            yield preferred

    def lower(self, node: Node, offer: Offer, b: Builder) -> None:
        """Emit the calls that compute the node as ``offer`` says: by default one, every operand as it is stored."""
        reads = [None if v is None else b.read(v) for v in node.operands]
        b.call(self.kernel, reads, [b.result(i) for i in range(len(node.results))])

    def shared(self, call: Call) -> Hashable:
        """What of its operator calls must have in common to share code, if they differ in numbers of views alone."""
        return call.op

    def near(self, call: Call) -> int | None:
        """How many bytes behind the beginning of result 0's buffer that of operand 0 may begin, though they overlap:
        nothing is overwritten before it is read. None if the kernel makes no such offer."""
        return None

    def overlaps(self, call: Call) -> tuple[tuple[int, int], ...]:
        """The inputs whose buffers may overlap result 0's, and how many bytes behind its beginning."""
        distance = self.near(call)
        return () if distance is None else ((0, distance),)

    def overwrites(self, call: Call) -> tuple[int, ...]:
        """The inputs whose place result 0 may take, element by element, beside those that `Builder.call` was told:
        asked for when the views are final."""
        return ()

    def parallel(self, call: Call, target: Target) -> Sequence[Turns]:
        """The loops of the kernel whose turns may be made at the same time, outermost first, of a call without
        extents of the run. A template prints each by `loop`, `nest`, `tiles` or `span`, and does nothing outside of
        it but what each part may do for itself, in its own scratch memory."""
        return ()

    def apart(self, call: Call, parts: int, target: Target) -> Call:
        """The call with its work in so many pieces at least, where it had fewer, and with no more scratch memory."""
        return call

    def compact(self, call: Call, alone: bool, target: Target) -> Compact | None:
        """The call with less code, which takes a little longer; None if there is none. Results may be stored twice
        only if it is ``alone``: no operand shares memory with them, and nobody else computes a part of them."""
        return None

    def staged(self, call: Call) -> Staged | None:
        """How result 0 may take the place of operand 0, if its kernel keeps aside what it needs; None if not."""
        return None

    def narrowed(self, call: Call, pixels: int) -> Call | None:
        """The call with tiles of so few pixels, whose results lie closer behind what it reads; None if it has no
        larger ones, or makes no offer of that kind."""
        return None

    def forwards(self, call: Call) -> Call:
        """The same call, its loops turned where that reads memory forwards and their order means nothing."""
        return call

    def refuses(self, before: Call, after: Call, target: Target) -> str:
        """Why a call of this kernel cannot, or should not, be given other views of equal extents; empty if it can.

        The generic templates index through any strides: a stride of 0 where a view repeats an element, a negative
        one where it runs backwards without gaps, any offset. A variant that assumes more says so here, and what makes
        sums says `sums_backwards`.
        """
        turned = axes_backwards(after) if self.elementwise else []
        reads = (v for v in after.inputs if v is not None)
        if any(backwards_apart(v.turned(turned) if turned else v) for v in reads):
            return f"{self.kernel} would read backwards with gaps"
        if self.stores_rows and not all(v.gapless for v in after.results):
            return f"{self.kernel} stores its results row by row"
        if not self.kernel.endswith(".generic"):
            return f"{self.kernel} is made for the views it was given"
        for i in self.rereads if target.cached else ():
            x, y = before.reads[i], after.reads[i]
            if x is None or y is None or bound(x.count) * x.dtype.nbytes <= target.machine.l1 // 2:
                continue
            if scattered(x, y):
                return f"{self.kernel} would read far apart what it reads many times"
        return ""


class Plain(Variant):
    """Base of the families whose templates have neither prologue nor epilogue."""

    def offer(self, node: Node, target: Target, constants: Container[Value]) -> Offer | str:
        if node.pre or node.post:
            return f"{self.kernel} carries no prologue or epilogue"
        return super().offer(node, target, constants)


def varies_in_batch(node: Node) -> bool:
    """Whether no extent of a node but that of the first axis, which its template loops over, depends on the run."""
    tensors = [v for v in (*node.operands, *node.results) if v is not None]
    return not varies([*node.op.numbers, *node.op.varying, *(e for v in tensors for e in v.shape[1:])])


def scalar_estimate(node: Node) -> float:
    """Cycles of a node in a plain loop."""
    macs = node.op.macs(node.operand_types(), [r.type for r in node.results])
    return 4.0 * macs + float(sum(r.type.count for r in node.results))


def computed(node: Node, constants: Container[Value], *operands: int) -> str:
    """Why operands of a node cannot be packed; empty if all of them are constants."""
    found = [i for i in operands if node.operands[i] not in constants]
    return f"operand {found[0]} is no constant" if found else ""


def laid_out(node: Node) -> bool:
    """Whether an operand or result of a node has a layout, instead of rows."""
    return any(v.type.layout is not None for v in (*node.inputs, *node.results))


def blocked(of: Node | Call) -> str:
    """Why the elements of an operand or result of a node, or of a call, are not told by strides; empty if all are."""
    if isinstance(of, Call):
        linear = [v.linear for v in (*of.inputs, *of.results) if v is not None]
    else:
        linear = [v.type.linear for v in (*of.inputs, *of.results)]
    return "" if all(linear) else "a layout has blocks"


def scattered(before: View, after: View) -> bool:
    """True if neighbours on the last axis were neighbours in memory, and are no more."""
    return innermost_stride(before) in (0, 1) and innermost_stride(after) not in (0, 1)


def innermost_stride(view: View) -> int | None:
    """How far apart neighbours on the last axis of more than one element lie; None if the layout is blocked."""
    if not view.linear:
        return None
    steps = [s for s, e in zip(view.axis_strides(), view.shape, strict=True) if e != 1]
    return steps[-1] if steps else 1


def neighbours(view: View) -> bool:
    """True if the elements along the last axis follow each other in memory, so that vectors of them may be read as
    they lie: not where one element is repeated, nor backwards. A single element, of no axis, is its own line."""
    return view.linear and (not view.rank or view.shape[-1] == 1 or view.axis_strides()[-1] == 1)


def vectors_apart(after: Call, *operands: int) -> str:
    """Why vectors along the last axis of some operands, which a kernel reads as they lie, could be read no more."""
    views = [after.reads[i] for i in operands]
    if any(v is not None and not neighbours(v) for v in views):
        return f"{after.kernel} reads neighbours on the last axis as they lie"
    return ""


def axes_backwards(call: Call) -> list[int]:
    """The axes along which the first operand that has several elements there is read backwards, of a call that goes
    element by element: `read-forwards` turns them."""
    reads = [v for v in call.inputs if v is not None]
    if not all(v.linear and v.rank == call.results[0].rank for v in (*reads, *call.results)):
        return []
    found = []
    for a, extent in enumerate(call.results[0].shape):
        strides = [s for v in reads if (s := v.axis_strides()[a])]
        if extent > 1 and strides and strides[0] < 0:
            found.append(a)
    return found


def backwards_apart(view: View) -> bool:
    """Whether elements are read backwards, with others in between. gcc 12 -O3 loads groups of neighbours then, of the
    first of which a part lies behind the operand, as of this view of x[9,4]::

        x+34[9,2]{-4,1}        x[34..37], of 36
    """
    if not view.linear or all(span(s)[0] >= 0 for s in view.strides):
        return False
    steps = [(span(s)[0], bound(e)) for e, s in zip(view.shape, view.axis_strides(), strict=True) if bound(e) > 1]
    if all(s >= 0 for s, _ in steps):
        return False
    walked = [(abs(s), e) for s, e in steps if s]
    return sum(s * (e - 1) for s, e in walked) + 1 > math.prod(e for _, e in walked)


def sums_backwards(view: View, axes: Sequence[int], steps: Sequence[int] | None = None) -> str:
    """Why a sum over ``axes`` of a view, the last of which is the innermost loop, must not be compiled; empty if it
    may. ``steps`` are those of the loops, where they are not 1.

    gcc 12 -O3 adds the wrong elements of a run that is read backwards:

        for (r = 0; r < rows; r++)
            for (k = 0; k < 3; k++) s += x[r * 3 - k];    464 instead of 384
    """
    if not view.linear:
        return ""
    strides = view.axis_strides()
    walked = [strides[a] * s for a, s in zip(axes, steps or [1] * len(axes), strict=True) if view.shape[a] > 1]
    return "a sum would read its elements backwards" if walked and walked[-1] == -1 else ""


def read_forwards(call: Call, first: int) -> Call:
    """A call with the axes from ``first`` on, whose elements it may take in any order, turned in all views that have
    them, where operand 0 is read backwards."""
    x = call.reads[0]
    assert x is not None
    if not x.linear:
        return call
    axes = [a for a in range(first, x.rank) if x.axis_strides()[a] < 0]

    def turned(view: View) -> View:
        return view.turned(axes) if view.rank == x.rank else view

    reads = tuple(None if v is None else turned(v) for v in call.reads)
    return replace(
        call, reads=reads, results=tuple(map(turned, call.results)), extras=tuple(map(turned, call.extras))
    )


FEW_LINES = 8
"""Lines of a set of the first cache: as many places far apart are written without pushing each other out."""


def lines_broken(before: Call, after: Call, reads: bool = True) -> str:
    """Why vectors along the last axis of extras, and with ``reads`` of operand 0, would have to be gathered: they may
    be neighbours or one repeated element, as `Vectors.lanes_of` loads them. See `vectors_apart`, too.

    Results may lie anywhere (but see `lines_spread`): what is stored once is stored lane by lane.
    """
    old = (before.reads[0] if reads else None, *before.extras)
    new = (after.reads[0] if reads else None, *after.extras)
    if any(a is not None and b is not None and scattered(a, b) for a, b in zip(old, new, strict=True)):
        return f"{before.kernel} wants neighbours on the last axis to be neighbours in memory"
    return ""


def lines_spread(before: Call, after: Call, target: Target) -> str:
    """Why storing the vectors of results lane by lane would take longer than a copy: more lines of a large result
    are open at a time than the cache holds, when their distance is a power of two."""
    for a, b in zip(before.results, after.results, strict=True):
        large = b.rank > 0 and _bytes_met(b, target.machine.line) > target.machine.l1 // 2
        many = large and bound(b.shape[-1]) > FEW_LINES
        far = scattered(a, b) and bound(abs(innermost_stride(b) or 0)) * b.dtype.nbytes >= target.machine.line
        if target.cached and target.lanes and many and far:
            return f"{before.kernel} would store its vectors lane by lane, far apart"
    return ""


def _bytes_met(view: View, line: int) -> int:
    """Bytes of the lines of a cache that the elements of a view lie in, about: of every eighth float, half a line
    each. Lines that have one element each are met once, however they are stored: of these, the elements count."""
    strides = view.axis_strides() if view.linear else ()
    steps = [abs(bound(s)) for s, e in zip(strides, view.shape, strict=False) if e != 1 and s != 0]
    apart = min(steps, default=1) * view.dtype.nbytes
    return bound(view.count) * (apart if apart < line else view.dtype.nbytes)


def not_plain_f32(node: Node, target: Target, operands: int | None = None, weights: int | None = None) -> str:
    """Why no vectors of f32 can be read as they are from (the first) ``operands`` of a node; empty if they can.

    Operand ``weights`` may be stored in one of the forms of `mccompile.kernels.model.widening`: the template has to
    load it by `Vectors.weights`.
    """
    if not target.lanes:
        return "the target has no vectors"
    if target.compact and target.lanes == 1:
        return "tiles of single floats take code"
    narrow = weights is not None and bool(widened_operand(node, weights))
    if any(i != weights or not narrow for i in node.pre):
        return "an operand has a prologue"
    read = [x for i, x in enumerate(node.operands[:operands]) if i != weights or not narrow]
    if any(x is not None and x.dtype != F32 for x in read):
        return "only f32 is vectorised"
    return ""


def operand_pair(node: Node) -> tuple[Value, Value]:
    """The two operands of a node that has exactly two, none absent."""
    first, second = node.operands
    assert first is not None
    assert second is not None
    return first, second
