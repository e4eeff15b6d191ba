"""Less code for the steps of a program: calls whose texts differ only in numbers share a function, or functions
beside their kernels, and kernels have fewer kinds of tiles.

On microcontrollers, with vectors below -O3, and where code is to be small. Three stages spend one budget
(`codegen/savings.py`): kernels of fewer tiles (`_compacted`), kernels that are one (`_joined`), and functions beside
kernels that are (`_parted`).

Worked example: two layers have kernels of 4,000 bytes that differ in numbers. Fewer tiles would save 1,500 of each,
and cost 1 % of the time of both; one kernel saves 4,000. If that is chosen, fewer tiles save 1,500 once, and cost as
much as before: half as many bytes for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KERNEL_NAME, Head
from mccompile.codegen.common_extents import with_numbered_extents
from mccompile.codegen.common_sums import with_common_sums
from mccompile.codegen.inlined_functions import with_one_text, without_restrict
from mccompile.codegen.printed import Printer, Rendered, Step
from mccompile.codegen.savings import (
    BYTES_OF_DEPTHWISE_LETTER,
    BYTES_OF_LETTER,
    BYTES_OF_TILE_LETTER,
    SLOWER,
    SLOWER_CHANNELS,
    SLOWER_COPY,
    SLOWER_DEPTHWISE,
    SLOWER_LANES,
    SLOWER_TILE,
    Allowed,
    Saving,
    least_saving,
    results,
    saved,
)
from mccompile.codegen.shared_functions import (
    Alike,
    Function,
    Shared,
    functions_alike,
    functions_beside,
    names_of,
    shared_functions,
)
from mccompile.codegen.shared_numbers import Form, Joined, form_of, joined, mentioned
from mccompile.ir.dims import bound
from mccompile.ir.kernel import Call, Fill
from mccompile.kernels.registry import variant
from mccompile.kernels.variant import Compact
from mccompile.targets.target import Target


def _kind(s: Step) -> object:
    """What steps have in common that may be one function of different numbers: all but ``restrict``."""
    if isinstance(s.step, Fill):
        return None
    pieces = tuple(p.replace("MCC_RESTRICT ", "") for p in form_of(s.made.text).pieces)
    return s.step.kernel, s.step.op.name, s.made.uses - {"MCC_RESTRICT"}, s.made.tables, pieces


@dataclass(frozen=True)
class _Compact(Saving):
    """Steps of one kernel that may have less code."""

    calls: Mapping[int, Call]


def _compactable(steps: Sequence[Step], joins: Sequence[_Shared], target: Target) -> Iterator[_Compact]:
    """All that may, in the order of the program; those of ``joins`` have one kernel. They are of no use if one of the
    steps of a kernel keeps it."""
    kernels = {i: join.one.text for join in joins for i in join.places}
    same: dict[str, list[int]] = {}
    for i, s in enumerate(steps):
        same.setdefault(kernels.get(i, s.made.text), []).append(i)
    for places in same.values():
        found = {i: _compact(steps[i], target) for i in places}
        known = {i: c for i, c in found.items() if c is not None}
        if len(known) == len(places):
            fewest = min(c.bytes for c in known.values())
            macs = sum(c.macs for c in known.values())
            yield _Compact(fewest, macs, {i: c.call for i, c in known.items()})


def _compact(s: Step, target: Target) -> Compact | None:
    if isinstance(s.step, Fill):
        return None
    return variant(s.kernel).compact(s.step, not s.plain and s.step.parts is None, target)


def _compacted(steps: Sequence[Step], joins: Sequence[_Shared], printer: Printer, allowed: Allowed) -> list[Step]:
    """The steps, with kernels of vectors of 64-bit Arm that take a little longer where that saves code."""
    out = list(steps)
    for compact in allowed.chosen(_compactable(steps, joins, printer.target)):
        for i, call in compact.calls.items():
            out[i] = printer.step(call, steps[i].plain)
    return out


VECTORS = ("conv.depthwise", "conv.channels", "matmul.packed", "matmul.strassen")
"""Kernels of vectors that may share their numbers; of others, what is in which register depends on extents."""


def _one_of(same: Sequence[Step], texts: Sequence[str]) -> Joined | None:
    """The function of steps of one kind, unless their texts are equal."""
    return joined([form_of(s.made.text) for s in same]) if len(set(texts)) > 1 else None


@dataclass(frozen=True)
class _Shared(Saving):
    """Steps that may be calls of one function."""

    places: Sequence[int]
    steps: Sequence[Step]
    one: Joined


def _joinable(steps: Sequence[Step], printer: Printer, long: bool) -> Iterator[_Shared]:
    """All that may be, in the order of the program: in a ``long`` one also kernels without vectors."""
    target = printer.target
    kinds: dict[object, list[int]] = {}
    for i, s in enumerate(steps):
        if target.lanes <= 1 or target.compact or s.kernel in VECTORS or (long and _is_generic(s)):
            kinds.setdefault(_kind(s), []).append(i)
    for kind, places in kinds.items():
        if kind is None:
            continue
        plain = frozenset().union(*(steps[i].plain for i in places))
        same = [printer.step(steps[i].step, plain) for i in places]
        same = list(map(_with_numbers, same)) if long else same
        small = target.lanes <= 1 or target.compact  # then what differs in `MCC_RESTRICT` alone is one as well
        texts = [steps[i].made.text if small else s.made.text for i, s in zip(places, same, strict=True)]
        one = _one_of(same, texts)
        if one is not None:
            letter = 1.0 if long and _is_generic(same[0]) else _bytes_of_letter(same[0].kernel, target)
            bytes_ = saved(one, texts, letter)
            macs = sum(_slower_kernel(s, target) for s in same)
            yield _Shared(bytes_, macs, places, same, one)


def _is_generic(s: Step) -> bool:
    return s.kernel.endswith(".generic")


def _with_numbers(s: Step) -> Step:
    """A step whose kernel has numbers for the names of its extents."""
    return replace(s, made=with_numbered_extents(s.made) or s.made)


def _bytes_of_letter(kernel: str, target: Target) -> float:
    if not target.can("A64"):
        return BYTES_OF_LETTER
    return BYTES_OF_DEPTHWISE_LETTER if kernel == "conv.depthwise" else BYTES_OF_TILE_LETTER


def _slower_kernel(s: Step, target: Target) -> float:
    """Multiply-adds that a step takes more if its kernel is given numbers."""
    if target.lanes <= 1:
        return 0
    if target.can("A64") and s.kernel == "conv.depthwise":
        return SLOWER_DEPTHWISE * bound(s.pointers[0].count)
    return SLOWER * results(s.step)


def _joined(steps: Sequence[Step], printer: Printer, allowed: Allowed, long: bool) -> list[Step]:
    """The steps, with functions that differ only in numbers made one where that saves code."""
    out = list(steps)
    for shared in allowed.chosen(_joinable(steps, printer, long)):
        for i, s, values in zip(shared.places, shared.steps, shared.one.values, strict=True):
            out[i] = _calling(s, shared.one, values, once=printer.target.lanes > 1)
    return out


def _calling(s: Step, one: Joined, values: tuple[int | str, ...], once: bool) -> Step:
    """A step that calls the function of several, with its own numbers."""
    types = ("float" if isinstance(v, str) else "int32_t" for v in values)
    params = ", ".join([s.made.head.params, *(f"{t} {n}" for t, n in zip(types, one.names, strict=True))])
    made = replace(_without(s.made, one.text), head=replace(s.made.head, params=params))
    return replace(s, made=_kept_one(made) if once else made, numbers=(*s.numbers, *values))


LETTERS = 300
"""Of a function's text, which are worth that it is shared."""
MOST_LETTERS = 280_000
"""Of kernels and the steps that call them, beyond which functions that differ in numbers have one text, so that
nobody has to take a file of more than 400 KB."""
LETTERS_OF_STEP = 350
"""Of the call of a kernel and the names of its nodes."""
MOST_NUMBERS = 24
"""That a kernel is given which only calls shared functions."""
FEW_SUMS = ("map.vector", "normalize.vector", "softmax.vector")
"""Kernels of vectors with registers to spare for a number or two."""

MOST_INLINED = 32
"""Calls of one function that the C compiler may put into run, each of them. Of 210 copies and products of a few rows
gcc -O3 made nine tenths of the code so, and took 14 s (0.4 s without)."""


@dataclass(frozen=True)
class _SharedFunction(Saving):
    """Functions beside kernels that may be one."""

    alike: Alike


def _numbered(steps: Sequence[Step], functions: Sequence[Function]) -> Iterator[_SharedFunction]:
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
    if "fma_lane(" in function:
        return SLOWER_LANES
    return SLOWER_CHANNELS if kernel == "conv.channels" else SLOWER_TILE


def _parted(steps: Sequence[Step], allowed: Allowed, vectors: bool) -> tuple[list[Step], dict[str, Rendered]]:
    """The steps with functions beside their kernels shared, where whole kernels are not, and these functions by the
    names that the texts have for them. Only those of ``vectors`` are given the numbers in which they differ."""
    known = frozenset(["MCC_INLINE", "MCC_ONCE", "MCC_HIDE"]).union(*(s.made.uses for s in steps))
    inlined = _inlined(steps)
    steps = _with_texts(steps, inlined)
    texts = [s.made.text for s in steps]
    functions = functions_beside(texts)
    chosen = allowed.chosen(_numbered(steps, functions), last=True) if vectors else []
    numbered = {s.alike.kind for s in chosen}
    found = shared_functions(texts, functions, LETTERS, numbered, inlined.functions)
    parted = _with_texts(steps, found)
    parted = _callers_joined(parted) if numbered else parted
    if _letters(found, steps) > MOST_LETTERS:
        found = with_one_text(Shared({s.made.text: s.made.text for s in parted}, found.functions))
        found = with_common_sums(found)
        parted = _with_texts(parted, found)
    beside = {}
    for name, text in found.functions.items():
        uses = frozenset(mentioned(text, sorted(known)))
        beside[name] = Rendered(Head(KERNEL_NAME, ""), text, uses)
    return parted, beside


def _inlined(steps: Sequence[Step]) -> Shared:
    """The texts with inlined functions beside kernels shared; those that differ in numbers only in a long program."""
    texts = [s.made.text for s in steps]
    found = _shared_inlined(Shared({text: text for text in texts}, {}), numbered=False)
    if _letters(found, steps) <= MOST_LETTERS:
        return found
    return _shared_inlined(Shared({text: without_restrict(text) for text in texts}, {}), numbered=True)


def _shared_inlined(before: Shared, numbered: bool) -> Shared:
    """The same with inlined functions shared: first those that call no other one, then those that call these."""
    texts = list(dict.fromkeys(before.texts.values()))
    functions = functions_beside(texts, inlined=True)
    kinds = {alike.kind for alike in functions_alike(functions)} if numbered else set()
    found = shared_functions(texts, functions, LETTERS, kinds, before.functions)
    after = Shared({text: found.texts[now] for text, now in before.texts.items()}, found.functions)
    after = with_common_sums(after, inlined=True) if numbered else after
    return after if after.functions == before.functions else _shared_inlined(after, numbered)


def is_long(steps: Sequence[Step], beside: Iterable[Rendered] = ()) -> bool:
    """Whether steps, with functions that they share ``beside`` them, are more C than anybody reads as it is."""
    texts = {s.made.text for s in steps}
    shared = Shared({text: text for text in texts}, {str(i): made.text for i, made in enumerate(beside)})
    return _letters(shared, steps) > MOST_LETTERS


def _letters(shared: Shared, steps: Sequence[Step]) -> int:
    """Of the C of steps whose kernels have the ``shared`` texts."""
    return sum(map(len, {*shared.texts.values(), *shared.functions.values()})) + LETTERS_OF_STEP * len(steps)


def _with_texts(steps: Sequence[Step], shared: Shared) -> list[Step]:
    return [replace(s, made=_without(s.made, shared.texts[s.made.text])) for s in steps]


def _without(made: Rendered, text: str) -> Rendered:
    """A kernel whose text has lost functions: it uses what it still mentions, and what it never did by name."""
    lost = frozenset(mentioned(made.text, sorted(made.uses))) - frozenset(mentioned(text, sorted(made.uses)))
    return replace(made, text=text, uses=made.uses - lost)


def _callers_joined(steps: list[Step]) -> list[Step]:
    """The steps with kernels joined that only call shared functions and differ in the numbers that they give, or that
    compute few sums."""
    kinds: dict[object, list[tuple[int, Form]]] = {}
    for i, s in enumerate(steps):
        calls = bool(names_of(s.made.text)) and f"{KERNEL_NAME}_" not in s.made.text
        if calls or s.kernel in FEW_SUMS:
            form = form_of(s.made.text, hot=False, floats=True)
            kinds.setdefault((s.kernel, s.made.tables, form.kind), []).append((i, form))
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


def with_less_code(steps: list[Step], printer: Printer) -> tuple[list[Step], dict[str, Rendered]]:
    """The steps with shared code, where that is worth it, and the functions beside kernels that these share, by the
    names that the texts of kernels have for them. Kernels that are called from other files keep theirs."""
    target = printer.target
    if least_saving(target) is None:
        return steps, {}
    long = is_long(steps)
    steps = list(map(_with_numbers, steps)) if long else steps
    allowed = Allowed([s.step for s in steps], target)
    parts = target.lanes > 1 and not printer.external
    if target.can("A64") and not allowed.free:  # elsewhere it was not counted: MobileNetV1 took 2 % longer (Zen 4)
        joins = list(_joinable(steps, printer, long))
        beside = _numbered(steps, functions_beside([s.made.text for s in steps])) if parts else ()
        allowed.set_price([*joins, *_compactable(steps, joins, target), *beside])
        steps = _compacted(steps, allowed.affordable(joins), printer, allowed)
    steps = _joined(steps, printer, allowed, long)
    inlines = target.lanes > 0 and not printer.external  # the others have no MCC_INLINE
    functions: dict[str, Rendered] = {}
    if parts or (long and inlines):
        steps, functions = _parted(steps, allowed, parts)
    return _called_often(steps) if parts else steps, functions


def _called_often(steps: list[Step]) -> list[Step]:
    """The steps, with functions that many call kept as functions."""
    calls = Counter(s.made.text for s in steps)
    return [replace(s, made=_kept_one(s.made)) if calls[s.made.text] > MOST_INLINED else s for s in steps]
