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
              ["args" "(" names ")"] ["parts" "(" name ":" ints ["rounds" int] ")"]
              ["means" (meaning | string)] [when] [in]
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

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace

from mccompile._dataclass import dataclass
from mccompile.ir import expr as ex
from mccompile.ir.dims import symbols, varies
from mccompile.ir.dims_terms import Symbol
from mccompile.ir.errors import InternalError
from mccompile.ir.op import Op, op_at, op_with
from mccompile.ir.parts import Parts
from mccompile.ir.turns import Loop
from mccompile.ir.views import Buffer, View, verify_view


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
    the kernel reads each element before it writes the same one. ``near`` are inputs and their distances: the
    buffer of one may lie over that of results[0] from as many bytes behind its beginning on, because what the
    kernel writes there it has read before. ``args`` names the numbers that are C parameters instead of literals.
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
    near: tuple[tuple[int, int], ...] = ()
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
    def overlaps(self) -> dict[Buffer, int]:
        """The buffers that may lie over that of results[0], and how many bytes behind its beginning: those of which
        something is offered for all the inputs that read them."""
        if not self.near or len(self.results) != 1:
            return {}
        offered = {i for i, _ in self.near}
        apart = {v.buffer for i, v in enumerate(self.inputs) if v is not None and i not in offered}
        found: dict[Buffer, int] = {}
        for i, distance in self.near:
            v = self.inputs[i]
            if v is not None and v.buffer not in apart and v.buffer is not self.results[0].buffer:
                found[v.buffer] = max(distance, found.get(v.buffer, 0))
        return found

    @property
    def trusted(self) -> tuple[Buffer, ...]:
        """What lies in the blob and says where it reads and writes, unchecked."""
        views = (self.reads[i] for i in self.op.trusted if i < len(self.reads))
        return tuple(v.buffer for v in views if v is not None and v.buffer.space == "blob")

    @property
    def varies(self) -> bool:
        """Whether one of its numbers is known at run time only."""
        return bool(self.op.told) or varies(self.op.numbers) or any(v.varies for v in self.views())

    def with_counts(self, counts: Mapping[str, Buffer]) -> Call:
        """The call with those of the buffers, by symbol, that its numbers depend on."""
        if not counts:
            return self
        numbers = [*number_names(self).values(), *self.op.told, *(v.offset for v in self.views())]
        found = tuple(counts[s.name] for s in symbols(*numbers) if s.name in counts)
        own = [v.buffer for v in self.results]
        return replace(self, counts=tuple(b for b in found if b not in own)) if found else self

    def at(self, values: Mapping[str, int]) -> Call:
        """The call on its views, and with its operator's numbers, where symbols of extents have values."""
        if not values:
            return self
        return self._with(lambda v: v.at(values), op_at(self.op, values))

    def with_numbers(self, change: Callable[[int], int]) -> Call:
        """The call with the numbers of its views and its operator changed, where they vary."""
        return self._with(lambda v: v.with_numbers(change), op_with(self.op, change))

    def _with(self, view: Callable[[View], View], op: Op) -> Call:
        reads = tuple(None if v is None else view(v) for v in self.reads)
        results, extras = (tuple(map(view, of)) for of in (self.results, self.extras))
        return replace(self, op=op, reads=reads, results=results, extras=extras)

    def views(self) -> list[View]:
        """What it reads and writes."""
        return [v for v in (*self.inputs, *self.results) if v is not None]

    def buffers(self) -> tuple[Buffer, ...]:
        """All that it touches, each once."""
        return self._buffers

    @functools.cached_property
    def _buffers(self) -> tuple[Buffer, ...]:
        views = [v.buffer for v in self.views()]
        scratch = [self.scratch] if self.scratch else []
        return tuple(dict.fromkeys([*views, *scratch, *self.counts, *_deciding(self)]))

    def written(self) -> list[Buffer]:
        """The buffers of its results."""
        return [v.buffer for v in self.results]

    def asked(self) -> list[Buffer]:
        """The buffers that it reads, and those that say whether, how often and how far it goes."""
        return [*self.deciding(), *(v.buffer for v in self.inputs if v is not None)]

    def deciding(self) -> list[Buffer]:
        """The buffers that say whether, how often and how far it goes."""
        return [*_deciding(self), *self.counts]


def _deciding(step: Call | Fill) -> list[Buffer]:
    """The buffers that say whether and how often a step is made."""
    loops = [b for loop in step.loops for b in (loop.turn, *loop.asked)]
    return [*loops, *(b for b, _ in step.when)]


def excluded(a: Sequence[Condition], b: Sequence[Condition]) -> bool:
    """Whether no run has steps of both conditions: one wants what the other does not."""
    return any((buffer, not truth) in b for buffer, truth in a)


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
    """Set every element of a view to a value; a halo is filled in every run, for arenas keep nothing.

    ``counts`` hold extents that kernels have counted, on which the numbers of the view depend.
    """

    view: View
    value: float
    when: tuple[Condition, ...] = ()
    loops: tuple[Loop, ...] = ()
    counts: tuple[Buffer, ...] = ()

    def with_counts(self, counts: Mapping[str, Buffer]) -> Fill:
        """The fill with those of the buffers, by symbol, that its view depends on."""
        numbers = (*self.view.shape, *self.view.strides, self.view.offset)
        found = tuple(dict.fromkeys(counts[s.name] for s in symbols(*numbers) if s.name in counts))
        return replace(self, counts=found) if found else self

    def at(self, values: Mapping[str, int]) -> Fill:
        """The fill of its view where symbols of extents have values."""
        return replace(self, view=self.view.at(values))

    def buffers(self) -> tuple[Buffer, ...]:
        """All that it touches, each once."""
        return tuple(dict.fromkeys([self.view.buffer, *self.counts, *_deciding(self)]))

    def written(self) -> list[Buffer]:
        return [self.view.buffer]

    def asked(self) -> list[Buffer]:
        return self.deciding()

    def deciding(self) -> list[Buffer]:
        """The buffers that say whether, how often and how far it goes."""
        return [*_deciding(self), *self.counts]


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
            unasked = [b for b in step.with_counts(self.counts).counts if b not in step.counts]
            if unasked:
                raise InternalError(f"a step depends on what is in {unasked[0].name}, and does not ask for it")
            asked = [*(b for loop in begun for b in loop.asked), *(b for b, _ in step.when), *step.counts]
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
            if b.kept and b not in written and b.type.count != 0:
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
