"""Functions beside kernels, such as those of a tile, of which several kernels have the same: one of each is kept.

Worked example: two kernels are rendered as

    static MCC_NOINLINE void KERNEL_NAME_tile(float *y0, int32_t i) { y0[i * 8] = 1; }
    static void KERNEL_NAME(float *y0) { KERNEL_NAME_tile(y0, 3); }

and with ``y0[i * 16]`` and ``KERNEL_NAME_tile(y0, 5)``. The tiles differ in a number alone, so that there is one,

    static MCC_ONCE void SHARED_0_tile(float *y0, int32_t i, int32_t n0) { y0[i * n0] = 1; }

and the kernels, which differ in more, stay two: ``SHARED_0_tile(y0, 3, 8)`` and ``SHARED_0_tile(y0, 5, 16)``. Only
functions that are not to be inlined, and call none of their kernel, are shared: such calls cost what they did.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from mccompile.codegen.binding import KERNEL_NAME
from mccompile.codegen.shared_numbers import Form, Number, closing, form_of, joined

SHARED_NAME = "SHARED_"
"""What names of shared functions begin with until the first kernel that calls one gives it its own."""
_COMMENT = r"(?:/\*(?:(?!\*/).)*\*/\n)?"
_BEGIN = re.compile(rf"{_COMMENT}MCC_PLACE_CODE\nstatic MCC_NOINLINE void ({KERNEL_NAME}_\w+)\(", re.DOTALL)
_SHARED = re.compile(rf"\b{SHARED_NAME}\d+(_\w+)")


class Alike(IntEnum):
    """What shared functions may differ in. Numbers that are parameters take registers, floats more than others, which
    may be a tenth of a network's instructions: each is for programs that are too long otherwise."""

    NOTHING = 0
    INTEGERS = 1
    NUMBERS = 2


@dataclass(frozen=True)
class Shared:
    """Texts of kernels that call shared functions, by their texts before, and the functions' texts by name."""

    texts: Mapping[str, str]
    functions: Mapping[str, str]
    alike: Alike


@dataclass(frozen=True)
class _Function:
    """One that a kernel has beside it: where it stands in the kernel's text."""

    kernel: str
    name: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.kernel[self.start : self.end]


def _functions(kernel: str) -> Iterator[_Function]:
    """The functions beside a kernel that may be shared."""
    for m in _BEGIN.finditer(kernel):
        body = kernel.index("{", closing(kernel, m.end()))
        end = closing(kernel, body + 1, "{}") + 1
        if KERNEL_NAME not in kernel[body:end]:
            yield _Function(kernel, m[1], m.start(), end)


def _form(function: _Function, alike: Alike) -> Form:
    if alike is Alike.NOTHING:
        return Form((function.text,), ())
    return form_of(function.text, hot=False, floats=alike is Alike.NUMBERS)


def shared_functions(kernels: Sequence[str], least: int, alike: Alike = Alike.NUMBERS) -> Shared:
    """The kernels with their functions shared, where what is not printed again has ``least`` letters or more.

    >>> kernels = [
    ...     "MCC_PLACE_CODE\\nstatic MCC_NOINLINE void KERNEL_NAME_a(int i)\\n{ f(i, %d); }\\n"
    ...     "static void KERNEL_NAME(void)\\n{ KERNEL_NAME_a(%d); }\\n" % numbers
    ...     for numbers in ((3, 1), (4, 2))
    ... ]
    >>> made = shared_functions(kernels, 1)
    >>> print("".join(made.texts[k].lstrip() for k in kernels), *made.functions.values())
    static void KERNEL_NAME(void)
    { SHARED_0_a(1, 3); }
    static void KERNEL_NAME(void)
    { SHARED_0_a(2, 4); }
     MCC_PLACE_CODE
    static MCC_ONCE void SHARED_0_a(int i, int32_t n0)
    { f(i, n0); }
    """
    kinds: dict[tuple[str, ...], list[tuple[_Function, Form]]] = {}
    for kernel in dict.fromkeys(kernels):
        for function in _functions(kernel):
            form = _form(function, alike)
            kinds.setdefault(form.pieces, []).append((function, form))
    changes: dict[str, list[tuple[_Function, str, tuple[Number, ...]]]] = {}
    made: dict[str, str] = {}
    for same in kinds.values():
        first, _ = same[0]
        if (len(same) - 1) * len(first.text) < least:
            continue
        one = joined([form for _, form in same])
        name = f"{SHARED_NAME}{len(made)}{first.name.removeprefix(KERNEL_NAME)}"
        text = one.text.replace(f"{first.name}(", f"{name}(")
        made[name] = text.replace("static MCC_NOINLINE ", "static MCC_ONCE ") if one.names else text
        for (function, _), values in zip(same, one.values, strict=True):
            changes.setdefault(function.kernel, []).append((function, name, values))
    return Shared({k: _calling(k, changes.get(k, [])) for k in kernels}, made, alike)


def _calling(kernel: str, changes: Sequence[tuple[_Function, str, tuple[Number, ...]]]) -> str:
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
