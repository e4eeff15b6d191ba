"""Functions beside kernels, such as those of a tile, of which several kernels have the same: one of each is kept.

Worked example: two kernels are rendered as

    static MCC_NOINLINE void KERNEL_NAME_tile(float *y0, int32_t i) { y0[i * 8] = 1; }
    static void KERNEL_NAME(float *y0) { KERNEL_NAME_tile(y0, 3); }

and with ``y0[i * 16]`` and ``KERNEL_NAME_tile(y0, 5)``. The tiles differ in a number alone, so that there is one,

    static MCC_ONCE void SHARED_0_tile(float *y0, int32_t i, int32_t n0) { y0[i * n0] = 1; }

and the kernels, which differ in more, stay two: ``SHARED_0_tile(y0, 3, 8)`` and ``SHARED_0_tile(y0, 5, 16)``. Only
functions that call none of their kernel are shared. Where their texts are equal such calls cost what they did, and
numbers cost nothing where functions are inlined; who asks says which are to be given them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from mccompile._dataclass import dataclass
from mccompile.codegen.binding import KERNEL_NAME
from mccompile.codegen.shared_numbers import (
    SHARED_NAME,
    Form,
    Joined,
    Number,
    closing,
    form_of,
    joined,
    turns_asked,
)

_COMMENT = r"(?:/\*(?:(?!\*/).)*\*/\n)?"
_BEGIN = re.compile(
    rf"{_COMMENT}MCC_PLACE_CODE\n(?:static MCC_NOINLINE|(?P<inlined>MCC_INLINE)) void (?P<name>{KERNEL_NAME}_\w+)\(",
    re.DOTALL,
)
_KERNEL = re.compile(rf"MCC_PLACE_CODE\nstatic (?:void|mcc_status) {KERNEL_NAME}\(")
_TABLE = re.compile(r"\brow_at\[r\] = [^;]*;")
_UNROLLED = re.compile(r"\n *MCC_UNROLL\n")
_SHARED = re.compile(rf"\b{SHARED_NAME}\w+?(_\w+)")


@dataclass(frozen=True)
class Shared:
    """Texts of kernels that call shared functions, by their texts before, and the functions' texts by name."""

    texts: Mapping[str, str]
    functions: Mapping[str, str]


@dataclass(frozen=True)
class Function:
    """One that a kernel has beside it: where it stands in the kernel's text."""

    kernel: str
    name: str
    start: int
    end: int
    inlined: bool
    """Whether it is part of each function that calls it: then numbers cost nothing."""

    @property
    def text(self) -> str:
        return self.kernel[self.start : self.end]

    @cached_property
    def form(self) -> Form:
        return form_of(self.text, hot=self.inlined, floats=True)


def functions_beside(kernels: Sequence[str], inlined: bool = False) -> list[Function]:
    """The functions beside kernels that may be shared; those that are ``inlined``, or those that are not."""
    return [f for kernel in dict.fromkeys(kernels) for f in _functions(kernel, inlined)]


def whole_kernels(kernels: Sequence[str]) -> list[Function]:
    """The functions of kernels that have no other beside them, or share those that they have."""
    found = list[Function]()
    for kernel in dict.fromkeys(kernels):
        if (m := _KERNEL.search(kernel)) is None:
            continue
        body = kernel.index("{", closing(kernel, m.end()))
        if KERNEL_NAME not in kernel[body:]:
            found.append(Function(kernel, KERNEL_NAME, m.start(), closing(kernel, body + 1, "{}") + 1, inlined=False))
    return found


def called_functions(shared: Mapping[str, str]) -> Iterator[Function]:
    """Those of the shared functions, by their names, that are called, not inlined: each as if it were a kernel."""
    for name, text in shared.items():
        if "static MCC_ONCE void" in text or "static MCC_NOINLINE void" in text:
            yield Function(text, name, 0, len(text), inlined=False)


def _functions(kernel: str, inlined: bool) -> Iterator[Function]:
    for m in _BEGIN.finditer(kernel):
        body = kernel.index("{", closing(kernel, m.end()))
        end = closing(kernel, body + 1, "{}") + 1
        if (m["inlined"] is not None) == inlined and KERNEL_NAME not in kernel[body:end]:
            yield Function(kernel, m["name"], m.start(), end, inlined)


@dataclass(frozen=True)
class Alike:
    """Functions that differ in numbers alone, and the one that may be all of them."""

    functions: tuple[Function, ...]
    one: Joined

    @property
    def kind(self) -> tuple[str, ...]:
        return self.functions[0].form.kind


def functions_alike(functions: Sequence[Function]) -> list[Alike]:
    """Those that differ in numbers, and in nothing else."""
    kinds: dict[tuple[str, ...], list[Function]] = {}
    for function in functions:
        kinds.setdefault(function.form.kind, []).append(function)
    found = [Alike(tuple(same), _one_of(same)) for same in kinds.values() if len(same) > 1]
    return [alike for alike in found if alike.one.names]


def _one_of(same: Sequence[Function]) -> Joined:
    return joined([f.form for f in same], inlined=same[0].inlined)


def shared_functions(
    kernels: Sequence[str],
    functions: Sequence[Function],
    least: int,
    numbered: Collection[tuple[str, ...]] = (),
    known: Mapping[str, str] | None = None,
) -> Shared:
    """The kernels with the functions beside them shared: those whose texts are equal, where what is not printed
    again has ``least`` letters or more, and those that are `Alike` of ``numbered`` kinds. ``known``: what is shared
    already, and is called by these texts.

    >>> kernels = [
    ...     "MCC_PLACE_CODE\\nstatic MCC_NOINLINE void KERNEL_NAME_a(int i)\\n{ f(i, %d); }\\n"
    ...     "static void KERNEL_NAME(void)\\n{ KERNEL_NAME_a(%d); }\\n" % numbers
    ...     for numbers in ((3, 1), (4, 2))
    ... ]
    >>> functions = functions_beside(kernels)
    >>> made = shared_functions(kernels, functions, 1, [a.kind for a in functions_alike(functions)])
    >>> print("".join(made.texts[k].lstrip() for k in kernels), *made.functions.values())
    static void KERNEL_NAME(void)
    { SHARED_0_a(1, 3); }
    static void KERNEL_NAME(void)
    { SHARED_0_a(2, 4); }
     MCC_PLACE_CODE
    static MCC_ONCE void SHARED_0_a(int i, int32_t n0)
    { f(i, n0); }
    """
    kinds: dict[tuple[str, ...], list[Function]] = {}
    for function in functions:
        own = function.form.kind if numbered else ()
        kinds.setdefault(own if own in numbered else (function.text,), []).append(function)
    changes: dict[str, list[tuple[Function, str, tuple[Number, ...]]]] = {}
    made = dict(known or {})
    for kind, same in kinds.items():
        first = same[0]
        if kind not in numbered and (len(same) - 1) * len(first.text) < least:
            continue
        one = _one_of(same) if kind in numbered else joined([Form(kind, ()) for _ in same])
        asked = turns_asked(one.text, first.name) if first.inlined else ""
        name = f"{SHARED_NAME}{len(made)}{asked}{first.name.removeprefix(KERNEL_NAME)}"
        text = one.text.replace(f"{first.name}(", f"{name}(")
        made[name] = _once(text) if one.names and not first.inlined else text
        for function, values in zip(same, one.values, strict=True):
            changes.setdefault(function.kernel, []).append((function, name, values))
    return Shared({k: _calling(k, changes.get(k, [])) for k in kernels}, made)


def with_changes(text: str, changes: Iterable[tuple[int, int, str]]) -> str:
    """A text with others where parts of it begin and end.

    >>> with_changes("a + b", [(0, 1, "x"), (4, 5, "yz")])
    'x + yz'
    """
    for start, end, by in sorted(changes, reverse=True):
        text = text[:start] + by + text[end:]
    return text


def _once(text: str) -> str:
    """A function that is kept one for all its numbers. Its loops are as they are: gcc unrolls none of those that it
    makes for one number, and four steps at once, beside numbers, do not fit into registers. Tables of places that
    depend on numbers stay in registers."""
    hidden = _TABLE.sub(r"\g<0>\n    MCC_HIDE(row_at[r]);", text)
    return _UNROLLED.sub("\n", hidden).replace("static MCC_NOINLINE ", "static MCC_ONCE ")


def _calling(kernel: str, changes: Sequence[tuple[Function, str, tuple[Number, ...]]]) -> str:
    """A kernel without functions that are shared, and with calls of these."""
    text = kernel
    for function, _, _ in sorted(changes, key=lambda c: -c[0].start):
        text = text[: function.start] + text[function.end :].lstrip("\n")
    for function, name, values in changes:
        given = "".join(f", {v}" for v in values)
        for m in reversed(list(re.finditer(rf"\b{function.name}\(", text))):
            end = closing(text, m.end())
            text = f"{text[: m.start()]}{name}({text[m.end() : end]}{given}{text[end:]}"
    return text


def names_of(text: str) -> list[str]:
    """The shared functions that a text mentions."""
    return list(dict.fromkeys(m[0] for m in _SHARED.finditer(text)))


def with_own_names(text: str, names: Mapping[str, str]) -> str:
    """A text that calls shared functions by the names that they have now."""
    return _SHARED.sub(lambda m: names[m[0]], text)


def own_name(shared: str, kernel: str) -> str:
    """What a shared function is called by the first kernel that calls it.

    >>> own_name("SHARED_12_4x16", "net_k7_conv")
    'net_k7_conv_4x16'
    """
    return _SHARED.sub(rf"{kernel}\1", shared)
