"""Kernel IR: kernel calls on views of buffers, which have no addresses yet.

Grammar (printing and parsing in `kernel_text`)::

    module  = "kernels" "@" name [extents] "target=" name "{" {buffer} {loop} {step} "}"
    loop    = "loop" name "trips=" int ["limited"] ["count=" name] ["going=" name] [when]  (by what holds its turn)
    buffer  = "buffer" name ":" type space "align=" int ["room=" "(" ints ")"]
              ["halo=" "(" int ":" int {"," int ":" int} ")" "fill=" num] ["role=" role] ["counts=" names]
              ["state=" name] ["sha256=" hex]
    space   = ("arena" ["." region] | "blob" | "caller") ["@" int]   (region and offset stand in program IR only)
    step    = "call" kernel op [attributes] ["params" "{" fields "}"] "(" [operand {"," operand}] ")"
              ["with" "(" view {"," view} ")"] {"pre" int body} {"post" int [":" dtype] body}
              "->" view {"," view} ["scratch" name] ["inplace" "(" ints ")"] ["near" "(" int ":" int ")"]
              ["args" "(" names ")"] ["parts" "(" name ":" ints ")"] ["means" (meaning | string)] [when] [in]
              [";" origin {"+" origin}]
            | "fill" view num [when] [in]
            | "{" {step} "}"
    when    = "when" "(" ["!"] name {"," ["!"] name} ")"
    in      = "in" "(" name {"," name} ")"        (the loops that it is a step of, outermost first)
    meaning = [op [attributes]] "(" [operand {"," operand}] ")" ["with" "(" view {"," view} ")"] "->" view {"," view}
    operand = view | "_"                                  (absent)
    view    = name [["+" int] "[" ints "]" "{" strides "}" [":" layout]]     (a name alone: the whole tensor)
              | "#" type hex [...]                        (in a meaning: a constant that is packed, by its digest)

The element type after ``post`` is that of ``acc``: what the kernel computes, before it is stored.
``state`` is the input that an output is in the next run.
``sha256`` stands for the elements of a blob buffer, which are kept beside the text. A ``meaning`` is what the views
are to the operator (`Logical`); a string says why it is not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mccompile.ir import expr as ex
from mccompile.ir.affine import Affine
from mccompile.ir.dims import Symbol, bound, exact, span, symbols, value, varies
from mccompile.ir.errors import InternalError
from mccompile.ir.op import Op, op_at
from mccompile.ir.parts import Parts
from mccompile.ir.scalar import Array
from mccompile.ir.turns import Loop
from mccompile.ir.types import DType, Factor, Layout, Shape, TensorType, is_linear, row_major

Halo = tuple[tuple[int, int], ...]


@dataclass(eq=False)
class Buffer:
    """A stretch of memory: a tensor's stored extents, with a halo of ``fill`` around them.

    ``space`` is "arena" or "blob" ("record" for constants that only a `Logical` view names), or "caller": memory of
    its own that the application lends as an input, which is never written, or as an output. ``role`` is "input",
    "output", "scratch", "count" (into which a kernel counts an extent) or "" (a temporary or weights).
    ``room`` are extents that strides come from instead of the tensor's own, where those vary and elements have to
    stay in their places. ``data`` holds a blob buffer's elements. ``region`` is the
    memory that the planner chose where the arena has several, else "".
    """

    name: str
    type: TensorType
    space: str
    align: int
    halo: Halo = ()
    fill: float = 0
    role: str = ""
    data: Array | None = None
    region: str = ""
    room: Shape = ()

    @property
    def kept(self) -> bool:
        """Whether it has to hold to the end of a run."""
        return self.role in ("output", "count")

    @property
    def extents(self) -> Shape:
        """Stored extents, halo included."""
        stored = self.room or self.type.stored_shape
        if not self.halo:
            return stored
        return tuple(e + lo + hi for e, (lo, hi) in zip(stored, self.halo, strict=True))

    @property
    def elements(self) -> int:
        """At the bounds of what is known at run time only, for which memory is planned; at least one, as arrays have
        in C."""
        return max(bound(math.prod(self.extents)), 1)

    @property
    def nbytes(self) -> int:
        return self.elements * self.type.dtype.nbytes


@dataclass(frozen=True)
class View:
    """Elements of a buffer under logical coordinates.

    The element at ``coordinate`` lies at ``offset + sum(strides[f] * factors[f](coordinate))`` elements.
    A stride of 0 repeats an element (broadcast), a negative one runs backwards.
    """

    buffer: Buffer
    shape: Shape
    factors: Layout
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        return self.buffer.type.dtype

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def linear(self) -> bool:
        return is_linear(self.factors)

    @property
    def varies(self) -> bool:
        """Whether an extent, a stride or the offset is known at run time only."""
        return varies((*self.shape, *self.strides, self.offset))

    def at(self, values: Mapping[str, int]) -> View:
        """The view where symbols of extents have values."""
        if not self.varies:
            return self
        shape, strides = (tuple(value(n, values) for n in of) for of in (self.shape, self.strides))
        return View(self.buffer, shape, self.factors, strides, value(self.offset, values))

    def by_extents(self) -> tuple[bool, ...]:
        """For each stored axis, whether its stride is the product of the extents of those behind it."""
        extents = [f.extent(self.shape) for f in self.factors]
        products = [math.prod(extents[i + 1 :]) for i in range(len(extents))]
        return tuple(p == s or e == 1 for p, s, e in zip(products, self.strides, extents, strict=True))

    def axis_strides(self) -> tuple[int, ...]:
        """The stride of each logical axis. InternalError unless `linear`."""
        if not self.linear:
            raise InternalError("a blocked view has no single stride per axis")
        table = {f.axis: s for f, s in zip(self.factors, self.strides, strict=True)}
        return tuple(table[a] for a in range(self.rank))

    def along(self, axes: Sequence[int]) -> View:
        """The view along some of its axes, in this order, the others held at 0. InternalError unless `linear`."""
        strides = self.axis_strides()
        shape, steps = (tuple(of[a] for a in axes) for of in (self.shape, strides))
        return View(self.buffer, shape, row_major(len(axes)), steps, self.offset)

    def turned(self, axes: Sequence[int]) -> View:
        """The view with its elements in the opposite order along some axes. InternalError unless `linear`."""
        strides = list(self.axis_strides())
        offset = self.offset
        for a in axes:
            offset += strides[a] * (self.shape[a] - 1)
            strides[a] = -strides[a]
        return View(self.buffer, self.shape, row_major(self.rank), tuple(strides), offset)

    def by_steps(self) -> list[int]:
        """The axes, those with the largest steps first. InternalError unless `linear`."""
        strides = self.axis_strides()
        return sorted(range(self.rank), key=lambda a: -abs(bound(strides[a])))

    @property
    def dense(self) -> bool:
        """True if the view covers its whole buffer in row-major order without a halo."""
        return self.gapless and self.offset == 0 and self.count == self.buffer.elements

    @property
    def gapless(self) -> bool:
        """True if elements follow each other in row-major order: f32[2,3] with strides (3, 1), not with (4, 1)."""
        if not self.linear:
            return False
        step = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.axis_strides()), strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True

    def same_elements(self, other: View) -> bool:
        """True if both address their buffers alike, so that one may overwrite the other in place."""
        mine = [(e, s) for e, s in zip(self._extents(), self.strides, strict=True) if e != 1]
        theirs = [(e, s) for e, s in zip(other._extents(), other.strides, strict=True) if e != 1]
        return self.shape == other.shape and self.offset == other.offset and mine == theirs

    def _extents(self) -> list[int]:
        return [f.extent(self.shape) for f in self.factors]

    def broadcast(self, shape: Shape) -> View:
        """The view under numpy's broadcast to ``shape``."""
        if shape == self.shape:
            return self
        shift = len(shape) - self.rank
        factors = [Factor(i) for i in range(shift)] + [Factor(f.axis + shift, f.div, f.mod) for f in self.factors]
        strides = [0] * shift
        for f, s in zip(self.factors, self.strides, strict=True):
            grown = self.shape[f.axis] == 1 and shape[f.axis + shift] != 1
            strides.append(0 if grown else s)
        return View(self.buffer, shape, tuple(factors), tuple(strides), self.offset)

    def reshape(self, shape: Shape) -> View | str:
        """The view under another shape of as many elements, or the reason why there is none."""
        if not self.linear:
            return "the layout is blocked"
        if self.gapless:
            return View(self.buffer, shape, row_major(len(shape)), _dense_strides(shape), self.offset)
        strides = _split(_runs(self.shape, self.axis_strides()), shape)
        if strides is None:
            return "the elements do not follow one stride per axis"
        return View(self.buffer, shape, row_major(len(shape)), strides, self.offset)

    def walk(self, maps: tuple[Affine, ...], loops: Shape) -> View | str:
        """The view of a loop nest: loop coordinates in, elements at the mapped coordinates out."""
        if not self.linear:
            return "the layout is blocked"
        strides = self.axis_strides()
        steps = [sum(s * m.coefs[k] for s, m in zip(strides, maps, strict=True)) for k in range(len(loops))]
        start = self.offset + sum(s * m.const for s, m in zip(strides, maps, strict=True))
        return View(self.buffer, loops, row_major(len(loops)), tuple(steps), start)


def _dense_strides(extents: Shape) -> tuple[int, ...]:
    strides, step = [], 1
    for e in reversed(extents):
        strides.append(step)
        step *= e
    return tuple(reversed(strides))


def _runs(shape: Shape, strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """(extent, stride) of axes of more than one element; neighbours that one stride walks through are one."""
    runs: list[tuple[int, int]] = []
    for extent, stride in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == stride * extent and extent != 1:
            runs[-1] = (runs[-1][0] * extent, stride)
        elif extent != 1:
            runs.append((extent, stride))
    return runs


def _split(runs: list[tuple[int, int]], shape: Shape) -> tuple[int, ...] | None:
    """The strides of axes that ``runs`` are cut into, None if an axis would take from two runs."""
    left = iter(runs)
    extent, stride = 1, 0
    strides = []
    for e in shape:
        if e == 1:
            strides.append(0)
            continue
        if extent == 1:
            extent, stride = next(left)
        rest = exact(extent, e)
        if rest is None:
            return None
        extent = rest
        strides.append(stride * extent)
    return tuple(strides)


def whole(buffer: Buffer) -> View:
    """The view of a buffer's tensor: the inside of its halo, in the tensor's layout."""
    strides = _dense_strides(buffer.extents)
    offset = sum(lo * s for (lo, _), s in zip(buffer.halo, strides, strict=False))
    return View(buffer, buffer.type.shape, buffer.type.factors, strides, offset)


def stored_alike(a: TensorType, b: TensorType) -> bool:
    """True if a tensor and its reshape have their elements in the same places."""
    if a.layout is None and b.layout is None:
        return True
    if not a.linear or not b.linear:
        return False
    seen, own = whole(Buffer("", a, "arena", 1)).reshape(b.shape), whole(Buffer("", b, "arena", 1))
    return not isinstance(seen, str) and seen.same_elements(own.along(range(own.rank)))


@dataclass(frozen=True)
class Logical:
    """The views of a call in the coordinates of its operator, where kernels see them with other axes.

    Packed constants stand here as they were: in buffers of their own, which are no part of the module. ``op`` is the
    operator if it has other attributes than the call's. ``missing`` says why nothing is known.
    """

    reads: tuple[View | None, ...] = ()
    results: tuple[View, ...] = ()
    extras: tuple[View, ...] = ()
    op: Op | None = None
    missing: str = ""


Condition = tuple[Buffer, bool]
"""A buffer of one bool, and what it has to be."""


@dataclass(frozen=True)
class Call:
    """One kernel call. ``kernel`` names the template ``<family>.<variant>``; ``params`` is its dataclass.

    ``reads`` are the operands (None: absent), ``extras`` what prologues and epilogues read, already
    broadcast. ``inplace`` lists the inputs (operands, then extras) that results[0] may overwrite, because
    the kernel reads each element before it writes the same one. ``near`` is an operand and a distance: the
    operand's buffer may lie over that of results[0] from as many bytes behind its beginning on, because what
    the kernel writes there it has read before. ``args`` names the numbers that are C parameters instead of literals.
    ``parts`` are what threads do of it at the same time, None where it is one piece of work. ``cycles`` is what the
    choice of the kernel has estimated, 0 where that is not known: it has no text.
    ``counts`` hold extents that kernels have counted, on which numbers of this call depend. It is made ``when`` all
    of some conditions hold, in each turn of the ``loops`` it is in, of which the outermost is first.
    ``step`` numbers follow from the position in the program. ``logical`` is for who evaluates the operator; no kernel
    reads it.
    """

    kernel: str
    op: Op
    params: object | None
    reads: tuple[View | None, ...]
    results: tuple[View, ...]
    extras: tuple[View, ...] = ()
    pre: tuple[tuple[int, ex.Expr], ...] = ()
    post: tuple[tuple[int, ex.Expr], ...] = ()
    scratch: Buffer | None = None
    inplace: tuple[int, ...] = ()
    args: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    near: tuple[int, int] | None = None
    logical: Logical | None = field(default=None, compare=False)
    counts: tuple[Buffer, ...] = ()
    when: tuple[Condition, ...] = ()
    loops: tuple[Loop, ...] = ()
    parts: Parts | None = None
    cycles: float = field(default=0.0, compare=False)

    @property
    def inputs(self) -> tuple[View | None, ...]:
        return self.reads + self.extras

    @property
    def trusted(self) -> tuple[Buffer, ...]:
        """What lies in the blob and says where it reads and writes, unchecked."""
        views = (self.reads[i] for i in self.op.trusted if i < len(self.reads))
        return tuple(v.buffer for v in views if v is not None and v.buffer.space == "blob")

    @property
    def varies(self) -> bool:
        """Whether one of its numbers is known at run time only."""
        return varies(self.op.numbers) or any(v.varies for v in self.views())

    def with_counts(self, counts: Mapping[str, Buffer]) -> Call:
        """The call with those of the buffers, by symbol, that its numbers depend on."""
        numbers = [*number_names(self).values(), *(v.offset for v in self.views())]
        found = tuple(counts[s.name] for s in symbols(*numbers) if s.name in counts)
        own = [v.buffer for v in self.results]
        return replace(self, counts=tuple(b for b in found if b not in own)) if found else self

    def at(self, values: Mapping[str, int]) -> Call:
        """The call on its views, and with its operator's numbers, where symbols of extents have values."""
        reads = tuple(None if v is None else v.at(values) for v in self.reads)
        results, extras = (tuple(v.at(values) for v in of) for of in (self.results, self.extras))
        return replace(self, op=op_at(self.op, values), reads=reads, results=results, extras=extras)

    def views(self) -> list[View]:
        """What it reads and writes."""
        return [v for v in (*self.inputs, *self.results) if v is not None]

    def buffers(self) -> list[Buffer]:
        views = [v.buffer for v in self.views()]
        scratch = [self.scratch] if self.scratch else []
        return list(dict.fromkeys([*views, *scratch, *self.counts, *_deciding(self)]))

    def written(self) -> list[Buffer]:
        """The buffers of its results."""
        return [v.buffer for v in self.results]

    def asked(self) -> list[Buffer]:
        """The buffers that it reads, and those that say whether, how often and how far it goes."""
        return [*_deciding(self), *self.counts, *(v.buffer for v in self.inputs if v is not None)]


def _deciding(step: Call | Fill) -> list[Buffer]:
    """The buffers that say whether and how often a step is made."""
    loops = [b for loop in step.loops for b in (loop.turn, *loop.asked)]
    return [*loops, *(b for b, _ in step.when)]


def number_names(call: Call) -> dict[str, int]:
    """Every number of a call's operator and views that may become a C parameter, by name."""
    numbers = {f"n{i}": n for i, n in enumerate(call.op.numbers)}
    for prefix, views in (("x", call.reads), ("e", call.extras), ("y", call.results)):
        for i, v in enumerate(views):
            if v is not None:
                numbers.update({f"{prefix}{i}_e{a}": n for a, n in enumerate(v.shape)})
                numbers.update({f"{prefix}{i}_s{a}": n for a, n in enumerate(v.strides)})
    return numbers


@dataclass(frozen=True)
class Fill:
    """Set every element of a view to a value; a halo is filled in every run, for arenas keep nothing."""

    view: View
    value: float
    when: tuple[Condition, ...] = ()
    loops: tuple[Loop, ...] = ()

    def at(self, values: Mapping[str, int]) -> Fill:
        """The fill of its view where symbols of extents have values."""
        return replace(self, view=self.view.at(values))

    def buffers(self) -> list[Buffer]:
        return list(dict.fromkeys([self.view.buffer, *_deciding(self)]))

    def written(self) -> list[Buffer]:
        return [self.view.buffer]

    def asked(self) -> list[Buffer]:
        """The buffers that say whether and how often it is made."""
        return _deciding(self)


@dataclass(frozen=True)
class Block:
    """Steps in order; those of a loop are neighbours, and each names its loops."""

    steps: tuple[Call | Fill | Block, ...] = ()

    def linear(self) -> Iterator[Call | Fill]:
        """The steps in the planner's time."""
        for step in self.steps:
            if isinstance(step, Block):
                yield from step.linear()
            else:
                yield step


@dataclass
class KernelModule:
    """Buffers and the steps that work on them. Input and output buffers are in graph order.

    ``counts`` are the buffers of one i32 into which kernels count, by the symbol that stands for it in extents. All
    other symbols are given by the caller. ``state`` has, for outputs, the input that each is in the next run: both
    get one address.
    """

    name: str
    target: str
    buffers: list[Buffer] = field(default_factory=list)
    body: Block = field(default_factory=Block)
    counts: dict[str, Buffer] = field(default_factory=dict)
    state: dict[Buffer, Buffer] = field(default_factory=dict)

    @property
    def held(self) -> set[Buffer]:
        """The buffers that hold from one run to the next: inputs and outputs that are state."""
        return {*self.state, *self.state.values()}

    def role(self, role: str) -> list[Buffer]:
        return [b for b in self.buffers if b.role == role]

    def symbols(self) -> list[Symbol]:
        """What extents depend on that are known at run time only."""
        return symbols(*self.numbers())

    def numbers(self) -> list[int]:
        """The numbers of all buffers and views, and those that operators give their kernels."""
        numbers = [n for b in self.buffers for n in b.type.shape]
        for step in self.body.linear():
            views = [step.view] if isinstance(step, Fill) else step.views()
            numbers += [n for v in views for n in (*v.shape, *v.strides, v.offset)]
            numbers += () if isinstance(step, Fill) else step.op.numbers
            numbers += [loop.trips for loop in step.loops]
        return numbers

    def trusted(self) -> set[Buffer]:
        """What lies in the blob and says where kernels read and write, unchecked."""
        return {b for step in self.body.linear() if isinstance(step, Call) for b in step.trusted}

    def loops(self) -> list[Loop]:
        """The loops in the order of their first steps."""
        return list(dict.fromkeys(loop for step in self.body.linear() for loop in step.loops))

    @property
    def align(self) -> int:
        """What arenas and blob are aligned to, in bytes, and what the sizes of arenas are multiples of: that of the
        buffer that asks for most, wherever it lies."""
        return max((b.align for b in self.buffers), default=1)

    def verify(self) -> None:
        """Raises InternalError if a view leaves its buffer, or a buffer is read before it is written."""
        known = set(self.buffers)
        names = [b.name for b in self.buffers]
        if len(set(names)) != len(names):
            raise InternalError("two buffers share a name")
        written = {b for b in self.buffers if b.space == "blob" or b.role == "input"}
        around: tuple[Loop, ...] = ()
        left: set[Loop] = set()
        for step in self.body.linear():
            for b in step.buffers():
                if b not in known:
                    raise InternalError(f"buffer {b.name} is not declared")
            left.update(loop for loop in around if loop not in step.loops)
            if any(loop in left for loop in step.loops):
                raise InternalError("the steps of a loop are no neighbours")
            begun = [loop for loop in step.loops if loop not in around]
            around = step.loops
            asked = [*(b for b, _ in step.when), *(step.counts if isinstance(step, Call) else ())]
            asked = [*(b for loop in begun for b in loop.asked), *asked]
            written.update(loop.turn for loop in begun)
            early = [b for b in asked if b not in written]
            if early:
                raise InternalError(f"what is in {early[0].name} is asked for before it is known")
            verify_step(step, written)
        given = {s for b in self.role("input") for s in symbols(*b.type.shape)}
        unknown = [s.name for s in self.symbols() if s not in given and s.name not in self.counts]
        if unknown:
            raise InternalError(f"nothing gives or counts the extent {unknown[0]}")
        for b in self.buffers:
            if b.kept and b not in written and b.type.count:
                raise InternalError(f"{b.role} {b.name} is never written")
        self._verify_state(known)

    def _verify_state(self, known: set[Buffer]) -> None:
        for kept, given in self.state.items():
            if {kept, given} - known or (kept.role, given.role) != ("output", "input"):
                raise InternalError(f"state {kept.name} is no output, or {given.name} no input")
            mine, theirs = ((b.space, b.nbytes, b.align) for b in (kept, given))
            if mine != theirs or kept.space != "arena":
                raise InternalError(f"state {kept.name} cannot lie where {given.name} does")
        if len(set(self.state.values())) != len(self.state):
            raise InternalError("two outputs are one input of the next run")


def verify_step(step: Call | Fill, written: set[Buffer]) -> None:
    """Raises InternalError if a view leaves its buffer or is read before it is ``written``; adds what it writes."""
    for view in [step.view] if isinstance(step, Fill) else [*step.inputs, *step.results]:
        if view is not None:
            verify_view(view)
    reads = () if isinstance(step, Fill) else step.inputs
    for v in reads:
        if v is not None and v.buffer not in written:
            raise InternalError(f"{v.buffer.name} is read before it is written")
    for v in (step.view,) if isinstance(step, Fill) else step.results:
        if v.buffer.space != "arena" and (v.buffer.space, v.buffer.role) != ("caller", "output"):
            raise InternalError(f"{v.buffer.name} is written, which is not in the arena and no output")
        written.add(v.buffer)


def verify_view(view: View) -> None:
    stored = sorted((f.axis, f.div, f.mod) for f in view.factors)
    if len(view.strides) != len(stored) or {axis for axis, _, _ in stored} != set(range(view.rank)):
        raise InternalError(f"a view of {view.buffer.name} has {view.rank} axes and {len(view.strides)} strides")
    first = last = view.offset
    for f, s in zip(view.factors, view.strides, strict=True):
        reach = s * (f.extent(view.shape) - 1)  # of extents that may be 0 as well: then nothing is touched
        first, last = (first + reach, last) if span(s)[0] < 0 else (first, last + reach)
    low, high = span(first)[0], bound(last)
    if bound(view.count) and (low < 0 or high >= view.buffer.elements):
        raise InternalError(f"a view of {view.buffer.name} covers [{low}, {high}] of {view.buffer.elements} elements")
