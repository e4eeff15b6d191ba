"""Renders the kernels of a program once each: calls whose text is equal share a function.

On microcontrollers, with vectors below -O3, and where code is to be small, so do calls whose texts differ only in
numbers (`codegen/shared_numbers.py`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from mccompile._dataclass import dataclass
from mccompile.codegen import loops
from mccompile.codegen.binding import KERNEL_NAME, BoundView, Head, KernelContext
from mccompile.codegen.c_expr import literal
from mccompile.codegen.call_form import call_form
from mccompile.codegen.code import extent_name
from mccompile.codegen.comments import Use, kernel_comment
from mccompile.codegen.foreign import foreign_call
from mccompile.codegen.inlined_functions import with_one_text
from mccompile.codegen.loops import part_numbers
from mccompile.codegen.one_lane import vectors_for
from mccompile.codegen.savings import (
    BYTES_OF_LETTER,
    BYTES_OF_TILE_LETTER,
    SLOWER,
    SLOWER_CHANNELS,
    SLOWER_COPY,
    SLOWER_TILE,
    Allowed,
    Saving,
    least_saving,
    results,
    saved,
)
from mccompile.codegen.scaled import scaled_channels
from mccompile.codegen.shared_functions import (
    Alike,
    Function,
    functions_alike,
    functions_beside,
    names_of,
    own_name,
    shared_functions,
    with_own_names,
)
from mccompile.codegen.shared_numbers import Form, Joined, form_of, joined, mentioned, with_parameters
from mccompile.codegen.templates import indent_c, render
from mccompile.codegen.uses import printed_names
from mccompile.codegen.words import Words
from mccompile.ir.dims import polynomial, symbols
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Call, Fill, number_names
from mccompile.ir.program import Program
from mccompile.ir.views import View, whole
from mccompile.kernels.registry import variant
from mccompile.kernels.variant import Compact
from mccompile.targets.target import Target


@dataclass(frozen=True)
class Kernel:
    """A C function: what it is declared as, its text, the helpers and headers that it uses, the tables it reads."""

    head: Head
    kernel: str
    text: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.head.name

    @property
    def prototype(self) -> str:
        """The declaration of a kernel with an external name."""
        return f"{self.head.text};"


@dataclass(frozen=True)
class Rendered:
    """A kernel in which `KERNEL_NAME` stands for its name."""

    head: Head
    text: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Invocation:
    """A step of the program as a call of a C function: pointer arguments as views, then numbers. None of one that has
    nothing to do; what is no integer is a float as C, or the name of a number (`part_numbers`)."""

    kernel: Kernel | None
    step: Call | Fill
    pointers: tuple[View, ...]
    numbers: tuple[int | str, ...]


class KernelPool:
    """Kernels by text, for one program or for several that share them.

    ``prefix`` begins their names. ``external`` ones can be called from other files. ``rendered`` are the steps of
    each program, by its name. ``shared`` are functions that several kernels call, by the names that the texts of
    kernels have for them (`shared_functions`): the first kernel that calls one has it beside it.
    """

    def __init__(self, prefix: str, external: bool = False) -> None:
        self.prefix = prefix
        self.external = external
        self.rendered: dict[str, list[Invocation]] = {}
        self.shared: dict[str, Rendered] = {}
        self._own_names: dict[str, str] = {}
        self._by_text: dict[str, Kernel] = {}
        self._uses: dict[str, list[Use]] = {}

    @property
    def kernels(self) -> list[Kernel]:
        """In order of first use."""
        return list(self._by_text.values())

    def comment(self, kernel: Kernel) -> str:
        """What a kernel is and which steps call it, of all programs rendered so far."""
        return kernel_comment(kernel.kernel, self._uses[kernel.name])

    def intern(self, made: Rendered, kernel: str, use: Use) -> Kernel:
        """The C function of a rendered text, made on first sight; ``use`` is one more step that calls it."""
        if made.text not in self._by_text:
            fn = f"{self.prefix}_k{len(self._by_text)}_{kernel.split('.')[0]}"
            text, uses = self._with_shared(made, fn)
            body = indent_c(text.replace(KERNEL_NAME, fn))
            self._by_text[made.text] = Kernel(replace(made.head, name=fn), kernel, body, uses, made.tables)
        found = self._by_text[made.text]
        self._uses.setdefault(found.name, []).append(use)
        return found

    def _with_shared(self, made: Rendered, fn: str) -> tuple[str, frozenset[str]]:
        """The text of a kernel with the shared functions that it is the first to call, and what it uses then."""
        before, uses = "", made.uses
        for name in names_of(made.text):
            if name not in self._own_names:
                self._own_names[name] = own_name(name, fn)
                before += self.shared[name].text.replace(name, self._own_names[name]) + "\n\n"
                uses |= self.shared[name].uses
        return before + with_own_names(made.text, self._own_names), uses


def _fill(step: Fill, external: bool) -> Rendered:
    view = BoundView("y0", step.view)
    value = view.uses.say(literal(step.value, view.dtype))
    count = ", int32_t count" if _is_whole(step) else ""
    head = Head(KERNEL_NAME, f"{view.ctype} *{view.name}{count}", external=external)
    seen = {"head": head.definition, "y": view, "value": value, "counted": bool(count)}
    text = render("fill/generic.c.j2", k=loops, **seen)
    return _with_extents(_known_to_write(Rendered(head, text, frozenset(view.uses.names))), _fill_numbers(step))


def _is_whole(step: Fill) -> bool:
    """Whether a whole tensor is filled whose extents vary: it is told how many elements that are."""
    view = step.view
    return view.varies and view.offset == 0 and view.count == math.prod(view.buffer.extents)


def _fill_numbers(step: Fill) -> dict[str, int]:
    """`_symbols` of a step that fills a part of a tensor."""
    view = step.view
    return {} if _is_whole(step) else _by_name(view.shape, view.strides)


def _with_extents(made: Rendered, known: Mapping[str, int]) -> Rendered:
    """The kernel with the symbols of extents that its text mentions as C parameters, of all functions that need them.
    """
    names = mentioned(made.text, list(known))
    if not names:
        return made
    params = ", ".join([made.head.params, *(f"int32_t {n}" for n in names)])
    return replace(made, head=replace(made.head, params=params), text=with_parameters(made.text, names))


def _symbols(call: Call) -> dict[str, int]:
    """What the numbers of a call depend on, by the name of the C parameter."""
    return _by_name(number_names(call).values())


def _by_name(*numbers: Iterable[int]) -> dict[str, int]:
    """The symbols that numbers depend on, by the name of the C parameter."""
    return {extent_name(s.name): polynomial({(s,): 1}) for s in symbols(*chain(*numbers))}


def kernel_text(context: KernelContext, target: Target) -> str:
    """What the template of a call prints, `KERNEL_NAME` in place of its name."""
    family, variant = context.call.kernel.split(".")
    return render(
        f"{family}/{variant}.c.j2",
        fn=KERNEL_NAME, k=context, x=context.x, y=context.y, op=context.op, p=context.p, target=target,
        foreign_call=partial(foreign_call, uses=context.uses),
        v=vectors_for(context, target), words=Words(context),
        scaled_channels=partial(scaled_channels, context), use=context.uses.use, say=context.uses.say,
    )  # fmt: skip


@dataclass(frozen=True)
class _Printed:
    """A kernel, and the C parameters that its template asked for of those that the call may have."""

    made: Rendered
    args: tuple[str, ...]


def _call(step: Call, plain: frozenset[int], target: Target, external: bool) -> _Printed:
    """The text of a call, without the C parameters that its template turned out not to ask for."""
    context = KernelContext(step, plain, external)
    text = kernel_text(context, target)
    printed = tuple(a for a in step.args if a in context.uses.numbers)
    if printed != step.args:
        return _call(replace(step, args=printed), plain, target, external)
    if context.declared is None:
        raise InternalError(f"{step.kernel} has no head")
    tables = tuple(sorted(context.uses.tables.items()))
    uses = frozenset(printed_names(context.uses.names, text, *context.uses.tables.values()))
    made = _known_to_write(Rendered(context.declared, text, uses, tables))
    return _Printed(_with_part(_with_extents(made, _symbols(step)), step), step.args)


def _known_to_write(made: Rendered) -> Rendered:
    """The kernel with the word in front of all that it and its parts do by which gcc 12 cannot overlook that they do
    it."""
    head, lines = "", []
    for line in made.text.split("\n"):
        head = line if line[:1].isalpha() and "(" in line else head
        lines.append(line)
        if line == "{":
            lines += ["    MCC_WRITES();"] if _is_of_kernel(head) else []
            head = ""
    return replace(made, text="\n".join(lines), uses=made.uses | {"MCC_WRITES"})


def _is_of_kernel(head: str) -> bool:
    """Whether the first line of a function is that of a kernel or of a part of it: one that gives no number, and that
    is called. What is always inlined is no call."""
    result, name = ["", "", *head.partition("(")[0].split()][-2:]
    called = name.startswith(KERNEL_NAME) and not head.startswith("MCC_INLINE")
    return called and result in ("void", "mcc_status")


def _with_part(made: Rendered, call: Call) -> Rendered:
    """The kernel of a call in parts, which is told the turns of its loop that it makes."""
    if call.parts is None:
        return made
    names = part_numbers(call.parts)
    if mentioned(made.text, names) != list(names):
        raise InternalError(f"the template of {call.kernel} has no loop over {call.parts.loop} to share out")
    params = ", ".join([made.head.params, *(f"int32_t {n}" for n in names)])
    return replace(made, head=replace(made.head, params=params), text=with_parameters(made.text, names))


@dataclass(frozen=True)
class _Step:
    """A step as it is rendered, and what its function is called with."""

    step: Call | Fill
    made: Rendered
    pointers: tuple[View, ...]
    numbers: tuple[int | str, ...] = ()
    plain: frozenset[int] = frozenset()

    @property
    def kernel(self) -> str:
        return "fill.generic" if isinstance(self.step, Fill) else self.step.kernel


class _Printer:
    """Renders the steps of programs for one target; calls of one form (`call_form`) once."""

    def __init__(self, target: Target, external: bool) -> None:
        self.target = target
        self.external = external
        self._known: dict[object, _Printed] = {}

    def step(self, step: Call | Fill, plain: frozenset[int]) -> _Step:
        """A step as it is rendered for itself; ``plain`` inputs share memory with a result."""
        numbers: tuple[int | str, ...]
        if isinstance(step, Fill):
            made = _fill(step, self.external)
            numbers = (step.view.count,) if _is_whole(step) else _extents(made, _fill_numbers(step))
            return _Step(step, made, (step.view,), numbers)
        printed = self._call(step, plain)
        call = step if printed.args == step.args else replace(step, args=printed.args)
        scratch = () if call.scratch is None else (whole(call.scratch),)
        values = number_names(call)
        numbers = tuple(values[a] for a in call.args)
        turns = () if call.parts is None else part_numbers(call.parts)
        numbers = (*numbers, *_extents(printed.made, _symbols(call)), *turns)
        return _Step(call, printed.made, (*call.views(), *scratch), numbers, plain)

    def _call(self, step: Call, plain: frozenset[int]) -> _Printed:
        form = call_form(step)
        if form is None:
            return _call(step, plain, self.target, self.external)
        if (form, plain) not in self._known:
            self._known[form, plain] = _call(step, plain, self.target, self.external)
        return self._known[form, plain]


def _extents(made: Rendered, known: Mapping[str, int]) -> tuple[int, ...]:
    """The symbols that a kernel is given, as extents."""
    return tuple(known[n] for n in mentioned(made.text, list(known)))


def _kind(s: _Step) -> object:
    """What steps have in common that may be one function of different numbers: all but ``restrict``."""
    if isinstance(s.step, Fill):
        return None
    pieces = tuple(p.replace("MCC_RESTRICT ", "") for p in form_of(s.made.text).pieces)
    return s.step.kernel, s.step.op.name, s.made.uses, s.made.tables, pieces


@dataclass(frozen=True)
class _Compact(Saving):
    """Steps of one kernel that may have less code."""

    calls: Mapping[int, Call]


def _compactable(steps: Sequence[_Step], target: Target) -> Iterator[_Compact]:
    """All that may, in the order of the program. Its steps are of no use if one of them keeps the kernel."""
    same: dict[str, list[int]] = {}
    for i, s in enumerate(steps):
        same.setdefault(s.made.text, []).append(i)
    for places in same.values():
        found = {i: _compact(steps[i], target) for i in places}
        known = {i: c for i, c in found.items() if c is not None}
        if len(known) == len(places):
            macs = sum(c.macs for c in known.values())
            yield _Compact(known[places[0]].bytes, macs, {i: c.call for i, c in known.items()})


def _compact(s: _Step, target: Target) -> Compact | None:
    if isinstance(s.step, Fill):
        return None
    return variant(s.kernel).compact(s.step, not s.plain and s.step.parts is None, target)


def _compacted(steps: list[_Step], printer: _Printer, allowed: Allowed) -> list[_Step]:
    """The steps, with kernels of vectors of 64-bit Arm that take a little longer where that saves code."""
    target = printer.target
    if not target.can("A64") or target.compact or least_saving(target) is None:
        return steps  # elsewhere it was not counted: MobileNetV1 took 2 % longer (Zen 4)
    out = list(steps)
    for compact in allowed.chosen(_compactable(steps, target)):
        for i, call in compact.calls.items():
            out[i] = printer.step(call, steps[i].plain)
    return out


VECTORS = ("conv.depthwise", "conv.channels", "matmul.packed")
"""Kernels of vectors that may share their numbers; of others, what is in which register depends on extents."""


def _one_of(same: Sequence[_Step]) -> Joined | None:
    """The function of steps of one kind, unless their functions are equal."""
    texts = dict.fromkeys(s.made.text for s in same)
    return joined([form_of(s.made.text) for s in same]) if len(texts) > 1 else None


@dataclass(frozen=True)
class _Shared(Saving):
    """Steps that may be calls of one function."""

    places: Sequence[int]
    steps: Sequence[_Step]
    one: Joined


def _shared(steps: list[_Step], printer: _Printer) -> Iterator[_Shared]:
    """All that may be, in the order of the program."""
    target = printer.target
    kinds: dict[object, list[int]] = {}
    for i, s in enumerate(steps):
        if target.lanes <= 1 or target.compact or s.kernel in VECTORS:
            kinds.setdefault(_kind(s), []).append(i)
    for kind, places in kinds.items():
        if kind is None:
            continue
        plain = frozenset().union(*(steps[i].plain for i in places))
        same = [printer.step(steps[i].step, plain) for i in places]
        one = _one_of(same)
        if one is not None:
            more = SLOWER * sum(results(s.step) for s in same) if target.lanes > 1 else 0
            of_letter = BYTES_OF_TILE_LETTER if target.can("A64") else BYTES_OF_LETTER
            yield _Shared(saved(one, [s.made.text for s in same], of_letter), more, places, same, one)


def _joined(steps: list[_Step], printer: _Printer, allowed: Allowed) -> list[_Step]:
    """The steps, with functions that differ only in numbers made one where that saves code."""
    target = printer.target
    if least_saving(target) is None:
        return steps
    out = list(steps)
    for shared in allowed.chosen(_shared(steps, printer)):
        for i, s, values in zip(shared.places, shared.steps, shared.one.values, strict=True):
            out[i] = _calling(s, shared.one, values, once=target.lanes > 1)
    return out


def _calling(s: _Step, one: Joined, values: tuple[int | str, ...], once: bool) -> _Step:
    """A step that calls the function of several, with its own numbers."""
    types = ("float" if isinstance(v, str) else "int32_t" for v in values)
    params = ", ".join([s.made.head.params, *(f"{t} {n}" for t, n in zip(types, one.names, strict=True))])
    made = replace(s.made, head=replace(s.made.head, params=params), text=one.text)
    return replace(s, made=_kept_one(made) if once else made, numbers=(*s.numbers, *values))


LETTERS = 300
"""Of a function's text, which are worth that it is shared."""
MOST_LETTERS = 300_000
"""Of kernels, beyond which functions that differ in numbers have one text, so that nobody has to take a file of more
than 400 KB."""
MOST_NUMBERS = 24
"""That a kernel is given which only calls shared functions."""
FEW_SUMS = ("map.vector", "normalize.vector", "softmax.vector")
"""Kernels of vectors with registers to spare for a number or two."""


@dataclass(frozen=True)
class _SharedFunction(Saving):
    """Functions beside kernels that may be one."""

    alike: Alike


def _numbered(steps: Sequence[_Step], functions: Sequence[Function]) -> Iterator[_SharedFunction]:
    """All that differ in numbers alone."""
    stored, beside = Counter[str](), Counter(f.kernel for f in functions)
    kinds = {s.made.text: s.kernel for s in steps}
    for s in steps:
        stored[s.made.text] += results(s.step)
    for alike in functions_alike(functions):
        macs = sum(_slower(kinds[f.kernel], f.text) * stored[f.kernel] / beside[f.kernel] for f in alike.functions)
        bytes_ = saved(alike.one, [f.text for f in alike.functions], BYTES_OF_TILE_LETTER)
        yield _SharedFunction(bytes_, macs, alike)


def _slower(kernel: str, function: str) -> float:
    """Multiply-adds that a result takes more if a function beside its kernel is given numbers."""
    if "acc[" not in function:
        return SLOWER_COPY
    return SLOWER_CHANNELS if kernel == "conv.channels" else SLOWER_TILE


def _parted(steps: list[_Step], target: Target, pool: KernelPool, allowed: Allowed) -> list[_Step]:
    """The steps with functions beside their kernels shared, where whole kernels are not; kernels that are called from
    other files keep theirs."""
    if target.lanes <= 1 or pool.external or least_saving(target) is None:
        return steps
    texts = [s.made.text for s in steps]
    functions = functions_beside(texts)
    numbered = {s.alike.pieces for s in allowed.chosen(_numbered(steps, functions))}
    found = shared_functions(texts, functions, LETTERS, numbered)
    if sum(map(len, {*found.texts.values(), *found.functions.values()})) > MOST_LETTERS:
        found = with_one_text(found)
    known = frozenset(["MCC_INLINE", "MCC_ONCE", "MCC_HIDE"]).union(*(s.made.uses for s in steps))
    for name, text in found.functions.items():
        uses = frozenset(mentioned(text, sorted(known)))
        pool.shared[name] = Rendered(Head(KERNEL_NAME, ""), text, uses)
    parted = [replace(s, made=_without(s.made, found.texts[s.made.text])) for s in steps]
    return _callers_joined(parted) if numbered else parted


def _without(made: Rendered, text: str) -> Rendered:
    """A kernel whose text has lost functions: it uses what it still mentions, and what it never did by name."""
    lost = frozenset(mentioned(made.text, sorted(made.uses))) - frozenset(mentioned(text, sorted(made.uses)))
    return replace(made, text=text, uses=made.uses - lost)


def _callers_joined(steps: list[_Step]) -> list[_Step]:
    """The steps with kernels joined that only call shared functions and differ in the numbers that they give, or that
    compute few sums."""
    kinds: dict[object, list[tuple[int, Form]]] = {}
    for i, s in enumerate(steps):
        calls = bool(names_of(s.made.text)) and f"{KERNEL_NAME}_" not in s.made.text
        if calls or s.kernel in FEW_SUMS:
            form = form_of(s.made.text, hot=False, floats=True)
            kinds.setdefault((s.kernel, s.made.tables, form.pieces), []).append((i, form))
    out = list(steps)
    for same in kinds.values():
        one, first = joined([form for _, form in same]), steps[same[0][0]].made
        if len({steps[i].made.text for i, _ in same}) > 1 and len(one.names) <= MOST_NUMBERS:
            for (i, _), values in zip(same, one.values, strict=True):
                made = replace(steps[i].made, uses=first.uses)  # one text is left of all
                out[i] = _calling(replace(steps[i], made=made), one, values, once=True)
    return out


def _kept_one(made: Rendered) -> Rendered:
    """A function that the C compiler does not make several of again, one for each number that it is called with."""
    text = made.text
    for declared in ("static void ", "static MCC_NOINLINE void "):
        text = text.replace(f"\n{declared}", "\nstatic MCC_ONCE void ")
    made = _without(made, text)
    return replace(made, uses=made.uses | {"MCC_ONCE"})


def _steps(program: Program, printer: _Printer) -> list[_Step]:
    """The steps of a program as they are rendered each for itself."""
    return [
        printer.step(s, frozenset() if isinstance(s, Fill) else program.shared_inputs(s))
        for s in program.body.linear()
    ]


def _invoked(s: _Step, use: Use, program: Program, pool: KernelPool) -> Invocation:
    kernel = None if program.idle(s.step) else pool.intern(s.made, s.kernel, use)
    return Invocation(kernel, s.step, s.pointers, s.numbers)


def render_programs(programs: Sequence[Program], target: Target, pool: KernelPool) -> None:
    """Render the kernels of programs that share a pool, which knows them from then on."""
    printer = _Printer(target, pool.external)
    steps = [_steps(p, printer) for p in programs]
    every = list(chain.from_iterable(steps))
    allowed = Allowed([s.step for s in every], target)
    compacted = _compacted(every, printer, allowed)
    together = iter(_parted(_joined(compacted, printer, allowed), target, pool, allowed))
    for p, own in zip(programs, steps, strict=True):
        pool.rendered[p.name] = [
            _invoked(s, Use(p.name, number, s.step, s.plain), p, pool)
            for number, s in enumerate(islice(together, len(own)))
        ]


def render_kernels(
    program: Program, target: Target, pool: KernelPool
) -> tuple[list[Kernel], list[Invocation]]:
    """The distinct kernels in order of first use, and one invocation per step. They are added to ``pool``, if it does
    not know them yet."""
    if program.name not in pool.rendered:
        render_programs([program], target, pool)
    invocations = pool.rendered[program.name]
    return list(dict.fromkeys(i.kernel for i in invocations if i.kernel is not None)), invocations
