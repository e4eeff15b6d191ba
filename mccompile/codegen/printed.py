"""Steps of a program as the text of C functions, each rendered for itself."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain

from mccompile._dataclass import dataclass
from mccompile.codegen import loops
from mccompile.codegen.binding import KERNEL_NAME, Head, KernelContext
from mccompile.codegen.bound_view import BoundView
from mccompile.codegen.c_expr import literal
from mccompile.codegen.call_form import call_form
from mccompile.codegen.code import extent_name
from mccompile.codegen.extents import c_number
from mccompile.codegen.foreign import foreign_call
from mccompile.codegen.long_sums import LONG, NEAR, LongSums
from mccompile.codegen.loops import part_numbers
from mccompile.codegen.one_lane import vectors_for
from mccompile.codegen.own_extents import OwnExtents, varies_within
from mccompile.codegen.scaled import scaled_channels
from mccompile.codegen.shared_numbers import mentioned, with_parameters
from mccompile.codegen.templates import render
from mccompile.codegen.uses import printed_names
from mccompile.codegen.words import Words
from mccompile.ir.dims import polynomial, symbols, with_symbols
from mccompile.ir.errors import InternalError
from mccompile.ir.kernel import Call, Fill, number_names
from mccompile.ir.views import View, whole
from mccompile.targets.target import Target

WRITES = "MCC_WRITES();"
"""How a kernel and its parts begin: `_known_to_write`."""


@dataclass(frozen=True)
class Rendered:
    """A kernel in which `KERNEL_NAME` stands for its name."""

    head: Head
    text: str
    uses: frozenset[str]
    tables: tuple[tuple[str, str], ...] = ()

def _fill(step: Fill, external: bool) -> Rendered:
    view = BoundView("y0", step.view)
    value = view.uses.say(literal(step.value, view.dtype))
    count = ", int32_t count" if _is_whole(step) else ""
    head = Head(KERNEL_NAME, f"{view.ctype} *{view.name}{count}", external=external)
    seen = {"head": head.definition, "y": view, "value": value, "counted": bool(count)}
    text = render("fill/generic.c.j2", k=loops, **seen)
    return _with_extents(_known_to_write(Rendered(head, text, frozenset(view.uses.names))), _fill_numbers(step), {})


def _is_whole(step: Fill) -> bool:
    """Whether a whole tensor is filled whose extents vary: it is told how many elements that are."""
    view = step.view
    return view.varies and view.offset == 0 and view.count == math.prod(view.buffer.extents)


def _fill_numbers(step: Fill) -> dict[str, int]:
    """`_symbols` of a step that fills a part of a tensor."""
    view = step.view
    return {} if _is_whole(step) else _by_name(view.shape, view.strides)


def _with_extents(made: Rendered, known: Mapping[str, int], own: Mapping[str, int]) -> Rendered:
    """The kernel with the symbols of extents that its text mentions as C parameters, of all functions that need them;
    those of its ``own`` it computes of others, and gives its parts."""
    computed = mentioned(made.text, list(own))
    of = {extent_name(s.name) for s in symbols(*(own[n] for n in computed))}
    said = set(mentioned(made.text, list(known)))
    names = [n for n in known if n in said or n in of]
    if not names:
        return made
    before, head = (
        replace(made.head, params=", ".join([made.head.params, *(f"int32_t {n}" for n in given)]))
        for given in ([*computed, *names], names)
    )
    places = {s.name: extent_name(s.name) for s in symbols(*own.values())}
    constants = "".join(f"\n    const int32_t {n} = {c_number(own[n], places)};" for n in computed)
    text = with_parameters(made.text, [*computed, *names])
    begin = f"{before.text}\n{{\n    {WRITES}"
    if constants and text.count(begin) != 1:
        raise InternalError(f"a kernel does not begin as it is declared: {before.text}")
    return replace(made, head=head, text=text.replace(begin, f"{head.text}\n{{\n    {WRITES}{constants}"))


def _symbols(call: Call) -> dict[str, int]:
    """What the numbers of a call depend on, by the name of the C parameter."""
    return _by_name(number_names(call).values())


def _with_short_extents(call: Call) -> tuple[Call, Mapping[str, int], Mapping[str, int]]:
    """The call with a name for each long sum of extents and for each extent that is its kernel's own; what its kernel
    may be told, by the C parameter: these, and `_symbols`; and those of its own that it computes itself. Counts it is
    told as they are: they are looked up where steps that have one each are a loop (`series`)."""
    known = _symbols(call)
    if not known:
        return call, known, {}
    kept: dict[str, int] = {}
    short = call
    if len(known) > LONG:
        sums = LongSums((s.name for s in symbols(*number_names(call).values())), NEAR)
        short = call.with_numbers(sums.short)
        kept |= sums.kept
    numbers = [*number_names(short).values(), *short.op.told, *(v.offset for v in short.views())]
    own = OwnExtents(numbers, {s.name for s in symbols(*known.values(), *numbers)})
    computed: dict[str, int] = {}
    if own.kept and not varies_within((short.params, short.parts)):
        short = short.with_numbers(own.short)
        if call.counts:
            computed = {extent_name(name): n for name, n in own.kept.items()}
        else:
            values = {s.name: kept.get(s.name, polynomial({(s,): 1})) for s in symbols(*own.kept.values())}
            kept |= {name: with_symbols(n, values) for name, n in own.kept.items()}
    return short, {extent_name(name): n for name, n in kept.items()} | known, computed


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


def _call(
    step: Call, plain: frozenset[int], target: Target, external: bool, extents: Mapping[str, int],
    own: Mapping[str, int],
) -> _Printed:  # fmt: skip
    """The text of a call, without the C parameters that its template turned out not to ask for; ``extents`` are
    what it may be told, those of its ``own`` what it computes of these."""
    context = KernelContext(step, plain, external)
    text = kernel_text(context, target)
    printed = tuple(a for a in step.args if a in context.uses.numbers)
    if printed != step.args:
        return _call(replace(step, args=printed), plain, target, external, extents, own)
    if context.declared is None:
        raise InternalError(f"{step.kernel} has no head")
    tables = tuple(sorted(context.uses.tables.items()))
    uses = frozenset(printed_names(context.uses.names, text, *context.uses.tables.values()))
    made = _known_to_write(Rendered(context.declared, text, uses, tables))
    return _Printed(_with_part(_with_extents(made, extents, own), step), step.args)


def _known_to_write(made: Rendered) -> Rendered:
    """The kernel with the word in front of all that it and its parts do by which gcc 12 cannot overlook that they do
    it."""
    head, lines = "", []
    for line in made.text.split("\n"):
        head = line if line[:1].isalpha() and "(" in line else head
        lines.append(line)
        if line == "{":
            lines += [f"    {WRITES}"] if _is_of_kernel(head) else []
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
class Step:
    """A step as it is rendered, and what its function is called with."""

    step: Call | Fill
    made: Rendered
    pointers: tuple[View, ...]
    numbers: tuple[int | str, ...] = ()
    plain: frozenset[int] = frozenset()

    @property
    def kernel(self) -> str:
        return "fill.generic" if isinstance(self.step, Fill) else self.step.kernel


class Printer:
    """Renders the steps of programs for one target; calls of one form (`call_form`) once."""

    def __init__(self, target: Target, external: bool) -> None:
        self.target = target
        self.external = external
        self.common: Mapping[str, Rendered] = {}
        self._known: dict[object, _Printed] = {}

    def step(self, step: Call | Fill, plain: frozenset[int]) -> Step:
        """A step as it is rendered for itself; ``plain`` inputs share memory with a result. Its kernel is one of
        ``common``, if there is one for its text (`common_extents`)."""
        return self.in_common(self._step(step, plain))

    def in_common(self, step: Step) -> Step:
        """The step with a kernel that it shares with steps of other extents."""
        made = self.common.get(step.made.text)
        return step if made is None else replace(step, made=made)

    def _step(self, step: Call | Fill, plain: frozenset[int]) -> Step:
        numbers: tuple[int | str, ...]
        if isinstance(step, Fill):
            made = _fill(step, self.external)
            numbers = (step.view.count,) if _is_whole(step) else _extents(made, _fill_numbers(step))
            return Step(step, made, (step.view,), numbers)
        short, known, own = _with_short_extents(step)
        printed = self._call(short, plain, known, own)
        call = step if printed.args == step.args else replace(step, args=printed.args)
        scratch = () if call.scratch is None else (whole(call.scratch),)
        values = number_names(call)
        numbers = tuple(values[a] for a in call.args)
        turns = () if call.parts is None else part_numbers(call.parts)
        numbers = (*numbers, *_extents(printed.made, known), *turns)
        return Step(call, printed.made, (*call.views(), *scratch), numbers, plain)

    def _call(
        self, step: Call, plain: frozenset[int], extents: Mapping[str, int], own: Mapping[str, int]
    ) -> _Printed:
        form = call_form(step)
        if form is None:
            return _call(step, plain, self.target, self.external, extents, own)
        key = (form, plain, tuple(own.items()))
        if key not in self._known:
            self._known[key] = _call(step, plain, self.target, self.external, extents, own)
        return self._known[key]


def _extents(made: Rendered, known: Mapping[str, int]) -> tuple[int, ...]:
    """The symbols that a kernel is given, as extents."""
    return tuple(known[n] for n in mentioned(made.text, list(known)))
